//! The runtime: the workers, started once per process, and what they do for each other.
//!
//! Invariants:
//! 1. Workers are only added; `worker(i)` is set for every `i < made`.
//! 2. Workers live as long as the process; the kernel threads of spare ones come and go.
//! 3. The first ones, as many as were configured or as the kernel allowed, always have their kernel
//!    thread: new threads are placed among them.
//! 4. A start that fails leaves no kernel thread behind.

mod count;
mod seats;
mod wakes;

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};
use std::io;
use std::sync::{Mutex, OnceLock};

use crate::blocking::InPlace;
use crate::config::{Backend, Config, Io, Settings};
use crate::control::{self, Control};
use crate::monitor::Monitor;
use crate::nap::WAITING_MAX;
use crate::stack::{executable, overflow};
use crate::steward::Steward;
use crate::sys::task::Helper;
use crate::sys::{libc_tls, memory, say};
use crate::worker::Worker;
use crate::{fork, full, table};

use self::wakes::load;

/// Workers of a block of the table.
const BLOCK: usize = 256;
/// Most workers, spare ones included: a record has 16 bits for the number. Kernels have fewer
/// threads for a process.
const WORKERS_MAX: usize = BLOCK * (BLOCK - 1);

/// A part of the table of workers.
type Block = [AtomicPtr<Worker>; BLOCK];

/// See the file's head.
pub(crate) struct Runtime {
    pub config: Settings,
    pub monitor: Monitor,
    /// Workers that sleep or are about to; a hint.
    pub sleepers: AtomicU32,
    /// Workers of these that nap or are about to; a hint.
    pub nappers: AtomicU32,
    /// Workers whose thread is blocked in the kernel, as the monitor last saw.
    pub blocked: AtomicU32,
    /// Those that wait in place besides (`blocking/alone.rs`).
    pub in_place: InPlace,
    /// Workers that have a kernel thread.
    pub seated: AtomicU32,
    pub steward: Steward,
    /// Placement of threads that kernel threads spawn.
    turn: AtomicUsize,
    /// Those of invariant 3; changes only before the start is over.
    regular: AtomicUsize,
    /// Workers that were made.
    made: AtomicUsize,
    /// Above all workers that have a kernel thread.
    count: AtomicUsize,
    workers: [OnceLock<Box<Block>>; BLOCK],
    adding: Mutex<()>,
}

static RUNTIME: OnceLock<&'static Runtime> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());
/// A runtime that could not start, for the next attempt. Touched under `STARTING`.
static UNSTARTED: Mutex<Option<&'static Runtime>> = Mutex::new(None);
/// Set in a child that was forked after the workers had started: it has none.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Workers have been started, or are about to.
static HAS_WORKERS: AtomicBool = AtomicBool::new(false);

/// In a forked child.
pub(crate) fn forget_workers() {
    FORKED.store(HAS_WORKERS.load(Relaxed), Relaxed);
}

/// Whether this is such a child.
pub(crate) fn is_of_parent() -> bool {
    FORKED.load(Relaxed)
}

/// The runtime, if it has started.
#[inline]
pub(crate) fn get() -> Option<&'static Runtime> {
    RUNTIME.get().copied()
}

/// The runtime; started from the environment if it has not been.
///
/// # Panics
/// When it can't start; the message says what the kernel or the environment refused.
pub(crate) fn get_or_start() -> &'static Runtime {
    match get() {
        Some(runtime) => runtime,
        None => match try_get_or_start() {
            Ok(runtime) => runtime,
            Err(error) => panic!("heddle's runtime can't start: {error}"),
        },
    }
}

/// The runtime; started from the environment if it has not been.
pub(crate) fn try_get_or_start() -> io::Result<&'static Runtime> {
    if let Some(runtime) = get() {
        if FORKED.load(Relaxed) {
            let text = "no threads in a child that was forked after heddle's runtime had started";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        return Ok(runtime);
    }
    match start(Config::new().resolve()?) {
        // Somebody else was faster: his runtime is as good.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => get().ok_or_else(|| io::Error::other("the runtime did not start")),
    }
}

/// Makes the table and the slab, without which no thread can have a control block; no kernel
/// thread is started, so a program may still fork. An error, too, in the middle of that.
pub fn prepare() -> io::Result<()> {
    if control::is_reserved() {
        return Ok(());
    }
    if PREPARES.get() {
        return Err(io::Error::other("what waits stand on is being made"));
    }
    let _guard = STARTING.lock().unwrap_or_else(|poison| poison.into_inner());
    // What is wrong with the settings is told by the start; who waits needs none of them.
    let backend = || Config::new().resolve().map_or(Backend::User, |settings| settings.backend);
    preparing(|| prepare_locked(backend()))
}

