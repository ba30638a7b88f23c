//! Workers, with the fields that turns, the giving of threads, the sleep and the seat use.
//!
//! A loom thread is a worker's kernel thread. Switching is no jump here: who runs is in `current`,
//! and the kernel thread goes on with that one.

#[path = "../../src/worker/idle.rs"]
mod idle;
#[path = "../../src/worker/kernel_thread.rs"]
mod kernel_thread;
#[path = "../../src/worker/patience.rs"]
mod patience;

use core::cell;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};
use std::sync::OnceLock;

use loom::sync::Notify;

use crate::control::Control;
use crate::fresh::Fresh;
use crate::inbox::Inbox;
use crate::io::Epoll;
use crate::model::{AtomicPtr, Cell, fence};
use crate::offered::Offered;
use crate::queue::RunQueues;
use crate::runtime::Runtime;
use crate::seat::Seat;
use crate::sleep::Sleep;
use crate::sys::clock;

use self::patience::Patience;

const SWITCHES_PER_LOOK: u32 = 61;

pub struct Worker {
    pub index: u32,
    pub runtime: &'static Runtime,
    pub poll: AtomicU32,
    pub current: AtomicPtr<Control>,
    pub switches: loom::sync::atomic::AtomicU32,
    pub asked: loom::sync::atomic::AtomicU32,
    pub is_turn: loom::sync::atomic::AtomicBool,
    pub blocked: AtomicBool,
    pub in_place: AtomicBool,
    pub kept: AtomicBool,
    pub live_full: loom::sync::atomic::AtomicU32,
    pub queues: Empty,
    pub fresh: Fresh,
    pub offered: Box<Offered>,
    pub sleeping: Sleep,
    pub seat: Seat,
    pub reactor: Reactor,
    pub inbox: Inbox,
    pub rest: loom::sync::atomic::AtomicBool,
    pub is_to_leave: loom::sync::atomic::AtomicBool,
    /// What is the kernel thread's own: loom fails the model if two have it.
    pub budget: Cell<u32>,
    budget_full: Cell<u32>,
    yields: Cell<u32>,
    is_shown: Cell<bool>,
    pub now: cell::Cell<u64>,
    pub tid: AtomicI32,
    tls: cell::Cell<usize>,
    own_stack: cell::Cell<(*const u8, usize)>,
    interruptible: cell::Cell<bool>,
    name: u32,
    pub live: AtomicU32,
    pub ready: AtomicU32,
    pub io_waiting: AtomicU32,
    pub timers_waiting: AtomicU32,
    record: &'static Account,
    pub requests: Empty,
    pub waits: Empty,
    timers: Account,
    nested: OnceLock<Epoll>,
    trace: Option<Account>,
    naps: Account,
    asks: Account,
    pub alarm: Account,
    meter: Account,
    patience: Patience,
    cache: Empty,
    /// The thread that it runs is in a call that blocks, whatever the monitor has seen.
    pub is_in_call: AtomicBool,
    /// It is time to look around at each switch.
    pub looks: AtomicBool,
    /// The kernel has a signal for it.
    pub signal: loom::sync::atomic::AtomicBool,
}

// SAFETY: loom runs its threads on one kernel thread.
unsafe impl Sync for Worker {}
// SAFETY: as above.
unsafe impl Send for Worker {}

/// Where a worker sleeps.
pub struct Reactor(pub Notify);

impl Reactor {
    pub fn signal(&self) {
        self.0.notify();
    }

    pub fn waiting(&self) -> u64 {
        0
    }

    /// Until it is signalled, if the model goes on.
    fn wait(&self, worker: &Worker, _ns: Option<u64>) {
        worker.runtime.tick.notify();
        if !worker.runtime.is_over() {
            self.0.wait();
        }
    }
}

/// Light threads, waits, requests, stacks: none.
pub struct Empty;

impl Empty {
    pub fn len(&self) -> u32 {
        0
    }

    pub fn is_empty(&self) -> bool {
        true
    }

    pub fn first(&self) -> Option<u64> {
        None
    }
}

/// What is written down of a worker, and nobody reads here.
pub struct Account;

impl Account {
    fn set_running(&self, _slot: Option<u32>) {}

    /// No timers.
    fn len(&self) -> usize {
        0
    }

