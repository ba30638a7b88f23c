//! What a full thread knows of its signals that descriptors tell of (`calls/signalfd.rs`).
//!
//! Protocol:
//! 1. A sender adds the signal, counts it, and then looks whether the thread waits: then it calls
//!    the thread.
//! 2. The thread reads the count before it looks at what is pending. Before it waits it says that
//!    it does, and reads the count again: if another one has come since, it asks again, once.
//!
//! So either the thread sees the count, or the sender sees that it waits. `tests/loom.rs` tries
//! every order of these steps. A handler that looks in the middle of a wait leaves the count as it
//! was for that ([`Told::seen`]).
//!
//! Invariant: all but the count and the word that it waits is the thread's own.

use core::ffi::c_int;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicI32, compiler_fence};

use crate::model::{AtomicBool, AtomicU32, AtomicU64, fence};

/// See the file's head.
pub struct Told {
    sent: AtomicU32,
    waits: AtomicBool,
    /// The count at the last look.
    seen: AtomicU32,
    /// The set that has told of changes last, what was in it, and the count then.
    set: AtomicI32,
    entries: AtomicU64,
    changes: AtomicU32,
    /// A set that was full has left room for a signal.
    has_made_room: AtomicBool,
}

impl Told {
    pub const fn new() -> Self {
        Told {
            sent: AtomicU32::new(0),
            waits: AtomicBool::new(false),
            seen: AtomicU32::new(0),
            set: AtomicI32::new(-1),
            entries: AtomicU64::new(0),
            changes: AtomicU32::new(0),
            has_made_room: AtomicBool::new(false),
        }
    }

    /// A signal was added.
    pub fn count(&self) {
        // ORDER: Release: what was added; pairs with `look`.
        self.sent.fetch_add(1, Release);
        // ORDER: the count before the look at who waits; pairs with that in `begin`.
        fence(SeqCst);
    }

    /// After [`Told::count`]: whether the thread is called for what it blocks.
    pub fn waits(&self) -> bool {
        self.waits.load(Relaxed)
    }

    /// The calling thread looks at what is pending next.
    pub fn look(&self) {
        // ORDER: Acquire pairs with the Release in `count`.
        self.seen.store(self.sent.load(Acquire), Relaxed);
    }

    /// The calling thread is about to wait for what may tell; whether it is to ask again instead,
    /// if there is something that `tells`.
    pub fn begin(&self, tells: impl FnOnce() -> bool) -> bool {
        self.waits.store(true, Relaxed);
        // Who makes the first that tells now, and then sends, takes longer than this store.
        compiler_fence(SeqCst);
        if !tells() {
            return false;
        }
        // ORDER: the word before the count; pairs with that in `count`.
        fence(SeqCst);
        let sent = self.sent.load(Relaxed);
        let is_news = sent != self.seen.load(Relaxed);
        if is_news {
            // Who does not ask for signals waits next time.
            self.seen.store(sent, Relaxed);
            self.end();
        }
        is_news
    }

    /// The wait is over.
    pub fn end(&self) {
        self.waits.store(false, Relaxed);
    }

    /// The count at the last look, before a handler runs.
    pub fn seen(&self) -> u32 {
        self.seen.load(Relaxed)
    }

    /// A handler has run, before which the last look was this one.
    pub fn go_back(&self, seen: u32) {
        self.seen.store(seen, Relaxed);
    }

    /// Whether `set`, with these `entries`, is to tell of what it tells once, of what the last look
    /// has seen.
    pub fn has_changed(&self, set: c_int, entries: u64) -> bool {
        self.set.load(Relaxed) != set
            || self.entries.load(Relaxed) != entries
            || self.changes.load(Relaxed) != self.seen()
    }

    /// It has.
    pub fn note_change(&self, set: c_int, entries: u64) {
        self.set.store(set, Relaxed);
        self.entries.store(entries, Relaxed);
        self.changes.store(self.seen(), Relaxed);
    }

    /// Whether a set that is full makes room for a signal this time: every second one.
    pub fn makes_room(&self) -> bool {
        let has = self.has_made_room.load(Relaxed);
        self.has_made_room.store(!has, Relaxed);
        !has
    }
}
