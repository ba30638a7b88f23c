//! The models of turns: `src/turns.rs` and `src/worker/given.rs`, on the queues, the sleep and the
//! seat as they are.
//!
//! Weaker forms that fail: a thread that passes its turn goes among those that were preempted, and
//! the first of those waits for no turns (two threads had all turns so; each change alone mends
//! it); who is given threads is not told, or its sleep is not ended, or its seat is not looked at,
//! or what lies in an empty one stays; the threads of those that can't leave are not moved, or not
//! those of the worker that was asked last; the monitor forgets whom it asked last; a thread is
//! taken that has not left its stack, or leaves without being put anywhere.
//!
//! Two pass, as nothing is lost by them: a signal that comes late leaves the thread that runs by
//! then, and the search begins at the first worker each time, so that one that has got its own
//! turn keeps its worker for longer.

use core::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};

use crate::control::Control;
use crate::models::{check, check_alone};
use crate::runtime::Runtime;
use crate::sched::spawn;
use crate::turns::{Turns, is_left};
use crate::worker::Worker;

/// How often each thread has run to its end, and how many have in all.
#[derive(Clone, Default)]
pub struct Ran(Arc<([AtomicUsize; 4], AtomicUsize)>);

impl Ran {
    /// `thread`, on whose stack the caller is, ends.
    pub fn end(&self, thread: &'static Control) {
        thread.context.work();
        self.0.0[thread.slot() as usize].fetch_add(1, Relaxed);
        self.0.1.fetch_add(1, Relaxed);
    }

    pub fn count(&self) -> usize {
        self.0.1.load(Relaxed)
    }

    /// Runs those that are left, and looks whether each has run once.
    pub fn each_once(&self, runtime: &'static Runtime, threads: &[&'static Control]) {
        for worker in (0..runtime.count()).map(|index| runtime.worker(index)) {
            assert!(worker.is_in_call.load(Relaxed) || worker.running().is_none());
            assert_eq!(worker.fresh.len(), 0);
            while let Some(thread) = worker.offered.pop() {
                thread.context.enter();
                self.end(thread);
            }
            assert_eq!(worker.offered.len(), 0);
        }
        for thread in threads {
            assert_eq!(self.0.0[thread.slot() as usize].load(Relaxed), 1);
        }
    }
}

/// A worker of `runtime` that the monitor has found blocked with `thread`.
pub fn blocked(
    runtime: &'static Runtime,
    index: usize,
    thread: &'static Control,
) -> &'static Worker {
    let worker = runtime.worker(index);
    worker.resume(thread);
    worker.blocked.store(true, Relaxed);
    worker
}

/// The kernel thread of a blocked worker, until nothing is left here: the wait of whoever runs ends
/// at some moment, and a signal may come before that.
fn come_back(worker: &'static Worker, ran: &Ran) {
    loop {
        worker.take_signal();
        if let Some(me) = worker.running() {
            ran.end(me);
            worker.to_scheduler(me);
        }
        match worker.offered.pop() {
            Some(next) => worker.resume(next),
            None => return,
        }
    }
}

/// As `Worker::idle`, until `count` threads have run, wherever; a spare worker leaves its seat.
fn come_back_and_sleep(worker: &'static Worker, ran: &Ran, count: usize) {
    loop {
        come_back(worker, ran);
        if ran.count() == count {
            // Only for the model's end: the other waits for the count.
            return (0..worker.runtime.count()).for_each(|i| {
                worker.runtime.worker(i).reactor.signal();
            });
        }
        let leaves = worker.index as usize >= worker.runtime.regular();
        worker.sleeping.announce(false);
        if worker.offered.len() + worker.fresh.len() == 0 && ran.count() != count {
            let call = || worker.runtime.steward.call();
            if leaves && worker.seat.leave(&worker.sleeping, call) {
                return;
            }
            if !leaves {
                worker.reactor.0.wait();
            }
        }
        worker.sleeping.end();
    }
}

/// Two workers that are blocked, one of them with a thread that is ready, and the monitor.
fn nobody_is_lost(looks: bool) {
    check(move |controls| {
        let (runtime, ran) = (Runtime::fresh(2, controls), Ran::default());
        let [_, one, two, three] = *controls;
        let workers = [blocked(runtime, 0, one), blocked(runtime, 1, two)];
        workers.iter().for_each(|worker| worker.looks.store(looks, Relaxed));
        workers[0].offered.push(three);
        let back = workers.map(|worker| {
            let theirs = ran.clone();
            spawn(controls[0], move || come_back(worker, &theirs))
        });
        let mut turns = Turns::default();
        turns.take(runtime);
        turns.take(runtime);
        back.into_iter().for_each(|worker| worker.join().unwrap());
        ran.each_once(runtime, &controls[1..]);
    });
}

