//! Joining and detaching.
//!
//! A joiner waits for `state` in the parking lot. Kernel threads are joined by the C library; a
//! full thread waits in the lot before it asks for that, until the other one has come to its end.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid or null where that is allowed, and
//! a `pthread_t` names a thread that nobody has joined or detached.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use heddle::raw::{self, Ended, Manner, Moment};
use libc::{clockid_t, pthread_t, timespec};

use super::signals::{self, Then};
use super::stuck::Call;
use super::{DETACHED, ENDED, GONE, JOINABLE, Pthread, cancel, find, free, kernel, own};
use crate::calls::away_for_long;
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

/// In `joined_by`: somebody detaches the thread. No thread has this name.
const DETACHER: usize = usize::MAX;

/// # Safety
/// As the exported functions.
unsafe fn join(
    thread: pthread_t,
    result: *mut *mut c_void,
    until: Moment,
    mut is_cancellable: bool,
) -> c_int {
    // SAFETY: the caller has found it.
    let Some(target) = (unsafe { find(thread) }) else { return libc::ESRCH };
    raw::prefetch_slot(target.slot.load(Relaxed));
    // SAFETY: any thread may ask who it is.
    let me = unsafe { libc::pthread_self() } as usize;
    if super::this().is_some_and(|this| core::ptr::eq(this, target)) {
        return libc::EDEADLK;
    }
    let state = target.state.load(Relaxed);
    if state == GONE {
        return libc::ESRCH;
    }
    // ORDER: SeqCst: the joiner before the look at the state in `wait_for`; pairs with `end.rs`,
    // which wakes whoever it sees here.
    if state == DETACHED || target.joined_by.compare_exchange(0, me, SeqCst, Relaxed).is_err() {
        return libc::EINVAL;
    }
    if waits_for_me(thread as usize, me) {
        target.joined_by.store(0, Relaxed);
        return libc::EDEADLK;
    }
    loop {
        match errno::kept(|| wait_for(target, until, is_cancellable)) {
            Ended::TimedOut => {
                target.joined_by.store(0, Relaxed);
                return libc::ETIMEDOUT;
            }
            Ended::Cancelled => {
                target.joined_by.store(0, Relaxed);
                cancel::test();
                // A kernel thread that does not want to hear of it.
                is_cancellable = false;
                // ORDER: as above. Somebody may have detached it meanwhile.
                if target.joined_by.compare_exchange(0, me, SeqCst, Relaxed).is_err() {
                    return libc::EINVAL;
                }
            }
            Ended::Woken | Ended::Changed => {
                // SAFETY: passed on; it has ended.
                unsafe { take(target, result) };
                return 0;
            }
        }
    }
}

/// Whether the thread that `me` is about to wait for waits for `me`. By name: whoever began to join
/// `me` may have given up, and ended, meanwhile.
fn waits_for_me(target: usize, me: usize) -> bool {
    let Some(this) = super::this() else { return false };
    let by = this.joined_by.load(Relaxed);
    debug_assert_ne!(by, me);
    by == target
}

fn wait_for(target: &Pthread, until: Moment, is_cancellable: bool) -> Ended {
    if crate::me().is_none() && !target.has_ended() {
        // A kernel thread that sleeps and is woken costs two switches of the kernel: where there is
        // one processor, this lets the worker run first.
        errno::kept(heddle::thread::yield_now);
    }
    let manner = Manner { is_cancellable, what: Call::Join as u32, ..Manner::PLAIN };
    wait_while(&target.state, JOINABLE, until, manner)
}

/// Waits until `word`, of a thread that the caller joins, is not `value` any more.
fn wait_while(word: &AtomicU32, value: u32, until: Moment, manner: Manner) -> Ended {
    // ORDER: SeqCst pairs with `end.rs`, after `joined_by`; and with the Release in `kernel.rs`.
    while word.load(SeqCst) == value {
        // SAFETY: it stays until the thread is joined, which is what the caller does.
        let ended = unsafe { raw::futex_wait(word, value, until, manner) };
        let is_full = crate::me().is_some();
        if ended == Ended::Cancelled && is_full && signals::interrupted() != Then::End {
            continue;
        }
        // ORDER: as above.
        if matches!(ended, Ended::TimedOut | Ended::Cancelled) && word.load(Acquire) == value {
            return ended;
        }
    }
    Ended::Woken
}

/// Time between two looks at a thread that has not begun, and most of them.
const LOOK_NS: u64 = 10_000_000;
const LOOKS_MAX: u32 = 50;

