//! Locks and conditions on the parking lot, as a C library builds them on the kernel's futex: what
//! the stress and the simulation check it with.
//!
//! They trust what the lot promises and nothing else, so a lost or doubled wake shows as a thread
//! that waits for ever, or as a wrong count.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use heddle::raw::{self, ANY, Ended, Manner, Moment, futex_broadcast, futex_requeue, futex_wake};

/// Waits for `word`; the word outlives the call.
pub fn wait_for(word: &AtomicU32, expected: u32, bits: u32, moment: Moment) -> Ended {
    // SAFETY: borrowed for the call.
    unsafe { raw::futex_wait(word, expected, moment, Manner { bits, ..Manner::PLAIN }) }
}

/// As [`wait_for`]; a cancellation ends it.
pub fn wait_cancellable(word: &AtomicU32, expected: u32, moment: Moment) -> Ended {
    let manner = Manner { is_cancellable: true, ..Manner::PLAIN };
    // SAFETY: borrowed for the call.
    unsafe { raw::futex_wait(word, expected, moment, manner) }
}

/// `timeout` from now, by the monotonic clock.
pub fn after(timeout: Duration) -> Moment {
    Moment::Monotonic(raw::now_ns() + timeout.as_nanos() as u64)
}

const FREE: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

/// Three states in a word, as in most C libraries.
pub struct Lock(AtomicU32);

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

impl Lock {
    pub const fn new() -> Self {
        Lock(AtomicU32::new(FREE))
    }

    pub fn lock_until(&self, moment: Moment) -> bool {
        let taken = self.0.compare_exchange(FREE, LOCKED, SeqCst, SeqCst);
        taken.is_ok() || self.lock_contended(moment)
    }

    pub fn lock(&self) {
        assert!(self.lock_until(Moment::Never));
    }

    fn lock_contended(&self, moment: Moment) -> bool {
        while self.0.swap(CONTENDED, SeqCst) != FREE {
            if wait_for(&self.0, CONTENDED, ANY, moment) == Ended::TimedOut {
                return false;
            }
        }
        true
    }

    pub fn unlock(&self) {
        let before = self.0.swap(FREE, SeqCst);
        assert_ne!(before, FREE, "nobody's lock");
        if before == CONTENDED {
            futex_wake(&self.0, 1, ANY);
        }
    }
}

/// A condition: a count of notifications, and its waiters moved to the lock by `notify_all`.
pub struct Condition(AtomicU32);

impl Default for Condition {
    fn default() -> Self {
        Self::new()
    }
}

impl Condition {
    pub const fn new() -> Self {
        Condition(AtomicU32::new(0))
    }

    /// With `lock` held before and after.
    pub fn wait_until(&self, lock: &Lock, moment: Moment) {
        let seen = self.0.load(SeqCst);
        lock.unlock();
        let manner = Manner { then: (&raw const lock.0).addr(), ..Manner::PLAIN };
        // SAFETY: borrowed for the call.
        let _ = unsafe { raw::futex_wait(&self.0, seen, moment, manner) };
        // Others may have been moved to the lock beside us: whoever unlocks has to wake.
        assert!(lock.lock_contended(Moment::Never));
    }

    /// With or without the lock.
    pub fn notify_one(&self) {
        self.0.fetch_add(1, SeqCst);
        futex_wake(&self.0, 1, ANY);
    }

    /// As [`Self::notify_all`], with or without the lock.
    pub fn broadcast(&self) {
        self.0.fetch_add(1, SeqCst);
        let _ = futex_broadcast(&self.0);
    }

    /// With `lock` held: one is woken, the others wait for the lock from now on.
    pub fn notify_all(&self, lock: &Lock) {
        let now = self.0.fetch_add(1, SeqCst).wrapping_add(1);
        lock.0.store(CONTENDED, SeqCst);
        // SAFETY: borrowed for the call.
        let done = unsafe { futex_requeue(&self.0, Some(now), &lock.0, 1, u32::MAX) };
        if done.is_none() {
            // Somebody else has notified meanwhile; those who wait for the old count see it.
            futex_wake(&self.0, u32::MAX, ANY);
        }
    }
}
