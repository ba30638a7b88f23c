//! The models of migration: `src/offered.rs` and, in it, `src/queue.rs`. A worker, thieves, and who
//! makes threads ready; and the monitor, which hands the threads of a blocked worker on.
//!
//! Not here: which worker the monitor chooses (`compensate_models.rs`; of turns: `turn_models.rs`),
//! crowds (`crowd_models.rs`) and the queues of time-critical threads. A worker that finds nothing
//! to steal, and sleeps, is not told of what another is offered later: the monitor, which looks
//! while any worker is awake, wakes it (`helper_models.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Notify;
use loom::sync::atomic::AtomicUsize;

use crate::control::Control;
use crate::models::check;
use crate::offered::Offered;
use crate::sched::spawn;
use crate::sleep::Sleep;

/// How often each thread has run.
type Ran = Arc<[AtomicUsize; 4]>;

/// Continues a thread to its end: loom fails the model if somebody else is on its stack.
fn run(thread: &'static Control, ran: &Ran) {
    thread.context.enter();
    finish(thread, ran);
}

/// As [`run`], by who is on its stack.
fn finish(thread: &'static Control, ran: &Ran) {
    thread.context.work();
    ran[thread.slot() as usize].fetch_add(1, Relaxed);
    thread.context.leave();
}

