//! What keeps a program that puts a file at a number of its choice (`dup2`) off the numbers at
//! which the runtime makes descriptors of its own.
//!
//! The kernel makes each at the lowest number that is free, be it for an instant. The program has
//! just closed that one, and puts its next file there: then the kernel refuses (`EBUSY`), or the
//! runtime goes on with the program's file, and closes it.
//!
//! So those that make and those that put pass one gate, any number of one sort at a time; those
//! that put come first. It is passed in a few microseconds. Who stands in it may have been
//! interrupted by a handler that comes to it itself, or be gone with its kernel thread: nobody is
//! waited for longer than [`PATIENCE_NS`], as where there is no gate.
//!
//! Invariant: while those of one sort are in the gate, those of the other wait before it, for no
//! longer than that.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sys::clock::now_ns;

/// How many make descriptors, in the lower half, and how many put one somewhere, or wait to do so,
/// above.
static PASSING: AtomicU32 = AtomicU32::new(0);

const MAKERS: u32 = 0xffff;
const MAKER: u32 = 1;
const PUTTER: u32 = 1 << 16;

/// Longer than a busy machine keeps a thread off its processors.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Who has passed in, until this is dropped.
pub(super) struct Passing(u32);

impl Drop for Passing {
    fn drop(&mut self) {
        // ORDER: Release: what was done at the numbers comes before what the other sort does.
        PASSING.fetch_sub(self.0, Release);
    }
}

/// The calling thread makes descriptors.
pub(super) fn make() -> Passing {
    let mut patience = Patience(0);
    let mut seen = PASSING.load(Relaxed);
    loop {
        if seen & !MAKERS != 0 && patience.is_left() {
            seen = PASSING.load(Relaxed);
            continue;
        }
        // ORDER: Acquire: with the release of those who were here before.
        match PASSING.compare_exchange_weak(seen, seen.wrapping_add(MAKER), Acquire, Relaxed) {
            Ok(_) => return Passing(MAKER),
            Err(now) => seen = now,
        }
    }
}

/// As [`make`], if nobody has to be waited for.
pub(super) fn try_make() -> Option<Passing> {
    // ORDER: Acquire: as above.
    let pass = |seen| (seen & !MAKERS == 0).then_some(seen + MAKER);
    PASSING.fetch_update(Acquire, Relaxed, pass).is_ok().then_some(Passing(MAKER))
}

/// It puts one at a number.
pub(super) fn put() -> Passing {
    // ORDER: Acquire, here and below: as above.
    let seen = PASSING.fetch_add(PUTTER, Acquire);
    if seen & MAKERS != 0 {
        await_made();
    }
    Passing(PUTTER)
}

/// Whether somebody makes descriptors now.
pub(super) fn are_made() -> bool {
    PASSING.load(Acquire) & MAKERS != 0
}

/// Returns when nobody makes descriptors, or somebody has for long.
#[cold]
pub(super) fn await_made() {
    let mut patience = Patience(0);
    while are_made() && patience.is_left() {}
}

/// Until when one waits; 0: it has not begun.
struct Patience(u64);

impl Patience {
    /// Lets others run for a moment, unless the caller has waited long enough.
    fn is_left(&mut self) -> bool {
        let now = now_ns();
        if self.0 == 0 {
            self.0 = now.saturating_add(PATIENCE_NS);
        }
        if now >= self.0 {
            return false;
        }
        rustix::thread::sched_yield();
        true
    }
}

/// The calling process is a child that was forked, where the parent's threads are not.
pub(super) fn in_child() {
    PASSING.store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the two sorts do with a place, here a counter, is never mixed.
    #[test]
    fn sorts_take_turns() {
        const TURNS: usize = 20_000;
        static INSIDE: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
        let turns = |own: usize, enter: fn() -> Passing| {
            for _ in 0..TURNS {
                let _passing = enter();
                INSIDE[own].fetch_add(1, Relaxed);
                assert_eq!(INSIDE[1 - own].load(Relaxed), 0);
                INSIDE[own].fetch_sub(1, Relaxed);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| turns(0, make));
            scope.spawn(|| turns(0, make));
            scope.spawn(|| turns(1, put));
            scope.spawn(|| turns(1, put));
        });
    }

    #[test]
    fn nobody_is_waited_for_for_ever() {
        let before = now_ns();
        let _made = make();
        drop(put());
        assert!(now_ns() - before >= PATIENCE_NS);
    }
}
