//! What sockets say of themselves.
//!
//! Invariant: asking moves nothing, and takes nothing that a call is to be told.

use core::ffi::{c_int, c_short};

use libc::socklen_t;

use crate::errno;
use crate::sys::direct;

/// Whether it is a stream's socket.
pub fn is_stream(fd: c_int) -> bool {
    option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

/// Whether it is a socket for connections: others connect without asking the other end.
pub fn has_connections(fd: c_int) -> bool {
    matches!(option(fd, libc::SO_TYPE), Some(libc::SOCK_STREAM | libc::SOCK_SEQPACKET))
}

/// Whether it is a socket of `AF_UNIX`.
pub fn is_unix(fd: c_int) -> bool {
    option(fd, libc::SO_DOMAIN) == Some(libc::AF_UNIX)
}

/// Whether a connection was broken off: the kernel tells why once, to a call that has moved
/// nothing, so the rest of one that has must not ask. On `AF_UNIX` it asks natively, too.
pub fn is_broken(fd: c_int) -> bool {
    let broken = libc::POLLERR | libc::POLLHUP;
    ends_of(fd) & broken == broken && !is_unix(fd)
}

/// Whether it was shut down for reading. Of a datagram's socket a receive that may not sleep says
/// that there is nothing yet, one that may finds the end at once, and all that waits for something
/// to read is told that there is.
pub fn is_shut(fd: c_int) -> bool {
    asked(fd, libc::POLLRDHUP) & libc::POLLRDHUP != 0
}

/// Which of an error and an end the socket tells of.
fn ends_of(fd: c_int) -> c_short {
    asked(fd, 0)
}

/// What it tells of besides `events`, of which it is asked.
fn asked(fd: c_int, events: c_short) -> c_short {
    let mut poll = libc::pollfd { fd, events, revents: 0 };
    // A signal that is pending ends it, also where it would not have waited. Of another error the
    // call will tell.
    // SAFETY: one valid pollfd.
    while unsafe { direct::poll(&mut poll, 1) } < 0 && errno::get() == libc::EINTR {}
    poll.revents
}

/// Whether it is a stream's socket that has not begun to connect: who is told that its connection
/// was interrupted waits for it by poll. One of `AF_UNIX` never has anything begun.
pub fn is_unconnected(fd: c_int) -> bool {
    ends_of(fd) & libc::POLLHUP != 0 && !is_unix(fd)
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
