//! Errors: what was exhausted, and where the limit is set.

use std::fmt;
use std::io;

/// A limit that a call ran into. It is the source of the [`io::Error`] that the call returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// What ran out, with where its limit is set: "threads", "stacks (RLIMIT_AS)".
    pub what: &'static str,
    /// The limit's value.
    pub value: u64,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out of {}: the limit is {}", self.what, self.value)
    }
}

impl std::error::Error for Limit {}

/// The error of a call that ran into the limit of `what`.
pub(crate) fn exhausted(what: &'static str, value: u64) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, Limit { what, value })
}

/// The thread was cancelled in a blocking call; source of the [`io::Error`] that it returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread was cancelled")
    }
}

impl std::error::Error for Cancelled {}

/// The error of a blocking call whose thread was cancelled.
pub(crate) fn cancelled() -> io::Error {
    io::Error::other(Cancelled)
}

/// Whether `error` says that the thread was cancelled.
pub fn is_cancelled(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Cancelled>())
}
