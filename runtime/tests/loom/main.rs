//! Models: the protocols of the runtime under loom, which tries every order of their steps.
//!
//! The files of `src` that implement a protocol are compiled into this test as they are; only
//! what they stand on is replaced: `model` (atomics and cells that loom watches), `control` (the
//! fields that the protocols use) and `sched` (a wait is a loom thread that blocks).
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 cargo test -p heddle --release --test loom`

#![cfg(loom)]
#![allow(dead_code, unused_imports, missing_docs)]

mod arch;
mod compensate_models;
mod cond_models;
mod control;
mod crowd_models;
mod fresh_models;
mod heap_models;
mod helper_models;
mod lot;
mod lot_models;
mod model;
mod models;
mod monitor;
mod offered_models;
mod runtime;
mod sched;

#[path = "../../src/called.rs"]
mod called;
#[path = "../../src/extension.rs"]
mod extension;
#[path = "../../src/fresh.rs"]
mod fresh;
#[path = "../../src/heap_use.rs"]
mod heap_use;
#[path = "../../src/inbox.rs"]
mod inbox;
#[path = "../../src/offered.rs"]
mod offered;
#[path = "../../src/blocking/parting.rs"]
mod parting;
mod parting_models;
mod patience_models;
#[path = "../../src/queue.rs"]
mod queue;
#[path = "../../src/raw_lock.rs"]
mod raw_lock;
#[path = "../../src/ready.rs"]
mod ready;
#[path = "../../src/seat.rs"]
mod seat;
mod seat_models;
#[path = "../../src/sleep.rs"]
mod sleep;
#[path = "../../src/timer.rs"]
mod timer;
#[path = "../../src/wait.rs"]
mod wait;
#[path = "../../src/waits.rs"]
mod waits;
mod waits_models;

#[path = "../../src/worker/given.rs"]
mod given;
mod turn_models;
#[path = "../../src/turns.rs"]
mod turns;
mod worker;
use monitor::doze;
use worker::preempt;

mod sync;
mod thread;

/// Pins are for full threads; here are kernel threads.
mod full {
    pub struct Pin;

    pub fn pin() -> Pin {
        Pin
    }

    pub fn pinned_already() -> Pin {
        Pin
    }

    /// Nobody was preempted.
    pub fn computes() -> bool {
        false
    }

    /// No spare worker is kept ready that is not needed.
    pub fn exist() -> bool {
        false
    }
}

mod error {
    pub fn exhausted(what: &'static str, _value: u64) -> std::io::Error {
        std::io::Error::other(what)
    }
}

mod io {
    pub struct Epoll;

    impl Epoll {
        pub fn waiting(&self) -> u64 {
            0
        }
    }
}

mod nap {
    pub const NAP_NS: u64 = 1;
}

mod stack {
    use crate::worker::Empty;

    pub fn give_all(_cache: &Empty) {}
}

mod sys {
    pub mod task {
        pub fn tid() -> i32 {
            1
        }
    }

    /// Deadlines are not times here: a wait that has one may end at any moment.
    pub mod clock {
        pub fn now_ns() -> u64 {
            1
        }

        pub fn deadline_after(_duration: core::time::Duration) -> u64 {
            2
        }
    }
}
