//! Why a call ends without success, and how that reaches the C caller.

use core::ffi::c_int;

use crate::{cancel, errno};

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// With this error number.
    Error(c_int),
    /// The thread was cancelled while it waited.
    Cancelled,
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        if heddle::is_cancelled(&error) {
            return Stop::Cancelled;
        }
        Stop::Error(match error.kind() {
            std::io::ErrorKind::TimedOut => libc::ETIMEDOUT,
            std::io::ErrorKind::OutOfMemory => libc::ENOMEM,
            std::io::ErrorKind::InvalidInput => libc::EINVAL,
            _ => error.raw_os_error().unwrap_or(libc::EIO),
        })
    }
}

impl From<rustix::io::Errno> for Stop {
    fn from(error: rustix::io::Errno) -> Self {
        Stop::Error(error.raw_os_error())
    }
}

/// The result of a function that returns error numbers, as `pthread_X`; acts on cancellation.
///
/// Nothing with a destructor may live in the caller: this may unwind.
#[inline]
pub fn number(result: Result<(), Stop>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Stop::Error(number)) => number,
        Err(Stop::Cancelled) => cancel::act(),
    }
}

/// The result of a function that returns -1 and sets `errno`; acts on cancellation.
///
/// Nothing with a destructor may live in the caller: this may unwind.
#[inline]
pub fn value(result: Result<isize, Stop>) -> isize {
    match result {
        Ok(value) => value,
        Err(Stop::Error(number)) => {
            errno::set(number);
            -1
        }
        Err(Stop::Cancelled) => cancel::act(),
    }
}

/// As [`value`] for calls without a value.
#[inline]
pub fn flag(result: Result<(), Stop>) -> c_int {
    value(result.map(|()| 0)) as c_int
}
