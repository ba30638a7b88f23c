//! The models of patience: `src/worker/patience.rs`, on the queues and the sleep as they are. A
//! thread is left to a worker that has a turn for it soon, and that may be about to sleep.
//!
//! There is no monitor here: who leaves a thread to a worker has to see to it that it runs.
//!
//! Weaker forms that fail: the worker that gets a thread is not told, or its sleep is claimed
//! without a signal; a thread is taken over that has not left its stack; its owner goes on counting
//! it. One passes: a thread is handed to a worker that sleeps, which is woken then.

use core::ptr;
use std::sync::atomic::Ordering::Relaxed;

use crate::control::Control;
use crate::models::check_within;
use crate::runtime::Runtime;
use crate::turn_models::Ran;
use crate::worker::Worker;

/// A thread that belongs to `worker`, and waits.
fn belongs(worker: &'static Worker, thread: &'static Control) {
    thread.worker.store(ptr::from_ref(worker).cast_mut().cast(), Relaxed);
    worker.live_full.fetch_add(1, Relaxed);
}

/// As `full::ready`, of a thread of `owner` whose wait the caller has ended on `here`.
fn ready(here: &'static Worker, owner: &'static Worker, thread: &'static Control) {
    if !ptr::eq(here, owner) {
        if here.takes_over(owner, thread) {
            return;
        }
        owner.offered.push(thread);
        return owner.notify();
    }
    owner.offered.push(thread);
}

/// What kernel threads do: `first`, then each thread that comes runs `then` to its end; the model
/// is over when `count` have.
fn run_all(
    runtime: &'static Runtime,
    count: usize,
    first: impl Fn(&'static Worker) + 'static,
    then: impl Fn(&'static Worker, &'static Control) + 'static,
) -> Ran {
    let ran = Ran::default();
    let its = ran.clone();
    let body = move |worker: &'static Worker| {
        first(worker);
        worker.run(&|thread| {
            then(worker, thread);
            its.end(thread);
            if its.count() == count {
                runtime.end();
            }
        });
    };
    assert!(runtime.body.set(Box::new(body)).is_ok());
    ran
}

/// Each thread has run once, and belongs to no worker any more.
fn each_once(runtime: &'static Runtime, ran: &Ran, threads: &[&'static Control]) {
    runtime.join();
    ran.each_once(runtime, threads);
    let live = runtime.workers().map(|worker| worker.live_full.load(Relaxed));
    assert_eq!(live.fold(0, u32::wrapping_add), 0);
}

/// A worker is woken for a thread, and hands it to one that has nothing to do just now either.
#[test]
fn what_is_handed_on_is_run() {
    check_within(2, |controls| {
        let runtime = Runtime::patient(2, controls);
        let ran = run_all(runtime, 1, |_| {}, |_, _| {});
        let (owner, thread) = (runtime.worker(1), controls[1]);
        runtime.workers().for_each(|worker| runtime.sit(worker));
        belongs(owner, thread);
        owner.offered.push(thread);
        owner.notify();
        each_once(runtime, &ran, &[thread]);
    });
}

/// A thread is made ready at another worker than its own, which has not left its stack yet, or
/// sleeps, or is about to; `is_kept`: which the monitor has found with one that computes.
fn is_taken_over(is_kept: bool) {
    check_within(2, move |controls| {
        let runtime = Runtime::patient(2, controls);
        let [_, waker, thread, _] = *controls;
        let (here, owner) = (runtime.worker(0), runtime.worker(1));
        let leave = move |worker: &'static Worker| {
            if ptr::eq(worker, owner) {
                worker.to_scheduler(thread);
            }
        };
        let wake = move |worker, runs: &'static Control| {
            if ptr::eq(runs, waker) {
                ready(worker, owner, thread);
            }
        };
        let ran = run_all(runtime, 2, leave, wake);
        belongs(here, waker);
        here.offered.push(waker);
        belongs(owner, thread);
        owner.resume(thread);
        owner.kept.store(is_kept, Relaxed);
        runtime.workers().for_each(|worker| runtime.sit(worker));
        each_once(runtime, &ran, &[waker, thread]);
    });
}

#[test]
fn who_is_taken_over_is_run_once() {
    is_taken_over(false);
}

#[test]
fn who_is_taken_over_from_one_that_computes_is_run_once() {
    is_taken_over(true);
}
