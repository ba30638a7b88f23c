//! How often the monitor looks.
//!
//! Invariant: it looks more often than every 2 ms only while a thread computes that others, or a
//! call, wait for.

use core::time::Duration;

use super::Watch;
use crate::full;

/// Time between two looks.
const TICK: Duration = Duration::from_millis(10);
/// The same when there are full threads.
const TICK_FULL: Duration = Duration::from_millis(2);
/// The same while full threads use up their slices one after the other.
const TICK_SPINNING: Duration = Duration::from_millis(1);
/// The same while a thread that computes is called and could not be interrupted where it was; and
/// how many of these there are in a row: it may be where it never can.
const TICK_CALLED: Duration = Duration::from_micros(250);
const TICKS_CALLED: u32 = 400;

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

    fn hurries(&self) -> bool {
        self.is_one && self.looks < TICKS_CALLED
    }
}

impl Watch {
    /// The time until the next look.
    pub(super) fn next_tick(&self) -> Duration {
        if !full::exist() {
            return TICK;
        }
        let slice = Duration::from_nanos(self.runtime.config.slice_ns);
        let tick = match self.spinning {
            _ if self.called.hurries() => TICK_CALLED,
            true => TICK_SPINNING,
            false => TICK_FULL,
        };
        if slice.is_zero() { tick } else { tick.min(slice) }
    }
}
