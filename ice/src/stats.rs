//! Counters of the server.
//!
//! Invariant: a connection's counters are written by its own thread alone (`Single`), so counting
//! a request is a load and a store to a line that the thread holds anyway. The sums are made by
//! whoever wants to see them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::status::Status;

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Single(AtomicU64);

impl Single {
    /// Adds, without a locked instruction: there is no other writer.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed) + n, Relaxed);
    }

    /// The sum so far.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One request in so many is timed; two looks at a clock would be 1 % of a request.
pub const TIMED_ONE_IN: u64 = 8;

/// Steps per doubling of time.
const STEPS: u32 = 4;
/// The first bucket ends at 2^8 ns, the last at about 17 s.
const FIRST_BIT: u32 = 8;
/// Buckets of the histogram.
pub const BUCKETS: usize = 27 * STEPS as usize;

/// How long answers take, from the head being there to the answer being handed to the kernel.
#[derive(Debug)]
pub struct Histogram([AtomicU64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram([const { AtomicU64::new(0) }; BUCKETS])
    }
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(1 << FIRST_BIT);
    let bit = 63 - nanos.leading_zeros();
    let step = (nanos >> (bit - STEPS.trailing_zeros())) as u32 & (STEPS - 1);
    (((bit - FIRST_BIT) * STEPS + step) as usize).min(BUCKETS - 1)
}

/// Shortest time that falls into a bucket, in ns.
pub fn bucket_start_ns(bucket: usize) -> u64 {
    let (bit, step) = (bucket as u32 / STEPS, bucket as u64 % u64::from(STEPS));
    let base = 1u64 << (FIRST_BIT + bit);
    base + base / u64::from(STEPS) * step
}

impl Histogram {
    /// Counts one answer.
    pub fn add(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0[bucket(nanos)].fetch_add(1, Relaxed);
    }

    /// The counts.
    pub fn counts(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|n| self.0[n].load(Relaxed))
    }
}

/// What all connections together count.
#[derive(Debug, Default)]
pub struct Stats {
    /// Answers of closed connections, and their bytes.
    pub closed_requests: AtomicU64,
    /// Bytes sent on closed connections.
    pub closed_bytes: AtomicU64,
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections turned away with 503.
    pub rejected: AtomicU64,
    /// Connections that were too slow.
    pub timed_out: AtomicU64,
    /// Answers other than 200 by class: 2xx, 3xx, 4xx, 5xx.
    classes: [AtomicU64; 4],
    /// Times of answers.
    pub latency: Histogram,
}

impl Stats {
    /// Counts a status; plain 200 answers are all the others, so they need no counter.
    pub fn count(&self, status: Status) {
        if status != Status::OK {
            let class = usize::from(status.code() / 100).clamp(2, 5) - 2;
            self.classes[class].fetch_add(1, Relaxed);
        }
    }

    /// Answers other than 200 by class: 2xx, 3xx, 4xx, 5xx.
    pub fn classes(&self) -> [u64; 4] {
        std::array::from_fn(|n| self.classes[n].load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_times() {
        for n in 0..BUCKETS {
            let start = bucket_start_ns(n);
            assert_eq!(bucket(start), n);
            if n > 0 {
                assert_eq!(bucket(start - 1), n - 1);
            }
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
