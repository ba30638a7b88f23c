//! `blocking`: runs a closure that may sleep in the kernel on a kernel thread of a pool.
//!
//! Protocol: the job lies on the caller's stack; the list holds a pointer to it. The caller queues
//! it, then parks in a wait that only the job's end can end; so the job is alive until then, and
//! the closure may borrow. The pool's thread touches the job for the last time before it makes
//! the caller ready.
//!
//! The pool grows while jobs wait and nobody is idle; who is idle for [`IDLE`] ends. The list of
//! jobs is bounded by the number of threads: each waits for its own job. But for those that their
//! callers may leave (`leavable.rs`), which belong to the pool, too.
//!
//! Jobs that end by themselves share [`THREADS_MAX`] kernel threads. Those that may wait for what
//! another thread does ([`open_ended`], [`interruptible`]) get as many as the kernel gives: the
//! thread that they wait for may need one, too.

mod alone;
mod leavable;
mod parting;

use core::hint;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicU32};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use crate::control::{Control, Outcome, WaitKind};
use crate::deadlock::HELPERS_IDLE;
use crate::sys::{clock, say, signals, task};
use crate::{full, io, lot, sched, wait};

pub(crate) use alone::InPlace;
pub use alone::alone;
pub use leavable::leavable;

/// Most kernel threads of the pool beside those for open-ended jobs. More jobs wait for a thread.
const THREADS_MAX: u32 = 512;
/// How long a kernel thread of the pool waits for a job before it ends.
const IDLE: Duration = Duration::from_secs(10);
/// Stack of the pool's threads: as a program's own kernel threads have it.
const STACK_BYTES: usize = 2 << 20;

/// See the file's head.
struct Pool {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    jobs: VecDeque<JobPointer>,
    threads: u32,
    idle: u32,
    /// Open-ended jobs, in the list and running.
    open_ended: u32,
    /// Idle threads that no job is meant for, as the deadlock report counts them.
    unneeded: u32,
}

impl State {
    /// Tells the deadlock report how many threads only wait for work; before each unlock.
    fn settle(&mut self) {
        let unneeded = self.idle.saturating_sub(self.jobs.len() as u32);
        let change = unneeded.wrapping_sub(self.unneeded);
        HELPERS_IDLE.fetch_add(change, SeqCst);
        self.unneeded = unneeded;
    }
}

static POOL: Pool = Pool {
    state: Mutex::new(State {
        jobs: VecDeque::new(),
        threads: 0,
        idle: 0,
        open_ended: 0,
        unneeded: 0,
    }),
    wake: Condvar::new(),
};

/// A job without its types, as the list holds it.
struct JobPointer {
    job: *mut (),
    run: unsafe fn(*mut ()),
    is_open_ended: bool,
}

// SAFETY: the closure in the job is Send, and the job outlives its run.
unsafe impl Send for JobPointer {}

struct Job<F, T> {
    closure: Option<F>,
    result: Option<std::thread::Result<T>>,
    caller: &'static Control,
}

/// Runs `f` on a kernel thread of a pool and waits for it; meanwhile the caller's worker runs
/// other threads. On a kernel thread it just calls `f`.
///
/// For what sleeps in the kernel for long or computes for long: a library that reads files, a
/// look-up of a name, a compression. `f` may borrow. The call can't be cancelled.
///
/// In `f`, [`crate::thread::current`] names the kernel thread of the pool.
///
/// # Panics
/// When `f` panics, with the same payload.
///
/// ```
/// let text = String::from("borrowed");
/// let len = heddle::thread::scope(|scope| {
///     scope.spawn(|| heddle::blocking(|| text.len())).join().unwrap()
/// });
/// assert_eq!(len, 8);
/// ```
pub fn blocking<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    on_pool(f, false)
}

/// As [`blocking`], for what may wait for another thread, or for as long as somebody else likes:
/// it takes none of the kernel threads that the others share.
pub fn open_ended<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    on_pool(f, true)
}

