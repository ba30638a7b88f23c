//! The models of compensation: `src/monitor/compensate.rs`, `src/runtime/wakes.rs` and `count.rs`,
//! `src/worker/idle.rs` and `kernel_thread.rs`, on the queues, the sleep and the seat as they are.
//!
//! The monitor looks, and again whenever somebody goes to sleep: in any order with the first, and
//! for the last time when nothing moves any more. What it sees of a worker's call is the truth. How
//! many sleep, and have seats, are hints, which are no atomics of loom's here. Most models have one
//! preemption: with two they take minutes.
//!
//! Weaker forms that fail: who is woken is not told, or is one that does not sleep; the monitor
//! does not note that there are too few workers, or not for how long, or has turns taken at once; a
//! blocked worker's threads are not given away while enough run, or who was woken is not counted
//! (no end is found to these two); a worker announces its sleep after its last look, or does not
//! look at its queue; either fence of `sleep.rs` is missing; what is handed over is not told, or
//! its sleep is claimed without a signal; a seat that was left is not looked at, or the steward is
//! not called for it, or does not fill it, or what lies in it stays (`turn_models.rs`); the seat is
//! empty before it is sure that it stays so; who moves is not told of. Of `seat.rs` without the
//! others: `seat_models.rs`.
//!
//! Others pass. Some as the monitor looks again: it tells how many are blocked after it has woken
//! others for them, or takes those for blocked that are not; threads are given away to one that is
//! blocked, or sleeps, or to who gives; nobody rests; nobody is kept from looking for something to
//! do. Some as two preemptions are not enough: who finds its sleep claimed while it leaves sleeps.
//! And some as nothing here needs them: a thread that waits keeps no kernel thread in its seat; who
//! sits down keeps the sleep and the order to leave; the sleep is not ended; empty seats that
//! nobody wants are filled, or are never taken out of the count.
//!
//! Not here: what the kernel and the switches tell of a worker (`Watch::look_at`), patience
//! (`patience_models.rs`), naps (`models.rs`), and light threads.

use std::sync::atomic::Ordering::Relaxed;

use crate::control::Control;
use crate::models::{check, check_alone, check_within};
use crate::monitor::Watch;
use crate::runtime::Runtime;
use crate::turn_models::{Ran, blocked};
use crate::worker::Worker;

/// A worker whose thread is in a call that does not end by itself.
fn held(runtime: &'static Runtime, index: usize, thread: &'static Control) -> &'static Worker {
    let worker = blocked(runtime, index, thread);
    worker.blocked.store(false, Relaxed);
    worker.is_in_call.store(true, Relaxed);
    worker.live_full.fetch_add(1, Relaxed);
    worker
}

/// A thread that belongs to a worker, and is ready there.
fn offer(worker: &'static Worker, thread: &'static Control) {
    worker.live_full.fetch_add(1, Relaxed);
    worker.offered.push(thread);
}

/// A seat without a kernel thread.
fn empty(worker: &'static Worker) {
    worker.sleeping.announce(false);
    assert!(worker.seat.leave(&worker.sleeping, || {}));
    worker.runtime.seated.fetch_sub(1, Relaxed);
}

/// What kernel threads do: each thread runs to its end, and the model is over when `count` have.
fn run_all(runtime: &'static Runtime, count: usize) -> Ran {
    let ran = Ran::default();
    let its = ran.clone();
    let each = move |thread: &'static Control| {
        its.end(thread);
        if its.count() == count {
            runtime.end();
        }
    };
    let body = move |worker: &'static Worker| worker.run(&each);
    assert!(runtime.body.set(Box::new(body)).is_ok());
    ran
}

/// The monitor looks, and again whenever somebody goes to sleep, or to block: so the last look is
/// when nothing moves any more.
fn watch_until_over(runtime: &'static Runtime, mut watch: Watch) {
    while !runtime.is_over() {
        watch.look();
        if !runtime.is_over() {
            runtime.tick.wait();
        }
    }
}

