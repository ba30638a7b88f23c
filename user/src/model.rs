//! The seam to the proofs: what `tests/pending.rs` and `tests/loom.rs` replace in the files that
//! they compile.
//!
//! Here the atomics are core's, and who waits does so in the kernel; there something else happens
//! before each of them, or loom tries every order of them.

use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

pub use core::hint::spin_loop as spin;
pub use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};

/// Sleeps if the word is `expected`, until it is woken, or so long at most.
pub fn futex_wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let _ = futex::wait(word, Flags::PRIVATE, expected, limit.as_ref());
}

/// Wakes one who sleeps at the word.
pub fn futex_wake(word: &AtomicU32) {
    let _ = futex::wake(word, Flags::PRIVATE, 1);
}
