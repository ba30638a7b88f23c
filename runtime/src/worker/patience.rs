//! Few workers while they suffice: a thread that has its turn soon is left to a worker that runs.
//!
//! To wake a worker costs several microseconds, and what a thread needs is not in the caches of
//! the CPU where that worker was. A thread that waits less than [`PATIENCE_NS`] behind others does
//! better to wait. So, of full threads that are not time-critical:
//! 1. No sleeper is woken and nothing is stolen for them while they have their turn soon.
//! 2. A worker that was woken for them alone hands them to one of a lower number that runs, and
//!    sleeps on; next time they wait for their events there.
//! 3. One that a thread wakes, and that belongs to a worker that sleeps, or waits for a disk in
//!    place (`blocking/alone.rs`), comes to the waker's.
//!
//! memcached with four threads and 50 connections on 2 CPUs, its load generator on the same two:
//! 5.6 us of CPU time for each request with both workers, 4.0 with one.
//!
//! How long a wait would be is guessed by how long threads have run lately. A worker that runs one
//! thread for longer than it used to is found by its last look, which is too long ago then, and
//! by the monitor.
//!
//! Invariant: all of this decides who runs a thread, never whether it runs: who leaves a thread to
//! a worker has seen to it that the worker is awake, or has woken it.

use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use super::{SWITCHES_PER_LOOK, Worker};
use crate::arch::Context;
use crate::control::Control;
use crate::full;
use crate::sys::clock;

/// The run time between two looks that the budget is steered to.
const LOOK_NS: u64 = 75_000;
/// How long a thread may wait for its turn.
const PATIENCE_NS: u64 = 100_000;
/// A worker that has not looked for longer runs one thread for long.
const STALE_NS: u64 = 2 * LOOK_NS;

/// What is known of the turns at a worker.
pub(super) struct Patience {
    /// Shared: the clock at the last look.
    looked: AtomicU64,
    /// Shared: how long a thread ran before the next one did, lately.
    turn_ns: AtomicU32,
    /// It has slept since the last look.
    slept: Cell<bool>,
}

impl Patience {
    pub fn new(now: u64) -> Self {
        let (looked, turn_ns) = (AtomicU64::new(now), AtomicU32::new(LOOK_NS as u32));
        Patience { looked, turn_ns, slept: Cell::new(false) }
    }

    #[cfg(feature = "sim")]
    pub fn reset_for_simulation(&self, now: u64) {
        self.looked.store(now, Relaxed);
        self.turn_ns.store(LOOK_NS as u32, Relaxed);
        self.slept.set(false);
    }

    pub fn slept(&self) {
        self.slept.set(true);
    }

    /// A look after `switches`. The run time since the last look, unless the worker has slept.
    fn look(&self, now: u64, switches: u32) -> Option<u64> {
        let elapsed = now.saturating_sub(self.looked.load(Relaxed)).max(1);
        self.looked.store(now, Relaxed);
        if self.slept.replace(false) {
            return None;
        }
        let turn_ns = (elapsed / u64::from(switches)).min(u64::from(u32::MAX / 4)) as u32;
        self.turn_ns.store((3 * (self.turn_ns.load(Relaxed) / 4)) + turn_ns / 4, Relaxed);
        Some(elapsed)
    }

    /// Whether who comes behind `others` has its turn soon.
    fn is_soon(&self, others: u32, now: u64) -> bool {
        let looked = self.looked.load(Relaxed);
        let turns_ns = u64::from(others) * u64::from(self.turn_ns.load(Relaxed));
        turns_ns <= PATIENCE_NS && now.saturating_sub(looked) < STALE_NS
    }
}

impl Worker {
    /// Aims at one look per `LOOK_NS` of run time, without reading the clock at each switch; true:
    /// the worker has slept since the last look.
    pub(super) fn steer_budget(&self, now: u64) -> bool {
        let spent = (self.budget_full.get() - self.budget.get()).max(1);
        let elapsed = self.patience.look(now, spent);
        if let Some(elapsed) = elapsed {
            self.budget_full.set(next_budget(self.budget_full.get(), spent, elapsed));
        }
        if self.trace.is_some() {
            self.budget_full.set(0);
        }
        self.budget.set(self.budget_full.get());
        self.yields.set(0);
        elapsed.is_none()
    }

    /// Whether it has not looked for a tick of the monitor's, although it may have switched.
    pub fn has_not_looked_for(&self, ns: u64, now: u64) -> bool {
        now.saturating_sub(self.patience.looked.load(Relaxed)) >= ns
    }