fn steward(runtime: &'static Runtime) -> loom::thread::JoinHandle<()> {
    loom::thread::spawn(|| runtime.serve_as_steward())
}

/// The one spare worker goes to sleep, or leaves its seat, and the steward is late.
#[test]
fn a_thread_at_a_blocked_worker_is_run_though_the_spare_one_leaves() {
    check_within(1, |controls| {
        let runtime = Runtime::fresh(2, controls);
        let [_, one, two, _] = *controls;
        let ran = run_all(runtime, 1);
        offer(held(runtime, 0, one), two);
        runtime.worker(1).is_to_leave.store(true, Relaxed);
        runtime.sit(runtime.worker(1));
        let steward = steward(runtime);
        watch_until_over(runtime, Watch::new(runtime));
        steward.join().unwrap();
        runtime.join();
        ran.each_once(runtime, &[two]);
    });
}

/// The blocked worker comes back meanwhile.
#[test]
fn a_thread_at_a_worker_that_comes_back_is_run_once() {
    check_within(1, |controls| {
        let runtime = Runtime::fresh(2, controls);
        let [_, one, two, _] = *controls;
        let ran = run_all(runtime, 2);
        let back = held(runtime, 0, one);
        offer(back, two);
        runtime.sit(runtime.worker(1));
        let theirs = ran.clone();
        let kernel_thread = loom::thread::spawn(move || {
            back.is_in_call.store(false, Relaxed);
            theirs.end(one);
            back.live_full.fetch_sub(1, Relaxed);
            back.to_scheduler(one);
            if theirs.count() == 2 {
                return runtime.end();
            }
            (runtime.body.get().unwrap())(back);
        });
        watch_until_over(runtime, Watch::new(runtime));
        kernel_thread.join().unwrap();
        runtime.join();
        ran.each_once(runtime, &[one, two]);
    });
}

/// A spare worker that stands in for a blocked one is blocked itself: another stands in for both.
#[test]
fn a_thread_is_run_whoever_is_blocked() {
    check_within(1, |controls| {
        let runtime = Runtime::fresh(3, controls);
        let [one, two, three, four] = *controls;
        let ran = run_all(runtime, 2);
        offer(held(runtime, 0, one), three);
        offer(held(runtime, 1, two), four);
        runtime.sit(runtime.worker(2));
        watch_until_over(runtime, Watch::new(runtime));
        runtime.join();
        ran.each_once(runtime, &[three, four]);
    });
}

/// Two workers block at once while one spare is there, and the kernel refuses another.
#[test]
fn one_spare_worker_runs_the_threads_of_two_that_block_at_once() {
    check_within(1, |controls| {
        let runtime = Runtime::fresh_of(2, 3, controls);
        let [one, two, three, four] = *controls;
        let ran = run_all(runtime, 2);
        offer(held(runtime, 0, one), three);
        offer(held(runtime, 1, two), four);
        runtime.sit(runtime.worker(2));
        let steward = steward(runtime);
        watch_until_over(runtime, Watch::new(runtime));
        steward.join().unwrap();
        runtime.join();
        ran.each_once(runtime, &[three, four]);
    });
}

/// No spare worker comes: the blocked one is made to leave its thread, when that has lasted.
#[test]
fn who_waits_for_want_of_a_worker_has_its_turn() {
    check_alone(|controls| {
        let runtime = Runtime::fresh(1, controls);
        let [_, one, two, _] = *controls;
        let blocked = held(runtime, 0, one);
        offer(blocked, two);
        let mut watch = Watch::new(runtime);
        watch.elapsed = 40_000_000;
        for _ in 0..2 {
            watch.look();
            assert!(!blocked.signal.load(Relaxed), "it is too early");
        }
        watch.look();
        blocked.take_signal();
        assert!(blocked.running().is_some_and(|thread| core::ptr::eq(thread, two)));
    });
}

