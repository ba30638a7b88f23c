//! Full threads as the scheduler sees them: who they are, where they are, how they wait.
//!
//! A full thread has thread-local storage of its own and may go on on another worker after every
//! wait and yield. So its worker is not found there, as that of a light thread is, but in its
//! control block, and only for as long as the thread is pinned:
//!
//! 1. While [`Pin`]s of it live, a full thread stays on its worker: nothing but itself makes it
//!    leave. Whoever uses something of a worker from a full thread holds one ([`here`]).
//! 2. A park, and a yield, leaves the worker all the same. What was found there before must not be
//!    used afterwards, except what others may use too (its `waits`).
//! 3. The locks inside of the runtime are held pinned, as are those of std that it uses: whoever
//!    waits for one, on a worker, waits for a thread that runs.
//!
//! A program without full threads pays for none of this: [`exist`] is false, and pins are not
//! counted unless [`count_pins`] asks for it.

mod answers;

use core::cell::Cell;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, compiler_fence, fence};

use heddle_record::State;

use crate::arch::Float;
use crate::control::{Control, Kind, OWN_TLS, Outcome, TLS_KEPT, WaitKind};
use crate::later;
use crate::preempt;
use crate::sched;
use crate::spins::Place;
use crate::sys::libc_tls;
use crate::worker::Worker;

pub use self::answers::{answering, answering_at_locks, interruptibly, jumped};
pub(crate) use self::answers::{answering_nowhere, answers, answers_at_locks, is_interruptible};

/// What a full thread knows of itself, in its thread-local storage; empty in other threads'.
struct Own {
    thread: Cell<Option<&'static Control>>,
    /// Pins that live.
    pins: Cell<u32>,
    /// A signal handler left something to do (`later.rs`).
    has_work: Cell<bool>,
    /// Where it was preempted last, and after how many activations.
    left_at: Cell<Place>,
    left_after: Cell<u32>,
    /// It answers calls wherever it is ([`answering`]), or where it waits for a lock of the C
    /// library's ([`answering_at_locks`]).
    answers: Cell<bool>,
    answers_at_locks: Cell<bool>,
    /// When it has waited for a disk last.
    waited_ns: Cell<u64>,
    /// Of a kernel thread whose wait a handler ends: where its stack was ([`interruptibly`]).
    interruptible: Cell<usize>,
    /// The floating-point control that it begins with: its maker's.
    float: Option<Float>,
}

impl Own {
    const fn new(thread: Option<&'static Control>, pins: u32) -> Self {
        Own {
            thread: Cell::new(thread),
            pins: Cell::new(pins),
            has_work: Cell::new(false),
            left_at: Cell::new(Place::NOWHERE),
            left_after: Cell::new(u32::MAX),
            answers: Cell::new(false),
            answers_at_locks: Cell::new(false),
            waited_ns: Cell::new(0),
            interruptible: Cell::new(0),
            float: None,
        }
    }
}

thread_local! {
    static OWN: Own = const { Own::new(None, 0) };
}

/// A full thread was made.
static EXIST: AtomicBool = AtomicBool::new(false);

/// Pins are counted.
static COUNTED: AtomicBool = AtomicBool::new(false);

/// Whether there may be full threads: from shortly before the first one is made.
#[inline(always)]
pub fn exist() -> bool {
    EXIST.load(Relaxed)
}

/// A full thread is being made.
pub(crate) fn expect() {
    if !exist() {
        if let Some(runtime) = crate::runtime::get() {
            runtime.make_first_spare();
        }
        count_pins();
        EXIST.store(true, Relaxed);
    }
}

/// Kernel threads wait as full ones do, and their signal handlers wake others, perhaps before there
/// is a full thread: from now on who is in the middle of the lot is known by its pin.
pub fn count_pins() {
    COUNTED.store(true, Relaxed);
}

/// The program is about to have the kernel filter its system calls: from now on full threads cause
/// none that it may not know.
pub fn before_filter() {
    crate::monitor::bed::before_filter();
    #[cfg(target_arch = "x86_64")]
    crate::sys::segments::stop();
}

