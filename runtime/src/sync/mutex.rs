//! `Mutex<T>`: std's API over [`RawMutex`], poisoning included.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::raw_mutex::RawMutex;
use super::{LockResult, PoisonError, TryLockError, TryLockResult};
use crate::control::Outcome;

/// Mutual exclusion; std's `Mutex`, with priority inheritance.
///
/// A thread that waits is parked (user-level threads) or sleeps (kernel threads). A time-critical
/// waiter lends its priority to the owner, transitively.
///
/// Poisoning asks std whether the kernel thread panics. So while a thread is blocked inside a
/// destructor that runs because of its panic, guards that other threads of its worker drop may
/// poison their mutexes too.
///
/// ```
/// let counter = heddle::sync::Mutex::new(0);
/// *counter.lock().unwrap() += 1;
/// assert_eq!(counter.into_inner().unwrap(), 1);
/// ```
pub struct Mutex<T: ?Sized> {
    pub(crate) raw: RawMutex,
    poisoned: AtomicBool,
    data: UnsafeCell<T>,
}

// SAFETY: the lock gives one thread at a time access to the data.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// Holds a [`Mutex`]; unlocks when it goes.
#[must_use = "if unused the mutex is unlocked at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(crate) mutex: &'a Mutex<T>,
    panicking: bool,
    /// Unlocking is for the thread that locked.
    not_send: PhantomData<*const ()>,
}

// SAFETY: `&MutexGuard` gives `&T`.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex around `value`.
    pub const fn new(value: T) -> Self {
        Mutex {
            raw: RawMutex::new(),
            poisoned: AtomicBool::new(false),
            data: UnsafeCell::new(value),
        }
    }

    /// The value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.is_poisoned();
        let value = self.data.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks, waiting for it; an error carries the guard when a holder has panicked.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.raw.lock();
        self.guard()
    }

    /// Locks if nobody holds it.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if self.raw.try_lock() { Ok(self.guard()?) } else { Err(TryLockError::WouldBlock) }
    }

    /// Locks, waiting at most `timeout`; `WouldBlock` when it has passed.
    pub fn lock_timeout(&self, timeout: Duration) -> TryLockResult<MutexGuard<'_, T>> {
        match self.raw.lock_until(crate::sys::clock::deadline_after(timeout)) {
            Outcome::Woken => Ok(self.guard()?),
            _ => Err(TryLockError::WouldBlock),
        }
    }

    /// A guard of the lock that the caller has just taken.
    #[inline]
    pub(crate) fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        let panicking = std::thread::panicking();
        let guard = MutexGuard { mutex: self, panicking, not_send: PhantomData };
        if self.poisoned.load(Relaxed) { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    /// Whether a holder has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Relaxed)
    }

    /// Forgets that a holder has panicked.
    pub fn clear_poison(&self) {
        self.poisoned.store(false, Relaxed);
    }

    /// The value; no locking is needed.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        let value = self.data.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and it is borrowed mutably.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if !self.panicking && std::thread::panicking() {
            self.mutex.poisoned.store(true, Relaxed);
        }
        // SAFETY: the guard's thread holds the lock (guards are not Send).
        unsafe { self.mutex.raw.unlock() };
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => out.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => out.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => out.field("data", &format_args!("<locked>")),
        };
        out.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