    fn first(&self) -> Option<u64> {
        None
    }

    fn sleeps(&self) {}

    fn slept(&self) {}

    fn sit_down(&self) {}

    fn flush(&self) {}

    fn take_back(&self) {}

    /// Nothing is asked.
    fn is_left_out(&self) -> bool {
        false
    }

    /// Nobody naps.
    fn begin(&self, _now: u64) -> bool {
        false
    }

    fn generation(&self) -> u32 {
        0
    }

    fn cpu(&self) -> u64 {
        0
    }

    fn publish(&self, _fields: &heddle_record::Fields) {}
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
            in_place: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            live_full: loom::sync::atomic::AtomicU32::new(0),
            queues: Empty,
            fresh: Fresh::new(),
            offered: room(),
            sleeping: Sleep::new(),
            seat: Seat::new(),
            reactor: Reactor(Notify::new()),
            inbox: Inbox::new(),
            rest: loom::sync::atomic::AtomicBool::new(false),
            is_to_leave: loom::sync::atomic::AtomicBool::new(false),
            budget: Cell::new(0),
            budget_full: Cell::new(1),
            yields: Cell::new(0),
            is_shown: Cell::new(false),
            now: cell::Cell::new(0),
            tid: AtomicI32::new(0),
            tls: cell::Cell::new(0),
            own_stack: cell::Cell::new((ptr::null(), 0)),
            interruptible: cell::Cell::new(false),
            name: 0,
            live: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            io_waiting: AtomicU32::new(0),
            timers_waiting: AtomicU32::new(0),
            record: &Account,
            requests: Empty,
            waits: Empty,
            timers: Account,
            nested: OnceLock::new(),
            trace: None,
            naps: Account,
            asks: Account,
            alarm: Account,
            meter: Account,
            patience: Patience::new(clock::now_ns()),
            cache: Empty,
            is_in_call: AtomicBool::new(false),
            looks: AtomicBool::new(false),
            signal: loom::sync::atomic::AtomicBool::new(false),
        };
        assert!(!worker.sleeping.is_asleep() && !worker.seat.is_empty());
        assert!(worker.inbox.is_empty() && !worker.is_shown.get());
        worker.budget.set(0);
        if !runtime.config.is_patient {
            // A turn here takes for ever.
            worker.steer_budget(u64::MAX);
        }
        worker.current.store(ptr::null_mut(), Relaxed);
        worker
    }

    pub fn random(&self) -> u64 {
        0
    }

    pub fn adopt_from(&'static self, fresh: &Fresh, count: u32) -> u32 {
        fresh.take(count, |thread| self.adopt(thread))
    }

    /// As in `worker.rs`, until the model is over or the kernel thread has left; what a thread does
    /// that has its turn is `run`.
    pub fn run(&'static self, run: &dyn Fn(&'static Control)) {
        while !self.runtime.is_over() {
            self.poll.store(0, Relaxed);
            fence(SeqCst);
            let now = clock::now_ns();
            if self.runtime.config.is_patient && self.steer_budget(now) {
                self.hand_on(now);
            }
            self.share(now);
            if self.fresh.len() != 0 {
                self.adopt_from(&self.fresh, u32::MAX);
            }
            match self.offered.pop() {
                Some(thread) => {
                    self.resume(thread);
                    run(thread);
                    self.live_full.fetch_sub(1, Relaxed);
                    self.to_scheduler(thread);
                }
                None if self.idle() => {}
                None => return,
            }
        }
    }

    /// There are models of the looks of a monitor that is not calm.
    pub fn has_only_full_that_wait(&self) -> bool {
        false
    }

    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Relaxed)
    }

    pub fn spend(&self) -> bool {
        self.looks.load(Relaxed)
    }

    pub fn own(&'static self, thread: &Control) {
        thread.worker.store(ptr::from_ref(self).cast_mut().cast(), Relaxed);
    }

    pub fn adopt(&'static self, thread: &'static Control) {
        self.own(thread);
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

    /// Whether threads can be made to leave.
    pub fn missing() -> Option<&'static str> {
        None
    }

    /// Slices have no end here.
    pub fn ask_surplus(_worker: &Worker) {}

    pub fn ask(worker: &Worker, switches: u32) {
        worker.asked.store(switches, Relaxed);
        worker.signal.store(true, Release);
    }
}