/// The calling full thread is the one of a forked child. The kernel thread has still registered the
/// rseq area of the worker's block, where the kernel writes whenever it is preempted; but that is
/// the stack of a thread that is not here, which the C library gives to others, or back.
pub(crate) fn leave_block_of_worker() {
    // SAFETY: null or a worker; workers live for ever.
    if let Some(worker) = me().and_then(|me| unsafe { me.worker.load(Relaxed).as_ref() }) {
        let errno = crate::sys::signals::errno();
        libc_tls::rseq::leave(worker.own_thread_pointer());
        crate::sys::signals::set_errno(errno);
    }
}

/// Where the calling kernel thread has its `OWN`, for `sys/libc_tls`: it finds the same place in
/// the blocks of full threads.
pub(crate) fn own_place() -> *const u8 {
    OWN.with(|own| ptr::from_ref(own).cast())
}

impl Control {
    /// Whether a pooled slot has a block of thread-local storage that was kept.
    pub(crate) fn has_kept_tls(&self) -> bool {
        self.flags.get() & (OWN_TLS | TLS_KEPT) == OWN_TLS | TLS_KEPT
    }

    /// Gives the block of a pooled slot back, if it has one: its memory is needed.
    pub(crate) fn discard_kept_tls(&self) {
        if self.has_kept_tls() {
            // SAFETY: the flag says so, and goes; nobody else has the slot.
            unsafe { libc_tls::discard(self.thread_pointer()) };
            self.flags.set(0);
        }
    }
}

/// Makes `thread` known to itself. It starts pinned: [`begin`].
///
/// # Safety
/// 1. `tls` is the thread pointer of a prepared block, of `thread`, which has not started.
pub(crate) unsafe fn introduce(tls: *mut u8, thread: &'static Control) {
    let own: *mut Own = libc_tls::own_of(tls);
    let begun = Own { float: Some(Float::of_caller()), ..Own::new(Some(thread), 1) };
    // SAFETY: by 1 it is that thread's `OWN`, which nobody uses yet.
    unsafe { own.write(begun) };
}

/// The calling full thread is about to run its first own code.
pub(crate) fn begin() {
    libc_tls::begin();
    OWN.with(|own| {
        if let Some(float) = own.float {
            float.set();
        }
        own.pins.set(0);
    });
}

/// The calling thread, if it is a full one.
#[inline(always)]
pub(crate) fn me() -> Option<&'static Control> {
    OWN.with(|own| own.thread.get())
}

/// Whether the caller is a full thread on a worker; to its very end, and not in a forked child.
pub(crate) fn runs() -> bool {
    me().is_some_and(|me| me.kind.get() == Kind::Full)
}

/// The calling full thread is preempted there: where it was preempted the last time.
pub(crate) fn left_at(place: Place) -> Place {
    OWN.with(|own| {
        own.left_after.set(own.thread.get().map_or(u32::MAX, |me| me.switches.get()));
        own.left_at.replace(place)
    })
}

/// Whether the caller is a full thread that has not waited since it was preempted.
pub(crate) fn computes() -> bool {
    OWN.with(|own| {
        let after = own.left_after.get().wrapping_add(1);
        own.thread.get().is_some_and(|me| me.switches.get() == after)
    })
}

/// When the calling full thread has waited for a disk last; 0 = never.
pub(crate) fn waited_ns() -> u64 {
    OWN.with(|own| own.waited_ns.get())
}

/// The calling full thread has waited for a disk until now.
pub(crate) fn has_waited(now: u64) {
    OWN.with(|own| own.waited_ns.set(now));
}

