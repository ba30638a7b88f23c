//! Threads that become ready at workers which one that computes keeps.
//!
//! A worker looks for time and events when it switches. While a full thread computes on it, or
//! waits for a disk in place, the monitor alone does, and between two ticks it does no more than
//! that: it sleeps until the time or the event of a thread comes that waits at such a worker, makes
//! that one ready, and wakes a worker for it, or has the other leave at once: who computes little
//! and waits often need not wait for slices, as with the kernel's threads. A thread computes that
//! has kept its worker for a tick, or that has not waited since it was preempted. Where others come
//! all the time, those that were preempted and these have a tick each, in turns.
//!
//! Invariants:
//! 1. Two looks between ticks are [`GAP_NS`] apart, unless an event comes in between: that does
//!    not wait for the next look. And unless one was asked who was asked in vain before: it is most
//!    of its time where it cannot be left, as in the allocator, but for some nanoseconds each. The
//!    more often it is asked, the sooner it is met outside ([`HURRY_NS`]).
//! 2. A descriptor that is ready although nobody waits for it is not looked at again before the
//!    next tick.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{SLICE_SHORT_NS, Seen, Watch};
use crate::config::WORKERS_MAX;
use crate::control::Control;
use crate::io::Epoll;
use crate::preempt::{self, overdue};
use crate::sys::clock;
use crate::turns::is_left;
use crate::worker::Worker;

/// Time between two looks for those that wait for their time, at least.
const GAP_NS: u64 = 500_000;
/// The same behind a look at which such a one was asked; and how many of these there are in a row:
/// it may be where it never can be left.
const HURRY_NS: u64 = 30_000;
const HURRIED: u32 = 40;
/// Threads that are remembered; a power of two, and some for each worker that there may be: one
/// that is forgotten takes the turns of those that wake.
const THREADS: usize = 4 * WORKERS_MAX;

/// See the file's head.
pub(super) struct Kept {
    workers: Vec<&'static Worker>,
    /// What tells of events at them.
    fds: Vec<PollFd<'static>>,
    /// Looks in a row for which it hurried.
    hurried: u32,
    /// The slots of threads that were preempted, and how often they had waited until then; found by
    /// the slots.
    preempted: [(u32, u32); THREADS],
}

impl Kept {
    /// With all the memory that it needs.
    pub fn new() -> Self {
        let (workers, fds) = (Vec::with_capacity(WORKERS_MAX), Vec::with_capacity(1 + WORKERS_MAX));
        Kept { workers, fds, hurried: 0, preempted: [(u32::MAX, 0); THREADS] }
    }

    /// A tick begins.
    pub fn begin(&mut self) {
        overdue::begin_tick();
        self.workers.drain(..).for_each(|worker| worker.kept.store(false, Relaxed));
    }

    /// `worker` is to be looked after until the next tick; of spare ones maybe not all are.
    pub fn add(&mut self, worker: &'static Worker) {
        if self.workers.len() < WORKERS_MAX {
            worker.kept.store(true, Relaxed);
            self.workers.push(worker);
        }
    }

    /// As [`Kept::add`], of one that waits for a disk in place.
    pub fn add_in_place(&mut self, worker: &'static Worker) {
        if self.workers.len() < WORKERS_MAX && worker.has_waiting_full() {
            self.workers.push(worker);
        }
    }

    /// `thread` is asked to leave.
    pub fn note(&mut self, thread: &Control) {
        let slot = thread.slot();
        self.preempted[slot as usize % THREADS] = (slot, thread.record().switches());
    }

    /// Whether it has not waited since it was preempted.
    pub fn computes(&self, thread: &Control) -> bool {
        let slot = thread.slot();
        self.preempted[slot as usize % THREADS] == (slot, thread.record().switches())
    }

    /// How long it is until the next look, at least.
    fn gap_ns(&mut self, asked: Asked) -> u64 {
        let hurries = asked == Asked::Again && self.hurried < HURRIED;
        self.hurried = match asked {
            Asked::Again => self.hurried.saturating_add(1),
            _ => 0,
        };
        if hurries { HURRY_NS } else { GAP_NS }
    }

    /// When the first deadline passes of those who wait at these workers.
    fn first_deadline(&self) -> u64 {
        self.workers.iter().filter_map(|worker| worker.waits.first()).min().unwrap_or(u64::MAX)
    }

    /// Threads that wait for descriptors there.
    fn waiting(&self) -> u64 {
        let sets = self.workers.iter().filter_map(|worker| worker.made_readiness());
        sets.map(Epoll::waiting).sum()
    }

    /// As [`sleep`], for events at these workers.
    fn sleep(&mut self, ns: u64, with_events: bool) -> bool {
        let workers = self.workers.iter().copied().filter(|_| with_events);
        self.fds.clear();
        sleep(&mut self.fds, workers, ns)
    }

