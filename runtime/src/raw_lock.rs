//! The lock inside wait queues and pools: four bytes, held for a few instructions.
//!
//! Protocol:
//! 1. `UNLOCKED -> LOCKED` by compare-exchange takes it.
//! 2. A taker that spun in vain writes `CONTENDED` and sleeps on the futex, for `NAP` at most;
//!    whoever sees `CONTENDED` on unlock wakes one sleeper.
//! 3. Unlocking is a load and a store, not an exchange: one locked instruction less for each
//!    critical section of every primitive (5 ns of 10). A `CONTENDED` that is written between
//!    the two is lost; its sleeper takes the lock after its nap. That needs a holder that the
//!    kernel preempts between two instructions, while the taker gets from its exchange to sleep.
//! 4. No holder ever switches stacks, allocates or calls foreign code: a waiter is another kernel
//!    thread, and it waits for instructions, not for threads.
//!
//! 5. A full thread that holds one is pinned: another worker could wait for it, but not run it.
//!
//! The unlock is the last access to the lock's memory, so the object that contains it may be
//! freed by whoever takes it next.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::time::Duration;

use crate::full::{self, Pin};
use crate::model::{self, AtomicU32};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;
/// Longest sleep of a taker before it looks again.
const NAP: Duration = Duration::from_millis(1);

/// A lock without data; all zero bytes are an unlocked one.
#[repr(transparent)]
pub(crate) struct RawLock(AtomicU32);

impl RawLock {
    /// An unlocked lock.
    pub const fn new() -> Self {
        RawLock(AtomicU32::new(UNLOCKED))
    }

    /// Unlocked, whoever had it: for a forked child, which is alone.
    pub fn forget_holder(&self) {
        if self.0.load(Relaxed) != UNLOCKED {
            self.0.store(UNLOCKED, Relaxed);
        }
    }

    /// Takes the lock; unlocked when the guard goes.
    #[inline]
    pub fn lock(&self) -> RawGuard<'_> {
        self.lock_with(full::pin())
    }

    /// As `lock`, by a caller that is pinned for longer than it holds the guard.
    #[inline]
    pub fn lock_pinned(&self) -> RawGuard<'_> {
        self.lock_with(full::pinned_already())
    }

    #[inline(always)]
    fn lock_with(&self, pin: Pin) -> RawGuard<'_> {
        // ORDER: Acquire pairs with the Release in `RawGuard::drop`.
        if self.0.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_err() {
            self.lock_slow();
        }
        RawGuard(self, pin)
    }

    #[cold]
    fn lock_slow(&self) {
        for _ in 0..model::SPINS {
            model::spin();
            if self.0.load(Relaxed) == UNLOCKED
                && self.0.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok()
            {
                return;
            }
        }
        // ORDER: Acquire as in `lock`. CONTENDED may stay set without a sleeper: one wasted wake.
        while self.0.swap(CONTENDED, Acquire) != UNLOCKED {
            model::futex_wait(&self.0, CONTENDED, Some(NAP));
        }
    }
}

/// Holds a [`RawLock`].
#[must_use]
pub(crate) struct RawGuard<'a>(&'a RawLock, #[allow(dead_code, reason = "it is dropped")] Pin);

impl Drop for RawGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let word = &self.0.0;
        let contended = word.load(Relaxed) == CONTENDED;
        // ORDER: Release pairs with the Acquire of the next taker.
        word.store(UNLOCKED, Release);
        if contended {
            model::futex_wake(word, 1);
        }
    }
}
