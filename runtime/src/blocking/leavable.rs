//! Jobs of the pool in which their caller is answered to, and which it may leave: look-ups of
//! names, which take as long as a server somewhere else likes; the end of a command.
//!
//! Invariant: the job is on the heap and borrows nothing; its two ends part from it as `parting.rs`
//! says.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::parting::{Parting, RUNNING};
use super::{JobPointer, POOL, blocking};
use crate::{full, lot};

struct Job<F, T> {
    closure: Option<F>,
    result: Option<std::thread::Result<T>>,
    parting: Parting,
}

/// The caller's part of a job; it leaves when this goes, at the end of its thread perhaps.
struct Mine<F, T>(*mut Job<F, T>);

impl<F, T> Mine<F, T> {
    fn parting(&self) -> &Parting {
        // SAFETY: by the protocol the job is alive; this field is atomic.
        unsafe { &(*self.0).parting }
    }
}

impl<F, T> Drop for Mine<F, T> {
    fn drop(&mut self) {
        if self.parting().leave() {
            // SAFETY: the pool has parted from it before.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

/// As [`blocking`], but when the caller, a full thread, is called or cancelled meanwhile it asks
/// whether it `is_to_leave`: then it goes on at once, with `None`, and what `f` returns is dropped
/// on the pool. `is_to_leave` answers the call of the thread, and may end it; or fork: it is `None`
/// in the child, which has no pool, too. `is_open_ended` as in [`super::open_ended`].
pub fn leavable<F, T>(f: F, is_open_ended: bool, mut is_to_leave: impl FnMut() -> bool) -> Option<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if full::me().is_none() {
        return Some(blocking(f));
    }
    let job = Job { closure: Some(f), result: None, parting: Parting::new() };
    let mine = Mine(Box::into_raw(Box::new(job)));
    let pin = full::pin();
    let pointer = JobPointer { job: mine.0.cast(), run: run::<F, T>, is_open_ended };
    let is_queued = POOL.queue(pointer);
    drop(pin);
    if !is_queued {
        // SAFETY: nobody else has it. Better a worker that blocks than a call that fails.
        unsafe { run::<F, T>(mine.0.cast()) };
    }
    let manner = lot::Manner { is_cancellable: true, ..lot::Manner::PLAIN };
    while !mine.parting().is_done() {
        if !crate::thread::is_user_level() {
            return None;
        }
        let word = mine.parting().word();
        // SAFETY: the word lives until the caller has left.
        let ended = unsafe { lot::futex_wait(word, RUNNING, lot::Moment::Never, manner) };
        if ended == lot::Ended::Cancelled && is_to_leave() {
            return None;
        }
    }
    // SAFETY: the pool is done with it, and the caller has it alone.
    match unsafe { (*mine.0).result.take() } {
        Some(Ok(value)) => Some(value),
        Some(Err(payload)) => resume_unwind(payload),
        None => unreachable!("a job ended without a result"),
    }
}

/// Runs a job, and wakes its caller if that has not left.
///
/// # Safety
/// 1. `job` points to a `Job<F, T>` that nobody has run.
unsafe fn run<F, T>(job: *mut ())
where
    F: FnOnce() -> T,
{
    let job = job.cast::<Job<F, T>>();
    // SAFETY: by 1 and the protocol it is alive; the caller touches `parting` alone.
    let parting = unsafe {
        (*job).result =
            (*job).closure.take().map(|closure| catch_unwind(AssertUnwindSafe(closure)));
        &raw const (*job).parting
    };
    // SAFETY: as above; an address, which may be that of nothing when the caller is woken.
    let (word, is_left) = unsafe { ((*parting).word(), (*parting).done()) };
    if is_left {
        // SAFETY: the caller has parted from it before.
        drop(unsafe { Box::from_raw(job) });
    } else {
        lot::futex_wake(word, 1, lot::ANY);
    }
}
