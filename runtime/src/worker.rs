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
//! A worker may be blocked in the kernel, by a page fault or a system call of the thread that it
//! runs. What belongs to its full threads is shared for that: the ready ones, their timers, what
//! they wait for. Others take from it, and the monitor looks after the rest ([`Worker::rescue`]).
//!
//! What a full thread must not keep across a park or a yield: a `&Worker`, or what belongs to one.
//! See `full.rs`.
//!
//! Invariants:
//! 1. Everything but what is marked "shared" is touched only by the worker's kernel thread.
//! 2. A worker that sleeps has announced it (`sleeping`) and looked at its inbox afterwards.
//! 3. What must not happen on the stack that it concerns (freeing it, copying it out) is left in
//!    `post` and done by the scheduler context after the switch ("publish after switch").

mod adopt;
mod asks;
mod given;
mod idle;
mod kernel_thread;
mod patience;
mod shared;
mod switch;

use core::cell::{Cell, UnsafeCell};
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, fence};
use std::io;
use std::sync::OnceLock;

use heddle_record::{Record, State};

use crate::arch::{self, Context};
use crate::control::{Control, Kind, Outcome};
use crate::cpu::Meter;
use crate::fresh::Fresh;
use crate::full;
use crate::hibernate::Drowsy;
use crate::inbox::Inbox;
use crate::io::{Epoll, Reactor};
use crate::monitor::Seen;
use crate::monitor::bed::Alarm;
use crate::nap::Naps;
use crate::offered::Offered;
use crate::preempt::guarded::Behind;
use crate::queue::RunQueues;
use crate::requests::Requests;
use crate::runtime::Runtime;
use crate::sched;
use crate::seat::Seat;
use crate::sleep::Sleep;
use crate::stack::Cache;
use crate::sys::{clock, task};
use crate::timer::Timers;
use crate::trace::Trace;
use crate::waits::Waits;

use asks::Asks;
use patience::Patience;

/// Most switches between two looks at inbox, timers and I/O.
const SWITCHES_PER_LOOK: u32 = 61;

