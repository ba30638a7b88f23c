//! Compensation: as many workers run as were configured, whatever others are blocked.
//!
//! Threads of a blocked worker that may move (those that have not started, full ones that are
//! ready) are taken by a worker that sleeps, best a regular one, else a spare one; when enough
//! workers run, by one of these. There is no limit but that of the kernel for threads: were there
//! one, that many threads that wait in the kernel for another thread would wait for ever. When
//! workers come back and too many run, those started last rest, and those that nobody has needed
//! for a round give their kernel threads back, some at a time.
//!
//! It takes three looks to see that a worker is blocked. Where many threads block, one after the
//! other, each on the worker that came for the one before, those that come next are presumed to
//! block as well, in numbers that grow with those that did: [`Streak`].
//!
//! The monitor wakes; it never makes a kernel thread, which may have to wait for the thread that
//! the new one is to run. Spare workers are made in advance (`steward.rs`): one, as soon as there
//! may be full threads, and as many as are in use, within a bound, so that a burst finds them. When
//! there is none for [`PATIENCE_NS`], because the steward waits or the kernel refuses, the blocked
//! workers take turns instead: `turns.rs`. They begin sooner where the steward is seen to sleep
//! in the C library, which makes the kernel thread: it waits for the loader's lock mostly, and the
//! thread that loads a library has lost its worker.

use core::sync::atomic::Ordering::Relaxed;

use super::Watch;
use crate::full;
use crate::preempt;
use crate::runtime::Runtime;
use crate::turns::{Turns, is_left};
use crate::worker::Worker;

/// Most spare workers that are kept ready without being needed.
const READY_MAX: u32 = 32;
/// How long threads may wait for a spare worker before those that are blocked take turns.
const PATIENCE_NS: u64 = 100_000_000;
/// Looks that have not found more blocked workers than any before, after which a streak is over.
const STREAK_LOOKS: u32 = 4;
/// Looks in a row that meet the steward so, after which turns begin: one may meet a short sleep.
const HELD_UP_LOOKS: u32 = 2;
/// Kernel threads that are given back in one round: this part of those that are not needed, and so
/// many at least.
const LEAVING_PART: u32 = 4;
const LEAVING_MIN: u32 = 4;

/// What the monitor remembers of the spare workers.
#[derive(Default)]
pub(super) struct Spares {
    /// Those that were ready and those that ran, at the last look.
    ready: u32,
    in_use: u32,
    /// Workers that there were too few, at the last look.
    missing: u32,
    /// Fewest that were ready at a look of this round.
    ready_min: u32,
    /// For how long threads have waited for one, ns, and since when none waits.
    short_ns: u64,
    calm_ns: u64,
    /// Looks in a row that found the steward held up.
    held_up: u32,
    streak: Streak,
    turns: Turns,
}

/// How many workers have blocked in a row.
#[derive(Default)]
struct Streak {
    /// Fewest that were blocked in it, and most.
    first: u32,
    most: u32,
    /// Looks since there were most.
    looks: u32,
}

impl Streak {
    /// `blocked` workers are blocked now. How many of those that run are presumed to block: none
    /// unless more have done so in a row than should run, which are `regular`.
    fn presume(&mut self, blocked: u32, regular: u32) -> u32 {
        self.looks = if blocked > self.most { 0 } else { self.looks.saturating_add(1) };
        (self.first, self.most) = match self.looks < STREAK_LOOKS {
            true => (self.first.min(blocked), self.most.max(blocked)),
            false => (blocked, blocked),
        };
        (blocked - self.first).saturating_sub(regular).min(READY_MAX)
    }
}

impl Spares {
    pub fn new() -> Self {
        Spares { ready_min: u32::MAX, ..Spares::default() }
    }

    /// A look begins.
    pub fn begin(&mut self) {
        (self.ready, self.in_use, self.missing) = (0, 0, 0);
    }

    /// A spare worker was seen.
    pub fn count(&mut self, is_asleep: bool) {
        self.ready += u32::from(is_asleep);
        self.in_use += u32::from(!is_asleep);
    }

    /// How many should be ready.
    fn wanted(&self) -> u32 {
        self.in_use.clamp(u32::from(full::exist()), READY_MAX)
    }

    /// A round is over: has some of those leave that nobody has needed in it; true if there are
    /// any. Those to which threads belong stay with these.
    pub fn end_round(&mut self, runtime: &'static Runtime) -> bool {
        let surplus = core::mem::replace(&mut self.ready_min, self.ready);
        let surplus = surplus.min(self.ready).saturating_sub(self.wanted());
        let leaving = (surplus / LEAVING_PART).max(LEAVING_MIN).min(surplus);
        let all = (0..runtime.count()).rev().map(|index| runtime.worker(index));
        let may_leave = |worker: &&'static Worker| {
            let is_ready = worker.is_spare() && worker.sleeping.is_asleep();
            is_ready && !worker.seat.is_empty() && !worker.is_needed()
        };
        let mut leave = false;
        for worker in all.filter(may_leave).take(leaving as usize) {
            worker.is_to_leave.store(true, Relaxed);
            worker.notify();
            leave = true;
        }
        leave
    }
}

