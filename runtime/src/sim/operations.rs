//! The fake reactor: operations that complete late, out of order, with errors, and that are
//! cancelled as the seed says: at once, later, or too late.

use core::cell::RefCell;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use std::io;

use super::{Random, active_actor};
use crate::control::{Control, Outcome, WaitKind};
use crate::worker::Worker;
use crate::{full, sched};

/// The operations in flight.
#[derive(Default)]
pub(super) struct Operations(RefCell<Vec<Operation>>);

struct Operation {
    thread: &'static Control,
    worker: &'static Worker,
    due: u64,
    /// Non-negative, or an error number negated.
    result: i32,
}

impl Operations {
    /// When the first one completes.
    pub fn first_due(&self) -> u64 {
        self.0.borrow().iter().map(|operation| operation.due).min().unwrap_or(u64::MAX)
    }

    /// Whether one of `worker`'s has completed at `now`.
    pub fn is_due(&self, worker: &Worker, now: u64) -> bool {
        self.0.borrow().iter().any(|o| ptr::eq(o.worker, worker) && o.due <= now)
    }

    /// Makes the threads ready whose operations have completed.
    pub fn deliver(&self, worker: &'static Worker, now: u64) {
        let mut index = 0;
        loop {
            let mut all = self.0.borrow_mut();
            let Some(operation) = all.get(index) else { return };
            if operation.due > now || !ptr::eq(operation.worker, worker) {
                index += 1;
                continue;
            }
            let Operation { thread, result, .. } = all.swap_remove(index);
            drop(all);
            // As the ring's reactor does it.
            if result != -libc::ECANCELED {
                thread.outcome.set(Outcome::Woken);
            }
            thread.result.store(result, Relaxed);
            worker.ready_local(thread);
        }
    }

    /// As `Reactor::expire`, of either kind.
    pub fn expire(
        &self,
        thread: &'static Control,
        outcome: Outcome,
        now: u64,
        random: &Random,
    ) -> bool {
        let mut all = self.0.borrow_mut();
        let Some(index) = all.iter().position(|o| ptr::eq(o.thread, thread)) else {
            // It has completed: the thread is ready.
            return false;
        };
        match random.below(3) {
            // epoll: it is taken out.
            0 => {
                all.swap_remove(index);
                return true;
            }
            // The cancellation is faster.
            1 => {
                thread.outcome.set(outcome);
                all[index].result = -libc::ECANCELED;
                all[index].due = now + random.below(50_000);
            }
            // The operation is faster.
            _ => {
                thread.outcome.set(outcome);
                all[index].due = now + random.below(50_000);
            }
        }
        false
    }
}

/// One operation of the calling thread, which takes about `ns`; `deadline_ns` from now (0 =
/// never) ends it. Its result is below 1000.
///
/// # Errors
/// `TimedOut`, [`crate::Cancelled`], or the operation's own: `ConnectionReset`.
///
/// # Panics
/// Outside of a simulation.
pub fn operate(ns: u64, deadline_ns: u64) -> io::Result<u32> {
    let me = sched::current();
    crate::io::call::check_cancelled()?;
    // A full thread stays where it asks until it has said so.
    let here = full::here().expect("an operation of a thread");
    let (simulation, _) = active_actor().expect("an operation of a simulation");
    let random = &simulation.random;
    let now = simulation.now.get();
    let failed = random.below(8) == 0;
    simulation.operations.0.borrow_mut().push(Operation {
        thread: me,
        worker: here.worker(),
        due: now + ns / 2 + random.below(ns + 1),
        result: if failed { -libc::ECONNRESET } else { random.below(1000) as i32 },
    });
    me.wait.set(WaitKind::Reactor);
    me.outcome.set(Outcome::Woken);
    me.cancellable.set(true);
    drop(here);
    let deadline = if deadline_ns == 0 { 0 } else { now + deadline_ns };
    let outcome = sched::wait(me, deadline);
    me.cancellable.set(false);
    crate::io::call::outcome_to_result(outcome)?;
    match me.result.load(Relaxed) {
        error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
        result => Ok(result as u32),
    }
}
