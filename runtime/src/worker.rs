//! A worker: the kernel thread that runs threads, and its loop.
//!
//! One run queue, one reactor, one poll word per worker; no separate poller thread.
//!
//! ```text
//!   thread A --yield/park--> thread B     direct switch while the budget lasts
//!      |                        |
//!      +---- budget spent, nothing ready, A ended or hibernates ----> scheduler context
//!                                     look(): inbox, timers, reactor, fresh threads
//!                                     next(): switch to a thread, or idle(): sleep in the reactor
//! ```
//! What a full thread must not keep across a park, a yield or anything that may switch: a
//! `&Worker`, or what belongs to one (its ring, its timers, its cache). It may go on on another
//! worker, so all of it is asked for anew ([`sched::worker`]).
//!
//! Invariants:
//! 1. Everything but the block marked "shared" is touched only by the worker's kernel thread.
//! 2. A worker that sleeps has announced it (`sleeping`) and looked at its inbox afterwards.
//! 3. What must not happen on the stack that it concerns (freeing it, copying it out) is left in
//!    `post` and done by the scheduler context after the switch ("publish after switch").

mod switch;

use core::cell::{Cell, UnsafeCell};
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence};
use std::io;

use heddle_record::{Record, State};

use crate::arch::{self, Context};
use crate::control::{Control, Kind, Outcome};
use crate::fresh::Fresh;
use crate::hibernate::Drowsy;
use crate::inbox::Inbox;
use crate::io::Reactor;
use crate::queue::RunQueues;
use crate::requests::Requests;
use crate::runtime::Runtime;
use crate::sched;
use crate::sleep::Sleep;
use crate::stack::Cache;
use crate::sys::{clock, task};
use crate::timer::Timers;
use crate::trace::Trace;

/// Most switches between two looks at inbox, timers and I/O.
const SWITCHES_PER_LOOK: u32 = 61;
/// The run time between two looks that the budget is steered to.
const LOOK_NS: u64 = 75_000;
/// Threads that are taken over from the fresh queue at once.
const FRESH_BATCH: u32 = 32;
/// Longest sleep in the reactor, so that a far deadline can't overflow the kernel's argument.
const SLEEP_NS_MAX: u64 = 3_600_000_000_000;

