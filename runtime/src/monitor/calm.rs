//! While the only workers that are awake are blocked in the kernel, for long, and nobody is ready,
//! there is next to nothing to look at: the monitor looks seldom. A thread may wait for another
//! process all its life.
//!
//! Such a worker may go on at any time without a word, and computes then: what it makes ready wakes
//! a worker, which wakes the monitor. Those who wait at it for time or events have the monitor wake
//! for these, and looked after by the next tick as at any blocked worker.
//!
//! Invariant: an event that nobody takes in, as the one that is to end a worker's sleep, ends the
//! calm once: from then on the monitor ticks, until it has been calm for as long again.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use super::{TICK, Watch};
use crate::full;
use crate::sys::clock;
use crate::worker::Worker;

/// Looks in a row that find nothing else, after which it looks seldom.
const LOOKS: u32 = 64;
/// Time between two looks then, at most and at least.
pub(super) const TICK_CALM: Duration = Duration::from_millis(50);
const LEAST_NS: u64 = 1_000_000;

impl Watch {
    pub(super) fn is_calm(&self) -> bool {
        self.calm_for >= LOOKS && full::exist()
    }

    /// A look has found blocked workers alone, or not.
    pub(super) fn note_calm(&mut self, is_calm: bool) {
        self.calm_for = if is_calm { self.calm_for.saturating_add(1) } else { 0 };
    }

    /// Sleeps until the next look, or until there is something to do.
    pub(super) fn sleep_calmly(&mut self) {
        let runtime = self.runtime;
        let blocked = || runtime.workers().filter(|worker| worker.blocked.load(Relaxed));
        let first = blocked().filter_map(|worker| worker.waits.first()).min();
        let left = first.unwrap_or(u64::MAX).saturating_sub(clock::now_ns()).max(LEAST_NS);
        if !blocked().any(waits_for_events) {
            let runs = |w: &'static Worker| !w.sleeping.is_asleep() && !w.blocked.load(Relaxed);
            let doze = &runtime.monitor.doze;
            if doze.begin(|| runtime.workers().any(runs)) {
                doze.wait_for(TICK_CALM.min(Duration::from_nanos(left)));
            }
            return;
        }
        let most = TICK.as_nanos() as u64;
        if self.kept.sleep_for(blocked(), left.min(most)) {
            self.calm_for = 0;
        }
    }
}

fn waits_for_events(worker: &'static Worker) -> bool {
    worker.made_readiness().is_some_and(|set| set.waiting() != 0)
}
