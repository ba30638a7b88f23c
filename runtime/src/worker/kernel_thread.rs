//! The kernel thread of a worker. That of a spare worker goes when it is not needed any more, and
//! another comes when it is: see `seat.rs`, and `steward.rs`, which makes it.
//!
//! Invariant: nobody loses anything by that. Only who has no thread, no wait, no timer and nothing
//! to do leaves; what is given to the worker from then on waits for the next kernel thread, or is
//! taken by others as from any worker.

use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::compiler_fence;

use heddle_record::Fields;

use super::Worker;
use crate::sys::task;
use crate::{arch, sched, stack};

/// What a kernel thread does that was to leave.
pub(super) enum Leaving {
    /// It has left, and must not touch the worker any more.
    Left,
    /// It is needed here, and sleeps.
    Stays,
    /// Somebody has given the worker something just now. He may have called the steward instead of
    /// signalling, so it must not sleep.
    LooksAgain,
}

impl Worker {
    /// Its kernel thread, or the last one that it had.
    #[inline(always)]
    pub fn tid(&self) -> i32 {
        self.tid.load(Relaxed)
    }

    /// That kernel thread's own thread pointer; for itself.
    pub fn own_thread_pointer(&self) -> usize {
        self.tls.get()
    }

    /// Whether it is one of those that stand in for others that are blocked in the kernel.
    pub fn is_spare(&self) -> bool {
        self.index as usize >= self.runtime.regular()
    }

    /// Whether a thread belongs to it, or waits here; exact while it sleeps.
    pub fn is_needed(&self) -> bool {
        let waits = self.io_waiting.load(Relaxed) + self.timers_waiting.load(Relaxed);
        waits + self.live.load(Relaxed) + self.live_full.load(Relaxed) != 0
    }

    /// The calling kernel thread has the seat from now on.
    pub fn sit_down(&self) {
        self.tls.set(arch::thread_pointer());
        // ORDER: a handler on this kernel thread that finds the worker by the number finds its
        // thread pointer (`sys/identities.rs`).
        compiler_fence(SeqCst);
        self.tid.store(task::tid(), Relaxed);
        self.own_stack.set((ptr::null(), 0));
        self.interruptible.set(false);
        self.meter.sit_down();
        self.budget.set(0);
        self.patience.slept();
        self.is_to_leave.store(false, Relaxed);
        self.is_turn.store(false, Relaxed);
        self.rest.store(false, Relaxed);
        self.sleeping.end();
        if self.fresh.len() + self.offered.len() != 0 || !self.inbox.is_empty() {
            self.show();
        }
        self.runtime.seated.fetch_add(1, Relaxed);
    }

    /// Gives the seat up, if nothing here needs a kernel thread. The caller has announced its
    /// sleep, and is not about to nap.
    pub(super) fn leave_seat(&'static self) -> Leaving {
        self.is_to_leave.store(false, Relaxed);
        if self.is_needed() {
            return Leaving::Stays;
        }
        stack::give_all(&self.cache);
        self.hide();
        let runtime = self.runtime;
        if !self.seat.leave(&self.sleeping, || runtime.steward.call()) {
            return Leaving::LooksAgain;
        }
        runtime.seated.fetch_sub(1, Relaxed);
        runtime.sleepers.fetch_sub(1, Relaxed);
        Leaving::Left
    }

    /// Publishes the record of a spare worker, which is not shown before it has something to do.
    pub(super) fn show(&self) {
        if !self.is_shown.replace(true) {
            sched::publish_worker_record(self.record, self.index, self.name);
        }
    }

    fn hide(&self) {
        if self.is_shown.replace(false) {
            let (generation, cpu_ns) = (self.record.generation(), self.record.cpu());
            self.record.publish(&Fields { generation, cpu_ns, ..Fields::default() });
        }
    }
}
