//! A plain transfer of bytes: the system call that may wait.
//!
//! Invariant: one with a list of parts is made only for a list, for it takes half as long again.

use core::ffi::{c_int, c_long};

use libc::{iovec, off_t};

use super::{interruptible, syscall};

/// The position of the file itself, instead of an offset.
pub const HERE: off_t = -1;

/// See the file's head.
pub struct Plain {
    number: c_long,
    arguments: [usize; 6],
}

impl Plain {
    /// Of one part.
    pub fn of_one(reads: bool, fd: c_int, part: iovec, offset: off_t) -> Self {
        let number = match (reads, offset) {
            (true, HERE) => libc::SYS_read,
            (true, _) => libc::SYS_pread64,
            (false, HERE) => libc::SYS_write,
            (false, _) => libc::SYS_pwrite64,
        };
        let (fd, at) = (fd as usize, offset as usize);
        Plain { number, arguments: [fd, part.iov_base as usize, part.iov_len, at, 0, 0] }
    }

    /// Of a list of parts, with `RWF_` flags.
    pub fn of_list(
        reads: bool,
        fd: c_int,
        (first, count): (*const iovec, c_int),
        offset: off_t,
        flags: c_int,
    ) -> Self {
        let number = if reads { libc::SYS_preadv2 } else { libc::SYS_pwritev2 };
        let (first, count, at) = (first as usize, count as usize, offset as usize);
        // An offset has an upper half on 32-bit machines only.
        Plain { number, arguments: [fd as usize, first, count, at, 0, flags as usize] }
    }

    /// Makes it.
    ///
    /// # Safety
    /// 1. As for the system call.
    pub unsafe fn make(&self) -> isize {
        // In the C library's text, where a thread that is called is reached in a call that may wait
        // after all: files of the kernel's do.
        syscall::real(self.number, self.arguments) as isize
    }

    /// Makes it so that signals and a cancellation of the calling full thread end it.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Safety
    /// 1. As for the system call.
    pub unsafe fn make_interruptible(&self) -> Result<isize, c_int> {
        // SAFETY: by 1.
        unsafe { interruptible::by_number(self.number, self.arguments, true) }
    }
}
