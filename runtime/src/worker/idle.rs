//! A worker that has nothing to do: it steals, or sleeps until somebody gives it something. How it
//! is told is in `given.rs`.
//!
//! Invariant: what is given to a worker that sleeps, or that has no kernel thread, is found: see
//! `sleep.rs` and `seat.rs`.

use core::sync::atomic::Ordering::Relaxed;

use super::Worker;
use super::kernel_thread::Leaving;
use crate::io::Epoll;
use crate::nap::NAP_NS;
use crate::sys::clock;

/// Longest sleep in the reactor, so that a far deadline can't overflow the kernel's argument.
const SLEEP_NS_MAX: u64 = 3_600_000_000_000;

impl Worker {
    /// Nothing is ready: steal, or sleep until something happens. False: the kernel thread has
    /// left its seat, and must not touch the worker any more.
    pub(super) fn idle(&'static self) -> bool {
        if self.may_steal() && self.runtime.steal_for(self) {
            if self.asks.is_left_out() {
                self.budget.set(0);
            }
            self.show();
            return true;
        }
        self.record.set_running(None);
        let naps = self.naps.begin(self.now.get());
        // Who sees it asleep takes it for true.
        self.before_sleep();
        self.alarm.take_back();
        self.sleeping.announce(naps);
        self.runtime.sleepers.fetch_add(1, Relaxed);
        self.runtime.nappers.fetch_add(u32::from(naps), Relaxed);
        if self.inbox.is_empty()
            && self.fresh.len() == 0
            && self.offered.len() == 0
            && self.requests.is_empty()
        {
            // Not instead of a nap, which ends by itself: who gives to one that naps relies on it.
            let leaves = !naps && self.is_to_leave.load(Relaxed);
            match if leaves { self.leave_seat() } else { Leaving::Stays } {
                Leaving::Left => return false,
                Leaving::LooksAgain => {}
                Leaving::Stays => self.sleep(naps),
            }
        }
        self.sleeping.end();
        self.runtime.nappers.fetch_sub(u32::from(naps), Relaxed);
        self.runtime.sleepers.fetch_sub(1, Relaxed);
        self.runtime.monitor.worker_awake(self);
        self.budget.set(0);
        self.show();
        true
    }

    /// Whether it should look for something to do at others. A spare worker that stands in for
    /// nobody, as one that was made just now, must not be faster than a worker that was woken.
    fn may_steal(&self) -> bool {
        let stands_in = !self.is_spare() || self.runtime.blocked() != 0;
        stands_in && !self.runtime.has_surplus()
    }

    /// What others may want to know of a worker that sleeps.
    fn before_sleep(&self) {
        let nested = self.nested.get().map_or(0, Epoll::waiting);
        self.io_waiting.store((self.reactor.waiting() + nested) as u32, Relaxed);
        let waits = usize::from(self.waits.first().is_some());
        self.timers_waiting.store((self.timers.len() + waits) as u32, Relaxed);
        if let Some(trace) = &self.trace {
            trace.flush();
        }
    }

    /// Until somebody signals, a timer is due or something happens in its reactor.
    fn sleep(&'static self, naps: bool) {
        let ns = self.sleep_ns();
        let ns = if naps { Some(ns.unwrap_or(NAP_NS).min(NAP_NS)) } else { ns };
        self.meter.sleeps();
        self.reactor.wait(self, ns);
        self.meter.slept();
        self.patience.slept();
    }

    /// How long it may sleep: until the first timer, `None` for ever.
    fn sleep_ns(&self) -> Option<u64> {
        let first = match (self.timers.first(), self.waits.first()) {
            (Some(one), Some(other)) => one.min(other),
            (one, other) => one.or(other)?,
        };
        Some(first.saturating_sub(clock::now_ns()).min(SLEEP_NS_MAX))
    }
}
