//! Threads of ordinary programs, seen from outside: what `heddle run` needs besides the library
//! that it loads into the program (`c/`, the other half of this folder).
//!
//! Invariant: nothing here trusts what the program's process says; its table is read by
//! `heddle_record`'s reader, and addresses in it are only ever given back to the kernel together
//! with the process's own id.

pub mod key;
pub mod library;
pub mod measure;
pub mod mediator;
pub mod plan;
pub mod policy;
pub mod profile;
pub mod sys;
