//! What threads wait for each other with, in the C library's layouts.
//!
//! Each object is a few atomic words; who has to wait does so in the parking lot, at the address
//! of one of them. A word is changed first and its waiters are woken then, which loses no wake,
//! see the lot.

mod barrier;
pub mod c11;
mod ceiling;
mod cond;
pub mod mutex;
mod once;
mod rwlock;
mod sem;
mod spin;

use core::sync::atomic::AtomicU32;

use heddle::raw::{self, Ended, Manner, Moment};

use crate::errno;

/// Waits for a wake of `word` if it is `expected`; not a cancellation point. `errno` is kept.
///
/// # Safety
/// 1. `word` may be read until the call returns or a wake has ended the wait.
unsafe fn wait(word: *const AtomicU32, expected: u32, until: Moment) -> Ended {
    // SAFETY: by 1.
    errno::kept(|| unsafe { raw::futex_wait(word, expected, until, Manner::PLAIN) })
}

/// Wakes at most `most` waiters for `word`, which need not exist any more; returns how many.
#[inline]
fn wake(word: *const AtomicU32, most: u32) -> u32 {
    raw::futex_wake(word, most, raw::ANY)
}
