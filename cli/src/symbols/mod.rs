//! What a place in a program is called, and where a name lies: resolved outside of the program.
//!
//! - [`image`]: one ELF file. [`mod@needed`]: the files that a program is loaded with.
//! - [`names`]: names as people write them. [`trampoline`]: functions that start other functions.
//! - [`cache`]: what need not be searched for twice.
//! - [`debug`]: files with debug information that belong to a module.
//! - [`Symbols`]: from a place (build-id, offset, path) to a name and a line.
//! - [`find`]: from a name to places.
//!
//! Invariant: a file is believed to be the module that a place means only if its build-id is the
//! same; a module that was replaced meanwhile gives "module+0xOFFSET", never a wrong name.

mod cache;
mod calls;
mod debug;
mod find;
pub mod image;
mod names;
mod needed;
mod resolve;
mod trampoline;

pub use find::{Finder, Wanted, shared_libraries};
pub use names::shorten;
pub use needed::needed;
pub use resolve::Symbols;
pub use trampoline::{Trampoline, species};
