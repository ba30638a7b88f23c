//! Scoped threads: std's `scope`, on user-level threads.
//!
//! Invariant: `scope` does not return, nor unwind, before every thread of it has ended; so they
//! may borrow from the caller's stack. While a scope is open its thread does not hibernate: its
//! children's borrows point into its stack.

use core::marker::PhantomData;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Builder, JoinHandle, Result, Thread};
use crate::sched;

/// A scope in which threads can be spawned that borrow; std's `Scope`.
pub struct Scope<'scope, 'env: 'scope> {
    data: Arc<Data>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

#[derive(Debug)]
struct Data {
    running: AtomicUsize,
    panicked: AtomicBool,
    owner: Thread,
}

/// Handle of a scoped thread; std's `ScopedJoinHandle`.
#[derive(Debug)]
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<()>,
    outcome: Arc<Outcome<T>>,
    scope: PhantomData<&'scope ()>,
}

/// Where a scoped thread leaves its result.
///
/// It is dropped before the thread counts itself out of the scope, or by the handle, which can't
/// outlive the scope: a result that borrows is never dropped after what it borrows.
#[derive(Debug)]
struct Outcome<T> {
    result: Mutex<Option<Result<T>>>,
    data: Arc<Data>,
}

impl<T> Drop for Outcome<T> {
    fn drop(&mut self) {
        let result = self.result.get_mut().unwrap_or_else(PoisonError::into_inner);
        if matches!(result, Some(Err(_))) {
            self.data.panicked.store(true, Relaxed);
        }
    }
}

/// Keeps the calling thread's stack in place.
pub(crate) struct Pinned;

impl Pinned {
    /// Until the guard is dropped, on the same thread.
    pub fn new() -> Self {
        let me = sched::current();
        me.pinned.set(me.pinned.get().saturating_add(1));
        Pinned
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let me = sched::current();
        // At the limit the count is not known any more: pinned for good.
        if me.pinned.get() != u8::MAX {
            me.pinned.set(me.pinned.get() - 1);
        }
    }
}

/// Calls `f` with a scope; returns when `f` and all threads spawned in it have ended.
///
/// # Panics
/// When a thread that was not joined has panicked, as std's.
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let pinned = Pinned::new();
    let scope = Scope {
        data: Arc::new(Data {
            running: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            owner: super::current(),
        }),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    // ORDER: Acquire pairs with the AcqRel in `Leave`: what the threads did is seen.
    while scope.data.running.load(Acquire) != 0 {
        super::park_until(0, false);
    }
    drop(pinned);
    match result {
        Err(payload) => resume_unwind(payload),
        Ok(_) if scope.data.panicked.load(Relaxed) => panic!("a scoped thread panicked"),
        Ok(value) => value,
    }
}

/// Counts a scoped thread out, whatever way it ends.
struct Leave(Arc<Data>);

impl Drop for Leave {
    fn drop(&mut self) {
        // ORDER: Release publishes what the thread did; pairs with the Acquire in `scope`.
        if self.0.running.fetch_sub(1, AcqRel) == 1 {
            self.0.owner.unpark();
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a thread that may borrow from outside the scope.
    ///
    /// # Panics
    /// When the thread can't be made; [`Scope::spawn_with`] returns the error instead.
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        match self.spawn_with(Builder::new(), f) {
            Ok(handle) => handle,
            Err(error) => panic!("failed to spawn a scoped thread: {error}"),
        }
    }

    /// As [`Scope::spawn`] with a builder.
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    pub fn spawn_with<F, T>(
        &'scope self,
        builder: Builder,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.data.running.fetch_add(1, Relaxed);
        let leave = Leave(self.data.clone());
        let outcome = Arc::new(Outcome { result: Mutex::new(None), data: self.data.clone() });
        let theirs = outcome.clone();
        let body = move || {
            // Last to go: declared first.
            let _leave = leave;
            let result = catch_unwind(AssertUnwindSafe(f));
            *theirs.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            drop(theirs);
        };
        // SAFETY: `scope` waits until `_leave` is dropped, which is after `f`, its captures and
        // this side of its result.
        let handle = unsafe { builder.spawn_unchecked(body)? };
        Ok(ScopedJoinHandle { handle, outcome, scope: PhantomData })
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the thread's end; its result, or what it panicked with.
    pub fn join(self) -> Result<T> {
        self.handle.join()?;
        let mut result = self.outcome.result.lock().unwrap_or_else(PoisonError::into_inner);
        result.take().unwrap_or_else(|| Err(Box::new("a scoped thread left no result")))
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        self.handle.thread()
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}
