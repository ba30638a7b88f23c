//! The runtime, with the fields that those use who wake workers, count them and fill their seats.

#[path = "../../src/runtime/count.rs"]
mod count;
#[path = "../../src/runtime/wakes.rs"]
mod wakes;

use core::ptr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;
use std::io;
use std::sync::{Mutex, OnceLock};

use loom::sync::Notify;
use loom::sync::atomic::{AtomicU32, AtomicUsize};
use loom::thread::JoinHandle;

use crate::called::Called;
use crate::control::Control;
use crate::monitor::Monitor;
use crate::worker::Worker;

/// So often the monitor looks again because the steward was refused: else these two could go on for
/// ever while a third waits to run.
const REFUSALS: u32 = 2;

/// Nobody waits in place.
pub struct InPlace;

impl InPlace {
    pub fn count(&self) -> u32 {
        0
    }
}

pub struct Runtime {
    pub config: Config,
    pub steward: Steward,
    pub monitor: Monitor,
    pub sleepers: core::sync::atomic::AtomicU32,
    pub nappers: core::sync::atomic::AtomicU32,
    pub blocked: AtomicU32,
    pub in_place: InPlace,
    pub seated: core::sync::atomic::AtomicU32,
    count: AtomicUsize,
    workers: OnceLock<Vec<Worker>>,
    /// What a kernel thread does that sits down, and those that do.
    pub body: OnceLock<Box<dyn Fn(&'static Worker)>>,
    pub kernel_threads: Mutex<Vec<JoinHandle<()>>>,
    /// Somebody goes to sleep, or has left, or the steward was refused: the monitor looks again.
    pub tick: Notify,
    /// The model is at its end: nobody sleeps any more.
    over: AtomicBool,
}

// SAFETY: loom runs its threads on one kernel thread.
unsafe impl Sync for Runtime {}
// SAFETY: as above.
unsafe impl Send for Runtime {}

pub struct Config {
    /// Those that always have their kernel threads.
    pub workers: usize,
    /// Threads are left to a worker that has a turn for them soon.
    pub is_patient: bool,
}

pub struct Steward {
    pub called: Called,
    pub wanted: core::sync::atomic::AtomicU32,
}

impl Steward {
    pub fn call(&self) {
        self.called.call();
    }

    pub fn want(&self, count: u32, is_less: bool) {
        self.wanted.store(count, Relaxed);
        if is_less {
            self.call();
        }
    }

    /// It waits for nobody here.
    pub fn is_held_up(&self) -> bool {
        false
    }
}

impl Runtime {
    /// Of this execution, with one worker that always has its kernel thread, and spare ones; that
    /// of the one before is freed.
    pub fn fresh(count: u32, controls: &[&'static Control]) -> &'static Runtime {
        Self::fresh_of(1, count, controls)
    }

    /// As [`Runtime::fresh_of`], all with kernel threads of their own, and patient.
    pub fn patient(count: u32, controls: &[&'static Control]) -> &'static Runtime {
        Self::of(Config { workers: count as usize, is_patient: true }, count, controls)
    }

    /// As [`Runtime::fresh`], with `configured` workers that always have theirs.
    pub fn fresh_of(
        configured: usize,
        count: u32,
        controls: &[&'static Control],
    ) -> &'static Runtime {
        Self::of(Config { workers: configured, is_patient: false }, count, controls)
    }

    pub fn regular(&self) -> usize {
        self.config.workers
    }

    fn of(config: Config, count: u32, controls: &[&'static Control]) -> &'static Runtime {
        static OLD: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());
        let steward = Steward { called: Called::new(), wanted: 0.into() };
        assert!(!steward.called.take());
        let new = Box::into_raw(Box::new(Runtime {
            config,
            steward,
            monitor: Monitor::new(),
            sleepers: 0.into(),
            nappers: 0.into(),
            blocked: AtomicU32::new(0),
            in_place: InPlace,
            seated: count.into(),
            count: AtomicUsize::new(count as usize),
            workers: OnceLock::new(),
            body: OnceLock::new(),
            kernel_threads: Mutex::default(),
            tick: Notify::new(),
            over: AtomicBool::new(false),
        }));
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

    fn made(&self) -> usize {
        self.workers.get().map_or(0, Vec::len)
    }

    pub fn worker(&self, index: usize) -> &'static Worker {
        let worker: *const Worker = &self.workers.get().expect("workers")[index];
        // SAFETY: alive until the next execution starts.
        unsafe { &*worker }
    }

    /// One at a time fills seats here.
    fn adding(&self) {}

    /// The kernel refuses.
    fn add_spare(&'static self) -> io::Result<&'static Worker> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// As in `runtime/seats.rs`.
    fn fill(&'static self, worker: &'static Worker) -> io::Result<()> {
        self.count_in(worker.index as usize);
        if !worker.seat.take() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        worker.sit_down();
        self.sit(worker);
        Ok(())
    }

    /// A kernel thread, which has the seat of `worker`, begins.
    pub fn sit(&'static self, worker: &'static Worker) {
        let started = loom::thread::spawn(move || {
            (self.body.get().expect("what kernel threads do"))(worker);
            self.tick.notify();
        });
        self.kernel_threads.lock().unwrap().push(started);
    }

    /// The steward, who fills seats when he is called, until the model is over.
    pub fn serve_as_steward(&'static self) {
        let mut refusals = 0;
        loop {
            self.steward.called.wait(None);
            let is_called = self.steward.called.take();
            if self.is_over() {
                return;
            }
            if is_called {
                let is_refused = self.fill_seats(self.steward.wanted.load(Relaxed)).is_err();
                refusals += u32::from(is_refused);
                if is_refused && refusals <= REFUSALS {
                    self.tick.notify();
                }
            }
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Nobody sleeps any more.
    pub fn end(&'static self) {
        self.over.store(true, Relaxed);
        (0..self.made()).for_each(|index| self.worker(index).reactor.signal());
        self.steward.call();
        self.tick.notify();
    }

    /// Until all kernel threads are at their ends.
    pub fn join(&self) {
        loop {
            let Some(one) = self.kernel_threads.lock().unwrap().pop() else { return };
            one.join().unwrap();
        }
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
