//! What a full thread knows of its signals that descriptors tell of (`calls/signalfd.rs`).
//!
//! Protocol:
//! 1. A sender adds the signal, counts it, and then looks whether the thread waits: then it calls
//!    the thread.
//! 2. The thread reads the count before it looks at what is pending. Before it waits it says that
//!    it does, and reads the count again: if another one has come since, it asks again.
//!
//! So either the thread sees the count, or the sender sees that it waits. `tests/loom.rs` tries every
//! order of these steps.
//!
//! Invariant: all but the count and the word that it waits is the thread's own.

use core::ffi::c_int;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::model::{AtomicBool, AtomicU32, fence};

/// See the file's head.
pub struct Told {
    sent: AtomicU32,
    waits: AtomicBool,
    /// The count at the last look.
    seen: AtomicU32,
    /// The set that has told of changes last, and the count then.
    set: AtomicI32,
    changes: AtomicU32,
}

impl Told {
    pub const fn new() -> Self {
        Told {
            sent: AtomicU32::new(0),
            waits: AtomicBool::new(false),
            seen: AtomicU32::new(0),
            set: AtomicI32::new(-1),
            changes: AtomicU32::new(0),
        }
    }

    /// A signal was added.
    pub fn sent(&self) {
        // ORDER: Release: what was added; pairs with `look`.
        self.sent.fetch_add(1, Release);
        // ORDER: the count before the look at who waits; pairs with that in `begin`.
        fence(SeqCst);
    }

    /// After [`Told::sent`]: whether the thread is called for what it blocks.
    pub fn waits(&self) -> bool {
        self.waits.load(Relaxed)
    }

    /// The calling thread looks at what is pending next.
    pub fn look(&self) {
        // ORDER: Acquire pairs with the Release in `sent`.
        self.seen.store(self.sent.load(Acquire), Relaxed);
    }

    /// The calling thread is about to wait for what may tell; whether it is to ask again instead,
    /// if that `tells`.
    pub fn begin(&self, tells: bool) -> bool {
        self.waits.store(true, Relaxed);
        if !tells {
            // So far nothing does, and who makes something that does takes longer than this store.
            return false;
        }
        // ORDER: the word before the count; pairs with that in `sent`.
        fence(SeqCst);
        let is_news = self.sent.load(Relaxed) != self.seen.load(Relaxed);
        if is_news {
            self.end();
        }
        is_news
    }

    /// The wait is over.
    pub fn end(&self) {
        self.waits.store(false, Relaxed);
    }

    /// Whether `set` is to tell of what it tells once, of what the last look has seen.
    pub fn has_changed(&self, set: c_int) -> bool {
        self.set.load(Relaxed) != set || self.changes.load(Relaxed) != self.seen.load(Relaxed)
    }

    /// It has.
    pub fn note_change(&self, set: c_int) {
        self.set.store(set, Relaxed);
        self.changes.store(self.seen.load(Relaxed), Relaxed);
    }
}
