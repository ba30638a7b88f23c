//! What a signal handler may not do now, for it interrupted the runtime, and does a moment later.
//!
//! A handler on a kernel thread may have come in the middle of one of the runtime's locks, and
//! would wait for it for ever. Every such lock is held pinned (`full.rs`), so the handler sees it,
//! leaves what it wanted to do here, and the thread does it as its last pin goes.
//!
//! Invariants:
//! 1. An entry belongs to the thread whose mark it has; only that thread, and handlers that
//!    interrupt it, touch it. So what looks like a race here is a handler in between.
//! 2. Whoever has no pin has no entries, but in the middle of [`work`]: a handler that comes there
//!    does them all before it returns.
//!
//! Nothing waits in here, and nothing allocates. `tests/later.rs` has handlers come between all
//! steps.

use core::mem;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::full;
use crate::model::AtomicUsize;

/// More different things than handlers can leave while a lock is held for a few instructions.
const PLACES: usize = 256;
/// An owner's mark is its address, turned by this; the bits above count how often.
const COUNT_SHIFT: u32 = 48;
const ONE: usize = 1 << COUNT_SHIFT;

/// What is called, with what it was left with and how often.
pub type Action = fn(argument: usize, times: u32);

struct Entry {
    /// Whose it is, and how often; 0 = nobody's.
    state: AtomicUsize,
    action: AtomicUsize,
    argument: AtomicUsize,
}

static ENTRIES: [Entry; PLACES] = [const {
    Entry { state: AtomicUsize::new(0), action: AtomicUsize::new(0), argument: AtomicUsize::new(0) }
}; PLACES];

impl Entry {
    /// Counts once more, if it is the caller's for the same.
    fn repeat(&self, mine: usize, action: usize, argument: usize) -> bool {
        loop {
            let Some(state) = self.is_left(mine) else { return false };
            if state >= usize::MAX - ONE
                || self.action.load(Relaxed) != action
                || self.argument.load(Relaxed) != argument
            {
                return false;
            }
            // A handler may have come in between, and counted too.
            let counted = self.state.compare_exchange(state, state + ONE, Relaxed, Relaxed);
            if counted.is_ok() {
                return true;
            }
        }
    }

    /// Its state, if something was left there for the thread with this mark.
    fn is_left(&self, mine: usize) -> Option<usize> {
        // ORDER: Acquire pairs with the Release in `fill`.
        Some(self.state.load(Acquire)).filter(|state| state % ONE == mine && *state >= ONE)
    }

    /// Takes a free entry, which counts nothing before it is filled: a handler that comes in
    /// between takes another one.
    fn take(&self, mine: usize) -> bool {
        // ORDER: Acquire pairs with the Release in `work`.
        self.state.compare_exchange(0, mine, Acquire, Relaxed).is_ok()
    }

    fn fill(&self, mine: usize, action: usize, argument: usize) {
        self.argument.store(argument, Relaxed);
        self.action.store(action, Relaxed);
        // ORDER: Release: a handler that sees the count sees what is counted.
        self.state.store(mine + ONE, Release);
    }
}

/// The calling thread's mark.
fn mark() -> usize {
    full::own_place().addr() % ONE
}

/// Calls `action(argument, 1)`: now, or as soon as the calling thread is not in the middle of the
/// runtime any more. For signal handlers.
pub fn when_unpinned(action: Action, argument: usize) {
    if !full::is_pinned() {
        return action(argument, 1);
    }
    let (mine, number) = (mark(), action as usize);
    full::leave_work();
    if ENTRIES.iter().any(|entry| entry.repeat(mine, number, argument)) {
        return;
    }
    let Some(entry) = ENTRIES.iter().find(|entry| entry.take(mine)) else {
        // It can't be done now, and to forget it would be a wake that never comes.
        std::process::abort();
    };
    entry.fill(mine, number, argument);
}

/// Does what was left for the calling thread, which is not pinned.
#[cold]
#[inline(never)]
pub(crate) fn work() {
    let mine = mark();
    for (entry, state) in ENTRIES.iter().filter_map(|entry| Some((entry, entry.is_left(mine)?))) {
        let (action, argument) = (entry.action.load(Relaxed), entry.argument.load(Relaxed));
        // If it is not as it was, a handler came in between and has done it, and the entry may be
        // somebody else's by now. It has left none behind, so none looks the same.
        // ORDER: Release: who takes the entry next writes to it afterwards.
        if entry.state.compare_exchange(state, 0, Release, Relaxed).is_ok() {
            // SAFETY: `when_unpinned` stored such a function: it ran to its end before its thread,
            // which is the caller, could get here.
            let action: Action = unsafe { mem::transmute(action) };
            action(argument, (state / ONE) as u32);
        }
    }
}
