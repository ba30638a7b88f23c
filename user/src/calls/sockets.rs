//! Which descriptors may be sockets.
//!
//! Invariant: a hint, by number. What is no socket says so itself when it is taken for one, which
//! costs a system call once; a socket that got the number of a file is found when it is accepted
//! or connected, and until then it is read like any file.

use core::ffi::c_int;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

/// Higher numbers are not told apart.
const KNOWN: usize = 1 << 14;

static NONE: [AtomicBool; KNOWN] = [const { AtomicBool::new(false) }; KNOWN];

fn none(fd: c_int) -> Option<&'static AtomicBool> {
    NONE.get(usize::try_from(fd).ok()?)
}

/// Whether it is worth taking it for one.
pub fn may_be(fd: c_int) -> bool {
    none(fd).is_some_and(|none| !none.load(Relaxed))
}

/// The kernel has said that it is none.
pub fn note_none(fd: c_int) {
    if let Some(none) = none(fd) {
        none.store(true, Relaxed);
    }
}

/// It was accepted, or is to be connected: it is one.
pub fn note_one(fd: c_int) {
    if let Some(none) = none(fd)
        && none.load(Relaxed)
    {
        none.store(false, Relaxed);
    }
}
