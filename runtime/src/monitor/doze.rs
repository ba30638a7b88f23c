//! The monitor's sleep while all workers sleep.
//!
//! Protocol (Dekker):
//! 1. The monitor announces its sleep, then looks whether a worker is awake ([`Doze::begin`]), and
//!    sleeps if none is.
//! 2. A worker that leaves its sleep says so to the others, then ends the monitor's
//!    ([`Doze::end`]), or, if it finds that begun, has its alarm end it (`bed.rs`).
//!
//! Each side stores, fences, and loads what the other has stored. Invariant: while a worker is
//! awake, and so may block with threads that others should run, the monitor looks, or was woken, or
//! will be by the worker's alarm.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use crate::model::{self, AtomicU32, fence};

/// See the file's head. 1 while the monitor sleeps or is about to.
pub(crate) struct Doze(AtomicU32);

impl Doze {
    /// Awake.
    pub const fn new() -> Self {
        Doze(AtomicU32::new(0))
    }

    /// The monitor is about to sleep; false: `is_any_awake` has found a worker, and it does not.
    #[must_use]
    pub fn begin(&self, is_any_awake: impl FnOnce() -> bool) -> bool {
        self.0.store(1, SeqCst);
        // ORDER: a worker that woke before it could see the store is seen here; pairs with the
        // fence in `end`.
        fence(SeqCst);
        let is_any_awake = is_any_awake();
        if is_any_awake {
            self.0.store(0, SeqCst);
        }
        !is_any_awake
    }

    /// Sleeps, having begun to, until a worker ends it, or its alarm does.
    pub fn wait(&self) {
        while self.0.load(SeqCst) != 0 {
            if model::doze_wait(&self.0, None) {
                self.0.store(0, SeqCst);
            }
        }
    }

    /// As [`Doze::wait`], but no longer than `most`; true if it was ended.
    pub fn wait_for(&self, most: Duration) -> bool {
        let is_woken = model::doze_wait(&self.0, Some(most));
        self.0.swap(0, SeqCst) == 0 || is_woken
    }

    /// Whether the monitor sleeps or is about to; asked by a worker that has left its sleep.
    #[inline]
    pub fn is_begun(&self) -> bool {
        // ORDER: as in `end`.
        fence(SeqCst);
        self.0.load(Relaxed) != 0
    }

    /// A worker has left its sleep.
    #[inline]
    pub fn end(&self) {
        // ORDER: the worker is awake before this look; pairs with the fence in `begin`.
        fence(SeqCst);
        if self.0.load(Relaxed) != 0 && self.0.swap(0, SeqCst) != 0 {
            model::doze_wake(&self.0);
        }
    }
}
