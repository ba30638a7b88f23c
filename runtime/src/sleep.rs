//! Whether a worker sleeps, and who wakes it.
//!
//! Protocol (Dekker):
//! 1. The worker [`Sleep::announce`]s, then looks a last time at everything that others may have
//!    given it, and sleeps if there is nothing.
//! 2. A waker gives something, then [`Sleep::claim`]s: true for at most one waker per
//!    announcement, who has to signal the worker. What may wait until a nap is over (`nap.rs`) is
//!    followed by [`Sleep::claim_patiently`]: a worker that naps needs no signal for it.
//!
//! Each side stores, fences, and loads what the other has stored; so one of the two sees the
//! other, and no wake is lost. A signal may come for a worker that has found the gift by itself:
//! its next sleep is short.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::model::{AtomicU32, fence};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
/// Asleep, but not for long.
const NAPPING: u32 = 2;

/// See the file's head. Not `AWAKE` while the worker sleeps or is about to.
pub(crate) struct Sleep(AtomicU32);

impl Sleep {
    /// Awake.
    pub const fn new() -> Self {
        Sleep(AtomicU32::new(AWAKE))
    }

    /// Whether it sleeps or is about to; a hint.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        self.0.load(SeqCst) != AWAKE
    }

    /// Whether it naps or is about to; a hint.
    pub fn is_napping(&self) -> bool {
        self.0.load(Relaxed) == NAPPING
    }

    /// The worker is about to sleep, or to nap.
    pub fn announce(&self, naps: bool) {
        self.0.store(if naps { NAPPING } else { ASLEEP }, SeqCst);
        // ORDER: pairs with the fences in `claim` and `claim_patiently`.
        fence(SeqCst);
    }

    /// The worker is awake.
    pub fn end(&self) {
        self.0.store(AWAKE, Relaxed);
    }

    /// Called after giving the worker something; true: the caller has to signal it.
    #[inline]
    pub fn claim(&self) -> bool {
        // ORDER: pairs with the fence in `announce`.
        fence(SeqCst);
        self.0.load(Relaxed) != AWAKE && self.0.swap(AWAKE, Relaxed) != AWAKE
    }

    /// As [`Sleep::claim`], but false for a worker that naps.
    #[inline]
    pub fn claim_patiently(&self) -> bool {
        // ORDER: as in `claim`. Who sees an old nap gave before the worker's last look.
        fence(SeqCst);
        self.0.load(Relaxed) == ASLEEP
            && self.0.compare_exchange(ASLEEP, AWAKE, Relaxed, Relaxed).is_ok()
    }
}
