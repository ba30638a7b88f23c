//! How often the monitor looks.
//!
//! Where threads come often, each for a moment, as in a server with little to do, workers wake and
//! sleep between two looks. For the monitor to sleep until one wakes they would have to set alarms
//! (`bed.rs`), and an alarm costs as much as half a request: the processor's timer is set, and set
//! again where it is taken back, which leaves a virtual machine twice. So it looks on, but seldom
//! while it finds all workers asleep ([`Patrol`]).
//!
//! Invariants:
//! 1. It looks more often than every 2 ms only while a thread computes that others, or a call, wait
//!    for.
//! 2. It looks less often than a tick only when it has found no worker awake, and for [`CALM_NS`]
//!    none that kept its thread from one look to the next. So such a one is found within
//!    [`TICK_PATROL`] and a tick, and the next ones sooner.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use super::Watch;
use crate::full;

/// Time between two looks.
const TICK: Duration = Duration::from_millis(10);
/// The same when there are full threads.
const TICK_FULL: Duration = Duration::from_millis(2);
/// The same while it patrols.
const TICK_PATROL: Duration = Duration::from_millis(8);
/// The same while full threads use up their slices one after the other.
const TICK_SPINNING: Duration = Duration::from_millis(1);
/// The same while a thread that computes is called and could not be interrupted where it was, as in
/// the allocator: at first, so that it is met outside soon, and later. And how many there are in a
/// row, of the first ones and in all: it may be where it never can.
const TICK_CALLED_FIRST: Duration = Duration::from_micros(50);
const TICK_CALLED: Duration = Duration::from_micros(250);
const TICKS_CALLED_FIRST: u32 = 40;
const TICKS_CALLED: u32 = 400;
/// Switches that come more often than once in this time come often: more seldom, alarms cost less
/// than looks.
const OFTEN_NS: u64 = 4_000_000;
/// For so long no worker has kept its thread before it patrols.
const CALM_NS: u64 = 250_000_000;

/// Whether a thread that computes is called.
#[derive(Default)]
pub(super) struct Called {
    /// At this look.
    is_one: bool,
    /// Looks in a row.
    looks: u32,
}

impl Called {
    /// A look begins.
    pub fn begin(&mut self) {
        self.looks = if self.is_one { self.looks.saturating_add(1) } else { 0 };
        self.is_one = false;
    }

    /// One is that has had so much of a CPU since the last look.
    pub fn note(&mut self, ran_ns: u64) {
        self.is_one |= ran_ns > 0;
    }

    /// The time until the next look, if it hurries.
    fn tick(&self) -> Option<Duration> {
        match self.looks {
            _ if !self.is_one => None,
            ..TICKS_CALLED_FIRST => Some(TICK_CALLED_FIRST),
            TICKS_CALLED_FIRST..TICKS_CALLED => Some(TICK_CALLED),
            _ => None,
        }
    }
}

/// Whether there is little to look at although threads come often.
#[derive(Default)]
pub(super) struct Patrol {
    /// The workers' switches at the last look, and whether there were many since the one before.
    switches: u64,
    is_often: bool,
    /// Whether a worker was awake then.
    is_awake: bool,
    /// Time since one has kept its thread, ns.
    calm_ns: u64,
}

impl Patrol {
    /// A look begins, `elapsed` ns after the last one, at so many `switches` of all workers.
    pub fn begin(&mut self, switches: u64, elapsed: u64) {
        let since = switches.wrapping_sub(core::mem::replace(&mut self.switches, switches));
        self.is_often = since.saturating_mul(OFTEN_NS) > elapsed;
        self.is_awake = false;
        self.calm_ns = self.calm_ns.saturating_add(elapsed);
    }

    /// A worker is awake; it `keeps` the thread that it ran at the last look.
    pub fn note_awake(&mut self, keeps: bool) {
        self.is_awake = true;
        if keeps {
            self.calm_ns = 0;
        }
    }

    /// Whether it looks on though workers sleep.
    pub fn is_often(&self) -> bool {
        self.is_often
    }

    fn is_on(&self) -> bool {
        self.is_often && !self.is_awake && self.calm_ns >= CALM_NS
    }
}

impl Watch {
    /// See [`Patrol::begin`].
    pub(super) fn begin_patrol(&mut self) {
        let switches = self.runtime.workers().map(|worker| worker.switches.load(Relaxed));
        self.patrol.begin(switches.fold(0, u64::wrapping_add), self.elapsed);
    }

    /// The time until the next look.
    pub(super) fn next_tick(&self) -> Duration {
        if !full::exist() {
            return TICK;
        }
        let slice = Duration::from_nanos(self.runtime.config.slice_ns);
        let tick = match (self.called.tick(), self.spinning) {
            (Some(tick), _) => tick,
            (None, true) => TICK_SPINNING,
            (None, false) if self.patrol.is_on() => return TICK_PATROL,
            (None, false) => TICK_FULL,
        };
        if slice.is_zero() { tick } else { tick.min(slice) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_NS: u64 = 2_000_000;

    #[test]
    fn it_patrols_while_threads_come_often_and_none_stays() {
        let mut patrol = Patrol::default();
        let mut switches = 0;
        let mut look = |patrol: &mut Patrol, more: u64| {
            switches += more;
            patrol.begin(switches, TICK_NS);
            patrol.is_on()
        };
        let looks = CALM_NS / TICK_NS;
        assert_eq!((1..=looks).find(|_| look(&mut patrol, 1)), Some(looks));
        assert!(!look(&mut patrol, 0) && !patrol.is_often(), "nobody has come");
        assert!(look(&mut patrol, 1));
        patrol.note_awake(false);
        assert!(!patrol.is_on(), "what it does is looked at after a tick");
        assert!(look(&mut patrol, 1), "no more than others");
        patrol.note_awake(true);
        assert!(!look(&mut patrol, 1) && patrol.is_often(), "one has stayed");
        assert_eq!((2..=looks).find(|_| look(&mut patrol, 1)), Some(looks));
    }
}
