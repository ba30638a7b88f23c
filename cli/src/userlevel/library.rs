//! The self-test of the C library, if this command runs with the one that the program will have.
//!
//! Invariant: what is said of the program's C library was tried out on that very file. With
//! another one the library that makes user-level threads tries it in the program, and falls back
//! to kernel threads there.

use std::path::{Path, PathBuf};

use heddle::doctor;

use super::Finding;
use crate::symbols::image::Image;
use crate::symbols::needed;

const NAME: &str = "self-test";

/// Tries the C library `of_program`.
pub fn test(of_program: Option<&Path>) -> Finding {
    if own().is_none_or(|own| of_program != Some(&own)) {
        let why = "it has another C library than this command: that one is tried as it starts";
        return Finding::good(NAME, "later", why);
    }
    match doctor::full_threads_refusal() {
        None => Finding::good(NAME, "passed", "all that is used of the C library was tried out"),
        Some(why) => Finding::bad(NAME, "failed", why),
    }
}

/// The C library of this command.
fn own() -> Option<PathBuf> {
    let program = Image::open(&std::env::current_exe().ok()?).ok()?;
    path(&needed(program)).map(Path::to_owned)
}

/// The C library among what a program is loaded with.
pub fn path(images: &[Image]) -> Option<&Path> {
    images.iter().map(|image| &*image.path).find(|path| path.ends_with("libc.so.6"))
}