    /// It is about to be woken for who moves here: for a moment others do not take that one.
    pub fn expect_turn(&self) {
        self.patience.looked.store(clock::now_ns(), Relaxed);
    }

    /// Whether its ready full threads have their turn here soon. Anybody may ask.
    pub fn serves_soon(&self, now: u64) -> bool {
        self.patience.is_soon(self.offered.len(), now) && self.takes_turns()
    }

    /// Whether those who are not time-critical have their turns here, one after the other.
    fn takes_turns(&self) -> bool {
        self.offered.fast_priority() == 0 && !self.is_blocked() && !self.rest.load(Relaxed)
    }

    /// Hands the ready full threads for which this worker was woken to one that runs and has a
    /// turn for them soon. A time-critical one would wait there behind whoever runs.
    pub(super) fn hand_on(&'static self, now: u64) {
        let count = self.offered.len();
        let has_other_work = self.fresh.len() + self.queues.len() != 0;
        if count == 0 || has_other_work || self.offered.fast_priority() != 0 {
            return;
        }
        let serves = |other: &&'static Worker| {
            !other.sleeping.is_asleep()
                && other.serves_soon(now)
                && other.patience.is_soon(other.offered.len() + count, now)
        };
        if let Some(other) = self.runtime.workers().take(self.index as usize).find(serves)
            && other.steal_from(self, count) != 0
        {
            other.stay_awake();
        }
    }

    /// Takes `thread`, which the caller has woken on this worker and which belongs to `owner`;
    /// false: it is the owner's to run.
    pub fn takes_over(&'static self, owner: &'static Worker, thread: &'static Control) -> bool {
        // Of those that are ready here one that has just woken goes first, unless the caller goes
        // on for long.
        let first = || self.offered.come() == 0 && self.takes_turns() && !full::computes();
        let takes = thread.priority.load(Relaxed) == 0
            && match owner.kept.load(Relaxed) {
                true => first(),
                false => owner.leaves_its_own() && self.serves_soon(clock::now_ns()),
            }
            && Context::is_saved(&thread.context);
        if takes {
            owner.live_full.fetch_sub(1, Relaxed);
            self.adopt(thread);
        }
        takes
    }

    /// Whether it would have to be woken for one that becomes ready here, or can't be.
    fn leaves_its_own(&self) -> bool {
        self.sleeping.is_asleep() || self.in_place.load(Relaxed)
    }

    /// Called after giving this worker something that it finds when it has nothing to do.
    fn stay_awake(&'static self) {
        if self.sleeping.claim() {
            self.signal();
        }
    }
}

/// The switches until the next look: of the last `full` ones `spent` took `elapsed` ns. Some short
/// ones, after a look that has found short work, say little of those that follow, so it grows by
/// steps.
fn next_budget(full: u32, spent: u32, elapsed: u64) -> u32 {
    let most = full.saturating_mul(2).clamp(1, SWITCHES_PER_LOOK);
    (u64::from(spent) * LOOK_NS / elapsed).clamp(1, u64::from(most)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_switches_between_long_ones_do_not_put_off_looks() {
        // Two threads that run for 115 us; after each look two that run for 1 us.
        let (mut budget, mut late) = (SWITCHES_PER_LOOK, 0);
        for round in 0..50 {
            let turns = [1_000, 1_000].into_iter().chain(core::iter::repeat(115_000));
            let elapsed = turns.take(budget as usize).sum();
            late = if round < 10 { 0 } else { late.max(elapsed) };
            budget = next_budget(budget, budget, elapsed);
        }
        assert!(late <= 4 * LOOK_NS, "{late} ns without a look");
        // And while all are short looks are few.
        let budget = (0..10).fold(1, |budget, _| next_budget(budget, budget, 100));
        assert_eq!(budget, SWITCHES_PER_LOOK);
    }

    #[test]
    fn a_turn_is_soon_while_turns_are_short_and_the_worker_looks() {
        let patience = Patience::new(0);
        let mut now = 0;
        for _ in 0..50 {
            now += 50_000;
            assert_eq!(patience.look(now, 10), Some(50_000));
        }
        let most = (PATIENCE_NS / 5_000) as u32;
        assert!(patience.is_soon(most, now));
        assert!(!patience.is_soon(most + 2, now), "too many before it");
        assert!(!patience.is_soon(1, now + STALE_NS), "one runs for long");
        for _ in 0..50 {
            now += 2 * PATIENCE_NS;
            patience.look(now, 1);
        }
        assert!(!patience.is_soon(1, now), "turns are long");
        patience.slept();
        assert_eq!(patience.look(now + 1, 1), None, "sleep is no turn");
    }
}
