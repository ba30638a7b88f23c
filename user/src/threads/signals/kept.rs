//! Words that one thread at a time writes, and any number read together without a lock: a fault may
//! come anywhere.
//!
//! Invariant: who reads gets what one [`Words::set`] has written. The version is odd while that is
//! under way; who finds it odd, or changed, reads again. `tests/loom.rs` tries every order.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::model::{AtomicU32, AtomicU64, fence, spin};

/// What of an action the program has set: its handler, its flags, its mask.
pub type Action = (u64, u32, u64);

/// See the file's head.
pub struct Words {
    version: AtomicU32,
    handler: AtomicU64,
    flags: AtomicU32,
    mask: AtomicU64,
}

impl Words {
    /// All zero.
    pub const fn new() -> Self {
        let (handler, mask) = (AtomicU64::new(0), AtomicU64::new(0));
        Words { version: AtomicU32::new(0), handler, flags: AtomicU32::new(0), mask }
    }

    pub fn get(&self) -> Action {
        loop {
            // ORDER: Acquire pairs with the Release at the end of `set`; the fence, with the one
            // at its beginning.
            let version = self.version.load(Acquire);
            let action =
                (self.handler.load(Relaxed), self.flags.load(Relaxed), self.mask.load(Relaxed));
            fence(Acquire);
            if version.is_multiple_of(2) && self.version.load(Relaxed) == version {
                return action;
            }
            spin();
        }
    }

    /// In a forked child, where whoever was in [`Words::set`] is not: what that had written by
    /// then stays.
    pub fn mend(&self) {
        let version = self.version.load(Relaxed);
        self.version.store(version.next_multiple_of(2), Relaxed);
    }

    /// One thread at a time.
    pub fn set(&self, (handler, flags, mask): Action) {
        let version = self.version.load(Relaxed);
        self.version.store(version + 1, Relaxed);
        // ORDER: who sees something of the new action sees the odd version; see `get`.
        fence(Release);
        self.handler.store(handler, Relaxed);
        self.flags.store(flags, Relaxed);
        self.mask.store(mask, Relaxed);
        // ORDER: Release: who sees the even version sees the whole action.
        self.version.store(version + 2, Release);
    }
}