/// One look, or wake, is enough where it has woken somebody: he finds what was there before, even
/// if he was about to leave.
#[test]
fn who_is_woken_comes() {
    check_within(1, |controls| {
        let runtime = Runtime::fresh(2, controls);
        let [_, one, two, _] = *controls;
        let ran = run_all(runtime, 1);
        let blocked = held(runtime, 0, one);
        blocked.blocked.store(true, Relaxed);
        runtime.blocked.store(1, Relaxed);
        runtime.worker(1).is_to_leave.store(true, Relaxed);
        runtime.sit(runtime.worker(1));
        let steward = steward(runtime);
        offer(blocked, two);
        if runtime.wake_one().is_none() {
            // It has left before, or does not sleep yet and may have looked.
            watch_until_over(runtime, Watch::new(runtime));
        }
        steward.join().unwrap();
        runtime.join();
        ran.each_once(runtime, &[two]);
    });
}

/// A worker more than should run is told to rest, and the one that it gives its threads to blocks,
/// while another thread is made ready at the first.
#[test]
fn nobody_is_lost_when_a_worker_is_told_to_rest() {
    check_within(1, |controls| {
        let runtime = Runtime::fresh(2, controls);
        let [_, one, two, three] = *controls;
        let ran = run_all(runtime, 2);
        let (kept, surplus) = (held(runtime, 0, one), runtime.worker(1));
        kept.is_in_call.store(false, Relaxed);
        offer(surplus, two);
        surplus.live_full.fetch_add(1, Relaxed);
        runtime.sit(surplus);
        let mut watch = Watch::new(runtime);
        watch.look();
        kept.is_in_call.store(true, Relaxed);
        surplus.offered.push(three);
        surplus.notify();
        watch_until_over(runtime, watch);
        runtime.join();
        ran.each_once(runtime, &[two, three]);
    });
}

/// A thread moves to the spare worker, which goes to sleep, and is woken and told to leave its seat
/// as nobody needs it.
#[test]
fn who_moves_is_run_though_the_other_worker_is_to_leave() {
    check_within(2, |controls| {
        let runtime = Runtime::fresh(2, controls);
        let [_, one, ..] = *controls;
        let ran = run_all(runtime, 1);
        let old = held(runtime, 0, one);
        let spare = runtime.worker(1);
        runtime.sit(spare);
        let monitor = loom::thread::spawn(move || {
            if spare.sleeping.is_asleep() && !spare.is_needed() {
                spare.is_to_leave.store(true, Relaxed);
                spare.notify();
            }
        });
        runtime.tick.wait();
        spare.live_full.fetch_add(1, Relaxed);
        old.to_scheduler(one);
        old.is_in_call.store(false, Relaxed);
        old.live_full.fetch_sub(1, Relaxed);
        spare.take_in(one);
        monitor.join().unwrap();
        if old.offered.len() != 0 {
            // The spare one was about to leave: it is for a worker that always runs.
            runtime.end();
        }
        runtime.join();
        ran.each_once(runtime, &[one]);
    });
}

/// A spare worker is woken while it leaves its seat and the steward counts the seats: if it goes on
/// the others look at it.
#[test]
fn who_has_its_kernel_thread_is_looked_at() {
    check(|controls| {
        let runtime = Runtime::fresh(2, controls);
        run_all(runtime, 1);
        let spare = runtime.worker(1);
        spare.is_to_leave.store(true, Relaxed);
        runtime.sit(spare);
        let steward = loom::thread::spawn(|| runtime.fill_seats(0).is_ok());
        spare.notify();
        assert!(steward.join().unwrap());
        if runtime.steward.called.take() {
            assert!(runtime.fill_seats(0).is_ok());
        }
        runtime.end();
        runtime.join();
        assert!(spare.seat.is_empty() || runtime.count() == 2);
    });
}
