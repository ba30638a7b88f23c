//! The simulation: the real scheduler, all workers on one kernel thread, stepped by a seed.
//!
//! Each worker's loop runs on a stack of its own as it is; at every [`point`] (each atomic
//! operation of the protocols, see `model.rs`, each look into the reactor) the worker that runs
//! may have to stop there and the driver goes on with another, as the seed says. The clock is
//! virtual; operations complete late, in another order, with errors ([`operations`]). So a seed is
//! one schedule, and the same seed is the same schedule.
//!
//! Invariants:
//! 1. All workers of the simulation are made and run by one kernel thread, the driver's.
//! 2. Whatever the scheduler decides depends on the seed alone: not on the time of day, not on
//!    addresses, not on what earlier runs have left in the pools ([`Mute`]).
//! 3. A full thread has no storage of its own here; what it knows of itself, its pins above all, is
//!    taken up with each context (`full.rs`, `Kept`). Where the signal that preempts could find it
//!    without a pin, it may be left ([`preemption`]): at each point, and where pins begin or end.
//!
//! Not here: preemption between plain loads and stores, weak memory (loom's business), kernel
//! threads that block (the stress tests').

#![allow(missing_docs)]

pub(crate) mod atomic;
mod operations;

use core::cell::{Cell, RefCell, UnsafeCell};
use core::ptr;
use std::io;

use crate::arch::{self, Context};
use crate::config::{Backend, Config, Io};
use crate::control::{Control, Outcome};
use crate::io::reactor::Reactor;
use crate::worker::Worker;
use crate::{full, preempt, sched};

use self::operations::Operations;
pub use self::operations::operate;

/// Stack of a worker's loop.
const STACK_BYTES: usize = 256 << 10;
/// Steps of the driver after which a run counts as endless.
const STEPS_MAX: u64 = 5_000_000;

std::thread_local! {
    /// The simulation that this kernel thread drives.
    static ACTIVE: Cell<Option<&'static Simulation>> = const { Cell::new(None) };
    /// Set while the runtime is started for a simulation.
    static STARTING: Cell<bool> = const { Cell::new(false) };
}

/// Why a run did not end.
#[derive(Debug, PartialEq, Eq)]
pub enum Stuck {
    /// All workers sleep, nothing will wake one.
    Deadlock,
    /// It goes on and on.
    Endless,
}

/// See the file's head.
pub struct Simulation {
    random: Random,
    now: Cell<u64>,
    driver: UnsafeCell<Context>,
    actors: RefCell<Vec<&'static Actor>>,
    current: Cell<Option<&'static Actor>>,
    muted: Cell<u32>,
    preempted: Cell<u64>,
    operations: Operations,
}

/// A worker and where its loop has stopped.
struct Actor {
    worker: &'static Worker,
    context: UnsafeCell<Context>,
    asleep: Cell<bool>,
    /// When its sleep ends by itself.
    until: Cell<u64>,
    signalled: Cell<bool>,
}

/// The seed's random numbers.
pub struct Random(Cell<u64>);

impl Random {
    /// The numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        let random = Random(Cell::new(0));
        random.reseed(seed);
        random
    }

    fn reseed(&self, seed: u64) {
        self.0.set(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03 | 1);
        for _ in 0..3 {
            let _ = self.next();
        }
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        x
    }

    /// The next number, below `limit`.
    pub fn below(&self, limit: u64) -> u64 {
        (self.next() >> 13) % limit
    }
}

