//! While the only workers that are awake are blocked in the kernel, for long, and nobody is ready,
//! there is next to nothing to look at: the monitor looks seldom. A thread may wait for another
//! process all its life.
//!
//! What ends its sleep: a worker that wakes, a thread that is given to a blocked worker
//! ([`Monitor::given`]), and the time or the event of one that waits at such a worker. Then it
//! ticks, until it has been calm for as long again.
//!
//! Protocol (Dekker): the monitor announces its sleep, then looks whether there is something to do;
//! who has something for it does that first, and looks whether it sleeps then. In between each has
//! a fence. Where it sleeps for events, too, an event of its own wakes it ([`Bell`]), or [`Doze`].
//!
//! Invariant: between two sleeps of this kind of which one was ended there are [`LOOKS`] ticks, or
//! [`FEW_LOOKS`] if it had been calm for [`RARE`] before. So an event that nobody takes in costs no
//! more than these, and a thread that wakes now and then beside a blocked one next to nothing.
//!
//! It may be calm for good, as all wait for each other: `deadlock.rs`.
//!
//! [`Doze`]: super::doze::Doze
//! [`Monitor::given`]: super::Monitor::given

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::fence;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use super::Watch;
use crate::deadlock::{HELPERS_IDLE, Waiting};
use crate::full;
use crate::sys::clock;
use crate::sys::event::Event;
use crate::turns::is_left;
use crate::worker::Worker;

/// Looks in a row that find nothing else, after which it looks seldom.
const LOOKS: u32 = 64;
/// The same where it has been calm for this long before.
const FEW_LOOKS: u32 = 2;
const RARE: Duration = Duration::from_millis(8);
/// For how long, until the steward is told: those that are blocked may be so for good.
const TOLD: Duration = Duration::from_millis(250);
/// Time between two looks then, at most and at least.
const MOST: Duration = Duration::from_millis(50);
const LEAST: Duration = Duration::from_millis(1);

/// See the file's head.
pub(super) struct Bell {
    is_awaited: AtomicBool,
    event: OnceLock<Event>,
}

impl Bell {
    pub const fn new() -> Self {
        Bell { is_awaited: AtomicBool::new(false), event: OnceLock::new() }
    }

    /// Before the monitor starts.
    pub fn make(&self) -> io::Result<()> {
        if self.event.get().is_none() {
            let _ = self.event.set(Event::new()?);
        }
        Ok(())
    }

    /// After a fence.
    #[inline]
    pub fn ring(&self) {
        if self.is_awaited.load(Relaxed) && self.is_awaited.swap(false, SeqCst) {
            self.event.get().into_iter().for_each(Event::signal);
        }
    }

    /// Has `sleep` sleep until somebody rings, among other things, unless there is something to do.
    /// True if it slept all of its time.
    fn await_with(
        &'static self,
        is_to_do: impl Fn() -> bool,
        sleep: impl FnOnce(BorrowedFd<'static>) -> bool,
    ) -> bool {
        let Some(event) = self.event.get() else { return false };
        self.is_awaited.store(true, SeqCst);
        // ORDER: what was to do before is seen here, or its maker sees the store; pairs with the
        // fence in `Doze::end`.
        fence(SeqCst);
        let has_slept = !is_to_do() && !sleep(event.as_fd());
        // Who has taken it back rings, or has rung.
        if !self.is_awaited.swap(false, SeqCst) {
            event.clear();
        }
        has_slept
    }
}

/// How calm it is.
pub(super) struct Calm {
    /// Looks in a row that have found blocked workers alone, and how many there have to be.
    looks: u32,
    needed: u32,
    /// For how long that has been so.
    lasted: Duration,
}

impl Calm {
    pub const fn new() -> Self {
        Calm { looks: 0, needed: LOOKS, lasted: Duration::ZERO }
    }

    /// A look has found blocked workers alone, or not, a `tick` after the one before.
    pub fn note(&mut self, is_calm: bool, tick: Duration) {
        if is_calm {
            if self.looks != 0 && !self.is_reached() {
                self.lasted += tick;
            }
            self.looks = self.looks.saturating_add(1);
        } else {
            self.end();
        }
    }

    fn is_reached(&self) -> bool {
        self.looks >= self.needed
    }

    fn end(&mut self) {
        if self.is_reached() {
            self.needed = if self.lasted < RARE { LOOKS } else { FEW_LOOKS };
        }
        (self.looks, self.lasted) = (0, Duration::ZERO);
    }
}

impl Watch {
    pub(super) fn is_calm(&self) -> bool {
        self.calm.is_reached() && full::exist()
    }

    /// See [`Calm::note`].
    pub(super) fn note_calm(&mut self, is_calm: bool) {
        self.calm.note(is_calm, self.tick);
    }

    /// Sleeps until the next look, or until there is something to do.
    pub(super) fn sleep_calmly(&mut self) {
        let (runtime, start) = (self.runtime, clock::now_ns());
        let blocked = || runtime.workers().filter(|worker| worker.blocked.load(Relaxed));
        let first = blocked().filter_map(|worker| worker.waits.first()).min().unwrap_or(u64::MAX);
        let until = Duration::from_nanos(first.saturating_sub(start)).clamp(LEAST, MOST);
        let is_to_do = || runtime.workers().any(has_something);
        let counted = Waiting::new(&HELPERS_IDLE);
        let has_slept = if blocked().any(waits_for_events) {
            let kept = &mut self.kept;
            let sleep = |bell| kept.sleep_for(blocked(), bell, until.as_nanos() as u64);
            runtime.monitor.bell.await_with(is_to_do, sleep)
        } else if runtime.monitor.doze.begin(is_to_do) {
            !runtime.monitor.doze.wait_for(until)
        } else {
            false
        };
        drop(counted);
        self.tick = Duration::from_nanos(clock::now_ns() - start);
        let before = self.calm.lasted;
        self.calm.lasted += self.tick;
        if !has_slept {
            self.calm.end();
        } else if before < TOLD && self.calm.lasted >= TOLD {
            runtime.steward.report();
        }
    }
}

fn has_something(worker: &'static Worker) -> bool {
    match worker.blocked.load(Relaxed) {
        true => is_left(worker),
        false => !worker.sleeping.is_asleep(),
    }
}

fn waits_for_events(worker: &'static Worker) -> bool {
    worker.made_readiness().is_some_and(|set| set.waiting() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_micros(100);

    fn looks_until_calm(calm: &mut Calm) -> u32 {
        (1..=LOOKS + 1)
            .find(|_| {
                calm.note(true, TICK);
                calm.is_reached()
            })
            .expect("it gets calm")
    }

    #[test]
    fn who_breaks_it_often_is_looked_at_for_long() {
        let mut calm = Calm::new();
        assert_eq!(looks_until_calm(&mut calm), LOOKS);
        assert_eq!(calm.lasted, TICK * (LOOKS - 1));
        // The time of the looks counts, too.
        calm.lasted += RARE - calm.lasted;
        calm.note(false, TICK);
        assert!(!calm.is_reached());
        // While it is not calm all the time.
        calm.note(false, TICK);
        assert_eq!(looks_until_calm(&mut calm), FEW_LOOKS);
        assert_eq!(calm.lasted, TICK);
        // After a sleep that was ended at once.
        calm.end();
        assert_eq!(looks_until_calm(&mut calm), LOOKS);
    }
}