thread_local! {
    /// The calling thread makes the table and the slab. It may wait there: the C library allocates
    /// for it, by an allocator of the program's, whose lock another thread has.
    static PREPARES: Cell<bool> = const { Cell::new(false) };
}

fn preparing<T>(prepare: impl FnOnce() -> T) -> T {
    PREPARES.set(true);
    let result = prepare();
    PREPARES.set(false);
    result
}

static BEFORE_TABLE: OnceLock<fn()> = OnceLock::new();

/// `call` is called before the table of threads takes the process's name, by whoever waits first or
/// starts the runtime. Once, before the first wait.
pub fn before_table(call: fn()) {
    let _ = BEFORE_TABLE.set(call);
}

/// The caller holds `STARTING`.
fn prepare_locked(backend: Backend) -> io::Result<()> {
    if !control::slab_base().is_null() {
        return Ok(());
    }
    if memory::page_size() != memory::PAGE {
        let text = format!("pages of {} bytes are not supported", memory::page_size());
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    fork::arrange();
    if let Some(call) = BEFORE_TABLE.get() {
        call();
    }
    let slots = table::create(backend == Backend::Native)?;
    control::reserve_slab(slots)
}

/// Starts the runtime.
pub(crate) fn start(config: Settings) -> io::Result<()> {
    let _guard = STARTING.lock().unwrap_or_else(|poison| poison.into_inner());
    if get().is_some() {
        let text = "heddle's runtime runs already";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    let config = preparing(|| {
        say::begin();
        crate::config::warn_of_misspelled_names();
        let config = config.fitting();
        prepare_locked(config.backend).map(|()| config)
    })?;
    crate::trace::open()?;
    let mut unstarted = UNSTARTED.lock().unwrap_or_else(|poison| poison.into_inner());
    let runtime = match unstarted.take() {
        Some(runtime) if runtime.config == config => runtime,
        _ => Runtime::new(config),
    };
    if runtime.config.backend == Backend::User
        && let Err(error) = runtime.start_workers()
    {
        *unstarted = Some(runtime);
        return Err(error);
    }
    let _ = RUNTIME.set(runtime);
    Ok(())
}

impl Runtime {
    /// A runtime without workers, for the rest of the process's life.
    fn new(config: Settings) -> &'static Self {
        Box::leak(Box::new(Runtime {
            monitor: Monitor::new(),
            sleepers: AtomicU32::new(0),
            nappers: AtomicU32::new(0),
            blocked: AtomicU32::new(0),
            in_place: InPlace::new(),
            seated: AtomicU32::new(0),
            steward: Steward::new(),
            turn: AtomicUsize::new(0),
            regular: AtomicUsize::new(config.workers),
            made: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            workers: [const { OnceLock::new() }; BLOCK],
            adding: Mutex::new(()),
            config,
        }))
    }

    /// Starts the workers, and those who help them.
    fn start_workers(&'static self) -> io::Result<()> {
        #[cfg(target_arch = "x86_64")]
        crate::sys::segments::begin(crate::config::wants_segments()?);
        executable::look();
        overflow::install_handler()?;
        #[cfg(feature = "sim")]
        if crate::sim::is_starting() {
            HAS_WORKERS.store(true, Relaxed);
            return (0..self.regular()).try_for_each(|_| self.add_simulated_worker());
        }
        if self.config.full_threads {
            // It takes a kernel thread for a moment. What is wrong the first full thread tells.
            let _why_not = libc_tls::library();
        }
        // They begin when there are workers; where there is none they end.
        let mut helpers = vec![self.steward.make(self)?, self.monitor.make(self)?];
        if let Some(limit) = crate::config::check_limit()? {
            helpers.push(crate::io::check::make(self, limit)?);
        }
        // Before: another thread may fork in between.
        HAS_WORKERS.store(true, Relaxed);
        self.add_worker().inspect_err(|_| HAS_WORKERS.store(false, Relaxed))?;
        self.add_regular_workers();
        if self.config.full_threads {
            self.make_first_spare();
        }
        helpers.into_iter().for_each(Helper::begin);
        Ok(())
    }

    /// Makes those that are missing. Where the kernel refuses one, half of what it has allowed is
    /// left to the program: those beyond leave as spare ones do. (A ring can't be left.)
    fn add_regular_workers(&'static self) {
        while self.made() < self.regular() {
            let Err(error) = self.add_worker() else { continue };
            let made = self.made();
            let kept = if self.config.io == Io::Uring { made } else { made.div_ceil(2) };
            self.regular.store(kept, Relaxed);
            let wanted = self.config.workers;
            say::line(format_args!("heddle: {kept} workers instead of {wanted}: {error}"));
        }
    }

    /// How many workers are no spare ones.
    #[inline(always)]
    pub fn regular(&self) -> usize {
        self.regular.load(Relaxed)
    }

    /// Counts a new worker in; its number is the count so far.
    fn publish(&self, worker: &'static Worker) {
        let index = worker.index as usize;
        let make = || Box::new([const { AtomicPtr::new(ptr::null_mut()) }; BLOCK]);
        let block = self.workers[index / BLOCK].get_or_init(make);
        block[index % BLOCK].store(ptr::from_ref(worker).cast_mut(), Release);
        // ORDER: Release publishes the pointer above; pairs with the Acquire in `made`.
        self.made.store(index + 1, Release);
        self.count_in(index);
    }

    /// A worker whose loop the simulation steps.
    #[cfg(feature = "sim")]
    fn add_simulated_worker(&'static self) -> io::Result<()> {
        let reactor = crate::io::Reactor::new(Some(self.config.io), self.config.full_threads)?;
        let worker = Worker::new(self, self.made() as u32, reactor)?;
        self.seated.fetch_add(1, Relaxed);
        crate::sim::add(worker);
        self.publish(worker);
        Ok(())
    }

    /// So many threads that others wait wherever one runs, whatever workers there are.
    #[cfg(test)]
    pub fn crowd(&self) -> usize {
        2 * self.regular() + 2
    }

    /// Forgets where the last thread was placed.
    #[cfg(feature = "sim")]
    pub fn reset_for_simulation(&self) {
        self.turn.store(0, Relaxed);
    }

    /// Workers that were made.
    fn made(&self) -> usize {
        self.made.load(Acquire)
    }

    /// A worker by its number, below [`Runtime::count`].
    #[inline]
    pub fn worker(&self, index: usize) -> &'static Worker {
        let Some(block) = self.workers[index / BLOCK].get() else {
            unreachable!("a worker that was not counted in");
        };
        // SAFETY: invariants 1 and 2.
        unsafe { &*block[index % BLOCK].load(Acquire) }
    }

    /// Hands a thread that has not started to the less loaded of two workers.
    #[inline]
    pub fn place(&'static self, thread: &'static Control) {
        match full::here() {
            Some(here) => {
                let local = here.worker();
                let other = self.other_than(local);
                match other {
                    Some(other) if load(other) + 1 < load(local) && !other.is_blocked() => {
                        deliver(other, thread);
                    }
                    _ => {
                        let waiting = local.fresh.push_own(thread);
                        self.monitor.given(local);
                        if waiting > 1 && self.sleepers.load(Relaxed) != 0 {
                            self.wake_a_sleeper_for(waiting);
                        }
                    }
                }
            }
            None => {
                let count = self.regular();
                let turn = self.turn.fetch_add(1, Relaxed);
                let (one, two) = (self.worker(turn % count), self.worker((turn + 1) % count));
                let chosen = if load(two) < load(one) { two } else { one };
                deliver(if chosen.is_blocked() { self.stand_in(chosen) } else { chosen }, thread);
            }
        }
    }

    /// Another worker than `local`, at random, of those that are no spare ones. What the threads
    /// of a spare one spawn stays there until somebody takes it.
    fn other_than(&self, local: &'static Worker) -> Option<&'static Worker> {
        let count = self.regular();
        if count < 2 || local.index as usize >= count {
            return None;
        }
        let step = 1 + (local.random() % (count as u64 - 1)) as usize;
        Some(self.worker((local.index as usize + step) % count))
    }

    /// A worker that runs, in place of one that is blocked in the kernel.
    #[cold]
    fn stand_in(&self, blocked: &'static Worker) -> &'static Worker {
        let runs = |worker: &&'static Worker| !worker.sleeping.is_asleep() && !worker.is_blocked();
        self.workers().find(runs).unwrap_or(blocked)
    }

    /// As [`Runtime::wake_a_sleeper`] for `waiting` fresh threads: one that naps will look for them
    /// by itself.
    #[cold]
    fn wake_a_sleeper_for(&'static self, waiting: u32) {
        if waiting >= WAITING_MAX || self.nappers.load(Relaxed) == 0 {
            self.wake_a_sleeper();
        }
    }

    /// Ends the naps of workers that have fresh threads: the caller is about to wait in the kernel,
    /// maybe for these.
    pub fn end_naps(&'static self) {
        if self.nappers.load(Relaxed) == 0 {
            return;
        }
        for worker in self.workers().filter(|worker| worker.sleeping.is_napping()) {
            if worker.fresh.len() != 0 {
                worker.notify();
            }
        }
    }
}

fn deliver(worker: &'static Worker, thread: &'static Control) {
    let critical = thread.is_critical();
    let waiting = worker.fresh.push(thread);
    worker.runtime.monitor.given(worker);
    if waiting >= WAITING_MAX || critical {
        worker.notify();
    } else {
        worker.notify_patiently();
    }
}
