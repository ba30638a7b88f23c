//! Futex wait and wake: how a kernel thread sleeps in heddle's wait queues.

use core::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex;

/// Sleeps while `*word == expected`, at most for `timeout`. Spurious returns are possible.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.and_then(|t| rustix::time::Timespec::try_from(t).ok());
    // Every outcome (woken, value changed, timed out, interrupted) means: look at the word again.
    let _ = futex::wait(word, futex::Flags::PRIVATE, expected, timeout.as_ref());
}

/// Wakes at most `count` sleepers of `word`.
pub(crate) fn wake(word: &AtomicU32, count: u32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, count);
}
