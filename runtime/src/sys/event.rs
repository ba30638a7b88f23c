//! An eventfd: what wakes a worker that sleeps in its reactor.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use super::descriptor::{Own, raised};

/// A counter in the kernel that is readable while it is not zero.
pub(crate) struct Event(Own);

impl Event {
    /// Makes one; fails when descriptors are exhausted.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Event(Own::new(raised(|| eventfd(0, flags))?)))
    }

    /// Makes it readable. Can't block: the counter overflows after 2^64 - 2 signals.
    pub fn signal(&self) {
        let _ = rustix::io::write(self, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable again.
    pub fn clear(&self) {
        let mut count = [0u8; 8];
        let _ = rustix::io::read(self, &mut count);
    }

    /// The descriptor's number.
    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes an eventfd readable. Async-signal-safe: it leaves errno as it was.
pub(crate) fn signal_event(fd: i32) {
    // SAFETY: errno is the calling kernel thread's own; the buffer has eight bytes.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let one = 1u64;
        libc::write(fd, (&raw const one).cast(), size_of::<u64>());
        *errno = before;
    }
}

/// Makes an eventfd in non-blocking mode unreadable.
pub(crate) fn clear_event(fd: i32) {
    let mut count = 0u64;
    // SAFETY: the buffer has eight bytes.
    unsafe { libc::read(fd, (&raw mut count).cast(), size_of::<u64>()) };
}
