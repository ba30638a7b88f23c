//! Whether a worker has a kernel thread. Those of spare workers come and go: a worker without one
//! is an empty seat, which keeps its number, its queues and its account for the next.
//!
//! Protocol (Dekker, on top of that of `sleep.rs`):
//! 1. The kernel thread announces its sleep and looks a last time at everything that others may
//!    have given it. If there is nothing it may [`Seat::leave`] instead of sleeping.
//! 2. To a giver a seat that is not taken is a worker that sleeps. Who has claimed the sleep looks
//!    whether it is taken ([`Seat::was_left`]) before he signals; if not he gives what he gave to a
//!    worker that always has its kernel thread, as the steward may be waiting, and calls the
//!    steward.
//! 3. Each side stores, fences, and loads what the other has stored. So a kernel thread that is
//!    leaving finds its sleep claimed, and stays and looks again, or who claims it from then on
//!    calls the steward.
//! 4. The seat is empty only when it is sure that its kernel thread does not stay: others do not
//!    look at empty seats, so a worker that goes on must never be in one. The steward finds nothing
//!    to do at a seat that is being left; so who has left looks again whether it was claimed
//!    meanwhile, and calls him then.
//!
//! Invariants:
//! 1. What belongs to the worker's kernel thread is touched by who has taken the seat.
//! 2. A seat whose sleep is claimed is taken, or the steward is called.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::model::{AtomicU32, fence};
use crate::sleep::Sleep;

const TAKEN: u32 = 0;
const EMPTY: u32 = 1;
/// The kernel thread is about to leave, and may stay.
const LEAVING: u32 = 2;

/// See the file's head.
pub(crate) struct Seat(AtomicU32);

impl Seat {
    /// Taken.
    pub const fn new() -> Self {
        Seat(AtomicU32::new(TAKEN))
    }

    /// Whether nobody has it; a hint, but for the steward.
    pub fn is_empty(&self) -> bool {
        self.0.load(Relaxed) == EMPTY
    }

    /// Gives the seat up; the caller has announced its sleep. False: somebody has claimed it
    /// meanwhile, and the caller still has the seat. He looks again at what he was given, and does
    /// not sleep: there may be no signal. `call` calls the steward.
    #[must_use]
    pub fn leave(&self, sleeping: &Sleep, call: impl FnOnce()) -> bool {
        self.0.store(LEAVING, SeqCst);
        // ORDER: pairs with the fence in `was_left`.
        fence(SeqCst);
        if !sleeping.is_asleep() {
            self.0.store(TAKEN, Relaxed);
            return false;
        }
        // ORDER: Release publishes what the caller did here to the next one's Acquire in `take`.
        self.0.store(EMPTY, Release);
        // ORDER: as above: who was called before the seat was empty is called again.
        fence(SeqCst);
        if !sleeping.is_asleep() {
            call();
        }
        true
    }

    /// Takes an empty seat; false if it is not.
    #[must_use]
    pub fn take(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `leave`.
        self.0.compare_exchange(EMPTY, TAKEN, Acquire, Relaxed).is_ok()
    }

    /// Asked by who has claimed the sleep. True: nobody sleeps there, he calls the steward.
    #[must_use]
    pub fn was_left(&self) -> bool {
        // ORDER: the claim before this look; pairs with the fence in `leave`.
        fence(SeqCst);
        self.0.load(Relaxed) != TAKEN
    }
}