/// What the scheduler context does for the thread that has just left its stack.
pub(crate) enum Post {
    /// Nothing.
    None,
    /// It ended: give its reference up.
    Ended(&'static Control),
    /// It parked and asked for hibernation, and there are enough drowsy threads.
    Hibernate(&'static Control),
    /// It moves to that worker, where it has a place.
    Moves(&'static Control, &'static Worker),
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
    budget_full: Cell<u32>,
    /// Yields of full threads since the kernel thread last gave up its CPU in one, and when the
    /// last one was.
    vain_yields: Cell<(u32, u64)>,
    /// Full threads that have yielded to others since the last look.
    yields: Cell<u32>,
    /// The look before which it last gave up its CPU for these.
    gave_up: Cell<u64>,
    lazy_served: Cell<u64>,
    /// The last activation that was the Lazy region's by its bound.
    lazy_turn: AtomicU64,
    /// Its number.
    pub index: u32,
    /// Its kernel thread; the last one of an empty seat.
    pub tid: AtomicI32,
    /// Its slot, whose record describes the worker.
    pub record: &'static Record,
    pub runtime: &'static Runtime,
    pub queues: RunQueues,
    pub timers: Timers,
    pub cache: Cache,
    drowsy: Drowsy,
    naps: Naps,
    asks: Asks,
    /// Ends the monitor's sleep, if this worker does not sleep again soon.
    pub alarm: Alarm,
    /// Who had its kernel thread for how long, of its full threads.
    pub meter: Meter,
    pub reactor: Reactor,
    /// The kernel thread's own thread pointer, which its light threads have too.
    tls: Cell<usize>,
    /// Bounds of the kernel thread's own stack, for AddressSanitizer.
    own_stack: Cell<(*const u8, usize)>,
    /// Set while tracing: then every switch goes through the scheduler context.
    trace: Option<Trace>,
    /// A cheap random number, for placement.
    random: Cell<u64>,
    /// Whether its record is published, and the text in it.
    is_shown: Cell<bool>,
    name: u32,
    /// Whether its kernel thread takes the signal that preempts full threads.
    interruptible: Cell<bool>,
    /// How far the light threads are with their share of the turns, while both kinds are ready.
    share: Cell<u32>,

    /// Shared: threads that others woke.
    pub inbox: Inbox,
    /// Shared: whether it sleeps or is about to.
    pub sleeping: Sleep,
    /// Shared: whether it has a kernel thread.
    pub seat: Seat,
    /// Shared: its kernel thread is not needed any more; the monitor says so.
    pub is_to_leave: AtomicBool,
    /// Shared: it is to leave its thread where others would stay; the monitor says so.
    pub is_turn: AtomicBool,
    /// Shared: the count of switches since which it has run the thread that it is to leave.
    pub asked: AtomicU64,
    /// Shared: the count of switches since when it runs a thread that can't be made to leave.
    pub held: AtomicU64,
    /// Of the thread that it was interrupted in.
    pub behind: Behind,
    /// What the monitor saw of it last; used by the monitor alone.
    pub seen: Cell<Seen>,
    /// Shared: threads that have not started.
    pub fresh: Fresh,
    /// Shared: its ready full threads, which other workers take.
    pub offered: Offered,
    /// Shared: the waits of its full threads that may end by themselves.
    pub waits: Waits,
    /// Shared: what its full threads wait for, where the reactor is a ring.
    nested: OnceLock<Epoll>,
    /// Shared: goes up with each full thread that is preempted and may spin, and down with each
    /// other one (`spins.rs`).
    pub spins: AtomicU32,
    /// Shared: how long a thread has to wait for its turn here.
    patience: Patience,
    /// Shared: surplus, so its full threads are for others; the monitor says so.
    pub rest: AtomicBool,
    /// Shared: the thread that it runs is blocked in the kernel; the monitor says so.
    pub blocked: AtomicBool,
    /// Shared: that thread waits in place (`blocking/alone.rs`).
    pub in_place: AtomicBool,
    /// Shared: a thread that computes keeps it; the monitor says so.
    pub kept: AtomicBool,
    /// Shared: cancellations asked for by others.
    pub requests: Requests,
    /// Shared: a priority was raised, so a queued thread may be in the wrong queue. Set before the
    /// poll word is; a worker that sleeps has no queued threads.
    pub resort: AtomicBool,
    /// Shared, a hint: light threads that belong here and have not ended.
    pub live: AtomicU32,
    /// Shared: full threads that belong here and have not ended.
    pub live_full: AtomicU32,
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
    /// Makes the worker of the calling kernel thread, which has made its reactor.
    pub fn new(runtime: &'static Runtime, index: u32, io: Reactor) -> io::Result<&'static Worker> {
        let (record, now) = (sched::worker_record()?, clock::now_ns());
        let name = crate::table::intern(&format!("worker {index}"));
        let is_spare = index as usize >= runtime.regular();
        if !is_spare {
            sched::publish_worker_record(record, index, name);
        }
        Ok(Box::leak(Box::new(Worker {
            poll: AtomicU32::new(0),
            budget: Cell::new(0),
            current: AtomicPtr::new(ptr::null_mut()),
            switches: AtomicU64::new(0),
            scheduler: UnsafeCell::new(Context::empty()),
            post: Cell::new(Post::None),
            now: Cell::new(now),
            budget_full: Cell::new(1),
            vain_yields: Cell::new((0, 0)),
            yields: Cell::new(0),
            gave_up: Cell::new(0),
            lazy_served: Cell::new(now),
            lazy_turn: AtomicU64::new(0),
            index,
            tid: AtomicI32::new(task::tid()),
            record,
            runtime,
            queues: RunQueues::new(),
            timers: Timers::new(),
            cache: Cache::new(runtime.config.workers),
            drowsy: Drowsy::new(runtime.config.drowsy),
            naps: Naps::new(),
            asks: Asks::new(),
            alarm: Alarm::new(),
            meter: Meter::new(),
            reactor: io,
            tls: Cell::new(arch::thread_pointer()),
            own_stack: Cell::new((ptr::null(), 0)),
            trace: Trace::new(index),
            random: Cell::new(0x9E37_79B9_7F4A_7C15 ^ (u64::from(index) << 32) ^ now),
            is_shown: Cell::new(!is_spare),
            name,
            interruptible: Cell::new(false),
            share: Cell::new(0),
            inbox: Inbox::new(),
            sleeping: Sleep::new(),
            seat: Seat::new(),
            is_to_leave: AtomicBool::new(false),
            is_turn: AtomicBool::new(false),
            asked: AtomicU64::new(u64::MAX),
            held: AtomicU64::new(u64::MAX),
            behind: Behind::new(),
            seen: Cell::new(Seen::default()),
            fresh: Fresh::new(),
            offered: if is_spare { Offered::with_room() } else { Offered::new() },
            waits: Waits::new(),
            nested: OnceLock::new(),
            spins: AtomicU32::new(0),
            patience: Patience::new(now),
            rest: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            in_place: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            requests: Requests::new(),
            resort: AtomicBool::new(false),
            live: AtomicU32::new(0),
            live_full: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            io_waiting: AtomicU32::new(0),
            timers_waiting: AtomicU32::new(0),
        })))
    }

    /// The loop of the scheduler context, until the kernel thread has left its seat.
    pub fn run(&'static self) {
        task::set_poll_base(ptr::from_ref(self).cast());
        loop {
            self.run_post();
            if self.budget.get() == 0 || self.poll.load(Relaxed) != 0 || self.has_no_ready() {
                self.look();
            }
            match self.next() {
                Some(thread) => self.resume(thread),
                None if self.idle() => {}
                None => return,
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
        self.patience.reset_for_simulation(now);
        self.lazy_served.set(now);
        self.budget.set(0);
        self.budget_full.set(1);
        self.yields.set(0);
        self.queues.reset_for_simulation();
        self.naps.reset_for_simulation();
        self.asks.reset_for_simulation();
        self.offered.reset_for_simulation();
        self.share.set(0);
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
            self.adopt_from(&self.fresh, adopt::BATCH);
        }
        let (light, full) = (self.queues.fast_priority(), self.offered.fast_priority());
        if light.max(full) == 0 {
            return self.next_lazy();
        }
        if self.lazy_is_due() {
            self.lazy_served.set(self.now.get());
            if let Some(thread) = self.next_lazy() {
                self.lazy_turn.store(self.switches.load(Relaxed) + 1, Relaxed);
                return Some(thread);
            }
        }
        // Others may have been faster with those that were offered.
        let first = if light >= full { None } else { self.pop_offered(Offered::pop) };
        first.or_else(|| self.queues.pop()).or_else(|| self.offered.pop())
    }

    /// The next lazy thread. Light and full ones take turns by their numbers.
    #[inline(always)]
    fn next_lazy(&'static self) -> Option<&'static Control> {
        let (light, full) = (self.queues.len(), self.offered.len());
        if full == 0 {
            return self.queues.pop_lazy();
        }
        if light == 0 {
            return self.pop_offered(Offered::pop_lazy);
        }
        // Back here after one turn: a direct switch stays among threads of one kind.
        self.budget.set(0);
        let share = self.share.get() + light;
        let light_first = share >= light + full;
        self.share.set(if light_first { share - light - full } else { share });
        let first =
            if light_first { self.queues.pop_lazy() } else { self.pop_offered(Offered::pop_lazy) };
        first.or_else(|| self.offered.pop_lazy()).or_else(|| self.queues.pop_lazy())
    }

    /// A lazy thread has run until now.
    pub fn lazy_ran(&self) {
        self.lazy_served.set(clock::now_ns());
    }

    /// Whether the thread that runs has the slice that the Lazy region gets by its bound.
    pub fn is_lazy_turn(&self) -> bool {
        self.lazy_turn.load(Relaxed) == self.switches.load(Relaxed)
    }

    /// Whether the Lazy region has waited longer than its bound.
    fn lazy_is_due(&self) -> bool {
        let bound = self.runtime.config.lazy_bound_ns;
        bound != 0 && self.now.get().saturating_sub(self.lazy_served.get()) > bound
    }

    fn has_no_ready(&self) -> bool {
        self.queues.len() == 0 && self.offered.len() == 0
    }

    /// A thread of this worker becomes ready; called on the worker's kernel thread.
    #[inline]
    pub fn ready_local(&self, thread: &'static Control) {
        thread.record().set_state(State::Ready);
        if thread.is_critical() {
            self.poll.store(1, Relaxed);
        }
        if thread.kind.get() == Kind::Full {
            return self.offered.push(thread);
        }
        self.queues.push(thread);
    }

    /// What a thread of this worker waited for has happened; called by whoever looked.
    pub fn ready_from_io(&'static self, thread: &'static Control) {
        if thread.kind.get() == Kind::Full {
            return full::ready(thread);
        }
        match sched::worker() {
            Some(worker) if ptr::eq(worker, self) => self.ready_local(thread),
            _ => {
                self.inbox.push(thread);
                self.notify();
            }
        }
    }

    // ---- looking around

    /// Takes in everything that has happened outside: wakes, timers, completions.
    #[cold]
    fn look(&'static self) {
        self.poll.store(0, Relaxed);
        let now = clock::now_ns();
        let slept = self.steer_budget(now);
        self.now.set(now);
        self.naps.look(now);
        if self.queues.fast_priority().max(self.offered.fast_priority()) == 0 {
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
            self.offered.resort();
        }
        self.fire_timers(now);
        self.ask(now, slept);
        if full::exist() {
            self.look_after_full(now, slept);
        }
        self.ready.store(self.queues.len() + self.fresh.len(), Relaxed);
    }

    /// Takes in what the reactor has, unless that would be in vain.
    fn ask(&'static self, now: u64, slept: bool) {
        if matches!(self.reactor, Reactor::Uring(_)) {
            // It also submits what has collected.
            return self.reactor.poll(self);
        }
        let has_work = !self.has_no_ready() || self.fresh.len() != 0;
        if self.asks.look(now, slept, has_work) {
            self.reactor.poll(self);
            if !has_work {
                self.asks.asked(!self.has_no_ready());
            }
        }
    }

    fn fire_timers(&'static self, now: u64) {
        while let Some(thread) = self.timers.pop_due(now) {
            if sched::expire(thread, Outcome::TimedOut) {
                self.ready_local(thread);
            }
        }
    }
}