impl Simulation {
    /// Starts the runtime with `workers` simulated workers; the calling kernel thread drives it.
    ///
    /// # Errors
    /// When the runtime runs already.
    pub fn start(workers: usize) -> io::Result<&'static Simulation> {
        let simulation: &'static Simulation = Box::leak(Box::new(Simulation {
            random: Random::new(0),
            now: Cell::new(1_000_000_000),
            driver: UnsafeCell::new(Context::empty()),
            actors: RefCell::new(Vec::new()),
            current: Cell::new(None),
            muted: Cell::new(0),
            preempted: Cell::new(0),
            operations: Operations::default(),
        }));
        ACTIVE.set(Some(simulation));
        STARTING.set(true);
        let config = Config::new().workers(workers).io(Io::Epoll).backend(Backend::User);
        let started = config.start();
        STARTING.set(false);
        started.map(|()| simulation)
    }

    /// Runs the threads that `program` starts until `done`, in the schedule of `seed`.
    ///
    /// `done` is asked after each step, on the driver: a kernel thread that may wake, cancel,
    /// send, but not wait.
    ///
    /// # Errors
    /// [`Stuck`]: not all ended. The simulation can't be used any more.
    pub fn run<T>(
        &'static self,
        seed: u64,
        program: impl FnOnce() -> T,
        mut done: impl FnMut(&mut T, &Random) -> bool,
    ) -> Result<T, Stuck> {
        self.random.reseed(seed);
        for actor in self.actors.borrow().iter() {
            actor.worker.reset_for_simulation(seed);
        }
        let mut state = program();
        for _ in 0..STEPS_MAX {
            if done(&mut state, &self.random) {
                self.settle()?;
                return Ok(state);
            }
            self.step()?;
        }
        Err(Stuck::Endless)
    }

    /// How often a full thread was left at a point of its own code.
    pub fn preempted(&self) -> u64 {
        self.preempted.get()
    }

    /// A number that two runs share if they were the same schedule.
    pub fn fingerprint(&self) -> u64 {
        self.random.0.get()
    }

    /// Lets all workers go to sleep, so that the next run finds them as the first did.
    fn settle(&'static self) -> Result<(), Stuck> {
        for _ in 0..STEPS_MAX {
            if self.step() == Err(Stuck::Deadlock) {
                return Ok(());
            }
        }
        Err(Stuck::Endless)
    }

    /// One worker runs up to a point; when all sleep, time passes.
    fn step(&'static self) -> Result<(), Stuck> {
        self.now.set(self.now.get() + 20 + self.random.below(400));
        let ready: Vec<&'static Actor> =
            self.actors.borrow().iter().copied().filter(|actor| self.is_ready(actor)).collect();
        if ready.is_empty() {
            let actors = self.actors.borrow();
            let first = actors.iter().map(|actor| actor.until.get()).min();
            let first = first.unwrap_or(u64::MAX).min(self.operations.first_due());
            if first == u64::MAX {
                return Err(Stuck::Deadlock);
            }
            self.now.set(first.max(self.now.get()));
            return Ok(());
        }
        self.resume(ready[self.random.below(ready.len() as u64) as usize]);
        Ok(())
    }

    fn is_ready(&self, actor: &Actor) -> bool {
        !actor.asleep.get()
            || actor.signalled.get()
            || actor.until.get() <= self.now.get()
            || self.operations.is_due(actor.worker, self.now.get())
    }

    fn resume(&'static self, actor: &'static Actor) {
        self.current.set(Some(actor));
        sched::become_worker(actor.worker);
        let kept = full::keep();
        // SAFETY: the driver's context is saved here; the actor's was made by `add` or saved by
        // `leave`, on this kernel thread (invariant 1).
        unsafe { arch::switch(self.driver.get(), actor.context.get()) };
        full::take_up(kept);
        sched::leave_worker();
        self.current.set(None);
    }

    /// The worker that runs stops here until the driver resumes it.
    fn leave(&'static self, actor: &'static Actor) {
        let kept = full::keep();
        // SAFETY: as in `resume`, the other way round.
        unsafe { arch::switch(actor.context.get(), self.driver.get()) };
        full::take_up(kept);
    }
}

/// The simulation, when the caller is a worker in it.
fn active_actor() -> Option<(&'static Simulation, &'static Actor)> {
    let simulation = ACTIVE.get()?;
    Some((simulation, simulation.current.get()?))
}

/// A point where the driver may go on with another worker, and a full thread be left: between two
/// steps of a program, too.
#[inline]
pub fn point() {
    if let Some((simulation, actor)) = active_actor()
        && simulation.muted.get() == 0
        && simulation.random.below(4) == 0
    {
        simulation.leave(actor);
    }
    preemption();
}

