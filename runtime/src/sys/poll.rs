//! Whether a descriptor is ready, asked of the kernel itself.

use std::os::fd::RawFd;

/// Whether one of `events` has happened to `fd`, or nothing more will; false if it is not open.
pub(crate) fn is_ready(fd: RawFd, events: i16) -> bool {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one valid entry; it does not wait.
    let count = unsafe { libc::poll(&mut entry, 1, 0) };
    count == 1 && entry.revents & libc::POLLNVAL == 0
}