impl Watch {
    /// Looks at every worker, and has as many run as should; true when one is not asleep.
    pub(super) fn attend(&mut self, now: u64) -> bool {
        let (mut runs, mut blocked, mut in_place) = (0_u32, 0, 0);
        let mut is_calm = true;
        self.spares.begin();
        for worker in self.runtime.workers() {
            let is_asleep = worker.sleeping.is_asleep();
            if worker.is_spare() {
                self.spares.count(is_asleep);
            }
            if is_asleep {
                continue;
            }
            self.look_at(worker);
            is_calm &= worker.has_only_full_that_wait();
            if worker.in_place.load(Relaxed) {
                in_place += 1;
            } else if worker.blocked.load(Relaxed) {
                blocked += 1;
            } else {
                runs += 1;
            }
        }
        let presumed = self.spares.streak.presume(blocked, self.runtime.regular() as u32);
        self.runtime.blocked.store(blocked + presumed, Relaxed);
        let relied_on = runs.saturating_sub(presumed);
        if blocked + in_place != 0 {
            self.compensate(relied_on);
        }
        self.keep_ready();
        self.rest(relied_on);
        if runs != 0 && self.runtime.sleepers.load(Relaxed) != 0 {
            let waits = |w: &Worker| w.offered.len() != 0 && !w.serves_soon(now);
            let waiting = self.runtime.workers().any(|w| w.fresh.len() > 1 || waits(w));
            if waiting {
                self.runtime.wake_a_sleeper();
            }
        }
        self.note_calm(runs + in_place == 0 && blocked != 0 && is_calm);
        runs + blocked + in_place != 0
    }

    /// Finds workers for the threads of blocked ones that may move; `runs` workers are not blocked,
    /// nor presumed to block, and do not sleep.
    fn compensate(&mut self, mut runs: u32) {
        let runtime = self.runtime;
        for worker in runtime.workers() {
            if !worker.is_blocked() || !is_left(worker) {
                continue;
            }
            if runs >= runtime.regular() as u32 {
                runtime.give_away(worker);
                continue;
            }
            runs += 1;
            match runtime.wake_one() {
                Some(woken) if woken.is_spare() => {
                    runtime.monitor.spares.fetch_add(1, Relaxed);
                    self.spares.ready = self.spares.ready.saturating_sub(1);
                    self.spares.in_use += 1;
                    self.spares.short_ns = 0;
                }
                Some(_) => self.spares.short_ns = 0,
                None => self.spares.missing += 1,
            }
        }
        if self.spares.missing != 0 {
            self.go_without();
        }
    }

    /// Has the steward make spare workers when there are too few.
    fn keep_ready(&mut self) {
        let spares = &mut self.spares;
        if spares.missing == 0 {
            spares.held_up = 0;
        }
        // Where workers take turns one of them runs between two turns.
        spares.calm_ns += self.elapsed;
        if spares.calm_ns > PATIENCE_NS {
            spares.short_ns = 0;
        }
        spares.ready_min = spares.ready_min.min(spares.ready);
        let wanted = spares.wanted() + spares.missing;
        self.runtime.steward.want(wanted, spares.ready < wanted);
    }

    /// There are too few workers that can be woken.
    #[cold]
    fn go_without(&mut self) {
        self.spares.short_ns += self.elapsed;
        self.spares.calm_ns = 0;
        let is_held_up = self.runtime.steward.is_held_up();
        self.spares.held_up = if is_held_up { self.spares.held_up + 1 } else { 0 };
        let is_over = self.spares.short_ns >= PATIENCE_NS || self.spares.held_up >= HELD_UP_LOOKS;
        if is_over && preempt::missing().is_none() {
            self.spares.turns.take(self.runtime);
        }
    }

    /// Has the workers that were started last rest while more than enough run. Those that have
    /// light threads go on with them, and a full thread that computes leaves when its slice is over
    /// though nobody waits there.
    fn rest(&self, runs: u32) {
        let surplus = runs.saturating_sub(self.runtime.regular() as u32);
        let count = self.runtime.count();
        let awake = (0..count).rev().map(|index| self.runtime.worker(index)).filter(|worker| {
            let runs = !worker.sleeping.is_asleep() && !worker.is_blocked();
            runs && !worker.seat.is_empty()
        });
        for worker in awake.take(surplus as usize) {
            worker.rest.store(true, Relaxed);
            worker.poll.store(1, Relaxed);
            preempt::ask_surplus(worker);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Streak;

    #[test]
    fn as_many_are_presumed_to_block_as_have_beyond_those_that_should_run() {
        let mut streak = Streak::default();
        let mut looks = |blocked: &[u32]| blocked.iter().map(|b| streak.presume(*b, 2)).last();
        assert_eq!(looks(&[1, 2, 2, 2]), Some(0), "these were enough");
        assert_eq!(looks(&[4, 4, 5]), Some(3));
        assert_eq!(looks(&[4, 4]), Some(2), "one has come back");
        assert_eq!(looks(&[400]), Some(super::READY_MAX));
        assert_eq!(looks(&[400, 400, 400, 400]), Some(0), "it is over");
        assert_eq!(looks(&[402]), Some(0));
        assert_eq!(looks(&[403, 399, 399, 400]), Some(0), "it counts from the fewest");
        assert_eq!(looks(&[402]), Some(0), "there were more");
    }

    #[test]
    fn who_blocks_and_comes_back_again_and_again_is_no_streak() {
        let mut streak = Streak::default();
        let last = [50, 49, 50, 49, 50, 49, 50].map(|blocked| streak.presume(blocked, 2));
        assert_eq!(last[..4], [super::READY_MAX; 4]);
        assert_eq!(last[4..], [0; 3]);
    }
}
