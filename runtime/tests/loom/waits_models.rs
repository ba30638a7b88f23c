//! The models of the waits that something besides the waker may end: `src/waits.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use loom::sync::atomic::fence;

use crate::control::{Control, Outcome, WaitKind};
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

/// A full thread that takes what it is sent, and waits while there is nothing: `full::wait` and
/// `Signals` of the user library. And who sends and calls it: `send_info`, `full::cancel`.
struct Called {
    waits: Waits,
    flag: loom::sync::atomic::AtomicU32,
    sent: loom::sync::atomic::AtomicU32,
}

impl Called {
    fn is_called(&self) -> bool {
        self.flag.load(Acquire) != 0
    }

    /// As `full::expire` of a wait that nothing but a call ends.
    fn expire(thread: &'static Control) -> bool {
        let is_waiting = thread.wait.get() == WaitKind::Sleep;
        if is_waiting {
            thread.outcome.set(Outcome::Cancelled);
            thread.wait.set(WaitKind::None);
        }
        is_waiting
    }

    fn wait(&self, me: &'static Control) {
        me.wait.set(WaitKind::Sleep);
        me.cancellable.set(true);
        self.waits.enter(me, 0).unwrap();
        fence(SeqCst);
        let is_ended = self.is_called() && self.waits.end(me, || Self::expire(me));
        if !is_ended {
            let outcome = sched::wait(me, 0);
            assert_eq!(outcome, Outcome::Cancelled);
        }
        self.waits.leave(me);
        me.cancellable.set(false);
    }

    fn send(&self, thread: &'static Control, signal: u32) {
        self.sent.fetch_or(signal, Release);
        self.flag.fetch_or(1, Release);
        fence(SeqCst);
        let end = || thread.cancellable.get() && self.is_called() && Self::expire(thread);
        if self.waits.end(thread, end) {
            sched::ready(thread);
        }
    }
}

#[test]
fn a_signal_is_taken_whenever_it_comes() {
    check(|controls| {
        let me = controls[0];
        me.cancellable.set(false);
        let shared = Arc::new(Called {
            waits: Waits::new(),
            flag: loom::sync::atomic::AtomicU32::new(0),
            sent: loom::sync::atomic::AtomicU32::new(0),
        });
        shared.waits.leave(me);
        let mut others = Vec::new();
        for signal in [1, 2] {
            let theirs = shared.clone();
            let control = controls[signal as usize];
            others.push(spawn(control, move || theirs.send(me, signal)));
        }
        let mut taken = 0;
        while taken != 3 {
            shared.flag.fetch_and(0, AcqRel);
            match shared.sent.swap(0, AcqRel) {
                0 => shared.wait(me),
                signals => taken |= signals,
            }
        }
        others.into_iter().for_each(|other| other.join().unwrap());
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
