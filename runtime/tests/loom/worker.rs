//! Workers and what they belong to, with the fields that turns and the giving of threads use.
//!
//! A loom thread is a worker's kernel thread. Switching is no jump here: who runs is in `current`,
//! and the kernel thread goes on with that one.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::OnceLock;

use loom::sync::Notify;

use crate::called::Called;
use crate::control::Control;
use crate::fresh::Fresh;
use crate::model::{AtomicPtr, fence};
use crate::offered::Offered;
use crate::queue::RunQueues;
use crate::runtime::Runtime;
use crate::seat::Seat;
use crate::sleep::Sleep;

pub struct Worker {
    pub index: u32,
    pub runtime: &'static Runtime,
    pub poll: AtomicU32,
    pub current: AtomicPtr<Control>,
    pub switches: loom::sync::atomic::AtomicU32,
    pub asked: loom::sync::atomic::AtomicU32,
    pub is_turn: loom::sync::atomic::AtomicBool,
    pub blocked: AtomicBool,
    pub live_full: AtomicU32,
    pub queues: Empty,
    pub fresh: Fresh,
    pub offered: Box<Offered>,
    pub sleeping: Sleep,
    pub seat: Seat,
    pub reactor: Reactor,
    /// It is time to look around at each switch.
    pub looks: AtomicBool,
    /// The kernel has a signal for it.
    pub signal: loom::sync::atomic::AtomicBool,
}

/// Where a worker sleeps.
pub struct Reactor(pub Notify);

impl Reactor {
    pub fn signal(&self) {
        self.0.notify();
    }
}

/// Light threads: none.
pub struct Empty;

impl Empty {
    pub fn len(&self) -> u32 {
        0
    }
}

/// They are large for the stacks of loom's threads.
#[inline(never)]
fn room() -> Box<Offered> {
    Box::new(Offered::new())
}

impl Worker {
    pub fn new(index: u32, runtime: &'static Runtime) -> Self {
        let worker = Worker {
            index,
            runtime,
            poll: AtomicU32::new(0),
            current: AtomicPtr::new(ptr::null_mut()),
            switches: loom::sync::atomic::AtomicU32::new(0),
            asked: loom::sync::atomic::AtomicU32::new(u32::MAX),
            is_turn: loom::sync::atomic::AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            live_full: AtomicU32::new(0),
            queues: Empty,
            fresh: Fresh::new(),
            offered: room(),
            sleeping: Sleep::new(),
            seat: Seat::new(),
            reactor: Reactor(Notify::new()),
            looks: AtomicBool::new(false),
            signal: loom::sync::atomic::AtomicBool::new(false),
        };
        assert!(!worker.sleeping.is_asleep() && !worker.seat.is_empty());
        worker.current.store(ptr::null_mut(), Relaxed);
        worker
    }

    pub fn spend(&self) -> bool {
        self.looks.load(Relaxed)
    }

    pub fn adopt(&'static self, thread: &'static Control) {
        thread.worker.store(ptr::from_ref(self).cast_mut().cast(), Relaxed);
        self.live_full.fetch_add(1, Relaxed);
        fence(SeqCst);
        self.offered.push(thread);
    }

    pub fn switch(&'static self, me: &'static Control, next: &'static Control) {
        assert!(!ptr::eq(me, next));
        self.activate(next);
        me.context.leave();
        next.context.enter();
    }

    pub fn to_scheduler(&'static self, me: &'static Control) {
        self.current.store(ptr::null_mut(), Relaxed);
        me.context.leave();
    }

    /// From the scheduler context.
    pub fn resume(&'static self, next: &'static Control) {
        self.activate(next);
        next.context.enter();
    }

    fn activate(&self, next: &'static Control) {
        self.switches.store(self.switches.load(Relaxed) + 1, Relaxed);
        self.current.store(ptr::from_ref(next).cast_mut(), Relaxed);
    }

    /// Who runs here.
    pub fn running(&self) -> Option<&'static Control> {
        // SAFETY: null or a control block of this execution.
        unsafe { self.current.load(Relaxed).as_ref() }
    }

    /// As the handler in `preempt.rs`, if the kernel has a signal for it.
    pub fn take_signal(&'static self) {
        self.take_signal_unless(false);
    }

    /// The same; `is_held`: the thread can't be left just now. True: it was left.
    pub fn take_signal_unless(&'static self, is_held: bool) -> bool {
        if !self.signal.swap(false, AcqRel) || is_held {
            return false;
        }
        let is_turn = self.take_turn();
        let me = self.running().filter(|_| is_turn && self.is_asked());
        me.map(|me| self.pass_turn(me)).is_some()
    }
}

pub mod preempt {
    use core::sync::atomic::Ordering::{Relaxed, Release};

    use super::Worker;

    pub fn ask(worker: &Worker, switches: u32) {
        worker.asked.store(switches, Relaxed);
        worker.signal.store(true, Release);
    }
}

pub mod runtime {
    use core::ptr;
    use core::sync::atomic::Ordering::Relaxed;
    use std::sync::OnceLock;

    use super::Worker;
    use crate::called::Called;
    use crate::control::Control;

    pub struct Runtime {
        pub config: Config,
        pub steward: Steward,
        workers: OnceLock<Vec<Worker>>,
    }

    pub struct Config {
        /// Those that always have their kernel threads.
        pub workers: usize,
    }

    pub struct Steward(Called);

    impl Steward {
        pub fn call(&self) {
            self.0.call();
        }
    }

    impl Runtime {
        /// Of this execution; that of the one before is freed.
        pub fn fresh(count: u32, controls: &[&'static Control]) -> &'static Runtime {
            static OLD: core::sync::atomic::AtomicPtr<Runtime> =
                core::sync::atomic::AtomicPtr::new(ptr::null_mut());
            let steward = Steward(Called::new());
            assert!(!steward.0.take());
            let config = Config { workers: 1 };
            let new = Runtime { config, steward, workers: OnceLock::new() };
            let new = Box::into_raw(Box::new(new));
            let old = OLD.swap(new, Relaxed);
            if !old.is_null() {
                // SAFETY: the execution that used it is over.
                drop(unsafe { Box::from_raw(old) });
            }
            // SAFETY: alive until the next execution starts.
            let new: &'static Runtime = unsafe { &*new };
            let make = || (0..count).map(|index| used(Worker::new(index, new), controls)).collect();
            new.workers.get_or_init(make);
            new
        }

        pub fn count(&self) -> usize {
            self.workers.get().map_or(0, Vec::len)
        }

        pub fn worker(&'static self, index: usize) -> &'static Worker {
            &self.workers.get().expect("workers")[index]
        }

        pub fn workers(&'static self) -> impl Iterator<Item = &'static Worker> {
            (0..self.count()).map(|index| self.worker(index)).filter(|w| !w.seat.is_empty())
        }
    }

    /// All places of its queues were used by the model's main thread, as loom demands.
    #[inline(never)]
    fn used(worker: Worker, controls: &[&'static Control]) -> Worker {
        worker.offered.push_all(controls.iter().copied());
        worker.offered.enlarge();
        worker.offered.grant();
        assert_eq!(worker.offered.steal(u32::MAX, |_| {}), controls.len() as u32);
        for thread in controls {
            worker.fresh.push_own(thread);
        }
        assert_eq!(worker.fresh.take(u32::MAX, |_| {}), controls.len() as u32);
        assert_eq!(worker.fresh.len() + worker.offered.len() + worker.offered.behind(), 0);
        worker
    }
}
