//! `Once`: std's API on a wait queue.
//!
//! States: `INCOMPLETE -> RUNNING -> COMPLETE`, or `POISONED` when the closure panicked.
//!
//! Protocol:
//! 1. `COMPLETE` is final, so seeing it (Acquire) needs no lock.
//! 2. All transitions are made under the queue's lock; whoever leaves `RUNNING` wakes all
//!    waiters, who look again.

use core::fmt;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sched;
use crate::wait::WaitQueue;

const INCOMPLETE: u8 = 0;
const POISONED: u8 = 1;
const RUNNING: u8 = 2;
const COMPLETE: u8 = 3;

/// Runs a closure once; std's `Once`.
///
/// ```
/// static ONCE: heddle::sync::Once = heddle::sync::Once::new();
/// ONCE.call_once(|| println!("once"));
/// assert!(ONCE.is_completed());
/// ```
pub struct Once {
    queue: WaitQueue,
    state: AtomicU8,
}

/// What the closure of [`Once::call_once_force`] is told; std's `OnceState`.
pub struct OnceState {
    poisoned: bool,
}

impl OnceState {
    /// Whether an earlier closure panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

impl fmt::Debug for OnceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceState").field("poisoned", &self.poisoned).finish()
    }
}

/// Ends `RUNNING`: with poison, unless the closure has returned.
struct Running<'a> {
    once: &'a Once,
    after: u8,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let queue = self.once.queue.lock();
        // ORDER: Release publishes what the closure did.
        self.once.state.store(self.after, Release);
        let waiters = queue.take_all();
        drop(queue);
        waiters.wake();
    }
}

impl Once {
    /// One whose closure has not run.
    pub const fn new() -> Self {
        Once { queue: WaitQueue::new(), state: AtomicU8::new(INCOMPLETE) }
    }

    /// Whether a closure has run to its end; what it did is seen then.
    #[inline]
    pub fn is_completed(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `Running::drop`.
        self.state.load(Acquire) == COMPLETE
    }

    /// Runs `f` if no closure has run yet; waits for one that is running. Must not be called
    /// from within its own closure: that would wait for itself.
    ///
    /// # Panics
    /// When an earlier closure panicked.
    #[inline]
    pub fn call_once(&self, f: impl FnOnce()) {
        if !self.is_completed() {
            self.call(false, |_| f());
        }
    }

    /// As [`Once::call_once`], but runs `f` also when an earlier closure panicked.
    #[inline]
    pub fn call_once_force(&self, f: impl FnOnce(&OnceState)) {
        if !self.is_completed() {
            self.call(true, f);
        }
    }

    /// Waits until a closure has run.
    ///
    /// # Panics
    /// When one panicked.
    pub fn wait(&self) {
        self.wait_while_incomplete(false);
    }

    /// As [`Once::wait`], but goes on waiting when one panicked: another may follow.
    pub fn wait_force(&self) {
        self.wait_while_incomplete(true);
    }

    fn wait_while_incomplete(&self, force: bool) {
        while !self.is_completed() {
            let queue = self.queue.lock();
            match self.state.load(Relaxed) {
                COMPLETE => {}
                POISONED if !force => {
                    drop(queue);
                    poisoned();
                }
                _ => {
                    let me = sched::current();
                    queue.enqueue(me);
                    let _ = queue.wait(me, 0);
                }
            }
        }
    }

    #[cold]
    fn call(&self, force: bool, f: impl FnOnce(&OnceState)) {
        loop {
            let queue = self.queue.lock();
            let state = self.state.load(Relaxed);
            match state {
                COMPLETE => return,
                RUNNING => {
                    let me = sched::current();
                    queue.enqueue(me);
                    let _ = queue.wait(me, 0);
                }
                POISONED if !force => {
                    drop(queue);
                    poisoned();
                }
                _ => {
                    self.state.store(RUNNING, Relaxed);
                    drop(queue);
                    let mut running = Running { once: self, after: POISONED };
                    f(&OnceState { poisoned: state == POISONED });
                    running.after = COMPLETE;
                    return;
                }
            }
        }
    }
}

#[cold]
fn poisoned() -> ! {
    panic!("Once: an earlier closure panicked")
}

impl Default for Once {
    fn default() -> Self {
        Once::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish_non_exhaustive()
    }
}