fn each_once(offered: &Offered, ran: &Ran, threads: &[&'static Control]) {
    while let Some(thread) = offered.pop() {
        run(thread, ran);
    }
    for thread in threads {
        assert_eq!(ran[thread.slot() as usize].load(Relaxed), 1);
    }
    assert_eq!(offered.len(), 0);
}

/// Queues with room, all of whose places were used once.
fn used(controls: &[&'static Control]) -> Arc<Offered> {
    use_once(Offered::with_room(), controls)
}

/// The model's main thread is the first to use what several do, as loom demands.
fn use_once(offered: Offered, controls: &[&'static Control]) -> Arc<Offered> {
    offered.push_all(controls[1..].iter().copied());
    let mut chain = 0;
    assert_eq!(offered.steal(u32::MAX, |_| chain += 1), 3);
    assert_eq!((chain, offered.len()), (3, 0));
    Arc::new(offered)
}

#[test]
fn an_offered_thread_is_taken_once() {
    check(|controls| {
        let (offered, ran) = (used(controls), Ran::default());
        let (theirs, all) = (offered.clone(), ran.clone());
        let thief = spawn(controls[0], move || {
            theirs.steal(2, |thread| run(thread, &all));
        });
        let (theirs, thread) = (offered.clone(), controls[3]);
        let waker = spawn(controls[0], move || theirs.push(thread));
        offered.push(controls[1]);
        offered.push(controls[2]);
        if let Some(thread) = offered.pop() {
            run(thread, &ran);
        }
        thief.join().unwrap();
        waker.join().unwrap();
        each_once(&offered, &ran, &controls[1..]);
    });
}

/// Threads that found no room lie in a list, until the worker has made some.
#[test]
fn a_thread_is_taken_once_while_room_is_made() {
    check(|controls| {
        let (offered, ran) = (use_once(Offered::new(), controls), Ran::default());
        offered.push(controls[1]);
        offered.push(controls[2]);
        let (theirs, all) = (offered.clone(), ran.clone());
        let thief = spawn(controls[0], move || {
            theirs.steal(1, |thread| run(thread, &all));
        });
        let (theirs, thread) = (offered.clone(), controls[3]);
        let waker = spawn(controls[0], move || theirs.push(thread));
        offered.enlarge();
        thief.join().unwrap();
        waker.join().unwrap();
        each_once(&offered, &ran, &controls[1..]);
    });
}

/// As `Worker::park_full`: the thread is made ready while it is on its way to leave its stack.
#[test]
fn a_thread_that_is_on_its_stack_is_left_to_its_worker() {
    check(|controls| {
        let (offered, ran) = (used(controls), Ran::default());
        let me = controls[1];
        me.context.enter();
        let theirs = offered.clone();
        let waker = spawn(controls[0], move || theirs.push(me));
        let (theirs, all) = (offered.clone(), ran.clone());
        let thief = spawn(controls[0], move || {
            theirs.steal(1, |thread| run(thread, &all));
        });
        match offered.pop() {
            Some(_) => finish(me, &ran),
            None => me.context.leave(),
        }
        waker.join().unwrap();
        thief.join().unwrap();
        each_once(&offered, &ran, &controls[1..2]);
    });
}

/// How a thread goes that could go on.
type Exchange = fn(&Offered, &'static Control) -> Option<&'static Control>;

/// As `Worker::yield_full` and `Worker::preempt_full`: the thread is offered, and another taken,
/// before its stack is left.
fn leaves(make: fn() -> Offered, exchange: Exchange) {
    check(move |controls| {
        let (offered, ran) = (use_once(make(), controls), Ran::default());
        let me = controls[1];
        me.context.enter();
        offered.push(controls[2]);
        let (theirs, all) = (offered.clone(), ran.clone());
        let thief = spawn(controls[0], move || {
            theirs.steal(1, |thread| run(thread, &all));
        });
        let (theirs, thread) = (offered.clone(), controls[3]);
        let waker = spawn(controls[0], move || theirs.push(thread));
        match exchange(&offered, me) {
            Some(next) => {
                assert!(!core::ptr::eq(next, me));
                me.context.leave();
                run(next, &ran);
            }
            None => finish(me, &ran),
        }
        thief.join().unwrap();
        waker.join().unwrap();
        each_once(&offered, &ran, &controls[1..]);
    });
}

#[test]
fn a_thread_that_yields_and_the_next_one_run_once() {
    leaves(Offered::with_room, Offered::exchange);
}

#[test]
fn so_they_do_where_there_is_no_room() {
    leaves(Offered::new, Offered::exchange);
}

#[test]
fn a_thread_that_is_preempted_and_the_next_one_run_once() {
    leaves(Offered::with_room, Offered::exchange_preempted);
}

/// The order of what is ready, one after the other.
#[test]
fn those_that_were_preempted_go_behind_those_that_have_come_since() {
    check(|controls| {
        let offered = Offered::with_room();
        let [_, one, two, three] = *controls;
        let next = |right: &'static Control| {
            assert!(offered.pop().is_some_and(|thread| core::ptr::eq(thread, right)));
        };
        offered.push_preempted(one);
        offered.push(two);
        assert_eq!((offered.len(), offered.behind(), offered.come()), (2, 1, 1));
        let group = two.group.load(Relaxed);
        assert!(offered.has_come(group) && (group == 0 || !offered.has_come(group - 1)));
        // Who yields goes behind both; who has come since goes before both.
        assert!(offered.exchange(three).is_some_and(|thread| core::ptr::eq(thread, two)));
        assert_eq!((offered.len(), offered.behind()), (2, 2));
        assert!(!offered.has_come(group));
        offered.push(two);
        next(two);
        next(one);
        next(three);
        assert_eq!((offered.len(), offered.behind()), (0, 0));
        // While others come they have a turn when it is time, and one only.
        offered.push_preempted(one);
        offered.push_preempted(three);
        offered.push(two);
        offered.grant();
        next(one);
        assert!(!offered.is_granted());
        offered.push(one);
        next(two);
        next(one);
        next(three);
        // But not before those who were there first.
        offered.push(two);
        offered.push_preempted(one);
        offered.push(three);
        offered.grant();
        next(two);
        next(one);
        next(three);
        assert!(!offered.is_granted());
        // What is taken in between, or has another priority by now, is not lost.
        offered.push_preempted(one);
        offered.push_preempted(two);
        two.priority.store(9, Relaxed);
        offered.resort();
        assert_eq!((offered.len(), offered.behind(), offered.fast_priority()), (2, 1, 9));
        next(two);
        two.priority.store(0, Relaxed);
        assert_eq!(offered.steal(4, |thread| assert!(core::ptr::eq(thread, one))), 1);
        assert_eq!((offered.len(), offered.behind()), (0, 0));
    });
}

/// A worker: where its threads are, and how it is told of them.
struct Worker {
    offered: Arc<Offered>,
    sleeping: Sleep,
    event: Notify,
}

impl Worker {
    fn new(controls: &[&'static Control]) -> Arc<Self> {
        let (sleeping, event) = (Sleep::new(), Notify::new());
        assert!(!sleeping.is_asleep());
        Arc::new(Worker { offered: used(controls), sleeping, event })
    }

    /// As `Worker::notify`.
    fn notify(&self) {
        if self.sleeping.claim() {
            self.event.notify();
        }
    }

    /// As `Worker::idle`: goes on until `count` threads have run, wherever.
    fn serve(&self, count: usize, ran: &Ran, all: &std::sync::atomic::AtomicUsize) {
        loop {
            while let Some(thread) = self.offered.pop() {
                run(thread, ran);
                all.fetch_add(1, Relaxed);
            }
            if all.load(Relaxed) == count {
                return;
            }
            self.sleeping.announce(false);
            if self.offered.len() == 0 && all.load(Relaxed) != count {
                self.event.wait();
            }
            self.sleeping.end();
        }
    }
}

#[test]
fn what_is_offered_to_a_worker_that_goes_to_sleep_is_found() {
    check(|controls| {
        let (worker, ran) = (Worker::new(controls), Ran::default());
        let wakers = [1, 2].map(|each| {
            let theirs = worker.clone();
            spawn(controls[0], move || {
                theirs.offered.push(controls[each]);
                theirs.notify();
            })
        });
        worker.serve(2, &ran, &Default::default());
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
        each_once(&worker.offered, &ran, &controls[1..3]);
    });
}

/// As `Runtime::hand_over` by the monitor, of a blocked worker that comes back meanwhile, to one
/// that goes to sleep.
#[test]
fn a_worker_that_comes_back_and_its_stand_in_share_its_threads() {
    check(|controls| {
        let (blocked, other) = (Worker::new(controls), Worker::new(controls));
        let (ran, all) = (Ran::default(), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
        blocked.offered.push_all(controls[1..3].iter().copied());
        let (from, to) = (blocked.clone(), other.clone());
        let monitor = spawn(controls[0], move || {
            from.offered.steal(u32::MAX, |thread| to.offered.push(thread));
            to.notify();
        });
        let (theirs, to, its, count) = (blocked.clone(), other.clone(), ran.clone(), all.clone());
        let back = spawn(controls[0], move || {
            if let Some(thread) = theirs.offered.pop() {
                run(thread, &its);
                // Only for the model's end: the other does not wait for this one.
                count.fetch_add(1, Relaxed);
                to.notify();
            }
        });
        other.serve(2, &ran, &all);
        monitor.join().unwrap();
        back.join().unwrap();
        each_once(&blocked.offered, &ran, &[]);
        each_once(&other.offered, &ran, &controls[1..3]);
    });
}
