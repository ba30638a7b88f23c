//! Which descriptors the runtime keeps open: no call of the program's that closes or replaces many
//! at once should meet them. Without them threads would wait for ever, and what came to stand at
//! their numbers would be written to.
//!
//! Invariant: a number is marked only while the descriptor of it is the runtime's; one above
//! [`NUMBERS`], where none is put, is not.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

const NUMBERS: usize = 1024;
const BITS: usize = u64::BITS as usize;

static MARKED: [AtomicU64; NUMBERS / BITS] = [const { AtomicU64::new(0) }; NUMBERS / BITS];

/// A descriptor of the runtime's.
pub(crate) struct Own(OwnedFd);

impl Own {
    pub fn new(fd: OwnedFd) -> Self {
        mark(fd.as_raw_fd());
        Own(fd)
    }
}

impl AsFd for Own {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Own {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        unmark(self.0.as_raw_fd());
    }
}

/// Keeps it open for the rest of the process's life.
pub fn keep(fd: OwnedFd) -> RawFd {
    mark(fd.as_raw_fd());
    fd.into_raw_fd()
}

/// It is the runtime's until [`unmark`].
pub(crate) fn mark(fd: RawFd) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_or(bit, Relaxed);
    }
}

pub(crate) fn unmark(fd: RawFd) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_and(!bit, Relaxed);
    }
}

/// Whether it is the runtime's.
#[inline]
pub fn is_own(fd: RawFd) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
}

/// The runtime's from `first` on, in order.
pub fn own_from(first: u32) -> impl Iterator<Item = RawFd> {
    (first..NUMBERS as u32).map(|number| number as RawFd).filter(|&number| is_own(number))
}

/// A child that was forked may close what was its parent's.
pub(super) fn in_child() {
    MARKED.iter().for_each(|word| word.store(0, Relaxed));
}

fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let index = usize::try_from(fd).ok()?;
    Some((MARKED.get(index / BITS)?, 1 << (index % BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_is_nobodys() {
        let fd = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let number = fd.as_raw_fd();
        assert!(!is_own(number));
        let own = Own::new(fd);
        assert!(is_own(number) && own_from(0).any(|it| it == number));
        drop(own);
        assert!(!is_own(number) && !is_own(-1) && !is_own(NUMBERS as RawFd));
    }
}
