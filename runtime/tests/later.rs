//! `src/later.rs`, with signal handlers that come before every step of it.
//!
//! The file is compiled into this test as it is, on atomics that count their uses. A run is done
//! for each place of a first handler, each of a second one, which may interrupt the first, and each
//! of a third: every order of steps that they and the code that they interrupt can have is tried.
//! Each handler leaves a wake; at the end of a run all of them have been done, once each, and none
//! while the thread was pinned.
//!
//! What pins do is written here as `full.rs` has it.

#![allow(dead_code, unused_imports)]

use std::cell::{Cell, RefCell};

#[path = "../src/later.rs"]
mod later;

/// Atomics before whose use a handler may come.
mod model {
    use core::sync::atomic::Ordering;

    pub(crate) struct AtomicUsize(core::sync::atomic::AtomicUsize);

    impl AtomicUsize {
        pub const fn new(value: usize) -> Self {
            AtomicUsize(core::sync::atomic::AtomicUsize::new(value))
        }

        pub fn load(&self, order: Ordering) -> usize {
            // Most uses look over all places; a handler matters where the place is used.
            let value = self.0.load(order);
            if value != 0 {
                super::step();
                return self.0.load(order);
            }
            value
        }

        pub fn store(&self, value: usize, order: Ordering) {
            super::step();
            self.0.store(value, order);
        }

        pub fn swap(&self, value: usize, order: Ordering) -> usize {
            super::step();
            self.0.swap(value, order)
        }

        pub fn compare_exchange(
            &self,
            from: usize,
            to: usize,
            success: Ordering,
            failure: Ordering,
        ) -> Result<usize, usize> {
            super::step();
            self.0.compare_exchange(from, to, success, failure)
        }
    }
}

/// The thread's pins, as `full.rs` has them.
mod full {
    use super::{PINS, WORK, step};

    pub(crate) fn own_place() -> *const u8 {
        PINS.with(|pins| std::ptr::from_ref(pins).cast())
    }

    pub(crate) fn is_pinned() -> bool {
        step();
        PINS.get() != 0
    }

    pub(crate) fn leave_work() {
        step();
        WORK.set(true);
    }

    pub(crate) fn pin() {
        step();
        PINS.set(PINS.get() + 1);
        step();
    }

    pub(crate) fn unpin() {
        step();
        let left = PINS.get() - 1;
        PINS.set(left);
        step();
        if left == 0 && WORK.replace(false) {
            super::later::work();
        }
        step();
    }
}

thread_local! {
    static PINS: Cell<u32> = const { Cell::new(0) };
    static WORK: Cell<bool> = const { Cell::new(false) };
    /// Steps of this run, and before which of them a handler comes, with what it leaves.
    static STEPS: Cell<usize> = const { Cell::new(0) };
    static HANDLERS: Cell<[(usize, usize); 3]> = const { Cell::new([(0, 0); 3]) };
    /// How often each wake was done.
    static DONE: Cell<[u32; 4]> = const { Cell::new([0; 4]) };
}

fn step() {
    let now = STEPS.get() + 1;
    STEPS.set(now);
    for (at, argument) in HANDLERS.get() {
        if at == now {
            later::when_unpinned(wake, argument);
        }
    }
}

/// A wake takes locks itself.
fn wake(argument: usize, times: u32) {
    assert_eq!(PINS.get(), 0, "it waits for the lock that it has interrupted");
    full::pin();
    let mut done = DONE.get();
    done[argument] += times;
    DONE.set(done);
    full::unpin();
}

/// What the thread does: locks inside locks, wakes of its own in between.
fn work() {
    full::pin();
    full::pin();
    full::unpin();
    full::unpin();
    later::when_unpinned(wake, 0);
    full::pin();
    full::unpin();
}

/// Returns how many steps there were.
fn run(handlers: [(usize, usize); 3]) -> usize {
    STEPS.set(0);
    DONE.set([0; 4]);
    HANDLERS.set(handlers);
    work();
    HANDLERS.set([(0, 0); 3]);
    let steps = STEPS.get();
    let mut wanted = [0; 4];
    wanted[0] = 1;
    for (at, argument) in handlers {
        wanted[argument] += u32::from((1..=steps).contains(&at));
    }
    assert_eq!(DONE.get(), wanted, "handlers {handlers:?}");
    assert!(!WORK.get(), "handlers {handlers:?}");
    steps
}

/// Places that stay taken would be used up by then: there are 256.
fn run_all(arguments: [usize; 3]) {
    let [a, b, c] = arguments;
    let mut runs = 0;
    for first in 1..=run([(0, 0); 3]) {
        for second in 1..=run([(first, a), (0, 0), (0, 0)]) {
            for third in 1..=run([(first, a), (second, b), (0, 0)]) {
                run([(first, a), (second, b), (third, c)]);
                runs += 1;
            }
        }
    }
    assert!(runs > 10_000, "{runs}");
}

#[test]
fn handlers_that_leave_different_things_lose_none() {
    run_all([1, 2, 3]);
    run_all([1, 2, 1]);
}

#[test]
fn handlers_that_leave_the_same_thing_lose_none() {
    run_all([1, 1, 1]);
}

#[test]
fn handlers_that_leave_what_the_thread_does_itself_lose_none() {
    run_all([0, 0, 0]);
}
