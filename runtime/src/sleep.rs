//! Whether a worker sleeps, and who wakes it.
//!
//! Protocol (Dekker):
//! 1. The worker [`Sleep::announce`]s, then looks a last time at everything that others may have
//!    given it, and sleeps if there is nothing.
//! 2. A waker gives something, then [`Sleep::claim`]s: true for at most one waker per
//!    announcement, who has to signal the worker.
//!
//! Each side stores, fences, and loads what the other has stored; so one of the two sees the
//! other, and no wake is lost. A signal may come for a worker that has found the gift by itself:
//! its next sleep is short.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::model::{AtomicU32, fence};

/// See the file's head. 1 while the worker sleeps or is about to.
pub(crate) struct Sleep(AtomicU32);

impl Sleep {
    /// Awake.
    pub const fn new() -> Self {
        Sleep(AtomicU32::new(0))
    }

    /// Whether it sleeps or is about to; a hint.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        self.0.load(SeqCst) != 0
    }

    /// The worker is about to sleep.
    pub fn announce(&self) {
        self.0.store(1, SeqCst);
        // ORDER: pairs with the fence in `claim`.
        fence(SeqCst);
    }

    /// The worker is awake.
    pub fn end(&self) {
        self.0.store(0, Relaxed);
    }

    /// Called after giving the worker something; true: the caller has to signal it.
    #[inline]
    pub fn claim(&self) -> bool {
        // ORDER: pairs with the fence in `announce`.
        fence(SeqCst);
        self.0.load(Relaxed) != 0 && self.0.swap(0, Relaxed) != 0
    }
}
