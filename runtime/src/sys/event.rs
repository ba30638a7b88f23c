//! An eventfd: what wakes a worker that sleeps in its reactor.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::descriptor::raised;

/// A counter in the kernel that is readable while it is not zero.
pub(crate) struct Event(OwnedFd);

impl Event {
    /// Makes one; fails when descriptors are exhausted.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Event(raised(|| eventfd(0, flags))?))
    }

    /// Makes it readable. Can't block: the counter overflows after 2^64 - 2 signals.
    pub fn signal(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable again.
    pub fn clear(&self) {
        let mut count = [0u8; 8];
        let _ = rustix::io::read(&self.0, &mut count);
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
