//! `RwLock<T>`: std's API over [`RawRwLock`], poisoning included.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::raw_rwlock::RawRwLock;
use super::{LockResult, PoisonError, TryLockError, TryLockResult};
use crate::control::Outcome;
use crate::sys::clock::deadline_after;

/// Many readers or one writer; std's `RwLock`.
///
/// A waiting writer keeps new readers out; waiting readers go before the writers that come after
/// them. A thread must not take a share while it holds one: a writer may wait in between.
///
/// ```
/// let lock = heddle::sync::RwLock::new(5);
/// assert_eq!(*lock.read().unwrap() + *lock.read().unwrap(), 10);
/// *lock.write().unwrap() += 1;
/// assert_eq!(lock.into_inner().unwrap(), 6);
/// ```
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    poisoned: AtomicBool,
    data: UnsafeCell<T>,
}

// SAFETY: the lock gives one writer at a time access to the data.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: as above; readers share it.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

/// A share of a [`RwLock`]; given back when it goes.
#[must_use = "if unused the lock is unlocked at once"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    not_send: PhantomData<*const ()>,
}

/// Holds a [`RwLock`] alone; unlocks when it goes.
#[must_use = "if unused the lock is unlocked at once"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    panicking: bool,
    not_send: PhantomData<*const ()>,
}

// SAFETY: `&RwLockReadGuard` gives `&T`.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: `&RwLockWriteGuard` gives `&T`.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<T> RwLock<T> {
    /// An unlocked lock around `value`.
    pub const fn new(value: T) -> Self {
        let (raw, poisoned) = (RawRwLock::new(), AtomicBool::new(false));
        RwLock { raw, poisoned, data: UnsafeCell::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// When a writer has panicked; the error carries the value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.is_poisoned();
        let value = self.data.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Takes a share, waiting for it.
    ///
    /// # Errors
    /// When a writer has panicked; the error carries the guard. So with all methods below.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.raw.read();
        self.read_guard()
    }

    /// Takes a share if no writer holds or awaits the lock.
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if self.raw.try_read() { Ok(self.read_guard()?) } else { Err(TryLockError::WouldBlock) }
    }

    /// Takes a share, waiting at most `timeout`; `WouldBlock` when it has passed.
    pub fn read_timeout(&self, timeout: Duration) -> TryLockResult<RwLockReadGuard<'_, T>> {
        match self.raw.read_until(deadline_after(timeout)) {
            Outcome::Woken => Ok(self.read_guard()?),
            _ => Err(TryLockError::WouldBlock),
        }
    }

    /// Takes the lock alone, waiting for it.
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.raw.write();
        self.write_guard()
    }

    /// Takes the lock alone if nobody holds it.
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if self.raw.try_write() { Ok(self.write_guard()?) } else { Err(TryLockError::WouldBlock) }
    }

    /// Takes the lock alone, waiting at most `timeout`; `WouldBlock` when it has passed.
    pub fn write_timeout(&self, timeout: Duration) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        match self.raw.write_until(deadline_after(timeout)) {
            Outcome::Woken => Ok(self.write_guard()?),
            _ => Err(TryLockError::WouldBlock),
        }
    }

    #[inline]
    fn read_guard(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let guard = RwLockReadGuard { lock: self, not_send: PhantomData };
        if self.is_poisoned() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    #[inline]
    fn write_guard(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let panicking = std::thread::panicking();
        let guard = RwLockWriteGuard { lock: self, panicking, not_send: PhantomData };
        if self.is_poisoned() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    /// Whether a writer has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Relaxed)
    }

    /// Forgets that a writer has panicked.
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

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Turns the guard into a share without letting another writer in between.
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        let guard = ManuallyDrop::new(guard);
        // SAFETY: the guard is the writer's, and is not dropped.
        unsafe { guard.lock.raw.downgrade() };
        RwLockReadGuard { lock: guard.lock, not_send: PhantomData }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard has a share, so nobody writes.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock alone.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock alone, and it is borrowed mutably.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard has a share.
        unsafe { self.lock.raw.unlock_read() };
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if !self.panicking && std::thread::panicking() {
            self.lock.poisoned.store(true, Relaxed);
        }
        // SAFETY: the guard is the writer's.
        unsafe { self.lock.raw.unlock_write() };
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        RwLock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => out.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => out.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => out.field("data", &format_args!("<locked>")),
        };
        out.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
