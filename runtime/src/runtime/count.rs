//! Which workers others look at, and which seats are filled.
//!
//! Those of spare workers come and go (`seat.rs`). So that nobody looks at many empty ones, all
//! look at those below a count alone, which is above all that are taken.
//!
//! Invariant: the count, and what is empty, is changed under `adding` (`seats.rs`), by who starts
//! the runtime and by the steward.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::io;

use super::Runtime;
use crate::worker::Worker;

impl Runtime {
    /// A number above those of all workers that have a kernel thread.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Acquire)
    }

    /// All workers, also those that have no kernel thread.
    pub fn seats(&self) -> impl Iterator<Item = &'static Worker> {
        (0..self.made()).map(|index| self.worker(index))
    }

    /// All workers that have a kernel thread.
    pub fn workers(&self) -> impl Iterator<Item = &'static Worker> {
        let all = (0..self.count()).map(|index| self.worker(index));
        all.filter(|worker| !worker.seat.is_empty())
    }

    /// Has others look at this worker; under `adding`. (Not by `fetch_max`, which ThreadSanitizer
    /// does not follow.)
    pub(super) fn count_in(&self, index: usize) {
        if self.count.load(Relaxed) <= index {
            // ORDER: Release publishes the worker; pairs with the Acquire in `count`.
            self.count.store(index + 1, Release);
        }
    }

    /// Spare workers that sleep: whatever they wait for, they can stand in for others.
    fn ready_spares(&self) -> u32 {
        let spares = self.workers().skip_while(|worker| !worker.is_spare());
        spares.filter(|worker| worker.sleeping.is_asleep()).count() as u32
    }

    /// Makes kernel threads for the spare workers that were given something and have none, and for
    /// those that should be ready.
    pub fn fill_seats(&'static self, wanted: u32) -> io::Result<()> {
        let empty_seats = || self.seats().filter(|worker| worker.seat.is_empty());
        for worker in empty_seats().filter(|worker| !worker.sleeping.is_asleep()) {
            self.fill(worker)?;
        }
        // One that was made just now may not sleep yet.
        for _ in self.ready_spares()..wanted {
            match empty_seats().next() {
                Some(worker) => self.fill(worker)?,
                None => drop(self.add_spare()?),
            }
        }
        self.count_seats();
        Ok(())
    }

    /// Sees to it that nobody looks at empty seats beyond the last one that is taken.
    fn count_seats(&self) {
        let _guard = self.adding();
        let taken = self.seats().filter(|worker| !worker.seat.is_empty()).last();
        let count = taken.map_or(0, |worker| worker.index as usize + 1);
        if count != self.count.load(Relaxed) {
            self.count.store(count, Release);
        }
    }
}
