//! The server's coarse clock: read on every request, so it must cost a load.
//!
//! Invariant: after `refresh` both times are those of the call. They are refreshed by the watch
//! thread while there are connections and by the acceptor with each new one, so a request never
//! sees a second older than the watch thread's period.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The coarse clock.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    unix: AtomicU64,
    ticks: AtomicU64,
}

impl Clock {
    /// A clock that shows the time of the call.
    pub fn new() -> Clock {
        let clock =
            Clock { start: Instant::now(), unix: AtomicU64::new(0), ticks: AtomicU64::new(0) };
        clock.refresh();
        clock
    }

    /// Takes over the time of the system.
    pub fn refresh(&self) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        self.unix.store(unix, Relaxed);
        self.ticks.store(self.start.elapsed().as_millis() as u64, Relaxed);
    }

    /// Seconds since 1970.
    #[inline]
    pub fn unix(&self) -> u64 {
        self.unix.load(Relaxed)
    }

    /// Milliseconds since the server started, never going back.
    #[inline]
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Relaxed)
    }

    /// How long the server has been there.
    pub fn uptime_s(&self) -> u64 {
        self.start.elapsed().as_secs()
    }
}
