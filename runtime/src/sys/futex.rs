//! Futex wait and wake: how a kernel thread sleeps in heddle's wait queues.

use core::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex;

/// Sleeps while `*word == expected`, at most for `timeout`. Spurious returns are possible: every
/// outcome means to look at the word again. True: a signal handler has run that ends system calls.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> bool {
    let timeout = timeout.and_then(|t| rustix::time::Timespec::try_from(t).ok());
    let result = futex::wait(word, futex::Flags::PRIVATE, expected, timeout.as_ref());
    result == Err(rustix::io::Errno::INTR)
}

/// Wakes at most `count` sleepers of `word`.
pub(crate) fn wake(word: &AtomicU32, count: u32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, count);
}