#[test]
fn nobody_is_lost_when_workers_come_back_at_their_turns() {
    nobody_is_lost(false);
}

#[test]
fn nobody_is_lost_when_they_look_around_at_each_switch() {
    nobody_is_lost(true);
}

/// The worker that gets the threads of another comes back, has nothing to do, and its kernel thread
/// leaves; no other comes, as the kernel refuses one.
#[test]
fn a_seat_that_is_left_while_threads_are_handed_to_it_keeps_none() {
    check(|controls| {
        let (runtime, ran) = (Runtime::fresh(2, controls), Ran::default());
        let [_, one, two, three] = *controls;
        let workers = [blocked(runtime, 0, one), blocked(runtime, 1, two)];
        workers[0].offered.push(three);
        let back = workers.map(|worker| {
            let theirs = ran.clone();
            spawn(controls[0], move || come_back_and_sleep(worker, &theirs, 3))
        });
        Turns::default().take(runtime);
        back.into_iter().for_each(|worker| worker.join().unwrap());
        ran.each_once(runtime, &controls[1..]);
    });
}

/// Blocked workers, one thread for each and the rest ready at one of them; nobody's wait ends. In
/// `looks` each bit is a turn after which the worker that has switched is seen to run, so that it
/// gets the threads of the blocked ones (as `Watch::compensate` has it); in `grants` each is one
/// after which those that were preempted are granted a turn. They begin again after [`PERIOD`].
#[derive(Clone, Copy)]
struct Schedule {
    workers: usize,
    looks: u32,
    grants: u32,
    /// Where the rest are.
    rest: usize,
    /// The last worker's thread can't be left.
    is_held: bool,
}

const PERIOD: u32 = 4;
const ROUNDS: u32 = 16;
/// Threads in all.
const THREADS: u32 = 4;

impl Schedule {
    fn all(workers: usize, is_held: bool) -> impl Iterator<Item = Self> {
        (0..1 << (2 * PERIOD)).flat_map(move |bits| {
            let (looks, grants) = (bits & ((1 << PERIOD) - 1), bits >> PERIOD);
            (0..workers).map(move |rest| Schedule { workers, looks, grants, rest, is_held })
        })
    }

    /// Most turns of others that a thread has waited for; all of them if it has had none.
    fn run(self, controls: &'static [&'static Control; 4]) -> u32 {
        let runtime = Runtime::fresh(self.workers as u32, controls);
        let (mut turns, mut waited, mut most) = (Turns::default(), [0; 4], 0);
        let mut has_run = [false; 4];
        for (index, thread) in controls[..self.workers].iter().enumerate() {
            blocked(runtime, index, thread);
        }
        let rest = controls[self.workers..].iter().copied();
        runtime.worker(self.rest).offered.push_all(rest);
        for round in 0..ROUNDS {
            let is_set = |bits: u32| bits >> (round % PERIOD) & 1 != 0;
            turns.take(runtime);
            let last = runtime.worker(self.workers - 1);
            let asked = runtime.workers().find(|worker| {
                let is_held = self.is_held && ptr::eq(*worker, last);
                worker.take_signal_unless(is_held)
            });
            let Some(asked) = asked else { continue };
            for (slot, waited) in waited.iter_mut().enumerate() {
                let runs = |worker: &'static Worker| {
                    worker.running().is_some_and(|thread| thread.slot() as usize == slot)
                };
                has_run[slot] |= runtime.workers().any(runs);
                *waited = if runtime.workers().any(runs) { 0 } else { *waited + 1 };
                most = most.max(*waited);
            }
            if is_set(self.looks) {
                let others = runtime.workers().filter(|worker| !ptr::eq(*worker, asked));
                others.filter(|worker| is_left(worker)).for_each(|other| other.hand_over(asked));
            }
            if is_set(self.grants) {
                runtime.workers().for_each(|worker| worker.offered.grant());
            }
        }
        if has_run == [true; 4] { most } else { ROUNDS }
    }
}

/// Turns of others that a thread waits for at most, whatever the monitor sees in between.
fn most_waited(workers: usize, is_held: bool) -> u32 {
    let most = Arc::new(AtomicU32::new(0));
    for schedule in Schedule::all(workers, is_held) {
        let most = most.clone();
        check_alone(move |controls| {
            most.fetch_max(schedule.run(controls), Relaxed);
        });
    }
    most.load(Relaxed)
}

#[test]
fn each_comes_to_its_turn() {
    for workers in 1..=3 {
        // As many as wait.
        assert_eq!(most_waited(workers, false), THREADS - workers as u32, "{workers} workers");
    }
}

#[test]
fn each_comes_to_its_turn_beside_one_that_is_held() {
    for workers in 2..=3 {
        assert_eq!(most_waited(workers, true), THREADS - workers as u32, "{workers} workers");
    }
}
