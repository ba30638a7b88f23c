//! Whether a helper is called: what the steward sleeps on.
//!
//! Protocol: who wants something stores it, then calls ([`Called::call`]); the helper waits, takes
//! the call back ([`Called::take`]), then looks at all that may be wanted.
//!
//! Invariant: a call that comes while the helper looks makes it look again, and what was wanted
//! before a call that was taken is seen.

use core::sync::atomic::Ordering::{AcqRel, SeqCst};
use core::time::Duration;

use crate::model::{self, AtomicU32};

/// See the file's head. 1 = called.
pub(crate) struct Called(AtomicU32);

impl Called {
    /// Not called.
    pub const fn new() -> Self {
        Called(AtomicU32::new(0))
    }

    /// There is something to do; from anywhere.
    pub fn call(&self) {
        // ORDER: Release publishes what is wanted; pairs with the Acquire in `take`.
        if self.0.swap(1, AcqRel) == 0 {
            model::futex_wake(&self.0, 1);
        }
    }

    /// Sleeps until somebody calls, at most for `timeout`; may return early.
    pub fn wait(&self, timeout: Option<Duration>) {
        if self.0.load(SeqCst) == 0 {
            model::futex_wait(&self.0, 0, timeout);
        }
    }

    /// Takes the call back; false: there was none. What is wanted is looked at afterwards.
    #[must_use]
    pub fn take(&self) -> bool {
        // ORDER: Acquire pairs with the Release in `call`.
        self.0.swap(0, AcqRel) != 0
    }
}
