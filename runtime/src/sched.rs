//! What every blocking primitive stands on: who am I, wait, make ready, expire.
//!
//! The same four calls serve user-level threads, the program's own kernel threads and the native
//! backend (which is nothing but kernel threads): a kernel thread that waits sleeps on the futex
//! word in its control block.
//!
//! Invariant: each wait is ended exactly once, by its waker or by [`expire`]; which of the two is
//! decided where the wait is published (queue lock, park token, join word, reactor).

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::fence;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use heddle_record::{Class, Fields, Group, Kind as RecordKind, Record, State};

use crate::control::{CANCEL_ASKED, CANCEL_DISABLED, Control, Kind, Outcome, WaitKind};
use crate::deadlock::{KERNEL_WAITERS, Waiting};
use crate::stack::{self, KERNEL_CLASS};
use crate::sync::raw_mutex;
use crate::sys::{clock, futex, signals, task};
use crate::worker::Worker;
use crate::{full, preempt, thread, wait};

thread_local! {
    /// The worker that this kernel thread is.
    static WORKER: Cell<Option<&'static Worker>> = const { Cell::new(None) };
    /// The control block of this kernel thread, once it has used a primitive.
    static KERNEL: Cell<Option<&'static Control>> = const { Cell::new(None) };
    /// Gives `KERNEL` back when the kernel thread ends.
    static KERNEL_GUARD: KernelGuard = const { KernelGuard };
}

/// `Control::result` of a kernel thread: it sleeps or is about to.
const FUTEX_WAITING: i32 = 0;
/// `Control::result` of a kernel thread: its wait has ended.
const FUTEX_WOKEN: i32 = 1;
/// `Control::result` of a kernel thread: it should look at its cancellation flag.
const FUTEX_LOOK: i32 = 2;

/// The worker that the caller runs on, if it is a light thread or the worker itself; full threads
/// ask [`full::here`].
#[inline(always)]
pub(crate) fn worker() -> Option<&'static Worker> {
    #[cfg(feature = "sim")]
    if full::me().is_some() {
        // It has no storage of its own there, and has to find its worker as if it had.
        return None;
    }
    WORKER.get()
}

/// Makes the calling kernel thread the worker `worker`.
pub(crate) fn become_worker(worker: &'static Worker) {
    WORKER.set(Some(worker));
}

/// The calling kernel thread is no worker for now.
pub(crate) fn leave_worker() {
    WORKER.set(None);
}

/// The calling full thread, if it is one, has no worker any more: it waits as a kernel thread.
pub(crate) fn become_kernel_thread() {
    if let Some(me) = full::me() {
        me.worker.store(ptr::null_mut(), Relaxed);
        me.kind.set(Kind::Kernel);
        me.result.store(FUTEX_WAITING, Relaxed);
    }
}

/// The calling thread: a user-level thread on a worker, else the kernel thread.
///
/// # Panics
/// When the kernel thread has no control block and there is no memory for one, or it is making what
/// these lie in.
#[inline(always)]
pub(crate) fn current() -> &'static Control {
    match try_current() {
        Ok(control) => control,
        Err(error) => panic!("no control block for a kernel thread: {error}"),
    }
}

/// The calling thread, if it can be linked. A kernel thread may have been interrupted in a wait, or
/// in the middle of the runtime, by a handler that waits.
pub(crate) fn waiter() -> Option<&'static Control> {
    let is_busy = |me: &Control| {
        me.kind.get() == Kind::Kernel && (me.wait.get() != WaitKind::None || full::is_pinned())
    };
    try_current().ok().filter(|me| !is_busy(me))
}

/// As [`current`], which panics on an error.
#[inline(always)]
pub(crate) fn try_current() -> io::Result<&'static Control> {
    if let Some(worker) = worker() {
        // SAFETY: null or a slot of the slab.
        if let Some(thread) = unsafe { worker.current.load(Relaxed).as_ref() } {
            return Ok(thread);
        }
    } else if let Some(thread) = full::me() {
        return Ok(thread);
    }
    current_kernel()
}

#[cold]
fn current_kernel() -> io::Result<&'static Control> {
    if let Some(control) = KERNEL.get() {
        return Ok(control);
    }
    // The caller may be a program's that looks at errno after `pthread_cond_wait`; std's locks set
    // it.
    let before = signals::errno();
    let attached = attach_kernel();
    signals::set_errno(before);
    attached
}

