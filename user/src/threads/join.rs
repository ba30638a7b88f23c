//! Joining and detaching.
//!
//! A joiner waits for `state` in the parking lot. Kernel threads are joined by the C library: by a
//! kernel thread of the blocking pool if a full thread asks.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid or null where that is allowed, and
//! a `pthread_t` names a thread that nobody has joined or detached.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use heddle::raw::{self, Ended, Manner, Moment};
use libc::{clockid_t, pthread_t, timespec};

use super::signals::{self, Then};
use super::{DETACHED, ENDED, JOINABLE, Pthread, cancel, find, free};
use crate::{clock, errno, real};

// SAFETY: the C library's functions, by its header.
unsafe extern "C-unwind" {
    fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int;
    fn pthread_clockjoin_np(
        thread: pthread_t,
        result: *mut *mut c_void,
        clock: clockid_t,
        at: *const timespec,
    ) -> c_int;
}

/// # Safety
/// As the exported functions.
unsafe fn join(target: &Pthread, result: *mut *mut c_void, until: Moment) -> c_int {
    raw::prefetch_slot(target.slot.load(Relaxed));
    // SAFETY: any thread may ask who it is.
    let me = unsafe { libc::pthread_self() } as usize;
    if super::this().is_some_and(|this| core::ptr::eq(this, target)) {
        return libc::EDEADLK;
    }
    // ORDER: SeqCst: the joiner before the look at the state in `wait_for`; pairs with `end.rs`,
    // which wakes whoever it sees here.
    if target.state.load(Relaxed) == DETACHED
        || target.joined_by.compare_exchange(0, me, SeqCst, Relaxed).is_err()
    {
        return libc::EINVAL;
    }
    if waits_for_me(target, me) {
        target.joined_by.store(0, Relaxed);
        return libc::EDEADLK;
    }
    let ended = errno::kept(|| wait_for(target, until));
    match ended {
        Ended::TimedOut => {
            target.joined_by.store(0, Relaxed);
            libc::ETIMEDOUT
        }
        Ended::Cancelled => {
            target.joined_by.store(0, Relaxed);
            cancel::act()
        }
        Ended::Woken | Ended::Changed => {
            // SAFETY: passed on; it has ended.
            unsafe { take(target, result) };
            0
        }
    }
}

/// Whether the thread that `me` is about to wait for waits for `me`.
fn waits_for_me(target: &Pthread, me: usize) -> bool {
    let Some(this) = super::this() else { return false };
    let by = this.joined_by.load(Relaxed);
    debug_assert_ne!(by, me);
    // SAFETY: a thread that joins us exists.
    by != 0 && unsafe { find(by as pthread_t) }.is_some_and(|it| core::ptr::eq(it, target))
}

fn wait_for(target: &Pthread, until: Moment) -> Ended {
    let is_cancellable = crate::me().is_some();
    if !is_cancellable && !target.has_ended() {
        // A kernel thread that sleeps and is woken costs two switches of the kernel: where there is
        // one processor, this lets the worker run first.
        errno::kept(heddle::thread::yield_now);
    }
    let manner = Manner { is_cancellable, ..Manner::PLAIN };
    while !target.has_ended() {
        // SAFETY: nobody frees it before it is joined, which is what we do.
        let ended = unsafe { raw::futex_wait(&target.state, JOINABLE, until, manner) };
        if ended == Ended::Cancelled && signals::interrupted() != Then::End {
            continue;
        }
        if matches!(ended, Ended::TimedOut | Ended::Cancelled) && !target.has_ended() {
            return ended;
        }
    }
    Ended::Woken
}

/// # Safety
/// 1. `target` has ended and is the caller's to join.
unsafe fn take(target: &Pthread, result: *mut *mut c_void) {
    // SAFETY: the caller's place, if it has one; by 1.
    unsafe {
        if !result.is_null() {
            result.write(target.own.result.get());
        }
        free(target);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_pthread_join(
    thread: pthread_t,
    result: *mut *mut c_void,
) -> c_int {
    raw::prefetch_described(core::ptr::with_exposed_provenance_mut(thread as usize));
    cancel::test();
    // SAFETY: the caller's thread.
    match unsafe { find(thread) } {
        // SAFETY: as above.
        Some(target) => unsafe { join(target, result, Moment::Never) },
        None if crate::me().is_none() => {
            // SAFETY: as above.
            unsafe { real::pthread_join(thread, result) }
        }
        None => errno::kept(|| {
            let place = result as usize;
            // SAFETY: as above; the caller waits, so its place stays.
            heddle::blocking(move || unsafe {
                real::pthread_join(thread, place as *mut *mut c_void)
            })
        }),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_tryjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's thread.
    let Some(target) = (unsafe { find(thread) }) else {
        // SAFETY: as above.
        return unsafe { pthread_tryjoin_np(thread, result) };
    };
    // ORDER: Acquire pairs with the Release in `end.rs`.
    match target.state.load(Acquire) {
        // SAFETY: as above.
        ENDED => unsafe { join(target, result, Moment::Never) },
        DETACHED => libc::EINVAL,
        _ => libc::EBUSY,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_timedjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    at: *const timespec,
) -> c_int {
    // SAFETY: passed on.
    unsafe { heddle_user_pthread_clockjoin_np(thread, result, libc::CLOCK_REALTIME, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_clockjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    cancel::test();
    // SAFETY: the caller's thread and moment.
    unsafe {
        let Some(target) = find(thread) else {
            return pthread_clockjoin_np(thread, result, clock, at);
        };
        let until = match at.as_ref() {
            None => Ok(Moment::Never),
            Some(at) => clock::moment(clock, at),
        };
        match until {
            Ok(until) => join(target, result, until),
            Err(error) => error,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_pthread_detach(thread: pthread_t) -> c_int {
    // SAFETY: the caller's thread.
    let Some(target) = (unsafe { find(thread) }) else {
        // SAFETY: as above.
        return unsafe { libc::pthread_detach(thread) };
    };
    if target.state.load(Relaxed) == DETACHED {
        return libc::EINVAL;
    }
    if !target.give_up() {
        // SAFETY: it has ended, and by the caller's promise nobody joins it.
        unsafe { free(target) };
    }
    0
}
