//! Turns: blocked workers run each other's threads where there is no kernel thread for one more.
//!
//! A full thread that waits in the kernel is made to leave its worker, as if its slice were over,
//! and asks the kernel again at its next turn. (So its system call is interrupted; `preempt.rs`
//! says for which calls that shows.) So is one that waits in the C library for a lock of its own,
//! the loader's say. Threads that can't be left, in the library's other calls, keep a worker each;
//! what waits at it goes to the worker whose turn is next, so the others share what is left.
//!
//! Protocol:
//! 1. The monitor chooses the next worker after the one before, of those that are blocked. It gives
//!    it what waits at those that can't leave, and asks it ([`Turns::take`]).
//! 2. The worker's kernel thread looks, on a signal, whether it still runs the thread that was
//!    meant ([`Worker::is_asked`]); if so this one goes behind all others there
//!    ([`Worker::pass_turn`]).
//!
//! A worker that was chosen may have come back from its blocking call at any moment, and run, sleep
//! or switch. Then it has what it was given as from anybody (`worker/given.rs`), and the question
//! is for a thread that does not run there any more.
//!
//! Invariant: a thread that waits for its turn has it after as many turns of others, at most, as
//! wait in all. So who has left goes to the end, and what is moved keeps its order.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use crate::control::{Control, Kind};
use crate::preempt;
use crate::runtime::Runtime;
use crate::worker::Worker;

/// See the file's head.
#[derive(Default)]
pub(crate) struct Turns {
    /// The worker that was asked last to leave its thread.
    last: usize,
}

impl Turns {
    /// Asks the next one of the blocked workers that has others to run to leave its thread. It gets
    /// those of the workers that can't: that run no full thread, or did not leave at their turn.
    pub fn take(&mut self, runtime: &'static Runtime) {
        let last = self.last;
        let keeps = |worker: &&'static Worker| {
            let is_asked = worker.index as usize != last && runs_full(worker);
            worker.is_blocked() && is_left(worker) && !is_asked
        };
        let count = runtime.count();
        for step in 1..=count {
            let worker = runtime.worker((last + step) % count);
            let is_blocked = worker.blocked.load(Relaxed) && !worker.seat.is_empty();
            if !is_blocked || !runs_full(worker) {
                continue;
            }
            let others = runtime.workers().filter(|other| !ptr::eq(*other, worker));
            others.filter(keeps).for_each(|other| other.hand_over(worker));
            if is_left(worker) {
                self.last = worker.index as usize;
                return worker.ask_for_turn();
            }
        }
    }
}

/// Whether `worker` runs a full thread.
fn runs_full(worker: &Worker) -> bool {
    // SAFETY: null or a slot of the slab.
    let running = unsafe { worker.current.load(Relaxed).as_ref() };
    running.is_some_and(|thread| thread.kind.get() == Kind::Full)
}

/// Whether there is something at `worker` that others may take.
pub(crate) fn is_left(worker: &Worker) -> bool {
    worker.fresh.len() + worker.offered.len() != 0
}

impl Worker {
    /// Asks its kernel thread, which is blocked, to leave the thread that it runs, also if that
    /// waits for a futex in the C library.
    fn ask_for_turn(&self) {
        self.is_turn.store(true, Relaxed);
        preempt::ask(self, self.switches.load(Relaxed));
    }

    /// Whether it was asked so since it was last looked; its kernel thread looks.
    pub fn take_turn(&self) -> bool {
        self.is_turn.swap(false, Relaxed)
    }

    /// Whether it was asked to leave the thread that it runs, not one before it.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Relaxed) == self.switches.load(Relaxed)
    }

    /// As [`Worker::yield_full`], of a thread that waits in the kernel: it goes behind all who are
    /// ready, but not among those that were preempted, for it does not compute.
    pub fn pass_turn(&'static self, me: &'static Control) {
        if self.spend() || self.queues.len() != 0 || self.fresh.len() != 0 {
            self.offered.push(me);
            return self.to_scheduler(me);
        }
        if let Some(next) = self.offered.exchange_waiting(me) {
            self.switch(me, next);
        }
    }
}
