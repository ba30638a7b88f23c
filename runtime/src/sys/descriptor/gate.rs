//! What keeps a program that puts a file at a number of its choice (`dup2`), or takes the lowest
//! (`socket`), off the numbers at which the runtime makes descriptors of its own.
//!
//! The kernel makes each at the lowest number that is free, be it for an instant. The program has
//! just closed that one, and puts its next file there: then the kernel refuses (`EBUSY`), or the
//! runtime goes on with the program's file, and closes it. Or it makes its next file, which gets
//! another number than it would have had.
//!
//! So those that make and those that put pass one gate, any number of one sort at a time; those
//! that put come first. It is passed in a few microseconds: nobody closes a file of the program's
//! in there, nor waits. Who is in it is pinned, so it is not left there, nor called. Should one be
//! kept from its processor for long, or be gone, nobody is waited for longer than [`PATIENCE_NS`].
//!
//! Invariant: while those of one sort are in the gate, those of the other wait before it, for no
//! longer than that.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::time::Timespec;

use crate::full::{self, Pin};
use crate::sys::clock::now_ns;

/// How many make descriptors, in the lower half, and how many put one somewhere, or wait to do so,
/// above.
static PASSING: AtomicU32 = AtomicU32::new(0);

const MAKERS: u32 = 0xffff;
const MAKER: u32 = 1;
const PUTTER: u32 = 1 << 16;

/// Longer than a busy machine keeps a thread off its processors.
const PATIENCE_NS: u64 = 1_000_000_000;

/// How long others are given the processor before who waits sleeps, and for how long then.
const YIELDS: u32 = 20;
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

/// Who has passed in, until this is dropped.
pub(super) struct Passing {
    unit: u32,
    _pin: Pin,
}

impl Passing {
    /// Before the caller counts itself.
    fn begin(unit: u32, count: impl FnOnce() -> bool) -> Option<Passing> {
        let _pin = full::pin();
        if count() { Some(Passing { unit, _pin }) } else { None }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // ORDER: Release: what was done at the numbers comes before what the other sort does.
        PASSING.fetch_sub(self.unit, Release);
    }
}

/// The calling thread makes descriptors.
pub(super) fn make() -> Passing {
    let mut patience = Patience::new();
    loop {
        if let Some(passing) = make_if(|seen| seen & !MAKERS == 0 || !patience.is_left()) {
            return passing;
        }
    }
}

/// As [`make`], if nobody has to be waited for.
pub(super) fn try_make() -> Option<Passing> {
    make_if(|seen| seen & !MAKERS == 0)
}

fn make_if(mut may: impl FnMut(u32) -> bool) -> Option<Passing> {
    Passing::begin(MAKER, || {
        let pass = |seen: u32| may(seen).then(|| seen.wrapping_add(MAKER));
        // ORDER: Acquire: with the release of those who were here before.
        PASSING.fetch_update(Acquire, Relaxed, pass).is_ok()
    })
}

/// It puts one at a number.
pub(super) fn put() -> Passing {
    let passing = Passing::begin(PUTTER, || {
        // ORDER: Acquire, here and below: as above.
        if PASSING.fetch_add(PUTTER, Acquire) & MAKERS != 0 {
            await_made();
        }
        true
    });
    passing.expect("it has counted itself")
}

/// Whether somebody makes descriptors now.
pub(super) fn are_made() -> bool {
    PASSING.load(Acquire) & MAKERS != 0
}

/// Returns when nobody makes descriptors, or somebody has for long.
#[cold]
pub(super) fn await_made() {
    let mut patience = Patience::new();
    while are_made() && patience.is_left() {}
}

/// How long one has waited.
struct Patience {
    /// Until when; 0: it has not begun.
    end: u64,
    yields: u32,
}

impl Patience {
    fn new() -> Self {
        Patience { end: 0, yields: 0 }
    }

    /// Lets others run for a moment, unless the caller has waited long enough.
    fn is_left(&mut self) -> bool {
        let now = now_ns();
        if self.end == 0 {
            self.end = now.saturating_add(PATIENCE_NS);
        }
        if now >= self.end {
            return false;
        }
        self.yields += 1;
        if self.yields <= YIELDS {
            rustix::thread::sched_yield();
        } else {
            let _ = rustix::thread::nanosleep(&NAP);
        }
        true
    }
}

/// The calling process is a child that was forked, where the parent's threads are not.
pub(super) fn in_child() {
    PASSING.store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    static ALONE: Mutex<()> = Mutex::new(());

    /// What the two sorts do with a place, here a counter, is never mixed.
    #[test]
    fn sorts_take_turns() {
        let _alone = ALONE.lock().unwrap();
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
    fn who_is_refused_counts_nowhere() {
        let _alone = ALONE.lock().unwrap();
        let put = put();
        assert!(try_make().is_none());
        drop(put);
        assert_eq!(PASSING.load(Relaxed), 0);
        let made = try_make();
        assert!(made.is_some() && are_made());
        drop(made);
        assert_eq!(PASSING.load(Relaxed), 0);
    }

    #[test]
    fn nobody_is_waited_for_for_ever() {
        let _alone = ALONE.lock().unwrap();
        let before = now_ns();
        let _made = make();
        drop(put());
        assert!(now_ns() - before >= PATIENCE_NS);
    }
}
