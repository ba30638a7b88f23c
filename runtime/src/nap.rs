//! Naps: short sleeps of a worker that nobody has to end.
//!
//! To signal a worker and to let its kernel thread wake up costs both sides some microseconds,
//! several times what a short thread costs. So a worker that got a fresh thread right after it had
//! gone to sleep, or several at once, naps when it has nothing more to do: it looks again after
//! [`NAP_NS`], and those who give it fresh threads don't signal it. They do if many wait
//! ([`WAITING_MAX`]), for a time-critical one, and before they wait in the kernel themselves.
//!
//! Invariants:
//! 1. A nap ends by itself, and the worker looks at its fresh threads after it: one that nobody
//!    signals for starts late by a nap and the kernel's timer slack (50 us) at most.
//! 2. A nap that brought next to nothing is followed by a sleep.
//!
//! Not here: wakes of threads that have started; they always signal.

use core::cell::Cell;

/// Longest nap.
pub(crate) const NAP_NS: u64 = 50_000;
/// Fresh threads for which a nap is ended.
pub(crate) const WAITING_MAX: u32 = 128;
/// A shorter sleep that fresh threads ended is followed by a nap.
const SHORT_NS: u64 = 30_000;
/// More than one thread that came while the worker woke up: they come fast, too.
const ADOPTED_FAST: u32 = 2;
/// A nap that brought fewer threads is followed by a sleep.
const ADOPTED_MIN: u32 = 4;

/// What the last sleep was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Long, as far as it is known.
    Sleep,
    /// A sleep shorter than [`SHORT_NS`].
    ShortSleep,
    /// A nap.
    Nap,
}

/// What a worker remembers of its last sleep.
pub(crate) struct Naps {
    last: Cell<Last>,
    /// When a sleep began whose end is not known yet; 0 = none.
    began: Cell<u64>,
    /// Fresh threads taken over since.
    adopted: Cell<u32>,
}

impl Naps {
    pub fn new() -> Self {
        Naps { last: Cell::new(Last::Sleep), began: Cell::new(0), adopted: Cell::new(0) }
    }

    /// As if the worker had never slept.
    #[cfg(feature = "sim")]
    pub fn reset_for_simulation(&self) {
        self.last.set(Last::Sleep);
        self.began.set(0);
        self.adopted.set(0);
    }

    /// The worker took fresh threads over.
    #[inline]
    pub fn adopted(&self, count: u32) {
        self.adopted.set(self.adopted.get().saturating_add(count));
    }

    /// The worker has nothing to do since `now`; true: it should nap.
    pub fn begin(&self, now: u64) -> bool {
        let adopted = self.adopted.replace(0);
        let naps = match self.last.get() {
            Last::Sleep => adopted >= ADOPTED_FAST,
            Last::ShortSleep => adopted != 0,
            Last::Nap => adopted >= ADOPTED_MIN,
        };
        self.last.set(if naps { Last::Nap } else { Last::Sleep });
        self.began.set(now);
        naps
    }

    /// The worker looks around.
    #[inline]
    pub fn look(&self, now: u64) {
        let began = self.began.replace(0);
        if began != 0 && self.last.get() == Last::Sleep && now.saturating_sub(began) < SHORT_NS {
            self.last.set(Last::ShortSleep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_naps_only_while_fresh_threads_come_fast() {
        let naps = Naps::new();
        assert!(!naps.begin(1000));
        naps.look(1000 + SHORT_NS);
        naps.adopted(1);
        assert!(!naps.begin(2000), "after a long sleep");
        naps.look(2000 + SHORT_NS - 1);
        assert!(!naps.begin(3000), "a short sleep that another wake ended");
        naps.look(3000 + SHORT_NS - 1);
        naps.adopted(1);
        assert!(naps.begin(4000));
        naps.look(4000 + NAP_NS);
        naps.adopted(ADOPTED_MIN);
        assert!(naps.begin(5000), "it goes on while it brings threads");
        naps.look(5001);
        naps.adopted(ADOPTED_MIN - 1);
        assert!(!naps.begin(6000));
        naps.look(6000 + SHORT_NS);
        naps.adopted(ADOPTED_FAST);
        assert!(naps.begin(7000), "several at once");
    }
}