/// A point where the signal that preempts may come: a full thread that may be left yields, from
/// wherever it is, and goes on on any worker.
#[inline]
pub(crate) fn preemption() {
    if let Some((simulation, _)) = active_actor()
        && simulation.muted.get() == 0
        && simulation.random.below(16) == 0
        && preempt::leave_here()
    {
        simulation.preempted.set(simulation.preempted.get() + 1);
    }
}

/// The caller waits for another worker's next step: the driver goes on with one, or, when it is
/// the driver who waits, lets one go on. False outside of a simulation.
pub(crate) fn pause() -> bool {
    let Some(simulation) = ACTIVE.get() else { return false };
    match simulation.current.get() {
        Some(actor) => simulation.leave(actor),
        None => drop(simulation.step()),
    }
    true
}

/// While it lives, points do nothing: for code whose course depends on what earlier runs have
/// left behind, and that no schedule can break.
pub(crate) struct Mute;

impl Mute {
    pub fn new() -> Self {
        if let Some(simulation) = ACTIVE.get() {
            simulation.muted.set(simulation.muted.get() + 1);
        }
        Mute
    }
}

impl Drop for Mute {
    fn drop(&mut self) {
        if let Some(simulation) = ACTIVE.get() {
            simulation.muted.set(simulation.muted.get() - 1);
        }
    }
}

/// The virtual time, in a simulation.
pub(crate) fn now() -> Option<u64> {
    ACTIVE.get().map(|simulation| simulation.now.get())
}

/// Whether the runtime is being started for a simulation.
pub(crate) fn is_starting() -> bool {
    STARTING.get()
}

/// Makes `worker` one of the simulation's: its loop starts when the driver first resumes it.
pub(crate) fn add(worker: &'static Worker) {
    let Some(simulation) = ACTIVE.get() else { return };
    let stack = Box::leak(vec![0u128; STACK_BYTES / 16].into_boxed_slice());
    let top = stack.as_mut_ptr_range().end.cast::<u8>();
    let context = Context::entry(top, enter, ptr::from_ref(worker).cast_mut().cast());
    simulation.actors.borrow_mut().push(Box::leak(Box::new(Actor {
        worker,
        context: UnsafeCell::new(context),
        asleep: Cell::new(false),
        until: Cell::new(u64::MAX),
        signalled: Cell::new(false),
    })));
}

/// # Safety
/// 1. `worker` is the address of a worker.
unsafe extern "C-unwind" fn enter(worker: *mut u8, _packet: *mut u8) -> ! {
    // SAFETY: by 1; workers live for ever.
    let worker: &'static Worker = unsafe { &*worker.cast::<Worker>() };
    full::begin_in_simulation(None);
    worker.run();
    unreachable!("a simulated worker keeps its seat")
}

// ---- the reactor's side

/// Stands for `Reactor::poll`; false outside of a simulation.
pub(crate) fn poll(worker: &'static Worker) -> bool {
    let Some((simulation, _)) = active_actor() else { return false };
    point();
    simulation.operations.deliver(worker, simulation.now.get());
    true
}

/// Stands for `Reactor::wait`; false outside of a simulation.
pub(crate) fn wait(worker: &'static Worker, ns: Option<u64>) -> bool {
    let Some((simulation, actor)) = active_actor() else { return false };
    let now = simulation.now.get();
    actor.until.set(ns.map_or(u64::MAX, |ns| now.saturating_add(ns)));
    actor.asleep.set(true);
    simulation.leave(actor);
    actor.asleep.set(false);
    actor.signalled.set(false);
    actor.until.set(u64::MAX);
    simulation.operations.deliver(worker, simulation.now.get());
    true
}

/// Stands for `Reactor::signal`; false outside of a simulation.
pub(crate) fn signal(reactor: &Reactor) -> bool {
    let Some(simulation) = ACTIVE.get() else { return false };
    for actor in simulation.actors.borrow().iter() {
        if ptr::eq(&actor.worker.reactor, reactor) {
            actor.signalled.set(true);
        }
    }
    true
}

/// Stands for `Reactor::expire`; `None` outside of a simulation.
pub(crate) fn expire(thread: &'static Control, outcome: Outcome) -> Option<bool> {
    let (simulation, _) = active_actor()?;
    Some(simulation.operations.expire(thread, outcome, simulation.now.get(), &simulation.random))
}
