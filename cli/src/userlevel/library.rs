//! The self-test of the C library, if this command runs with the one that the program will have.
//!
//! Invariant: what is said of the program's C library was tried out on that very file. With
//! another one the library that makes user-level threads tries it in the program, and falls back
//! to kernel threads there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use heddle::doctor;

use super::Finding;
use crate::symbols::image::Image;

const NAME: &str = "self-test";
/// Of glibc.
const FILE_NAME: &str = "libc.so.6";

/// Tries the C library `of_program`.
pub fn test(of_program: Option<&Path>) -> Finding {
    if !of_program.is_some_and(is_own) {
        let why = "it has another C library than this command: that one is tried as it starts";
        return Finding::good(NAME, "later", why);
    }
    match doctor::full_threads_refusal() {
        None => Finding::good(NAME, "passed", "all that is used of the C library was tried out"),
        Some(why) => Finding::bad(NAME, "failed", why),
    }
}

/// Whether this command runs with the C library at `path`. By what is mapped: that may be a file
/// which another one has replaced since.
fn is_own(path: &Path) -> bool {
    let mapped = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let own = mapped.lines().find_map(|line| {
        let begin = line.find('/')?;
        Some(Path::new(&line[begin..])).filter(|it| it.ends_with(FILE_NAME))
    });
    let identity = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    own.is_some_and(|own| identity(own).is_some_and(|own| identity(path) == Some(own)))
}

/// The C library among what a program is loaded with.
pub fn path(images: &[Image]) -> Option<&Path> {
    images.iter().map(|image| &*image.path).find(|path| path.ends_with(FILE_NAME))
}