fn on_pool<F, T>(f: F, is_open_ended: bool) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if !crate::thread::is_user_level() {
        return f();
    }
    let me = sched::current();
    let mut job = Job { closure: Some(f), result: None, caller: me };
    let pinned = crate::thread::Pinned::new();
    me.wait.set(WaitKind::None);
    // From the moment it is queued the job may make the caller ready: until it has parked, a full
    // thread must do nothing else that makes it so, as being preempted does.
    let pin = full::pin();
    let pointer = JobPointer { job: (&raw mut job).cast(), run: run::<F, T>, is_open_ended };
    let queued = POOL.queue(pointer);
    if queued {
        // Ended by `run` only: neither deadline nor cancellation, for the job borrows from us.
        let outcome = sched::wait(me, 0);
        debug_assert_eq!(outcome, Outcome::Woken);
    } else if let Some(closure) = job.closure.take() {
        drop(pin);
        // Better a worker that blocks than a call that fails.
        job.result = Some(catch_unwind(AssertUnwindSafe(closure)));
    }
    drop(pinned);
    match job.result {
        Some(Ok(value)) => value,
        Some(Err(payload)) => resume_unwind(payload),
        None => unreachable!("a job ended without a result"),
    }
}

/// Runs a job and wakes its caller.
///
/// # Safety
/// 1. `job` points to a `Job<F, T>` whose caller waits for this call.
unsafe fn run<F, T>(job: *mut ())
where
    F: FnOnce() -> T,
{
    // SAFETY: by 1 it is alive and ours until the caller is woken.
    let job = unsafe { &mut *job.cast::<Job<F, T>>() };
    let caller = job.caller;
    if let Some(closure) = job.closure.take() {
        job.result = Some(catch_unwind(AssertUnwindSafe(closure)));
    }
    debug_assert!(caller.kind.get().is_user_level());
    wait::wake(caller, Outcome::Woken);
}

/// Time between two signals to a call that does not end.
const AGAIN_NS: u64 = 1_000_000;
/// `Errand::tid`: the caller is about to send that kernel thread a signal.
const ASKED: i32 = 1 << 30;

/// A job that a signal may get out of its system call: see [`interruptible`].
struct Errand<F, T> {
    closure: Option<F>,
    result: Option<std::thread::Result<T>>,
    /// The kernel thread that runs it; 0 before and afterwards.
    tid: AtomicI32,
    /// 1 = the result is there; from then on nobody but the caller touches it.
    done: AtomicU32,
}

/// As [`blocking`], for a call that the kernel ends when a signal comes. When the caller, a full
/// thread, is called or cancelled meanwhile, and says that this call `is_to_end`, the kernel thread
/// that makes it is sent a signal whose handler does nothing, again and again until the call has
/// ended; for the first one may come before the call has begun to wait.
///
/// `is_to_end` answers the call of the thread: it is not called again for the same.
pub fn interruptible<F, T>(f: F, mut is_to_end: impl FnMut() -> bool) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if full::me().is_none() {
        return blocking(f);
    }
    let (tid, done) = (AtomicI32::new(0), AtomicU32::new(0));
    let mut errand = Errand { closure: Some(f), result: None, tid, done };
    let place = &raw mut errand;
    let pin = full::pin();
    let pointer = JobPointer { job: place.cast(), run: run_errand::<F, T>, is_open_ended: true };
    let is_queued = POOL.queue(pointer);
    drop(pin);
    if !is_queued {
        return run_here(errand);
    }
    // SAFETY: these fields are atomic; the others are the job's until it is done.
    let (tid, done) = unsafe { (&(*place).tid, &(*place).done) };
    let mut is_asked = false;
    // ORDER: Acquire pairs with the Release in `run_errand`.
    while done.load(Acquire) == 0 {
        let until = match is_asked {
            true => lot::Moment::Monotonic(clock::now_ns() + AGAIN_NS),
            false => lot::Moment::Never,
        };
        let manner = lot::Manner { is_cancellable: !is_asked, ..lot::Manner::PLAIN };
        // SAFETY: the word lives until this function returns.
        match unsafe { lot::futex_wait(done, 0, until, manner) } {
            lot::Ended::Cancelled => is_asked = is_to_end(),
            lot::Ended::TimedOut => {}
            lot::Ended::Woken | lot::Ended::Changed => continue,
        }
        if is_asked {
            interrupt(tid);
        }
    }
    match errand.result {
        Some(Ok(value)) => value,
        Some(Err(payload)) => resume_unwind(payload),
        None => unreachable!("a job ended without a result"),
    }
}