/// Gives the calling kernel thread a control block.
fn attach_kernel() -> io::Result<&'static Control> {
    crate::runtime::prepare()?;
    // A handler that waits for something comes before this or after it: it would attach, too.
    let _pin = full::pin();
    let control = stack::take(None, KERNEL_CLASS, 0)?;
    control.reset(Kind::Kernel, 1);
    control.priority.store(0, Relaxed);
    control.base_priority.store(0, Relaxed);
    control.group.store(Group::Normal as u8, Relaxed);
    publish_kernel_record(control);
    KERNEL.set(Some(control));
    match ARRANGE_END.get() {
        Some(arrange) => arrange(),
        // Fails only while the kernel thread's locals are being destroyed: the slot stays taken.
        None => drop(KERNEL_GUARD.try_with(|_| ())),
    }
    Ok(control)
}

/// Sees to it that [`end_kernel_thread`] is called as the calling kernel thread ends, if std's way,
/// which allocates, will not do.
static ARRANGE_END: OnceLock<fn()> = OnceLock::new();

/// `arrange` is called on each kernel thread that gets a control block. Once, before the first.
pub fn arrange_end(arrange: fn()) {
    let _ = ARRANGE_END.set(arrange);
}

/// Gives up the control block of the calling kernel thread, if it has one: it ends, or takes up a
/// new one if it waits again.
pub fn end_kernel_thread() {
    if let Some(control) = KERNEL.get() {
        // Here, for they need not be Send; and while their destructors can still ask who they
        // run on.
        thread::local::destroy(control);
        KERNEL.set(None);
        release(control);
    }
}

fn publish_kernel_record(control: &Control) {
    let record = control.record();
    let tid = task::tid();
    // std's name of a thread is not asked for: that may allocate, and the caller be the allocator.
    let name = if tid == std::process::id() as i32 { c"main".into() } else { task::name() };
    record.publish(&Fields {
        generation: record.generation().wrapping_add(1),
        tid,
        state: State::Ready,
        kind: RecordKind::KernelThread,
        class: Class::Lazy,
        group: Group::Normal,
        created_ns: clock::now_ns(),
        name: name.to_str().map_or(0, crate::table::intern),
        ..Fields::default()
    });
}

struct KernelGuard;

impl Drop for KernelGuard {
    fn drop(&mut self) {
        end_kernel_thread();
    }
}

/// A record for a worker, in a slot of its own that is never given back.
pub(crate) fn worker_record() -> io::Result<&'static Record> {
    let control = stack::take(None, KERNEL_CLASS, 0)?;
    control.reset(Kind::Kernel, 1);
    Ok(control.record())
}

/// Publishes the record of worker `index`, the caller. CPU time that stands there counts on.
/// Allocates nothing: a spare worker may be on its way to the thread that holds the allocator.
pub(crate) fn publish_worker_record(record: &Record, index: u32, name: u32) {
    record.publish(&Fields {
        generation: record.generation().wrapping_add(1),
        tid: task::tid(),
        worker: index as u16,
        state: State::Ready,
        kind: RecordKind::Worker,
        created_ns: clock::now_ns(),
        cpu_ns: record.cpu(),
        name,
        ..Fields::default()
    });
}

/// Gives up one reference; the last one frees the slot and its stack.
#[inline]
pub(crate) fn release(thread: &'static Control) {
    // ORDER: Release publishes this holder's use; Acquire makes the last holder see all of them.
    // Who finds itself the last needs no exchange: nobody else can make a reference any more.
    if thread.references.load(Acquire) == 1 || thread.references.fetch_sub(1, AcqRel) == 1 {
        free(thread);
    }
}

fn free(thread: &'static Control) {
    if !thread.extension.load(Relaxed).is_null() {
        raw_mutex::free_extension(thread);
    }
    stack::peak::finish(thread);
    thread.record().clear();
    stack::give(full::here().as_ref().map(|here| &here.cache), thread);
}

/// Waits until the wait that the caller has published ends, or `deadline` (ns, 0 = never) passes.
#[inline]
pub(crate) fn wait(me: &'static Control, deadline: u64) -> Outcome {
    let outcome = match (worker(), me.kind.get()) {
        (Some(worker), Kind::Light) => {
            if deadline != 0 {
                if let Err(_refused) = worker.timers.arm(me, deadline) {
                    return wait_refused(worker, me);
                }
                worker.park(me);
                me.deadline.set(0);
            } else {
                worker.park(me);
            }
            me.outcome.get()
        }
        (_, Kind::Full) => full::wait(me, deadline),
        _ => wait_in_kernel(me, deadline),
    };
    me.wait.set(WaitKind::None);
    outcome
}

