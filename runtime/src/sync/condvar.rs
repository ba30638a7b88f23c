//! `Condvar`: std's API on a wait queue.
//!
//! Protocol:
//! 1. A waiter enqueues itself while it holds the mutex, unlocks the mutex, and parks: a notifier
//!    that locks the mutex afterwards finds it.
//! 2. So a notifier that sees an empty queue without locking it has nobody to wake, and a notify
//!    without waiters is one load.
//!
//! `notify_all` wakes everybody at once rather than moving the waiters to the mutex's queue: on
//! one worker the woken run one after another anyway and find the mutex free.

use core::fmt;
use std::time::Duration;

use super::mutex::MutexGuard;
use super::raw_mutex::RawMutex;
use super::{LockResult, PoisonError};
use crate::control::Outcome;
use crate::sched;
use crate::sys::clock;
use crate::wait::WaitQueue;

/// A condition variable without its guard. All zero bytes are one without waiters.
#[repr(transparent)]
#[derive(Default)]
pub struct RawCondvar(WaitQueue);

impl RawCondvar {
    /// One without waiters.
    pub const fn new() -> Self {
        RawCondvar(WaitQueue::new())
    }

    /// Unlocks `mutex`, waits for a notification until `deadline` (ns, 0 = never) at most, and
    /// locks `mutex` again, whatever the outcome.
    ///
    /// # Safety
    /// 1. The calling thread holds `mutex`.
    pub(crate) unsafe fn wait(&self, mutex: &RawMutex, deadline: u64) -> Outcome {
        let me = sched::current();
        let queue = self.0.lock();
        queue.enqueue(me);
        // SAFETY: by 1. Unlocking wakes others but never switches.
        let outcome = queue.wait_after(me, deadline, || unsafe { mutex.unlock() });
        mutex.lock();
        outcome
    }

    /// Wakes the first waiter.
    #[inline]
    pub fn notify_one(&self) {
        if !self.0.seems_empty() {
            self.0.wake_one();
        }
    }

    /// Wakes all waiters.
    #[inline]
    pub fn notify_all(&self) {
        if !self.0.seems_empty() {
            self.0.wake_all();
        }
    }
}

/// A condition variable; std's `Condvar`. A wait ends by a notification or its timeout only,
/// never spuriously.
///
/// Unlike std's it may be used with several mutexes at once.
///
/// ```
/// use heddle::sync::{Condvar, Mutex};
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// heddle::thread::scope(|scope| {
///     scope.spawn(|| {
///         *ready.lock().unwrap() = true;
///         changed.notify_one();
///     });
///     let guard = changed.wait_while(ready.lock().unwrap(), |ready| !*ready).unwrap();
///     assert!(*guard);
/// });
/// ```
#[derive(Default)]
pub struct Condvar(RawCondvar);

/// Whether a timed wait ended by its timeout; std's `WaitTimeoutResult`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the timeout passed before a notification came.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Condvar(RawCondvar::new())
    }

    /// Unlocks the mutex, waits for a notification, and locks again.
    ///
    /// # Errors
    /// When the mutex is poisoned by then; the error carries the guard.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let _ = self.wait_until(&guard, 0);
        checked(guard)
    }

    /// Waits while `condition` is true.
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// As [`Condvar::wait`], at most for `timeout`.
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let outcome = self.wait_until(&guard, clock::deadline_after(timeout));
        with_result(checked(guard), outcome == Outcome::TimedOut)
    }

    /// As [`Condvar::wait_while`], at most for `timeout`; timed out only if `condition` is still
    /// true then.
    ///
    /// # Errors
    /// As [`Condvar::wait`].
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let deadline = clock::deadline_after(timeout);
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if clock::now_ns() >= deadline {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            let _ = self.wait_until(&guard, deadline);
            if guard.mutex.is_poisoned() {
                return with_result(checked(guard), false);
            }
        }
    }

    /// Wakes one waiter, the first.
    #[inline]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    #[inline]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    fn wait_until<T: ?Sized>(&self, guard: &MutexGuard<'_, T>, deadline: u64) -> Outcome {
        // SAFETY: the guard holds the mutex, and is the calling thread's (guards are not Send).
        unsafe { self.0.wait(&guard.mutex.raw, deadline) }
    }
}

/// The guard, as an error when the mutex was poisoned meanwhile.
fn checked<T: ?Sized>(guard: MutexGuard<'_, T>) -> LockResult<MutexGuard<'_, T>> {
    if guard.mutex.is_poisoned() { Err(PoisonError::new(guard)) } else { Ok(guard) }
}

fn with_result<'a, T: ?Sized>(
    guard: LockResult<MutexGuard<'a, T>>,
    timed_out: bool,
) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
    let result = WaitTimeoutResult(timed_out);
    match guard {
        Ok(guard) => Ok((guard, result)),
        Err(poison) => Err(PoisonError::new((poison.into_inner(), result))),
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
