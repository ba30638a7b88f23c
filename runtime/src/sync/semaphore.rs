//! A counting semaphore.
//!
//! Protocol:
//! 1. The count changes only under the queue's lock, which costs one locked instruction, as an
//!    atomic count would; the count is not zero only while the queue is empty.
//! 2. A release hands its permit to the first waiter directly; the permit never shows in the
//!    count, so no third thread can steal it.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use std::io;
use std::time::Duration;

use crate::control::Outcome;
use crate::sched;
use crate::wait::{self, Locked, WaitQueue};

/// A counting semaphore, at most 2^31 - 1 permits.
///
/// ```
/// let permits = heddle::sync::Semaphore::new(1);
/// permits.acquire();
/// assert!(!permits.try_acquire());
/// permits.release();
/// assert!(permits.try_acquire());
/// ```
pub struct Semaphore {
    queue: WaitQueue,
    /// Free permits; written under the queue's lock.
    count: AtomicU32,
}

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish_non_exhaustive()
    }
}

impl Semaphore {
    /// The most permits that a semaphore can hold.
    pub const PERMITS_MAX: u32 = i32::MAX as u32;

    /// A semaphore with `permits` permits.
    ///
    /// # Panics
    /// With more than [`Semaphore::PERMITS_MAX`].
    pub const fn new(permits: u32) -> Self {
        assert!(permits <= Self::PERMITS_MAX);
        Semaphore { queue: WaitQueue::new(), count: AtomicU32::new(permits) }
    }

    /// Permits that are free now.
    pub fn available(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Takes a permit if one is free.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.available() != 0 && self.take(&self.queue.lock())
    }

    /// Takes a permit, waiting for one.
    #[inline]
    pub fn acquire(&self) {
        let outcome = self.acquire_until(0);
        debug_assert_eq!(outcome, Outcome::Woken);
    }

    /// Takes a permit, waiting at most `timeout`; false when it has passed.
    pub fn acquire_timeout(&self, timeout: Duration) -> bool {
        self.try_acquire()
            || self.acquire_until(crate::sys::clock::deadline_after(timeout)) == Outcome::Woken
    }

    /// Takes a permit, waiting until `deadline` (ns, 0 = never) at most.
    #[inline]
    pub(crate) fn acquire_until(&self, deadline: u64) -> Outcome {
        let queue = self.queue.lock();
        if self.take(&queue) {
            return Outcome::Woken;
        }
        let me = sched::current();
        queue.enqueue(me);
        queue.wait(me, deadline)
    }

    #[inline]
    fn take(&self, _queue: &Locked<'_>) -> bool {
        let count = self.count.load(Relaxed);
        if count != 0 {
            self.count.store(count - 1, Relaxed);
        }
        count != 0
    }

    /// Gives a permit, to the first waiter if there is one.
    ///
    /// # Errors
    /// When [`Semaphore::PERMITS_MAX`] permits are free already.
    #[inline]
    pub fn try_release(&self) -> io::Result<()> {
        let queue = self.queue.lock();
        if let Some(thread) = queue.pop() {
            drop(queue);
            wait::wake(thread, Outcome::Woken);
            return Ok(());
        }
        let count = self.count.load(Relaxed);
        if count == Self::PERMITS_MAX {
            drop(queue);
            let most = u64::from(Self::PERMITS_MAX);
            return Err(crate::error::exhausted("semaphore permits", most));
        }
        self.count.store(count + 1, Relaxed);
        Ok(())
    }

    /// Gives a permit, to the first waiter if there is one.
    ///
    /// # Panics
    /// When [`Semaphore::PERMITS_MAX`] permits are free already.
    #[inline]
    pub fn release(&self) {
        if let Err(error) = self.try_release() {
            panic!("{error}");
        }
    }
}
