//! What a worker is given by others, and how it is told.
//!
//! Protocol: who gives puts it where the worker finds it, then tells the worker (`sleep.rs`). If
//! its kernel thread has left (`seat.rs`), what lies there goes to a worker that always has its
//! own, and the steward is called.
//!
//! Invariant: what is given is found, whether the worker that it is given to sleeps, comes back
//! from a blocking call or loses its kernel thread meanwhile.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::control::Control;
use crate::full;
use crate::model::fence;
use crate::worker::Worker;

impl Worker {
    /// Takes up to `count` ready full threads of another worker; returns how many it got.
    pub fn steal_from(&'static self, victim: &'static Worker, count: u32) -> u32 {
        let taken = victim.offered.steal(count, |thread| self.adopt(thread));
        victim.live_full.fetch_sub(taken, Relaxed);
        taken
    }

    /// Hands the threads of this worker that may move to `other`; from anywhere.
    pub fn hand_over(&'static self, other: &'static Worker) {
        // Those that are taken are nowhere until they are given.
        let _pin = full::pin();
        other.steal_from(self, u32::MAX);
        self.fresh.take(u32::MAX, |thread| {
            other.fresh.push(thread);
        });
        other.notify();
    }

    /// As [`Worker::hand_over`], of at most `count` ready ones.
    pub fn hand_some(&'static self, other: &'static Worker, count: u32) {
        let _pin = full::pin();
        if other.steal_from(self, count) != 0 {
            other.notify();
        }
    }

    /// Has others take of what is ready here: all, if this worker is surplus.
    pub(super) fn share(&'static self, now: u64) {
        if self.rest.swap(false, Relaxed) {
            self.runtime.give_away(self);
        } else if self.offered.len() > 1
            && self.runtime.sleepers.load(Relaxed) != 0
            && !self.serves_soon(now)
        {
            self.runtime.wake_a_sleeper();
        }
    }

    /// Called by others after they gave this worker something.
    pub fn notify(&'static self) {
        self.poll.store(1, Relaxed);
        if self.sleeping.claim() {
            self.signal();
        }
    }

    /// As [`Worker::notify`] after a fresh thread, which may wait until a nap is over.
    pub fn notify_patiently(&'static self) {
        // The word's line is the worker's: it is not taken away for nothing.
        if self.poll.load(Relaxed) == 0 {
            self.poll.store(1, Relaxed);
        }
        if self.sleeping.claim_patiently() {
            self.signal();
        }
    }

    /// Gives this worker a full thread that has a place here and has left its stack.
    pub fn take_in(&'static self, thread: &'static Control) {
        self.own(thread);
        // ORDER: as in `adopt.rs`.
        fence(SeqCst);
        self.expect_turn();
        self.offered.push(thread);
        self.notify();
    }

    /// Ends its sleep, which the caller has claimed.
    pub(crate) fn signal(&'static self) {
        if self.seat.was_left() {
            let kept = self.index as usize % self.runtime.regular();
            self.hand_over(self.runtime.worker(kept));
            self.runtime.steward.call();
        } else {
            self.reactor.signal();
        }
    }
}