/// What [`OWN`] says of the context that the calling kernel thread is about to leave. In a
/// simulation all contexts run on one kernel thread and share its storage, so each takes up its
/// own as it goes on.
#[cfg(feature = "sim")]
pub(crate) struct Kept(Option<&'static Control>, u32, bool, u64);

#[cfg(feature = "sim")]
pub(crate) fn keep() -> Kept {
    OWN.with(|own| Kept(own.thread.get(), own.pins.get(), own.has_work.get(), own.waited_ns.get()))
}

#[cfg(feature = "sim")]
pub(crate) fn take_up(Kept(thread, pins, has_work, waited_ns): Kept) {
    OWN.with(|own| {
        own.thread.set(thread);
        own.pins.set(pins);
        own.has_work.set(has_work);
        own.waited_ns.set(waited_ns);
    });
}

/// `thread` is about to run its first own code in a simulation; `None`: a worker's loop is.
#[cfg(feature = "sim")]
pub(crate) fn begin_in_simulation(thread: Option<&'static Control>) {
    take_up(Kept(thread.filter(|it| it.kind.get() == crate::control::Kind::Full), 0, false, 0));
}

/// Whether the calling thread is pinned.
pub fn is_pinned() -> bool {
    OWN.with(|own| own.pins.get() != 0)
}

/// Something is left to do when the calling thread's last pin goes.
pub(crate) fn leave_work() {
    OWN.with(|own| own.has_work.set(true));
}

/// See the file's head. Means nothing for other threads than full ones.
#[must_use]
pub struct Pin(bool);

/// Keeps the calling thread on its worker.
#[inline(always)]
pub fn pin() -> Pin {
    let counts = COUNTED.load(Relaxed);
    if counts {
        #[cfg(feature = "sim")]
        crate::sim::preemption();
        OWN.with(|own| own.pins.set(own.pins.get() + 1));
        // What the pin is for comes after it, for a signal handler on this thread too.
        compiler_fence(SeqCst);
    }
    Pin(counts)
}

/// The caller is pinned for longer than this lives.
#[inline(always)]
pub(crate) fn pinned_already() -> Pin {
    Pin(false)
}

impl Drop for Pin {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 {
            compiler_fence(SeqCst);
            OWN.with(|own| {
                let left = own.pins.get() - 1;
                own.pins.set(left);
                // A handler that comes after this finds no pin.
                compiler_fence(SeqCst);
                if left == 0 && own.has_work.replace(false) {
                    later::work();
                }
            });
            #[cfg(feature = "sim")]
            crate::sim::preemption();
        }
    }
}

/// The worker that the calling user-level thread is on, which it does not leave meanwhile.
pub(crate) struct Here {
    worker: &'static Worker,
    _pin: Pin,
}

impl Here {
    /// The worker; see item 2 of the file's head.
    #[inline(always)]
    pub fn worker(&self) -> &'static Worker {
        self.worker
    }
}

impl Deref for Here {
    type Target = Worker;

    #[inline(always)]
    fn deref(&self) -> &Worker {
        self.worker
    }
}

/// Where the caller is, if it is on a worker.
#[inline(always)]
pub(crate) fn here() -> Option<Here> {
    match sched::worker() {
        Some(worker) => Some(Here { worker, _pin: Pin(false) }),
        None => own_here(),
    }
}

#[inline(never)]
fn own_here() -> Option<Here> {
    let pin = pin();
    // SAFETY: null or a worker; workers live for ever.
    let worker = unsafe { me()?.worker.load(Relaxed).as_ref() }?;
    Some(Here { worker, _pin: pin })
}

/// Yields, if the caller is a full thread.
#[inline(never)]
pub(crate) fn yield_now() -> bool {
    on_worker(Worker::yield_full)
}

/// See [`crate::thread::give_way`]; false if the caller is no full thread.
#[inline(never)]
pub(crate) fn give_way() -> bool {
    on_worker(Worker::give_way)
}

/// Has those go first whose events have come to the caller's worker, if it is a full thread and
/// nobody else is ready there. A system call. False, and none is made, where the worker's asks have
/// been in vain lately (`worker/asks.rs`).
#[inline(never)]
pub fn give_way_to_events() -> bool {
    let mut looks = false;
    on_worker(|worker, me| looks = worker.give_way_to_events(me)) && looks
}

/// See [`Worker::leave_to_others`].
pub(crate) fn leave_to_others() {
    on_worker(Worker::leave_to_others);
}

