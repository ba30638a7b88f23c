//! Moments of POSIX clocks as deadlines of the runtime.
//!
//! The runtime waits by the monotonic clock. A moment of another clock is converted when the wait
//! starts, and looked at again when it ends: a clock that was set back meanwhile makes the wait
//! longer, never shorter than asked for.

use heddle::raw::{self, Outcome};
use libc::{clockid_t, timespec};

use crate::stop::Stop;

const NS: i64 = 1_000_000_000;

/// When a wait ends.
#[derive(Clone, Copy)]
pub enum Until {
    /// Never.
    Forever,
    /// At this moment of this clock, in ns.
    Moment(clockid_t, i128),
}

impl Until {
    /// From the arguments of a call.
    ///
    /// # Errors
    /// `EINVAL` when the clock is not one to wait by, or the moment is malformed.
    pub fn new(clock: clockid_t, at: &timespec) -> Result<Self, Stop> {
        if clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
            return Err(Stop::Error(libc::EINVAL));
        }
        if at.tv_nsec < 0 || at.tv_nsec >= NS {
            return Err(Stop::Error(libc::EINVAL));
        }
        Ok(Until::Moment(clock, ns(at)))
    }

    /// The runtime's deadline: ns of the monotonic clock, 0 = never.
    pub fn deadline(self) -> u64 {
        match self {
            Until::Forever => 0,
            Until::Moment(clock, at) => {
                let left = at - now(clock);
                let deadline = i128::from(raw::now_ns()) + left;
                u64::try_from(deadline.max(1)).unwrap_or(u64::MAX)
            }
        }
    }

    /// Whether the moment has come.
    pub fn is_over(self) -> bool {
        match self {
            Until::Forever => false,
            Until::Moment(clock, at) => now(clock) >= at,
        }
    }

    /// Repeats `wait(deadline)` while it times out before the moment has come by its own clock.
    pub fn wait(self, mut wait: impl FnMut(u64) -> Outcome) -> Outcome {
        loop {
            let outcome = wait(self.deadline());
            if outcome != Outcome::TimedOut || self.is_over() {
                return outcome;
            }
        }
    }
}

/// A duration or moment in ns; the parts are valid.
pub fn ns(time: &timespec) -> i128 {
    i128::from(time.tv_sec) * i128::from(NS) + i128::from(time.tv_nsec)
}

/// A clock that [`Until::new`] has accepted, in ns.
pub fn now(clock: clockid_t) -> i128 {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the result. The clock exists on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    ns(&time)
}
