//! A job's two ends, which part from it in either order: the pool's thread, and its caller.
//!
//! Protocol: the pool's thread says that the result is there ([`Parting::done`]), the caller that
//! it has left ([`Parting::leave`]); whoever is second frees the job.
//!
//! Invariant: who was first does not touch the job again, but for the caller that waited until it
//! is done: it takes the result before it leaves.

use core::ptr;
use core::sync::atomic;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::model::AtomicU32;

/// Neither has parted from it.
pub const RUNNING: u32 = 0;
const DONE: u32 = 1;
const LEFT: u32 = 2;

/// See the file's head.
pub struct Parting(AtomicU32);

impl Parting {
    pub const fn new() -> Self {
        Parting(AtomicU32::new(RUNNING))
    }

    /// Whether the result is there; for the caller.
    pub fn is_done(&self) -> bool {
        // ORDER: Acquire pairs with AcqRel in `done`.
        self.0.load(Acquire) == DONE
    }

    /// Where the caller waits for it, while it is [`RUNNING`].
    pub fn word(&self) -> *const atomic::AtomicU32 {
        ptr::from_ref(&self.0).cast()
    }

    /// The result is there. True: the caller has left, and the job is the pool's to free.
    #[must_use]
    pub fn done(&self) -> bool {
        // ORDER: AcqRel publishes the result; who is second sees all of the first.
        self.0.swap(DONE, AcqRel) == LEFT
    }

    /// The caller leaves. True: the job is done, and the caller's to free.
    #[must_use]
    pub fn leave(&self) -> bool {
        // ORDER: AcqRel pairs with that in `done`.
        self.0.swap(LEFT, AcqRel) == DONE
    }
}
