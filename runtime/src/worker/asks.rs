//! Whether a look asks the kernel for events before the worker sleeps.
//!
//! A worker that runs out of threads asks its epoll set without sleeping, and sleeps in it if there
//! is nothing: two system calls, of which the second alone would do. The first pays where events
//! come as fast as they are served: the worker stays awake, and nobody takes it for a sleeper.
//! Where the worker waits most of the time, as that of a server with little to do, it is in vain.
//! So after [`VAIN_MAX`] of them in a row the worker sleeps without, and asks again after a sleep
//! that was over [`AT_ONCE_NS`] after the look before it: there was something already.
//!
//! Nor is the set asked right after a sleep in it, which has taken in what there was.
//!
//! And who waits next because a receive was in vain does not ask before ([`Asks::are_in_vain`]).
//!
//! Invariant: who looks without asking has slept in its reactor just now, or has nothing to do and
//! sleeps there next, unless it finds something at others before.

use core::cell::Cell;

/// So many asks in vain in a row.
const VAIN_MAX: u32 = 4;
/// More than an empty sleep takes, and less than to fall asleep and to be woken.
const AT_ONCE_NS: u64 = 3_000;

/// What a worker remembers of its asks.
pub(super) struct Asks {
    /// In vain, in a row.
    vain: Cell<u32>,
    /// The look that has left one out since the last sleep; 0 = none.
    left_out: Cell<u64>,
}

impl Asks {
    pub const fn new() -> Self {
        Asks { vain: Cell::new(0), left_out: Cell::new(0) }
    }

    /// A look of a worker that has `slept` since the last one, or not; `has_work`: there is
    /// something to do before it asks. True: it is to ask.
    pub fn look(&self, now: u64, slept: bool, has_work: bool) -> bool {
        let left_out = self.left_out.replace(0);
        if slept {
            if left_out != 0 && now.saturating_sub(left_out) < AT_ONCE_NS {
                self.vain.set(0);
            }
            return false;
        }
        let asks = has_work || !self.are_in_vain();
        if !asks {
            self.left_out.set(now);
        }
        asks
    }

    /// A worker without work has asked.
    pub fn asked(&self, found: bool) {
        self.vain.set(if found { 0 } else { self.vain.get().saturating_add(1) });
    }

    /// Whether the last ones were, of a worker that mostly waits.
    pub fn are_in_vain(&self) -> bool {
        self.vain.get() >= VAIN_MAX
    }

    /// Whether the last look left it out. Who does not sleep after all looks again.
    pub fn is_left_out(&self) -> bool {
        self.left_out.get() != 0
    }

    #[cfg(feature = "sim")]
    pub fn reset_for_simulation(&self) {
        self.vain.set(0);
        self.left_out.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that has slept without asking, from `now` on for `ns`, finds itself without work.
    fn sleeps(asks: &Asks, now: u64, ns: u64) -> bool {
        assert!(!asks.look(now, false, false));
        assert!(asks.is_left_out());
        assert!(!asks.look(now + ns, true, true), "the sleep has taken in what there was");
        asks.look(now + ns + 100, false, false)
    }

    #[test]
    fn a_worker_that_mostly_waits_sleeps_without_asking() {
        let asks = Asks::new();
        for round in 1..=u64::from(VAIN_MAX) {
            assert!(asks.look(round, false, false));
            asks.asked(false);
        }
        assert!(!sleeps(&asks, 1_000_000, 200_000));
        assert!(asks.look(2_000_000, false, true), "it has work, and so no sleep follows");
        assert!(!asks.is_left_out());
        assert!(sleeps(&asks, 3_000_000, AT_ONCE_NS - 1), "there was something already");
        asks.asked(true);
        for _ in 1..VAIN_MAX {
            assert!(asks.look(4_000_000, false, false));
            asks.asked(false);
        }
        assert!(asks.look(5_000_000, false, false));
        asks.asked(true);
        assert!(asks.look(6_000_000, false, false), "not in a row");
    }
}
