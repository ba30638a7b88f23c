//! Time: std's `Duration` and `Instant`, sleeping, ticking, deadlines that several calls share.

use std::io;

pub use crate::thread::{sleep, sleep_until};
pub use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What several calls share that must be done in time together.
///
/// ```
/// use heddle::time::{Deadline, Duration};
/// let deadline = Deadline::after(Duration::from_secs(5));
/// assert!(deadline.remaining().unwrap() <= Duration::from_secs(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// The time `duration` from now.
    ///
    /// # Panics
    /// When that is beyond what the clock can show (more than 500 years).
    pub fn after(duration: Duration) -> Self {
        Deadline(Instant::now() + duration)
    }

    /// The time `instant`.
    pub fn at(instant: Instant) -> Self {
        Deadline(instant)
    }

    /// When it is.
    pub fn instant(self) -> Instant {
        self.0
    }

    /// Whether it has passed.
    pub fn is_past(self) -> bool {
        Instant::now() >= self.0
    }

    /// What is left, as a timeout for the next call.
    ///
    /// # Errors
    /// `TimedOut` when it has passed.
    pub fn remaining(self) -> io::Result<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the deadline has passed"));
        }
        Ok(left)
    }
}

/// Ticks at a fixed period; made by [`interval`].
///
/// Ticks that were missed because the thread was busy are not made up for: the next one comes at
/// the next multiple of the period.
#[derive(Clone, Debug)]
pub struct Interval {
    next: Instant,
    period: Duration,
}

/// Ticks every `period`, for the first time one period from now.
///
/// # Panics
/// For a period of zero.
///
/// ```
/// use heddle::time::{Duration, interval};
/// let mut ticks = interval(Duration::from_millis(2));
/// let (first, second) = (ticks.tick(), ticks.tick());
/// assert!(second - first >= Duration::from_millis(2));
/// ```
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "a period of zero");
    Interval { next: Instant::now() + period, period }
}

impl Interval {
    /// Blocks until the next tick; returns when it was due. Returns early when the thread is
    /// cancelled.
    pub fn tick(&mut self) -> Instant {
        let due = self.next;
        sleep_until(due);
        let late = Instant::now().saturating_duration_since(due);
        let missed = late.as_nanos() / self.period.as_nanos();
        self.next = due + self.period * (u32::try_from(missed).unwrap_or(u32::MAX - 1) + 1);
        due
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }
}
