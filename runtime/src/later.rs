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
//! Nothing waits in here, and nothing allocates.

use core::mem;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use crate::full;

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
        let state = self.state.load(Relaxed);
        let same = state % ONE == mine
            && state < usize::MAX - ONE
            && self.action.load(Relaxed) == action
            && self.argument.load(Relaxed) == argument;
        if same {
            self.state.store(state + ONE, Relaxed);
        }
        same
    }

    fn take(&self, mine: usize) -> bool {
        self.state.compare_exchange(0, mine + ONE, Relaxed, Relaxed).is_ok()
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
    entry.argument.store(argument, Relaxed);
    entry.action.store(number, Relaxed);
}

/// Does what was left for the calling thread, which is not pinned.
#[cold]
#[inline(never)]
pub(crate) fn work() {
    let mine = mark();
    for entry in ENTRIES.iter().filter(|entry| entry.state.load(Relaxed) % ONE == mine) {
        let (action, argument) = (entry.action.load(Relaxed), entry.argument.load(Relaxed));
        let times = entry.state.swap(0, Relaxed) / ONE;
        if times != 0 {
            // SAFETY: `when_unpinned` stored such a function: it ran to its end before its thread,
            // which is the caller, could get here.
            let action: Action = unsafe { mem::transmute(action) };
            action(argument, times as u32);
        }
    }
}
