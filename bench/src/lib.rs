//! What the harness and heddle's own measured programs share; see the README beside `src`.

pub mod measure;
