//! Waiting for I/O: pipes, standard input, and descriptors that are not heddle's own.
//!
//! Below it: the reactor of each worker (`reactor`: `uring` or `epoll`) and the operations
//! that every blocking call is made of (`call`).
//!
//! Why a receive is "yield, try, arm" and a send is a plain system call: CPU time of the server
//! per request, in microseconds, for an echo of 64 bytes; one worker, client on the other
//! processor, the least of five interleaved runs of a second each (AMD EPYC, kernel 6.18).
//!
//! | connections | 100 | 1000 | 8000 |
//! |---|---|---|---|
//! | hand-written epoll loop in C | 4.62 | 4.91 | 6.70 |
//! | yield, try, arm (this) | 4.50 | 4.87 | 7.03 |
//! | receive by the ring at once | 4.65 | 5.18 | 8.69 |
//! | yield, try, arm; send by the ring | 4.53 | 4.80 | 6.64 |
//! | receive and send by the ring | 4.55 | 5.49 | 7.40 |
//! | C: multishot receive, buffer ring, send by the ring | 4.72 | 4.88 | 7.00 |
//!
//! The differences between the second, the fourth and the last line change their signs from one
//! series to the next. So the simplest of them was taken, which needs no shared buffers and no
//! copy out of them; sending by the ring would add a park and a wake to each write.
//! `examples/echo.rs` is the server.

mod bare;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod epoll;
pub(crate) mod interrupt;
mod pipe;
pub(crate) mod reactor;
mod several;
mod stdin;
mod uring;

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

pub(crate) use epoll::Epoll;
pub use pipe::{PipeReader, PipeWriter, pipe};
pub(crate) use reactor::{Interest, Reactor};
pub use stdin::{Stdin, stdin};

/// Blocks the calling thread until `fd` can be read, at most for `timeout`.
///
/// For descriptors of other libraries. Readable is also what has ended or failed.
///
/// # Errors
/// `TimedOut`, [`crate::Cancelled`], what the kernel says of the descriptor.
pub fn wait_readable(fd: impl AsFd, timeout: Option<Duration>) -> std::io::Result<()> {
    call::wait_ready(fd.as_fd().as_raw_fd(), Interest::Read, call::deadline(timeout))
}

/// Blocks the calling thread until `fd` can be written, at most for `timeout`.
///
/// # Errors
/// As [`wait_readable`].
pub fn wait_writable(fd: impl AsFd, timeout: Option<Duration>) -> std::io::Result<()> {
    call::wait_ready(fd.as_fd().as_raw_fd(), Interest::Write, call::deadline(timeout))
}