    /// As [`sleep`], for events at others, and of `bell`.
    pub fn sleep_for(
        &mut self,
        workers: impl Iterator<Item = &'static Worker>,
        bell: BorrowedFd<'static>,
        ns: u64,
    ) -> bool {
        self.fds.clear();
        self.fds.push(PollFd::from_borrowed_fd(bell, PollFlags::IN));
        sleep(&mut self.fds, workers.take(WORKERS_MAX), ns)
    }
}

/// Sleeps for `ns`, or until there is an event of `fds`, or for one of the workers: true.
fn sleep(
    fds: &mut Vec<PollFd<'static>>,
    workers: impl Iterator<Item = &'static Worker>,
    ns: u64,
) -> bool {
    let sets = workers.filter_map(|worker| worker.made_readiness());
    let sets = sets.filter(|set| set.waiting() != 0);
    fds.extend(sets.map(|set| PollFd::from_borrowed_fd(set.fd(), PollFlags::IN)));
    let time = Timespec { tv_sec: 0, tv_nsec: ns.min(999_999_999) as _ };
    poll(fds, Some(&time)).is_ok_and(|ready| ready != 0)
}

/// Whether somebody was asked to leave at a look.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Nobody,
    One,
    /// One that was asked in vain before.
    Again,
}

impl Watch {
    /// Sleeps for a tick, and looks after kept workers meanwhile.
    pub(super) fn sleep_for_tick(&mut self) {
        if self.is_calm() {
            return self.sleep_calmly();
        }
        let end = clock::now_ns() + self.tick.as_nanos() as u64;
        let mut with_events = true;
        let mut asked = self.serve_kept();
        loop {
            let now = clock::now_ns();
            if self.kept.workers.is_empty() {
                return std::thread::sleep(Duration::from_nanos(end.saturating_sub(now)));
            }
            // Who was asked makes room for one that may soon wait again.
            let first = if asked > Asked::Nobody { 0 } else { self.kept.first_deadline() };
            let until = first.max(now + self.kept.gap_ns(asked)).min(end);
            let waiting = self.kept.waiting();
            let is_event = self.kept.sleep(until.saturating_sub(now), with_events);
            if clock::now_ns() >= end {
                return;
            }
            asked = self.serve_kept();
            with_events &= !is_event || self.kept.waiting() != waiting;
        }
    }

    /// Makes ready whose time or event has come, and has those that keep a worker make room.
    fn serve_kept(&mut self) -> Asked {
        let mut asked = Asked::Nobody;
        for index in 0..self.kept.workers.len() {
            asked = asked.max(self.serve(self.kept.workers[index]));
        }
        asked
    }

    fn serve(&mut self, worker: &'static Worker) -> Asked {
        // SAFETY: null or a slot of the slab; only its record and atomics are used.
        let Some(thread) = (unsafe { worker.current.load(Relaxed).as_ref() }) else {
            return Asked::Nobody;
        };
        if worker.in_place.load(Relaxed) {
            self.serve_in_place(worker);
            return Asked::Nobody;
        }
        let seen = worker.seen.get();
        let is_same = worker.switches.load(Relaxed) == seen.switches;
        if !(is_same && seen.same_cpu_ns >= SLICE_SHORT_NS || self.kept.computes(thread)) {
            return Asked::Nobody;
        }
        if worker.has_waiting_full() {
            worker.rescue();
        }
        // Others of its own weight.
        if !worker.offered.has_come(thread.group.load(Relaxed)) && worker.fresh.len() == 0 {
            return Asked::Nobody;
        }
        if self.runtime.lacks_workers() {
            self.runtime.wake_a_sleeper();
            return Asked::Nobody;
        }
        if seen.granted && !worker.offered.is_granted() {
            // It has its turn until the next tick, whoever comes.
            return Asked::Nobody;
        }
        self.kept.note(thread);
        let was_in_vain = overdue::is_one(thread);
        match preempt::make_room(worker, 0, thread.group.load(Relaxed)) {
            true if was_in_vain => Asked::Again,
            true => Asked::One,
            false => Asked::Nobody,
        }
    }

    /// Of one that waits for a disk: others take who is ready there.
    fn serve_in_place(&self, worker: &'static Worker) {
        if worker.has_waiting_full() {
            worker.rescue();
        }
        if is_left(worker) {
            self.runtime.serve_elsewhere(worker);
        }
    }
}

/// Has one of those go next that `worker` has preempted, if it runs one of the others (`computes`
/// is false) and none has gone in the last tick.
pub(super) fn give_turn(worker: &Worker, seen: &mut Seen, computes: bool) {
    let offered = &worker.offered;
    if offered.is_granted() {
        return;
    }
    seen.granted = !seen.granted && !computes && offered.behind() != 0;
    if seen.granted {
        offered.grant();
    }
}