/// What the scheduler context does for the thread that has just left its stack.
pub(crate) enum Post {
    /// Nothing.
    None,
    /// It ended: give its reference up.
    Ended(&'static Control),
    /// It parked and asked for hibernation, and there are enough drowsy threads.
    Hibernate(&'static Control),
}

/// See the file's head. The poll word is at offset 0, reachable as `%gs:0` on x86-64.
#[repr(C, align(128))]
pub(crate) struct Worker {
    /// Not zero: the running thread should yield at its next poll. Written by anybody.
    pub poll: AtomicU32,
    /// Switches left until the next look.
    budget: Cell<u32>,
    /// The thread that runs now; null in the scheduler context.
    pub current: AtomicPtr<Control>,
    /// Activations so far; the monitor reads it.
    pub switches: AtomicU64,
    scheduler: UnsafeCell<Context>,
    post: Cell<Post>,
    /// The clock at the last look.
    pub now: Cell<u64>,
    looked: Cell<u64>,
    budget_full: Cell<u32>,
    lazy_served: Cell<u64>,
    /// Its number.
    pub index: u32,
    /// Its kernel thread.
    pub tid: i32,
    /// Its slot, whose record describes the worker.
    pub record: &'static Record,
    pub runtime: &'static Runtime,
    pub queues: RunQueues,
    pub timers: Timers,
    pub cache: Cache,
    drowsy: Drowsy,
    pub reactor: Reactor,
    /// The kernel thread's own thread pointer, which its light threads have too.
    tls: usize,
    /// Bounds of the kernel thread's own stack, for AddressSanitizer.
    own_stack: Cell<(*const u8, usize)>,
    /// Set while tracing: then every switch goes through the scheduler context.
    trace: Option<Trace>,
    /// A cheap random number, for placement.
    random: Cell<u64>,

    /// Shared: threads that others woke.
    pub inbox: Inbox,
    /// Shared: 1 while it sleeps or is about to.
    pub sleeping: Sleep,
    /// Shared: threads that have not started.
    pub fresh: Fresh,
    /// Shared: full threads of its own that are ready and that an idle worker may have.
    pub offered: Fresh,
    /// Shared: cancellations asked for by others.
    pub requests: Requests,
    /// Shared: a priority was raised, so a queued thread may be in the wrong queue. Set before the
    /// poll word is; a worker that sleeps has no queued threads.
    pub resort: AtomicBool,
    /// Shared, a hint: threads that belong here and have not ended.
    pub live: AtomicU32,
    /// Shared, a hint: threads ready at the last look.
    pub ready: AtomicU32,
    /// Shared, exact while it sleeps: operations in its reactor.
    pub io_waiting: AtomicU32,
    /// Shared, exact while it sleeps: entries of its timer heap.
    pub timers_waiting: AtomicU32,
}

// SAFETY: invariant 1; the shared fields are `Sync` by themselves.
unsafe impl Sync for Worker {}
// SAFETY: as above; a worker is made on the kernel thread that runs it and never moves.
unsafe impl Send for Worker {}

impl Worker {
    /// Makes the worker of the calling kernel thread.
    pub fn new(runtime: &'static Runtime, index: u32) -> io::Result<&'static Worker> {
        let record = sched::worker_record(index)?;
        let now = clock::now_ns();
        let worker = Box::leak(Box::new(Worker {
            poll: AtomicU32::new(0),
            budget: Cell::new(0),
            current: AtomicPtr::new(ptr::null_mut()),
            switches: AtomicU64::new(0),
            scheduler: UnsafeCell::new(Context::empty()),
            post: Cell::new(Post::None),
            now: Cell::new(now),
            looked: Cell::new(now),
            budget_full: Cell::new(SWITCHES_PER_LOOK),
            lazy_served: Cell::new(now),
            index,
            tid: task::tid(),
            record,
            runtime,
            queues: RunQueues::new(),
            timers: Timers::new(),
            cache: Cache::new(),
            drowsy: Drowsy::new(runtime.config.drowsy),
            reactor: Reactor::new(runtime.config.io)?,
            tls: arch::thread_pointer(),
            own_stack: Cell::new((ptr::null(), 0)),
            trace: Trace::new(index),
            random: Cell::new(0x9E37_79B9_7F4A_7C15 ^ (u64::from(index) << 32) ^ now),
            inbox: Inbox::new(),
            sleeping: Sleep::new(),
            fresh: Fresh::new(),
            offered: Fresh::new(),
            requests: Requests::new(),
            resort: AtomicBool::new(false),
            live: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            io_waiting: AtomicU32::new(0),
            timers_waiting: AtomicU32::new(0),
        }));
        Ok(worker)
    }

    /// The loop of the scheduler context. Never returns: workers live as long as the process.
    pub fn run(&'static self) -> ! {
        task::set_poll_base(ptr::from_ref(self).cast());
        loop {
            self.run_post();
            if self.budget.get() == 0 || self.poll.load(Relaxed) != 0 || self.queues.len() == 0 {
                self.look();
            }
            match self.next() {
                Some(thread) => self.resume(thread),
                None => self.idle(),
            }
        }
    }

    /// Forgets what earlier runs of the simulation have left; nothing runs or waits here.
    #[cfg(feature = "sim")]
    pub fn reset_for_simulation(&self, seed: u64) {
        self.runtime.reset_for_simulation();
        self.random.set((seed ^ u64::from(self.index) << 40).wrapping_mul(2) | 1);
        let now = clock::now_ns();
        self.now.set(now);
        self.looked.set(now);
        self.lazy_served.set(now);
        self.budget.set(0);
        self.budget_full.set(SWITCHES_PER_LOOK);
        self.queues.reset_for_simulation();
    }

    /// A number that is different each time.
    pub fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x
    }

    // ---- choosing

    fn next(&'static self) -> Option<&'static Control> {
        if self.fresh.len() != 0 {
            self.adopt_from(&self.fresh, FRESH_BATCH);
        }
        if self.queues.has_fast() && self.lazy_is_due() {
            self.lazy_served.set(self.now.get());
            if let Some(thread) = self.queues.pop_lazy() {
                return Some(thread);
            }
        }
        if self.queues.len() == 0 && self.offered.len() != 0 {
            self.adopt_from(&self.offered, FRESH_BATCH);
        }
        self.queues.pop()
    }

    /// Whether the Lazy region has waited longer than its bound.
    fn lazy_is_due(&self) -> bool {
        let bound = self.runtime.config.lazy_bound_ns;
        bound != 0
            && self.queues.has_lazy()
            && self.now.get().saturating_sub(self.lazy_served.get()) > bound
    }

    /// Takes up to `count` threads that have not started, from its own or another worker's queue;
    /// returns how many it got.
    pub fn adopt_from(&'static self, fresh: &Fresh, count: u32) -> u32 {
        let taken = fresh.take(count, |thread| self.adopt(thread));
        // ORDER: a thread's worker is known before the thread first looks whether it was
        // cancelled; pairs with the fence in `sched::cancel`.
        fence(SeqCst);
        taken
    }

    /// From now on `thread` belongs to this worker.
    fn adopt(&'static self, thread: &'static Control) {
        thread.worker.store(ptr::from_ref(self).cast_mut(), Relaxed);
        let record = thread.record();
        record.set_worker(self.index as u16);
        record.set_tid(self.tid);
        record.set_state(State::Ready);
        self.live.store(self.live.load(Relaxed) + 1, Relaxed);
        if thread.kind.get() == Kind::Full {
            // ORDER: the worker before the priority is read; pairs with the fence in
            // `sched::priority_was_raised`: the priority is seen here, or the worker there.
            fence(SeqCst);
        }
        self.queues.push(thread);
    }

    /// Offers half of its ready full threads to workers that sleep, and takes back what nobody
    /// wanted of the last offer: so none waits longer for being offered than from look to look.
    ///
    /// A thread that is offered is as one that was not started: of no worker, in no queue, without
    /// a timer.
    #[cold]
    fn offer(&'static self) {
        if self.offered.len() != 0 {
            self.adopt_from(&self.offered, u32::MAX);
        }
        if self.runtime.sleepers.load(Relaxed) == 0 {
            return;
        }
        let mut any = false;
        for _ in 0..self.queues.len() / 2 {
            let Some(thread) = self.queues.pop_movable() else { break };
            self.timers.remove(thread);
            self.live.store(self.live.load(Relaxed) - 1, Relaxed);
            thread.worker.store(ptr::null_mut(), Relaxed);
            self.offered.push(thread);
            any = true;
        }
        if any {
            self.runtime.wake_a_sleeper();
        }
    }

    /// A thread of this worker becomes ready; called on the worker's kernel thread.
    #[inline]
    pub fn ready_local(&self, thread: &'static Control) {
        thread.record().set_state(State::Ready);
        self.queues.push(thread);
        if thread.is_critical() {
            self.poll.store(1, Relaxed);
        }
    }

    // ---- looking around

    /// Takes in everything that has happened outside: wakes, timers, completions.
    #[cold]
    fn look(&'static self) {
        self.poll.store(0, Relaxed);
        let now = clock::now_ns();
        self.steer_budget(now);
        self.now.set(now);
        if !self.queues.has_fast() {
            self.lazy_served.set(now);
        }
        // ORDER: the poll word is cleared before the inbox is read; a waker pushes before it
        // sets the word. So a push that is missed here leaves the word set.
        fence(SeqCst);
        self.inbox.drain(|thread| self.ready_local(thread));
        self.requests.take(|thread| sched::serve_cancel(self, thread));
        if self.resort.load(Relaxed) {
            self.resort.store(false, Relaxed);
            self.queues.resort();
        }
        self.fire_timers(now);
        self.reactor.poll(self);
        if self.runtime.has_full() {
            self.offer();
        }
        self.ready.store(self.queues.len() + self.fresh.len(), Relaxed);
    }

    /// Aims at one look per `LOOK_NS` of run time, without reading the clock at each switch.
    fn steer_budget(&self, now: u64) {
        let elapsed = now.saturating_sub(self.looked.get()).max(1);
        self.looked.set(now);
        let spent = (self.budget_full.get() - self.budget.get()).max(1);
        let budget = u64::from(spent) * LOOK_NS / elapsed;
        let budget = budget.clamp(1, u64::from(SWITCHES_PER_LOOK)) as u32;
        let budget = if self.trace.is_some() { 0 } else { budget };
        self.budget_full.set(budget);
        self.budget.set(budget);
    }

    fn fire_timers(&'static self, now: u64) {
        while let Some(thread) = self.timers.pop_due(now) {
            if sched::expire(thread, Outcome::TimedOut) {
                self.ready_local(thread);
            }
        }
    }

    // ---- sleeping

    /// Nothing is ready: steal, or sleep until something happens.
    fn idle(&'static self) {
        if self.runtime.steal_for(self) {
            return;
        }
        self.record.set_running(None);
        self.sleeping.announce();
        self.runtime.sleepers.fetch_add(1, Relaxed);
        if self.inbox.is_empty() && self.fresh.len() == 0 && self.requests.is_empty() {
            self.before_sleep();
            self.reactor.wait(self, self.sleep_ns());
        }
        self.sleeping.end();
        self.runtime.sleepers.fetch_sub(1, Relaxed);
        self.runtime.monitor.worker_awake();
        self.budget.set(0);
    }

    /// What others may want to know of a worker that sleeps.
    fn before_sleep(&self) {
        self.io_waiting.store(self.reactor.waiting() as u32, Relaxed);
        self.timers_waiting.store(self.timers.len() as u32, Relaxed);
        if let Some(trace) = &self.trace {
            trace.flush();
        }
    }

    /// How long it may sleep: until the first timer, `None` for ever.
    fn sleep_ns(&self) -> Option<u64> {
        let first = self.timers.first()?;
        Some(first.saturating_sub(clock::now_ns()).min(SLEEP_NS_MAX))
    }

    /// Called by others after they gave this worker something.
    pub fn notify(&self) {
        self.poll.store(1, Relaxed);
        if self.sleeping.claim() {
            self.reactor.signal();
        }
    }
}