/// Runs it in place: better a worker that blocks than a call that fails.
fn run_here<F: FnOnce() -> T, T>(errand: Errand<F, T>) -> T {
    match errand.closure {
        Some(closure) => closure(),
        None => unreachable!("it was not run"),
    }
}

/// Sends the kernel thread that makes the call a signal, if one does so now.
fn interrupt(tid: &AtomicI32) {
    let _pin = full::pin();
    let running = tid.load(Relaxed);
    // ORDER: Acquire, Release: the thread does not go on to other work in between (`run_errand`).
    if running != 0 && tid.compare_exchange(running, running | ASKED, Acquire, Relaxed).is_ok() {
        signals::interrupt(running, io::interrupt::signal());
        tid.store(running, Release);
    }
}

/// Runs an errand and wakes its caller.
///
/// # Safety
/// 1. `job` points to an `Errand<F, T>` whose caller waits for its end.
unsafe fn run_errand<F, T>(job: *mut ())
where
    F: FnOnce() -> T,
{
    let errand = job.cast::<Errand<F, T>>();
    // SAFETY: by 1 it is alive; the caller touches the atomic fields alone.
    let (closure, tid, done) =
        unsafe { ((*errand).closure.take(), &(*errand).tid, &(*errand).done) };
    // A signal that was sent for another job comes here, in between.
    signals::unblock(io::interrupt::signal());
    let own = task::tid();
    // ORDER: Release pairs with the Acquire in `interrupt`: by then the signal is let through.
    tid.store(own, Release);
    let result = closure.map(|closure| catch_unwind(AssertUnwindSafe(closure)));
    // ORDER: AcqRel: a signal that is being sent is sent by then.
    while tid.compare_exchange_weak(own, 0, AcqRel, Relaxed).is_err() {
        hint::spin_loop();
    }
    task::block_signals();
    // SAFETY: as above.
    unsafe { (*errand).result = result };
    let word: *const AtomicU32 = done;
    // ORDER: Release publishes the result. The errand may be gone from here on.
    done.store(1, Release);
    lot::futex_wake(word, 1, lot::ANY);
}

/// Says once that blocking calls block their workers.
fn report_refusal(error: &std::io::Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        say::line(format_args!(
            "heddle: no kernel thread for heddle::blocking ({error}): it blocks its worker"
        ));
    });
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job; false when there is no kernel thread to run it and none can be made.
    fn queue(&'static self, job: JobPointer) -> bool {
        let mut state = self.lock();
        if (state.jobs.len() as u32) < state.idle {
            self.give(state, job);
            return true;
        }
        if job.is_open_ended || state.threads.saturating_sub(state.open_ended) < THREADS_MAX {
            // Made under the lock: so whoever sees a thread counted may rely on it.
            match self.add_thread() {
                Ok(()) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    report_refusal(&error);
                    return false;
                }
                Err(_refused) => {}
            }
        }
        self.give(state, job);
        true
    }

    fn give(&self, mut state: MutexGuard<'_, State>, job: JobPointer) {
        state.open_ended += u32::from(job.is_open_ended);
        state.jobs.push_back(job);
        state.settle();
        drop(state);
        self.wake.notify_one();
    }

    fn add_thread(&'static self) -> std::io::Result<()> {
        task::start("heddle-blocking", STACK_BYTES, move || self.work())
    }

    /// The loop of a kernel thread of the pool.
    fn work(&'static self) {
        let mut state = self.lock();
        loop {
            while let Some(job) = state.jobs.pop_front() {
                state.settle();
                drop(state);
                // SAFETY: whoever queued it waits for this call, or leaves the job to it.
                unsafe { (job.run)(job.job) };
                state = self.lock();
                state.open_ended -= u32::from(job.is_open_ended);
            }
            state.idle += 1;
            state.settle();
            let (guard, waited) =
                self.wake.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            state.settle();
            if waited.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}
