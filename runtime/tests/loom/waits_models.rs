//! The models of the waits that something besides the waker may end: `src/waits.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::control::{Control, Outcome};
use crate::models::{Watched, check};
use crate::sched::{self, spawn};
use crate::wait::{self, WaitQueue};
use crate::waits::Waits;

/// What a waiter waits in. `alive` is written when the waiter is back and the queue is gone.
struct Shared {
    waits: Waits,
    queue: WaitQueue,
    alive: Arc<Watched>,
    ends: core::sync::atomic::AtomicU32,
}

impl Shared {
    /// As `full::expire`; it looks at what the waiter may destroy when it is back.
    fn expire(&self, thread: &'static Control, outcome: Outcome) -> bool {
        assert_eq!(self.alive.0.get(), 0);
        sched::expire(thread, outcome)
    }

    fn ready(&self, thread: &'static Control) {
        self.ends.fetch_add(1, Relaxed);
        sched::ready(thread);
    }
}

/// A wait ends once, and does not return while somebody is about to end it.
fn ends_once(ender: fn(&Shared, &'static Control)) {
    check(move |controls| {
        let me = controls[0];
        let shared = Arc::new(Shared {
            waits: Waits::new(),
            queue: WaitQueue::new(),
            alive: Watched::new(),
            ends: core::sync::atomic::AtomicU32::new(0),
        });
        let mut others = Vec::new();
        let locked = shared.queue.lock();
        locked.enqueue(me);
        let outcome = locked.wait_after(me, 0, || {
            let theirs = shared.clone();
            others.push(spawn(controls[1], move || {
                let thread = theirs.queue.lock().pop();
                if let Some(thread) = thread {
                    theirs.ends.fetch_add(1, Relaxed);
                    wait::wake(thread, Outcome::Woken);
                }
            }));
            shared.waits.enter(me, 1).unwrap();
            let theirs = shared.clone();
            others.push(spawn(controls[2], move || ender(&theirs, me)));
        });
        shared.waits.leave(me);
        shared.alive.increment();
        assert!(matches!(outcome, Outcome::Woken | Outcome::TimedOut | Outcome::Cancelled));
        assert_eq!(shared.ends.load(Relaxed), 1);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(shared.ends.load(Relaxed), 1);
    });
}

#[test]
fn a_deadline_and_a_waker_end_a_wait_once() {
    ends_once(|shared, _| {
        let expire = |thread| shared.expire(thread, Outcome::TimedOut);
        shared.waits.fire(2, expire, |thread| shared.ready(thread));
    });
}

#[test]
fn a_canceller_and_a_waker_end_a_wait_once() {
    ends_once(|shared, thread| {
        if shared.waits.end(thread, || shared.expire(thread, Outcome::Cancelled)) {
            shared.ready(thread);
        }
    });
}
