//! The runtime's own descriptors that are open for an instant, at the number that the kernel gives.
//!
//! The program may close numbers that it has not opened, and such a close does not pass the gate:
//! it finds that the number is not its own (`own.rs`). Should it come before the number is marked,
//! the descriptor is gone, and what is asked of it fails; so it is closed by its number here, where
//! that is no error, and not by std's `OwnedFd`, to which it is one that ends the process.
//!
//! Invariant: from the mark to the close the number is the runtime's, or nobody's; but where the
//! program came before the mark, and then made a file by a call that does not pass the gate.

use core::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};

use super::own;
use crate::sys::signals::{errno, set_errno};

/// One that is closed when this is dropped. Who has it has passed with [`super::low`], or is in a
/// signal handler.
pub struct Brief(RawFd);

impl Brief {
    pub(super) fn new(fd: OwnedFd) -> Self {
        let number = fd.into_raw_fd();
        own::mark(number);
        Brief(number)
    }

    /// Opens a file of the kernel's to read it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(path: &CStr) -> rustix::io::Result<Self> {
        Self::open_as(path, OFlags::empty())
    }

    pub(crate) fn open_as(path: &CStr, flags: OFlags) -> rustix::io::Result<Self> {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty())
            .map(Self::new)
    }

    /// It stays open, where it is.
    pub(super) fn stay(self) -> OwnedFd {
        let number = self.0;
        own::unmark(number);
        core::mem::forget(self);
        // SAFETY: it was this one's alone, and is not closed by it.
        unsafe { OwnedFd::from_raw_fd(number) }
    }
}

impl AsFd for Brief {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open as long as this lives; if the program has closed it, the kernel says
        // so.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl AsRawFd for Brief {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl Drop for Brief {
    fn drop(&mut self) {
        own::unmark(self.0);
        close(self.0);
    }
}

/// Leaves errno as it was.
fn close(number: RawFd) {
    let before = errno();
    // SAFETY: a number; it is the runtime's, or nobody's, as far as the file's head says.
    unsafe { libc::close(number) };
    set_errno(before);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At a number that no other test has.
    #[test]
    fn what_the_program_has_closed_is_closed_without_a_word() {
        let event = crate::sys::event::Event::new().unwrap();
        let Ok(fd) = rustix::io::fcntl_dupfd_cloexec(&event, 970) else {
            return println!("skip: RLIMIT_NOFILE permits no 970");
        };
        let brief = Brief::new(fd);
        let number = brief.as_raw_fd();
        assert!(own::is_own(number));
        close(number);
        drop(brief);
        assert!(!own::is_own(number));
    }

    #[test]
    fn what_stays_is_open_and_nobodys() {
        let stays = Brief::open(c"/dev/zero").unwrap().stay();
        assert!(!own::is_own(stays.as_raw_fd()));
        assert_eq!(rustix::io::read(&stays, &mut [1; 8]), Ok(8));
    }
}
