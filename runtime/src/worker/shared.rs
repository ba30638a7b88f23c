//! What a worker does for its full threads: most of it anybody may do, while it is blocked in the
//! kernel.
//!
//! Invariant: only what is marked "shared" in [`Worker`] is touched, but for
//! [`Worker::look_after_full`] and [`Worker::readiness`], which are the worker's own business.

use core::sync::atomic::Ordering::Relaxed;
use std::io;

use super::Worker;
use crate::control::{Control, Outcome};
use crate::io::{Epoll, Reactor};
use crate::offered::Offered;
use crate::sys::{clock, signals};
use crate::{full, preempt};

impl Worker {
    /// Takes a full thread by `pop`. The first one that the worker runs comes this way.
    pub(super) fn pop_offered(
        &self,
        pop: fn(&Offered) -> Option<&'static Control>,
    ) -> Option<&'static Control> {
        if !self.interruptible.get() && preempt::prepare() {
            self.interruptible.set(true);
            signals::unblock(preempt::SIGNAL);
        }
        pop(&self.offered)
    }

    /// What full threads need of a look.
    #[cold]
    pub(super) fn look_after_full(&'static self, now: u64, slept: bool) {
        full::fire(self, now);
        if slept {
            // The ring has told of events just now.
            self.hand_on(now);
        } else if let Some(nested) = self.nested.get() {
            nested.poll(self);
        }
        // What a spare worker would allocate with may be held by a thread that it is to run.
        if !self.is_spare() {
            self.offered.enlarge();
        }
        self.share(now);
    }

    /// Does for the full threads of this worker, which does not look, what only time and events do:
    /// the monitor calls it. They become ready here, where others take them.
    pub fn rescue(&'static self) {
        full::fire(self, clock::now_ns());
        if let Some(epoll) = self.made_readiness() {
            epoll.poll_for(self);
        }
    }

    /// Whether full threads wait here for time or events.
    pub fn has_waiting_full(&self) -> bool {
        let io = || self.made_readiness().is_some_and(|epoll| epoll.waiting() != 0);
        self.waits.first().is_some() || full::exist() && io()
    }

    /// Whether a full thread that runs here is the only thread that belongs here; a hint.
    pub fn has_one_thread(&self) -> bool {
        let live = self.live_full.load(Relaxed) + self.live.load(Relaxed);
        live == 1 && self.fresh.len() == 0
    }

    /// Whether all others that belong here are full threads that are not ready; a hint.
    pub fn has_only_full_that_wait(&self) -> bool {
        self.live.load(Relaxed) == 0
            && self.fresh.len() + self.offered.len() == 0
            && self.inbox.is_empty()
            && self.requests.is_empty()
    }

    /// Where full threads of this worker wait for descriptors, and all where there is no ring.
    pub fn readiness(&'static self) -> io::Result<&'static Epoll> {
        let ring = match &self.reactor {
            Reactor::Epoll(epoll) => return Ok(epoll),
            Reactor::Bare(bare) => return bare.set(),
            Reactor::Uring(ring) => ring,
        };
        if let Some(nested) = self.nested.get() {
            return Ok(nested);
        }
        let made = Epoll::new()?;
        ring.watch(made.raw())?;
        Ok(self.nested.get_or_init(|| made))
    }

    /// As [`Worker::readiness`], if full threads have waited here; for anybody.
    pub fn made_readiness(&self) -> Option<&Epoll> {
        match &self.reactor {
            Reactor::Epoll(epoll) => Some(epoll),
            Reactor::Bare(bare) => bare.made(),
            Reactor::Uring(_) => self.nested.get(),
        }
    }

    /// The ring has seen that there are events for full threads.
    pub fn nested_is_ready(&'static self) {
        if let Some(nested) = self.nested.get() {
            nested.poll(self);
        }
    }

    /// Ends the wait for a descriptor of a full thread that waits here; false if it was made
    /// ready.
    pub fn expire_io(&'static self, thread: &'static Control, outcome: Outcome) -> bool {
        #[cfg(feature = "sim")]
        if let Some(ended) = crate::sim::expire(thread, outcome) {
            return ended;
        }
        let _ = outcome;
        self.made_readiness().is_some_and(|epoll| epoll.remove(thread))
    }
}
