//! Which of the workers that sleep is woken, and who gets the threads of whom.
//!
//! As many should be awake as were configured, and one more for each that is blocked in the kernel.
//! How many are is known by hints alone: who finds too few, or too many, may be wrong for a moment.
//!
//! Invariant: a thread is never lost by that. Who is given something is told (`worker/given.rs`),
//! and what is left where nobody looks the monitor finds at its next look.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use super::Runtime;
use crate::worker::Worker;

impl Runtime {
    /// How many workers are awake beyond those that should run: as many as were configured, with
    /// one more for each that is blocked in the kernel.
    fn awake_beyond(&self) -> i64 {
        let awake = i64::from(self.seated.load(Relaxed)) - i64::from(self.sleepers.load(Relaxed));
        awake - self.regular() as i64 - i64::from(self.blocked())
    }

    /// Workers whose thread is blocked in the kernel, as far as is known.
    pub fn blocked(&self) -> u32 {
        self.blocked.load(Relaxed) + self.in_place.count()
    }

    /// Whether fewer workers are awake than should run.
    pub fn lacks_workers(&self) -> bool {
        self.awake_beyond() < 0
    }

    /// Whether more workers are awake than should run.
    pub fn has_surplus(&self) -> bool {
        self.awake_beyond() > 0
    }

    /// Wakes one worker that sleeps, so that it steals.
    #[cold]
    pub fn wake_a_sleeper(&'static self) {
        if self.awake_beyond() >= 0 {
            return;
        }
        // One that was woken just now counts among those that sleep until it runs. Unless somebody
        // is blocked, a spare worker must not be there before it.
        let is_any_blocked = self.blocked() != 0;
        let count = if is_any_blocked { usize::MAX } else { self.regular() };
        self.wake_first(count);
    }

    /// Wakes one worker that sleeps, if any does: the first, so that the last may go.
    pub fn wake_one(&'static self) -> Option<&'static Worker> {
        self.wake_first(usize::MAX)
    }

    /// Wakes the first of `count` workers that sleeps.
    fn wake_first(&'static self, count: usize) -> Option<&'static Worker> {
        let sleeper = self.workers().take(count).find(|worker| worker.sleeping.is_asleep())?;
        sleeper.notify();
        Some(sleeper)
    }

    /// Takes half of somebody's fresh or ready full threads for `thief`; false when nobody has any.
    pub fn steal_for(&'static self, thief: &'static Worker) -> bool {
        let count = self.count();
        if count < 2 {
            return false;
        }
        let start = (thief.random() % count as u64) as usize;
        let now = thief.now.get();
        for victim in (0..count).map(|i| self.worker((start + i) % count)) {
            if ptr::eq(victim, thief) {
                continue;
            }
            let waiting = victim.fresh.len();
            if waiting != 0 && thief.adopt_from(&victim.fresh, waiting.div_ceil(2)) != 0 {
                return true;
            }
            let waiting = victim.offered.len();
            if waiting != 0
                && !victim.serves_soon(now)
                && thief.steal_from(victim, waiting.div_ceil(2)) != 0
            {
                return true;
            }
        }
        false
    }

    /// Finds another worker for who is ready at `worker`, which waits for a disk.
    pub fn serve_elsewhere(&'static self, worker: &'static Worker) {
        if self.lacks_workers() {
            self.wake_a_sleeper();
        } else {
            self.give_away(worker);
        }
    }

    /// Hands the threads of `surplus` that may move to a worker that runs: `surplus` is to rest, or
    /// is blocked in the kernel.
    pub fn give_away(&'static self, surplus: &'static Worker) {
        let runs = |worker: &&'static Worker| {
            !ptr::eq(*worker, surplus) && !worker.is_blocked() && !worker.sleeping.is_asleep()
        };
        if let Some(other) = self.workers().filter(runs).min_by_key(|worker| load(worker)) {
            surplus.hand_over(other);
        }
    }
}

/// How much a worker has to do: threads that belong to it, waiting ones counted again.
pub(super) fn load(worker: &Worker) -> u32 {
    let waiting = worker.fresh.len() + worker.offered.len();
    let live = worker.live.load(Relaxed) + worker.live_full.load(Relaxed);
    live + waiting + worker.ready.load(Relaxed)
}
