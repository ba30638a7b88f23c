//! Devices that forget an event once they have been asked for it.
//!
//! What is ready is asked for several times here: the reactor's set asks when the device calls, and
//! the thread asks again when it goes on. The files of NVIDIA's driver (`/dev/nvidia0` and others)
//! tell of an event once: so the second ask finds nothing, and CUDA's thread waits for its timeout
//! each time. A poll for such a file is made by a kernel thread of the pool as it is.
//!
//! Invariant: `OPENED` is set before anybody can have the number of such a file from `open`. A file
//! that the process has got otherwise, from its parent or through a socket, is not known.

use core::ffi::{CStr, c_char};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use libc::pollfd;

/// How their names begin.
const NAMES: &[u8] = b"/dev/nvidia";
/// Terminals, consoles and what is beside them, memory: device numbers that are none of these.
const OTHERS: [u32; 5] = [1, 4, 5, 10, 13];
/// The other ends of pseudo-terminals.
const PSEUDO_TERMINALS: core::ops::RangeInclusive<u32> = 136..=143;

/// One was opened.
static OPENED: AtomicBool = AtomicBool::new(false);

/// A file with this path was opened.
///
/// # Safety
/// 1. The path is a text.
#[inline]
pub unsafe fn note_opened(path: *const c_char) {
    // SAFETY: by 1.
    if unsafe { CStr::from_ptr(path) }.to_bytes().starts_with(NAMES) && !OPENED.load(Relaxed) {
        OPENED.store(true, Relaxed);
    }
}

/// Whether one of these may be such a file.
#[inline]
pub fn is_among(fds: &[pollfd]) -> bool {
    OPENED.load(Relaxed) && fds.iter().any(|entry| is_one(entry.fd))
}

#[cold]
fn is_one(fd: i32) -> bool {
    // SAFETY: all zero bytes are a valid `stat`, which the kernel overwrites.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: a valid place.
    let failed = fd < 0 || unsafe { libc::fstat(fd, &mut status) } != 0;
    let major = libc::major(status.st_rdev);
    !failed
        && status.st_mode & libc::S_IFMT == libc::S_IFCHR
        && !OTHERS.contains(&major)
        && !PSEUDO_TERMINALS.contains(&major)
}