#[inline(always)]
fn on_worker(leave: impl FnOnce(&'static Worker, &'static Control)) -> bool {
    let Some(me) = me() else { return false };
    let _pin = pin();
    // SAFETY: null or a worker; workers live for ever.
    let Some(worker) = (unsafe { me.worker.load(Relaxed).as_ref() }) else { return false };
    leave(worker, me);
    true
}

/// [`sched::wait`] of a full thread.
pub(crate) fn wait(me: &'static Control, deadline: u64) -> Outcome {
    let Some(here) = here() else { unreachable!("a full thread runs on a worker") };
    let worker = here.worker();
    if deadline == 0 && !me.cancellable.get() {
        worker.park_full(me);
        return me.outcome.get();
    }
    if worker.waits.enter(me, deadline).is_err() {
        // No memory for the timer: the wait ends at once as if the deadline had passed.
        if !expire(worker, me, Outcome::TimedOut) {
            worker.park_full(me);
        }
        return me.outcome.get();
    }
    // ORDER: the entry before the look at the flag; pairs with the fence in `cancel`.
    fence(SeqCst);
    let cancelled = me.cancellable.get()
        && sched::is_cancellable(me)
        && worker.waits.end(me, || expire(worker, me, Outcome::Cancelled));
    if !cancelled {
        worker.park_full(me);
    }
    worker.waits.leave(me);
    me.outcome.get()
}

/// Ends the wait of `thread`, which entered `worker`'s waits, unless its waker has it.
fn expire(worker: &'static Worker, thread: &'static Control, outcome: Outcome) -> bool {
    match thread.wait.get() {
        WaitKind::Reactor if !worker.expire_io(thread, outcome) => false,
        WaitKind::Reactor => sched::ended(thread, outcome),
        _ => sched::expire(thread, outcome),
    }
}

/// Ends the waits of `worker`'s full threads whose deadline has passed. Anybody may call it.
pub(crate) fn fire(worker: &'static Worker, now: u64) {
    worker.waits.fire(now, |thread| expire(worker, thread, Outcome::TimedOut), ready);
}

/// Makes a full thread ready whose wait the caller has ended.
pub(crate) fn ready(thread: &'static Control) {
    let _pin = pin();
    thread.record().set_state(State::Ready);
    // SAFETY: a thread that waited has started, so its worker is set; workers live for ever.
    let worker = unsafe { &*thread.worker.load(Relaxed) };
    let (priority, group) = (thread.priority.load(Relaxed), thread.group.load(Relaxed));
    let here = here();
    let is_here = here.as_ref().is_some_and(|here| ptr::eq(here.worker(), worker));
    if let Some(here) = here.filter(|_| !is_here)
        && here.worker().takes_over(worker, thread)
    {
        return;
    }
    // From here on it may run, and end.
    worker.offered.push(thread);
    if !is_here {
        worker.notify();
        if worker.in_place.load(Relaxed) {
            return worker.runtime.serve_elsewhere(worker);
        }
        // The monitor has others make room that come before it has looked again.
        if priority != 0 || worker.kept.load(Relaxed) && worker.kept.swap(false, Relaxed) {
            preempt::make_room(worker, priority, group);
        }
    } else if priority != 0 {
        worker.poll.store(1, Relaxed);
    }
    worker.runtime.monitor.given(worker);
}

/// [`sched::cancel`] of a full thread, whose flag is set: ends the wait that it is in.
pub(crate) fn cancel(thread: &'static Control) {
    // ORDER: the flag before the worker is read; pairs with the fence in `wait`, and with that in
    // `worker/adopt.rs`: a thread that moves meanwhile, or waits later, sees the flag.
    fence(SeqCst);
    let _pin = pin();
    // SAFETY: null or a worker; workers live for ever.
    let Some(worker) = (unsafe { thread.worker.load(Acquire).as_ref() }) else { return };
    let ended = worker.waits.end(thread, || {
        thread.cancellable.get()
            && sched::is_cancellable(thread)
            && expire(worker, thread, Outcome::Cancelled)
    });
    if ended {
        ready(thread);
    }
}
