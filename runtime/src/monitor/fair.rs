//! Fair shares: full threads that compute get about as much CPU time each, wherever they are.
//!
//! Who becomes ready stays where it was, and a worker takes from others only when it has nothing to
//! do. So some of those that compute share their worker with more others, or a CPU with another
//! program, for as long as they compute: of eight on two workers some had four times as much as
//! others, where the kernel's threads differ by a third. So the monitor adds up, for a period, how
//! many wanted to run at each worker and how much CPU time they had, and moves some from where each
//! had least to where each had most. It moves one also where those that are left have no less then:
//! of three threads on two workers another one is alone in each period.
//!
//! Invariant: only those are moved that were preempted, or yielded beside such, from workers where
//! hardly anybody else was ready: who waits for events and time stays where these come.
//!
//! Not here: a thread counts as one, whatever its group's weight.

use core::cmp::Ordering;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use super::{Seen, Watch};
use crate::control::Control;
use crate::full;
use crate::worker::Worker;

/// How long the shares are added up.
const PERIOD_NS: u64 = 100_000_000;

/// What one worker did in this period.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Load {
    /// Looks of the monitor that have found it awake.
    looks: u32,
    /// Of these, those at which all who were ready had been preempted.
    computing: u32,
    /// Threads that ran or were ready at these looks, in all.
    threads: u32,
    /// Its CPU time.
    ran_ns: u64,
}

impl Load {
    /// One look at `worker`, which has had `ran_ns` since the one before.
    fn add(&mut self, worker: &Worker, ran_ns: u64) {
        let waiting = waiting(worker);
        self.looks += 1;
        self.computing += u32::from(waiting != 0 && waiting == worker.offered.behind());
        self.threads += 1 + waiting;
        self.ran_ns += ran_ns;
    }

    /// Whether those at `worker` compute. (Who was moved there is not behind others at first.)
    fn computes(&self, worker: &Worker) -> bool {
        let waiting = waiting(worker);
        self.computing >= self.looks - self.looks / 8
            && waiting != 0
            && waiting == worker.offered.behind()
    }

    /// By what each thread had.
    fn compare(&self, other: &Load) -> Ordering {
        let parts = |ran: &Load, of: &Load| u128::from(ran.ran_ns) * u128::from(of.threads);
        parts(self, other).cmp(&parts(other, self))
    }

    /// How many of its threads, which had less, should go to where `other` was.
    fn surplus(&self, other: &Load) -> u32 {
        let (ran, other_ran) = (u128::from(self.ran_ns), u128::from(other.ran_ns));
        let (threads, others) = (u128::from(self.threads), u128::from(other.threads));
        let looks = u128::from(self.looks.max(1));
        // A quarter less than there is too little.
        if other_ran * threads * 4 <= ran * others * 5 {
            return 0;
        }
        // So many that each has as much in both places: (threads - n * looks) / ran is the same.
        let level = (threads * other_ran - others * ran) / ((ran + other_ran) * looks);
        // One that makes it no worse for itself, but for what is measured inexactly.
        let one = other_ran * threads * 16 >= ran * (others + looks) * 15;
        u32::try_from(level).unwrap_or(u32::MAX).max(u32::from(one))
    }
}

/// The period.
#[derive(Default)]
pub(super) struct Fair {
    ns: u64,
    looks: u32,
}

impl Watch {
    /// A look is over.
    pub(super) fn share(&mut self) {
        self.fair.ns += self.elapsed;
        self.fair.looks += 1;
        if self.fair.ns < PERIOD_NS {
            return;
        }
        let Fair { looks, .. } = core::mem::take(&mut self.fair);
        if full::exist() {
            while self.even_out(looks) {}
        }
        self.runtime.workers().for_each(|worker| set_load(worker, Load::default()));
    }

    /// Moves threads from one worker to another one, both of which run all the time; they are done
    /// with then. False: nobody has too little.
    fn even_out(&self, looks: u32) -> bool {
        let load = |worker: &'static Worker| worker.seen.get().load;
        let takes_part = |worker: &&'static Worker| {
            load(worker).looks == looks && !worker.is_blocked() && !worker.rest.load(Relaxed)
        };
        let gives = |worker: &&'static Worker| load(worker).computes(worker);
        let all = || self.runtime.workers().filter(takes_part);
        let by_share =
            |one: &&'static Worker, other: &&'static Worker| load(one).compare(&load(other));
        let (Some(from), Some(to)) = (all().filter(gives).min_by(by_share), all().max_by(by_share))
        else {
            return false;
        };
        let count = load(from).surplus(&load(to));
        if count == 0 || ptr::eq(from, to) {
            return false;
        }
        from.hand_some(to, count);
        [from, to].into_iter().for_each(|worker| set_load(worker, Load::default()));
        true
    }
}

/// How many are ready at `worker`; a hint.
fn waiting(worker: &Worker) -> u32 {
    worker.offered.len() + worker.fresh.len() + worker.ready.load(Relaxed)
}

/// Keeps what was seen of `worker`, which runs `running`, at this look, and adds it to the period.
/// One that has a time-critical thread takes no part: it has nothing for those that come.
pub(super) fn keep(worker: &Worker, mut seen: Seen, running: Option<&Control>) {
    if !running.is_some_and(Control::is_critical) && worker.offered.fast_priority() == 0 {
        seen.load.add(worker, seen.ran_ns);
    }
    worker.seen.set(seen);
}

fn set_load(worker: &Worker, load: Load) {
    let mut seen = worker.seen.get();
    seen.load = load;
    worker.seen.set(seen);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a worker with so many threads that had so many hundredths of a CPU.
    fn load(threads: u32, hundredths: u64) -> Load {
        let looks = 50;
        Load { looks, computing: looks, threads: threads * looks, ran_ns: hundredths * 1_000_000 }
    }

    #[test]
    fn as_many_move_as_makes_it_even() {
        assert_eq!(load(6, 100).surplus(&load(2, 100)), 2);
        assert_eq!(load(4, 50).surplus(&load(4, 100)), 1, "its CPU does other work");
        assert_eq!(load(20, 100).surplus(&load(1, 100)), 9);
    }

    #[test]
    fn one_moves_where_it_has_no_less_then() {
        assert_eq!(load(2, 100).surplus(&load(1, 100)), 1);
        assert_eq!(load(3, 100).surplus(&load(2, 100)), 1);
        assert_eq!(load(1, 60).surplus(&load(1, 100)), 0);
    }

    #[test]
    fn none_moves_for_little() {
        assert_eq!(load(4, 100).surplus(&load(4, 100)), 0);
        assert_eq!(load(5, 100).surplus(&load(4, 100)), 0);
        assert_eq!(load(2, 100).surplus(&load(4, 100)), 0, "those have less");
        assert_eq!(load(0, 0).surplus(&load(0, 0)), 0);
    }

    #[test]
    fn least_and_most_are_by_thread() {
        assert_eq!(load(2, 100).compare(&load(1, 60)), Ordering::Less);
        assert_eq!(load(2, 100).compare(&load(4, 200)), Ordering::Equal);
    }
}
