//! Joining and detaching.
//!
//! The end of a thread and the wish to join it meet under the slot's lock; the joiner waits in the
//! slot's queue, which it enters before it lets the lock go.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid or null where that is allowed.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use heddle::raw::{self, Outcome};
use libc::{clockid_t, timespec};

use crate::clock::Until;
use crate::data::{self, Data};
use crate::stop::{self, Stop};
use crate::{cancel, carried, current};

/// Threads that wait for each other in a row, looked at before one more joins the row.
const ROW_MAX: usize = 64;

fn join(id: u64, result: *mut *mut c_void, until: Option<Until>) -> Result<(), Stop> {
    let me = current::data();
    if id == me.id() {
        return Err(Stop::Error(libc::EDEADLK));
    }
    let (target, mut shared) = data::find(id).ok_or(Stop::Error(libc::ESRCH))?;
    if shared.detached || shared.joined_by != 0 {
        return Err(Stop::Error(libc::EINVAL));
    }
    if !shared.finished {
        let Some(until) = until else { return Err(Stop::Error(libc::EBUSY)) };
        shared.joined_by = me.id();
        drop(shared);
        let waited = wait_for(me, target, id, until);
        shared = target.lock();
        shared.joined_by = 0;
        if !shared.finished {
            return waited;
        }
        if waited == Err(Stop::Cancelled) {
            return waited;
        }
    }
    // ORDER: see `exit::publish_end`.
    target.joining.load(Acquire);
    if !result.is_null() {
        // SAFETY: the caller's place; the thread has ended, so its result is written.
        unsafe { result.write(target.own.result.get()) };
    }
    target.release(shared);
    Ok(())
}

/// Waits for the end of `target`, which stays this thread's to join meanwhile.
fn wait_for(me: &'static Data, target: &'static Data, id: u64, until: Until) -> Result<(), Stop> {
    me.joining.store(id, Relaxed);
    let result = if waits_for_me(me, id) {
        Err(Stop::Error(libc::EDEADLK))
    } else {
        match carried::across(|| until.wait(|deadline| wait_once(target, deadline))) {
            Outcome::Woken => Ok(()),
            Outcome::TimedOut => Err(Stop::Error(libc::ETIMEDOUT)),
            Outcome::Cancelled => Err(Stop::Cancelled),
        }
    };
    me.joining.store(0, Relaxed);
    result
}

fn wait_once(target: &'static Data, deadline: u64) -> Outcome {
    if cancel::check().is_err() {
        return Outcome::Cancelled;
    }
    let shared = target.lock();
    if shared.finished {
        return Outcome::Woken;
    }
    let thread = raw::current();
    let queue = target.joiners.lock();
    queue.enqueue(thread);
    drop(shared);
    raw::wait_cancellable(queue, thread, deadline)
}

/// Whether the thread `id`, or whom it waits for, waits for `me`.
fn waits_for_me(me: &Data, mut id: u64) -> bool {
    for _ in 0..ROW_MAX {
        match data::find(id) {
            Some((data, shared)) if !shared.finished => id = data.joining.load(Relaxed),
            _ => return false,
        }
        if id == me.id() {
            return true;
        }
    }
    false
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_join(thread: u64, result: *mut *mut c_void) -> c_int {
    stop::number(cancel::check().and_then(|()| join(thread, result, Some(Until::Forever))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_tryjoin_np(thread: u64, result: *mut *mut c_void) -> c_int {
    match join(thread, result, None) {
        Err(Stop::Error(number)) => number,
        _ => 0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_timedjoin_np(
    thread: u64,
    result: *mut *mut c_void,
    deadline: *const timespec,
) -> c_int {
    // SAFETY: passed on.
    unsafe { heddle_clockjoin_np(thread, result, libc::CLOCK_REALTIME, deadline) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_clockjoin_np(
    thread: u64,
    result: *mut *mut c_void,
    clock: clockid_t,
    deadline: *const timespec,
) -> c_int {
    // SAFETY: null or the caller's moment.
    let until = match unsafe { deadline.as_ref() } {
        None => Ok(Until::Forever),
        Some(at) => Until::new(clock, at),
    };
    stop::number(cancel::check().and_then(|()| join(thread, result, Some(until?))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_detach(thread: u64) -> c_int {
    let Some((data, mut shared)) = data::find(thread) else { return libc::ESRCH };
    if shared.detached || shared.joined_by != 0 {
        return libc::EINVAL;
    }
    if shared.finished && !ptr::eq(data, current::known().map_or(ptr::null(), ptr::from_ref)) {
        data.release(shared);
    } else {
        shared.detached = true;
    }
    0
}