/// No memory for the timer: the wait ends at once as if the deadline had passed.
#[cold]
fn wait_refused(worker: &'static Worker, me: &'static Control) -> Outcome {
    if !expire(me, Outcome::TimedOut) {
        worker.park(me);
    }
    me.wait.set(WaitKind::None);
    me.outcome.get()
}

fn wait_in_kernel(me: &'static Control, mut deadline: u64) -> Outcome {
    let word = futex_word(me);
    let _counted = (deadline == 0).then(|| Waiting::new(&KERNEL_WAITERS));
    let record = me.record();
    record.set_state(State::Parked);
    if let Some(runtime) = crate::runtime::get() {
        runtime.end_naps();
    }
    loop {
        // ORDER: Acquire pairs with the Release in `ready`.
        let seen = word.load(Acquire);
        if seen == FUTEX_WOKEN as u32 {
            break;
        }
        if seen == FUTEX_LOOK as u32 {
            let _ = word.compare_exchange(seen, FUTEX_WAITING as u32, Relaxed, Relaxed);
            if me.cancellable.get() && is_cancellable(me) && expire(me, Outcome::Cancelled) {
                break;
            }
            continue;
        }
        let mut left = None;
        if deadline != 0 {
            let now = clock::now_ns();
            if now >= deadline {
                if expire(me, Outcome::TimedOut) {
                    break;
                }
                // A waker has us already: its wake is on the way.
                deadline = 0;
                continue;
            }
            left = Some(Duration::from_nanos(deadline - now));
        }
        let is_interrupted = futex::wait(word, FUTEX_WAITING as u32, left);
        if is_interrupted && full::is_interruptible() && expire(me, Outcome::Cancelled) {
            break;
        }
    }
    word.store(FUTEX_WAITING as u32, Relaxed);
    record.set_state(State::Ready);
    me.outcome.get()
}