/// Joins the main thread. For the C library it lives as long as the process (`end.rs`).
///
/// # Safety
/// As the exported functions.
unsafe fn join_main(
    thread: pthread_t,
    result: *mut *mut c_void,
    until: Moment,
    mut is_cancellable: bool,
) -> c_int {
    let past = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the caller's thread.
    let now = unsafe { pthread_clockjoin_np(thread, result, libc::CLOCK_REALTIME, &past) };
    if now != libc::ETIMEDOUT {
        return now;
    }
    // SAFETY: the thread's own words, which stay.
    let end = unsafe { &(*own::words_of(thread)).end };
    loop {
        let what = Call::JoinMain as u32;
        let manner = Manner { is_cancellable, what, ..Manner::PLAIN };
        match errno::kept(|| wait_while(end, 0, until, manner)) {
            Ended::TimedOut => return libc::ETIMEDOUT,
            Ended::Cancelled => {
                cancel::test();
                // As in `join`.
                is_cancellable = false;
            }
            Ended::Woken | Ended::Changed => break,
        }
    }
    if !result.is_null() {
        // SAFETY: the caller's place.
        unsafe { result.write(kernel::result_of_main()) };
    }
    0
}

/// Joins a kernel thread; the caller is a full thread. `whole` is the C library's way.
///
/// # Safety
/// As the exported functions.
unsafe fn join_kernel(
    thread: pthread_t,
    result: *mut *mut c_void,
    until: Moment,
    whole: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the thread's own word, which stays until it is joined.
    let end = unsafe { &(*own::words_of(thread)).end };
    let what = Call::JoinKernel as u32;
    let manner = Manner { is_cancellable: true, what, ..Manner::PLAIN };
    for looks in 0.. {
        let past = timespec { tv_sec: 0, tv_nsec: 0 };
        // It has ended, or is not to be joined.
        // SAFETY: the caller's thread and place.
        let now = unsafe { pthread_clockjoin_np(thread, result, libc::CLOCK_REALTIME, &past) };
        if now != libc::ETIMEDOUT {
            return now;
        }
        if end.load(Relaxed) != 0 {
            break;
        }
        if looks == LOOKS_MAX || (looks != 0 && until != Moment::Never) {
            // It is not of this library's making.
            return away_for_long(whole);
        }
        let soon = Moment::Monotonic(raw::now_ns() + LOOK_NS);
        if errno::kept(|| wait_while(end, 0, soon, manner)) == Ended::Cancelled {
            cancel::act();
        }
    }
    match errno::kept(|| wait_while(end, own::LIVES, until, manner)) {
        Ended::TimedOut => libc::ETIMEDOUT,
        Ended::Cancelled => cancel::act(),
        // What the C library still does takes some microseconds.
        // SAFETY: as above.
        Ended::Woken | Ended::Changed => unsafe { real::pthread_join(thread, result) },
    }
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
    let is_cancellable = cancel::before_wait();
    // SAFETY: the caller's thread.
    match unsafe { find(thread) } {
        // SAFETY: as above.
        Some(_) => unsafe { join(thread, result, Moment::Never, is_cancellable) },
        // SAFETY: as above.
        None if kernel::is_main(thread) => unsafe {
            join_main(thread, result, Moment::Never, is_cancellable)
        },
        // SAFETY: as above.
        None if crate::me().is_none() => unsafe { real::pthread_join(thread, result) },
        // SAFETY: as above.
        None => unsafe {
            join_kernel(thread, result, Moment::Never, || real::pthread_join(thread, result))
        },
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
        return unsafe {
            match kernel::is_main(thread) {
                // It runs, whoever asks, and if it was detached.
                true => match join_main(thread, result, Moment::Monotonic(0), false) {
                    libc::ETIMEDOUT | libc::EDEADLK | libc::EINVAL => libc::EBUSY,
                    other => other,
                },
                false => pthread_tryjoin_np(thread, result),
            }
        };
    };
    // ORDER: Acquire pairs with the Release in `end.rs`.
    match target.state.load(Acquire) {
        // SAFETY: as above.
        ENDED => unsafe { join(thread, result, Moment::Never, false) },
        GONE => libc::ESRCH,
        // Detached or not: it runs.
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
    let is_cancellable = cancel::before_wait();
    // SAFETY: the caller's thread and moment.
    unsafe {
        let is_full = find(thread).is_some();
        let is_main = !is_full && kernel::is_main(thread);
        if !is_full && !is_main && (crate::me().is_none() || at.is_null()) {
            return pthread_clockjoin_np(thread, result, clock, at);
        }
        let until = match at.as_ref() {
            None => Ok(Moment::Never),
            Some(at) => clock::moment(clock, at),
        };
        match until {
            Ok(until) if is_full => join(thread, result, until, is_cancellable),
            Ok(until) if is_main => join_main(thread, result, until, is_cancellable),
            Ok(until) => join_kernel(thread, result, until, || {
                pthread_clockjoin_np(thread, result, clock, at)
            }),
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
    match target.state.load(Relaxed) {
        DETACHED => return libc::EINVAL,
        GONE => return libc::ESRCH,
        _ => {}
    }
    // Who joins it already does so, as in the C library: it may be the thread itself that calls.
    // ORDER: SeqCst: from here on nobody joins it; pairs with the exchange in `join`.
    if target.joined_by.compare_exchange(0, DETACHER, SeqCst, Relaxed).is_err() {
        return 0;
    }
    if !target.give_up() {
        // SAFETY: it has ended, and by the caller's promise nobody joins it.
        unsafe { free(target) };
    }
    0
}
