//! Which descriptors may be sockets, and what sockets say of themselves.
//!
//! Invariant: the former is a hint, by number. What is no socket says so itself when it is taken
//! for one, which costs a system call once; a socket that got the number of a file is found when it
//! is accepted or connected, and until then it is read like any file.

use core::ffi::c_int;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use libc::socklen_t;

use crate::sys::direct;

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

/// Whether it is a stream's socket.
pub fn is_stream(fd: c_int) -> bool {
    option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

/// Whether it is a socket of `AF_UNIX`.
pub fn is_unix(fd: c_int) -> bool {
    option(fd, libc::SO_DOMAIN) == Some(libc::AF_UNIX)
}

/// Whether a connection was broken off: the kernel tells why once, to a call that has moved
/// nothing, so the rest of one that has must not ask. On `AF_UNIX` it asks natively, too.
pub fn is_broken(fd: c_int) -> bool {
    let broken = libc::POLLERR | libc::POLLHUP;
    let mut poll = libc::pollfd { fd, events: 0, revents: 0 };
    // SAFETY: one valid pollfd. Of an error the call will tell.
    unsafe { direct::poll(&mut poll, 1) };
    poll.revents & broken == broken && !is_unix(fd)
}

/// As [`is_broken`], and all that came before is received.
pub fn is_drained(fd: c_int) -> bool {
    let mut left: c_int = 0;
    // SAFETY: a valid place.
    is_broken(fd) && unsafe { libc::ioctl(fd, libc::FIONREAD, &mut left) } == 0 && left == 0
}

/// A socket option that is a number.
pub fn option(fd: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: a valid place and its length.
    let error = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &mut length)
    };
    (error == 0).then_some(value)
}
