//! What is known of descriptors, by number, from what their calls have said.
//!
//! Invariant: a hint, for a number may be another file's by now. A wrong one costs a system call in
//! vain, or a worker for as long as a disk takes, or has a read that goes past the cache end before
//! the file does, at a block; nobody waits for more because of it. So what could is asked again:
//! what is taken for a socket says so itself when it is none, and what a write takes for a disk's
//! file, whether it has a position; what has no try, whether it is ready: if not it is tried, and
//! if it waits all the same, signals and a cancellation end that. (Of what has a position and is
//! not opened by its name, which is seen, an eventfd alone may have a writer wait, when its number
//! is at its end.) And one that tells of signals without its hint, as its number was closed and
//! made again by several threads at once, tells no thread of those that were sent to it.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8};

use super::disk;

/// Higher numbers are not told apart.
const KNOWN: usize = 1 << 14;

/// It is no socket.
const NO_SOCKET: u8 = 1;
/// It does not go past the cache.
const CACHED: u8 = 2;
/// What is written to it stays in memory for now.
const BUFFERED: u8 = 4;
/// It knows no write that never sleeps.
const UNTRIED: u8 = 8;
/// It is of a file system that does not live in memory.
const STORED: u8 = 16;
/// It tells of signals, or is an epoll set, which may have one that does.
const TELLS: u8 = 32;

/// Whether one tells of signals.
static DO_SOME_TELL: AtomicBool = AtomicBool::new(false);

static HINTS: [AtomicU8; KNOWN] = [const { AtomicU8::new(0) }; KNOWN];

fn of(fd: c_int) -> Option<&'static AtomicU8> {
    HINTS.get(usize::try_from(fd).ok()?)
}

fn is(fd: c_int, hint: u8) -> bool {
    of(fd).is_some_and(|hints| hints.load(Relaxed) & hint != 0)
}

fn note(fd: c_int, hint: u8) {
    if let Some(hints) = of(fd) {
        hints.fetch_or(hint, Relaxed);
    }
}

/// Whether it is worth taking it for a socket.
pub fn may_be_socket(fd: c_int) -> bool {
    of(fd).is_some_and(|hints| hints.load(Relaxed) & NO_SOCKET == 0)
}

/// The kernel has said that it is no socket.
pub fn note_no_socket(fd: c_int) {
    note(fd, NO_SOCKET);
}

/// It is not what it was taken for: accepted, or to be connected, so a socket; or something else.
pub fn forget(fd: c_int) {
    if let Some(hints) = of(fd)
        && hints.load(Relaxed) != 0
    {
        hints.store(0, Relaxed);
    }
}

/// Whether its transfers go by the cache.
pub fn is_cached(fd: c_int) -> bool {
    is(fd, CACHED)
}

/// Its flags say that they do.
pub fn note_cached(fd: c_int) {
    note(fd, CACHED);
}

/// Whether it is a disk's file whose writes stay in memory.
pub fn is_buffered(fd: c_int) -> bool {
    is(fd, BUFFERED)
}

/// It is one.
pub fn note_buffered(fd: c_int) {
    note(fd, NO_SOCKET | CACHED | BUFFERED);
}

/// Whether there is no use in a try to write to it.
pub fn is_untried(fd: c_int) -> bool {
    is(fd, UNTRIED)
}

/// There is none.
pub fn note_untried(fd: c_int) {
    note(fd, NO_SOCKET | UNTRIED);
}

/// Whether its file system has a place where it waits for what it keeps.
pub fn is_stored(fd: c_int) -> bool {
    is(fd, STORED)
}

/// It does.
pub fn note_stored(fd: c_int) {
    note(fd, STORED);
}

/// Whether it may come to tell of signals while somebody waits for it.
#[inline]
pub fn may_tell(fd: c_int) -> bool {
    is(fd, TELLS)
}

/// Whether it tells of signals, or may have one in its set that does.
#[inline]
pub fn tells(fd: c_int) -> bool {
    DO_SOME_TELL.load(Relaxed) && may_tell(fd)
}

/// Whether any does.
#[inline]
pub fn do_some_tell() -> bool {
    DO_SOME_TELL.load(Relaxed)
}

/// It tells of signals.
pub fn note_tells(fd: c_int) {
    note_may_tell(fd);
    DO_SOME_TELL.store(true, Relaxed);
}

/// It is an epoll set, or a copy of what may tell.
pub fn note_may_tell(fd: c_int) {
    note(fd, NO_SOCKET | TELLS);
}

/// It was opened with these flags.
pub fn note_opened(fd: c_int, flags: c_int) {
    let Some(hints) = of(fd) else { return };
    let is_cached = flags & libc::O_DIRECT == 0;
    hints.store(NO_SOCKET | if is_cached { CACHED } else { 0 }, Relaxed);
    // What is added to a file by one call stays in one piece, whoever else adds to it; so the call
    // must be the first.
    if flags & libc::O_APPEND != 0 && disk::are_buffered(flags) && disk::is_disk(fd) {
        note_buffered(fd);
    }
}
