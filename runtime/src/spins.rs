//! Which full threads may be in a loop that waits for another thread, by how they look when they
//! are preempted.
//!
//! A thread that waits in a loop is where it was the last time, and next to nothing has changed:
//! what it looks at, a number of turns perhaps, or the time. One that computes in a short loop is
//! where it was, too, but most of its registers have changed. So a thread may spin if it is near
//! the place where it was preempted before, and few registers have other values. Measured at 2000
//! preemptions each of loops that look, count, compare and exchange, or ask for the time: 3
//! registers at most, 11 with the time, where one look in two finds 4 at most; of xz: 5 at least,
//! 11 mostly. A loop that only counts, or adds up what is in memory, is taken for one that waits.
//!
//! One that waits for another thing each time is not where it was, or with other registers: as in
//! coders of video, whose threads wait for the row above theirs. So it spins, too, if it is at the
//! instruction that processors have for such loops, where those that have it mostly are.
//!
//! Invariant: what is wrongly taken for waiting, or not, costs time alone: slices are shorter while
//! most of what a worker preempts may spin, and nothing else follows from it.

use core::sync::atomic::Ordering::Relaxed;

use crate::full;
use crate::sys::code;
use crate::worker::Worker;

/// Bytes; a loop that waits for another thread is shorter.
const LOOP_BYTES: usize = 256;
/// Registers that it changes at most.
const CHANGED_MAX: u32 = 4;
/// What [`Worker::spins`] counts to.
const COUNT_MAX: u32 = 32;

/// Where a thread was, and with what in its registers.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    ip: usize,
    /// Four bits of each register. Those of two values that are not the same differ in fifteen
    /// cases of sixteen.
    registers: u64,
}

impl Place {
    /// Of a thread that was not preempted yet.
    pub const NOWHERE: Place = Place { ip: 0, registers: 0 };

    pub fn of(ip: usize, registers: [u64; 16]) -> Self {
        // By the golden ratio; the top of the product depends on all bits of the value.
        let bits = registers.map(|value| value.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60);
        Place { ip, registers: bits.iter().fold(0, |all, bits| all << 4 | bits) }
    }

    fn may_wait_since(self, before: Place) -> bool {
        let differ = self.registers ^ before.registers;
        let halves = differ | differ >> 1;
        let changed = ((halves | halves >> 2) & 0x1111_1111_1111_1111).count_ones();
        self.ip.abs_diff(before.ip) < LOOP_BYTES && changed <= CHANGED_MAX
    }
}

/// The calling full thread is preempted at `place`.
pub(crate) fn note(place: Place) {
    let may_wait = place.may_wait_since(full::left_at(place)) || code::waits_at(place.ip);
    if let Some(here) = full::here() {
        let spins = here.worker().spins.load(Relaxed);
        let spins = if may_wait { (spins + 1).min(COUNT_MAX) } else { spins.saturating_sub(1) };
        here.worker().spins.store(spins, Relaxed);
    }
}

/// Whether `worker` has lately preempted more threads that may spin than others, by so many and
/// one, or by as many as are counted.
pub(crate) fn may_spin(worker: &Worker, others: u32) -> bool {
    worker.spins.load(Relaxed) > others.min(COUNT_MAX - 1)
}

/// Whether it has lately preempted any.
pub(crate) fn any(worker: &Worker) -> bool {
    worker.spins.load(Relaxed) != 0
}

#[cfg(test)]
mod tests {
    use super::Place;

    const LOOP: usize = 0x5000;

    /// After `changed` of the registers of a thread have got other values.
    fn with(changed: usize) -> Place {
        let value = |index: usize| index as u64 * 0x1001 + u64::from(index < changed);
        Place::of(LOOP + 8, core::array::from_fn(value))
    }

    #[test]
    fn a_thread_that_changes_few_registers_where_it_was_may_wait() {
        for changed in 0..=4 {
            assert!(with(changed).may_wait_since(with(0)), "{changed}");
        }
        for changed in 6..=16 {
            assert!(!with(changed).may_wait_since(with(0)), "{changed}");
        }
    }

    #[test]
    fn a_thread_that_is_elsewhere_computes() {
        let place = |ip| Place::of(ip, [7; 16]);
        assert!(place(LOOP).may_wait_since(place(LOOP + 255)));
        assert!(!place(LOOP).may_wait_since(place(LOOP + 256)));
        assert!(!place(LOOP).may_wait_since(Place::NOWHERE));
    }
}
