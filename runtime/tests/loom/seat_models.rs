//! The models of kernel threads that leave their worker and come to it: `src/seat.rs`.

use std::sync::Arc;

use loom::sync::Notify;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Acquire, Release};

use crate::control::Control;
use crate::inbox::Inbox;
use crate::models::{Watched, check_with};
use crate::sched::spawn;
use crate::seat::Seat;
use crate::sleep::Sleep;

/// A worker: what it is given, and what is its kernel thread's own.
struct Shared {
    inbox: Inbox,
    sleeping: Sleep,
    seat: Seat,
    event: Notify,
    calls: Notify,
    is_over: AtomicBool,
    own: Arc<Watched>,
}

impl Shared {
    fn new() -> Arc<Self> {
        let shared = Shared {
            inbox: Inbox::new(),
            sleeping: Sleep::new(),
            seat: Seat::new(),
            event: Notify::new(),
            calls: Notify::new(),
            is_over: AtomicBool::new(false),
            own: Watched::new(),
        };
        assert!(shared.inbox.is_empty() && !shared.sleeping.is_asleep());
        assert!(!shared.seat.is_empty());
        Arc::new(shared)
    }

    /// A kernel thread: works until it has got something, or has left. Returns what it got.
    fn run(&self, is_to_leave: bool) -> u32 {
        let mut taken = 0;
        loop {
            self.own.increment();
            self.inbox.drain(|_| taken += 1);
            if taken != 0 {
                self.is_over.store(true, Release);
                self.calls.notify();
                return taken;
            }
            self.sleeping.announce(false);
            if self.inbox.is_empty() {
                if is_to_leave && self.seat.leave(&self.sleeping, || self.calls.notify()) {
                    return 0;
                }
                if !is_to_leave {
                    self.event.wait();
                }
            }
            self.sleeping.end();
        }
    }

    /// As the steward: a new kernel thread sits down if nobody has the seat.
    fn fill(&self) -> u32 {
        if !self.seat.take() {
            return 0;
        }
        self.own.increment();
        self.sleeping.end();
        self.run(false)
    }

    /// As `Worker::notify`.
    fn give(&self, thread: &'static Control) {
        self.inbox.push(thread);
        if self.sleeping.claim() {
            let told = if self.seat.was_left() { &self.calls } else { &self.event };
            told.notify();
        }
    }
}

/// A kernel thread that leaves, somebody who gives, and the steward, who may come by himself.
fn is_found(fills_by_itself: bool) {
    check_with(3, move |controls| {
        let shared = Shared::new();
        let theirs = shared.clone();
        let first = spawn(controls[0], move || theirs.run(true));
        let theirs = shared.clone();
        let steward = spawn(controls[1], move || {
            if fills_by_itself {
                let taken = theirs.fill();
                if taken != 0 {
                    return taken;
                }
            }
            loop {
                theirs.calls.wait();
                let taken = if theirs.is_over.load(Acquire) { 0 } else { theirs.fill() };
                if taken != 0 || theirs.is_over.load(Acquire) {
                    return taken;
                }
            }
        });
        shared.give(controls[2]);
        assert_eq!(first.join().unwrap() + steward.join().unwrap(), 1);
    });
}

#[test]
fn what_is_given_to_a_worker_whose_kernel_thread_leaves_is_found() {
    is_found(false);
}

#[test]
fn it_is_found_while_another_kernel_thread_comes() {
    is_found(true);
}
