//! The models of crowds: `src/queue.rs` and `src/offered.rs` with threads that one wake of many has
//! made ready (how these are chosen and woken: `lot_models.rs`).
//!
//! Turns are no question of orders of steps: what may happen beside them is tried for each of the
//! turns of a period, all combinations one after the other.
//!
//! Weaker forms that fail: those that were preempted go first whenever it is their time (a crowd
//! had no turn, then, where all others had been preempted), or have to wait for nobody, or go
//! behind the crowd, however long it comes; a crowd goes before others, or has no turn while there
//! are others, or the count of others before it does not begin again; it is forgotten when
//! priorities have changed, or is queued as others are.
//!
//! One passes: a yield to the next of the ring although there is a crowd (`RunQueues::rotate`); the
//! turns here are taken by `pop` alone.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::atomic::AtomicUsize;

use crate::control::{Control, WaitKind};
use crate::models::{check, check_alone};
use crate::offered::Offered;
use crate::sched::spawn;

/// Steps of a schedule, which begin again after [`PERIOD`].
const PERIOD: u32 = 3;
const TURNS: usize = 40;
/// Most turns that any thread waits for: the third of a crowd of three, with four turns of others
/// before each of them.
const WAITED_MAX: u32 = 14;

/// What happens beside the turns, a bit for each step: the thread that leaves is preempted instead
/// of yielding; the monitor grants those a turn; another worker takes one and
/// runs it; priorities have changed.
#[derive(Clone, Copy)]
struct Schedule {
    preempted: u32,
    granted: u32,
    moved: u32,
    resorted: u32,
}

impl Schedule {
    fn all() -> impl Iterator<Item = Self> {
        let steps = 1 << PERIOD;
        (0..steps * steps * steps).map(move |bits| {
            let [one, two, three] = [bits % steps, bits / steps % steps, bits / steps / steps];
            // The monitor grants a turn again and again.
            Schedule { preempted: one, granted: two | 1, moved: three, resorted: one ^ three }
        })
    }

    /// `crowd` threads that one wake made ready, and others that go on all the time: most turns
    /// that one of the crowd waits for, and most of the crowd between two turns of others.
    fn run(self, controls: &'static [&'static Control; 4], crowd: usize) -> (usize, usize) {
        let offered = Offered::with_room();
        let slots = |thread: &Control| thread.slot() as usize;
        offered.push_all(controls[crowd..].iter().copied());
        controls[..crowd].iter().for_each(|thread| thread.wait.set(WaitKind::Crowd));
        offered.push_all(controls[..crowd].iter().copied());
        let (mut waited, mut most, mut in_a_row, mut most_in_a_row) = ([0; 4], 0, 0, 0);
        for turn in 0..TURNS {
            let is_set = |bits: u32| bits >> (turn as u32 % PERIOD) & 1 != 0;
            let Some(next) = offered.pop() else { unreachable!("four threads") };
            waited.iter_mut().for_each(|turns| *turns += 1);
            waited[slots(next)] = 0;
            most = waited.iter().copied().max().unwrap_or(0).max(most);
            let is_of_crowd = next.wait.get() == WaitKind::Crowd;
            in_a_row = if is_of_crowd { in_a_row + 1 } else { 0 };
            most_in_a_row = in_a_row.max(most_in_a_row);
            // It has looked in vain, and waits and is woken with the others.
            match (is_of_crowd, is_set(self.preempted)) {
                (false, true) => offered.push_preempted(next),
                (false, false) => offered.push_yielded(next),
                (true, _) => offered.push(next),
            }
            if is_set(self.granted) {
                offered.grant();
            }
            if is_set(self.resorted) {
                offered.resort();
            }
            if is_set(self.moved) {
                offered.steal(1, |thread| {
                    waited[slots(thread)] = 0;
                    offered.push(thread);
                });
            }
        }
        (most, most_in_a_row)
    }
}

/// What [`Schedule::run`] says of all schedules.
fn most(crowd: usize) -> (u32, u32) {
    let most = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
    for schedule in Schedule::all() {
        let most = most.clone();
        check_alone(move |controls| {
            let (waited, in_a_row) = schedule.run(controls, crowd);
            most.0.fetch_max(waited as u32, Relaxed);
            most.1.fetch_max(in_a_row as u32, Relaxed);
        });
    }
    (most.0.load(Relaxed), most.1.load(Relaxed))
}

#[test]
fn each_of_a_crowd_comes_to_its_turn_and_others_get_on() {
    for crowd in 1..=3 {
        let (waited, in_a_row) = most(crowd);
        assert!(waited <= WAITED_MAX, "{crowd} in the crowd: one waits for {waited} turns");
        assert!(in_a_row <= 2, "{crowd} in the crowd: {in_a_row} of it in a row");
    }
}

/// Of a crowd that a waker queues the worker runs one while a thief takes others.
#[test]
fn each_of_a_crowd_is_taken_once() {
    check(|controls| {
        let offered = Arc::new(Offered::with_room());
        offered.push_all(controls[1..].iter().copied());
        assert_eq!(offered.steal(u32::MAX, |_| {}), 3);
        let ran: Arc<[AtomicUsize; 4]> = Arc::default();
        let run = |thread: &'static Control, ran: &[AtomicUsize; 4]| {
            thread.context.enter();
            thread.wait.set(WaitKind::None);
            thread.context.work();
            ran[thread.slot() as usize].fetch_add(1, Relaxed);
            thread.context.leave();
        };
        let theirs = offered.clone();
        let crowd = &controls[1..];
        let waker = spawn(controls[0], move || {
            crowd.iter().for_each(|thread| thread.wait.set(WaitKind::Crowd));
            crowd[..2].iter().for_each(|thread| theirs.push(thread));
            theirs.push(crowd[2]);
        });
        let (theirs, its) = (offered.clone(), ran.clone());
        let thief = spawn(controls[0], move || {
            let mut taken = Vec::new();
            theirs.steal(2, |thread| taken.push(thread));
            taken.into_iter().for_each(|thread| run(thread, &its));
        });
        if let Some(thread) = offered.pop() {
            run(thread, &ran);
        }
        waker.join().unwrap();
        thief.join().unwrap();
        while let Some(thread) = offered.pop() {
            run(thread, &ran);
        }
        assert!(crowd.iter().all(|thread| ran[thread.slot() as usize].load(Relaxed) == 1));
        assert_eq!(offered.len(), 0);
    });
}