fn futex_word(thread: &'static Control) -> &'static core::sync::atomic::AtomicU32 {
    // SAFETY: AtomicI32 and AtomicU32 have the same layout; all uses of a kernel thread's word
    // go through this view.
    unsafe { &*(&raw const thread.result).cast() }
}

/// Makes a thread ready whose wait the caller has ended. Exactly once per wait.
#[inline]
pub(crate) fn ready(thread: &'static Control) {
    // ORDER: Relaxed is enough to find the worker: it was set before the thread first ran, and
    // the caller learned of the wait through a lock or an acquiring load.
    let target = thread.worker.load(Relaxed);
    if let Some(worker) = worker()
        && ptr::eq(worker, target)
    {
        return worker.ready_local(thread);
    }
    ready_elsewhere(thread);
}

#[cold]
fn ready_elsewhere(thread: &'static Control) {
    if thread.kind.get() == Kind::Kernel {
        let word = futex_word(thread);
        // ORDER: Release publishes `outcome` and what the waker wrote.
        word.store(FUTEX_WOKEN as u32, Release);
        // The thread may be gone by now; a wake without sleepers does nothing.
        return futex::wake(word, 1);
    }
    if thread.kind.get() == Kind::Full {
        return full::ready(thread);
    }
    // SAFETY: a thread that waited has started, so its worker is set; workers live for ever.
    let worker = unsafe { &*thread.worker.load(Relaxed) };
    match full::here() {
        Some(here) if ptr::eq(here.worker(), worker) => here.ready_local(thread),
        _ => {
            worker.inbox.push(thread);
            worker.notify();
        }
    }
}

/// Ends `thread`'s wait for the reason `outcome`, unless its waker has it already.
///
/// Called by the thread's owner only: its worker, or itself when it is a kernel thread; of a full
/// thread, by who holds it in its worker's waits. True: the caller makes it ready (or just goes
/// on). False: a wake or a completion is on its way.
pub(crate) fn expire(thread: &'static Control, outcome: Outcome) -> bool {
    let ended = match thread.wait.get() {
        WaitKind::None | WaitKind::Crowd => false,
        WaitKind::Queue | WaitKind::Shared | WaitKind::Address => wait::abandon(thread),
        WaitKind::Sleep => true,
        WaitKind::Park => thread::abandon_park(thread),
        WaitKind::Join => thread::abandon_join(thread),
        WaitKind::Reactor => match worker() {
            Some(worker) => worker.reactor.expire(worker, thread, outcome),
            None => false,
        },
    };
    if ended { self::ended(thread, outcome) } else { false }
}

/// The caller has ended `thread`'s wait for the reason `outcome`.
pub(crate) fn ended(thread: &Control, outcome: Outcome) -> bool {
    thread.outcome.set(outcome);
    // So that nothing else ends it again before the thread runs: a cancelled sleep whose deadline
    // passes.
    thread.wait.set(WaitKind::None);
    thread.deadline.set(0);
    true
}

/// Whether a cancellation is pending for `thread` and not disabled.
#[inline]
pub(crate) fn is_cancelled(thread: &Control) -> bool {
    thread.cancel.load(Acquire) & (CANCEL_ASKED | CANCEL_DISABLED) == CANCEL_ASKED
}

/// Whether `thread` is called, see `preempt.rs`.
#[inline]
pub(crate) fn is_called(thread: &Control) -> bool {
    thread.cancel.load(Acquire) & preempt::CANCEL_CALLED != 0
}

/// Whether a wait of `thread` that may be cancelled ends, or does not begin.
#[inline]
pub(crate) fn is_cancellable(thread: &Control) -> bool {
    is_cancelled(thread) || is_called(thread)
}

/// Asks `thread` to end: the cancellable wait it is in, or the next one, returns `Cancelled`.
pub(crate) fn cancel(thread: &'static Control) {
    // ORDER: Release pairs with the Acquire in `is_cancellable`.
    thread.cancel.fetch_or(CANCEL_ASKED, Release);
    if thread.kind.get() == Kind::Kernel {
        let word = futex_word(thread);
        let (from, to) = (FUTEX_WAITING as u32, FUTEX_LOOK as u32);
        if word.compare_exchange(from, to, Release, Relaxed).is_ok() {
            futex::wake(word, 1);
        }
        return crate::io::interrupt::interrupt(thread);
    }
    if thread.kind.get() == Kind::Full {
        return full::cancel(thread);
    }
    // ORDER: pairs with the fence in `Worker::adopt_from`: a thread that starts now sees the flag.
    fence(SeqCst);
    // SAFETY: null or a worker; workers live for ever.
    let Some(worker) = (unsafe { thread.worker.load(Acquire).as_ref() }) else { return };
    thread.references.fetch_add(1, Relaxed);
    worker.requests.push(thread);
    worker.notify();
}

/// Whether a cancellation is pending for the caller and not disabled. The caller is about to wait:
/// it has a control block after that, but where there is no memory for one.
pub fn has_request() -> bool {
    try_current().is_ok_and(is_cancelled)
}

/// Where the calling kernel thread has its control block, for [`cancel_kernel_thread`].
pub fn control_block() -> *mut () {
    try_current().map_or(ptr::null_mut(), |it| ptr::from_ref(it).cast_mut().cast())
}

/// Ends the wait of a kernel thread that may be cancelled, and all later ones.
///
/// # Safety
/// 1. It has this block ([`control_block`]) until the call returns.
pub unsafe fn cancel_kernel_thread(block: *mut ()) {
    // SAFETY: by 1; blocks stay where they are.
    cancel(unsafe { &*block.cast::<Control>() });
}

/// The priority of `thread` was raised: if it is ready, it may be in the wrong queue.
///
/// Only stores: callers hold locks. A worker that sleeps needs no signal, see `Worker::resort`.
pub(crate) fn priority_was_raised(thread: &Control) {
    // ORDER: pairs with the fences in `worker/adopt.rs`, for a full thread that moves just now.
    fence(SeqCst);
    // SAFETY: null or a worker; workers live for ever.
    if let Some(worker) = unsafe { thread.worker.load(Acquire).as_ref() } {
        // ORDER: Release publishes the priority; the poll word comes last (see `Worker::look`).
        worker.resort.store(true, Release);
        worker.poll.store(1, Release);
    }
}

/// Serves a cancellation that has arrived at `worker`, in its scheduler context.
pub(crate) fn serve_cancel(worker: &'static Worker, thread: &'static Control) {
    debug_assert!(ptr::eq(thread.worker.load(Relaxed), worker), "light threads stay");
    if is_cancellable(thread) && thread.cancellable.get() && expire(thread, Outcome::Cancelled) {
        worker.ready_local(thread);
    }
    release(thread);
}
