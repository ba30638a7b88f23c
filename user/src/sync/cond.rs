//! Condition variables: a word that every signal changes, and the lot.
//!
//! Protocol: a waiter, which holds the mutex, enters the lot, and gives the mutex up only then. So
//! whoever has the mutex behind it and signals finds it there; and the signal wakes one who waited
//! then, for the order in the lot is that of coming. A signal changes the word, by which the lot
//! tells waits in vain from others.
//!
//! A broadcast wakes one waiter; the others are moved to the mutex that they need next, and are
//! woken one by one as it is unlocked: whoever was woken takes it as one that is waited for. A
//! mutex of the C library's has no waiters in the lot: then all are woken.
//!
//! A waiter does not touch the variable once it has given the mutex up, so it may be destroyed, and
//! its memory be used for something else, after a broadcast, also before all have woken. A waiter
//! that was woken by a signal is not cancelled, and a cancelled one was not woken: no signal is
//! lost.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid and point to what their type says;
//! the waits are called with the mutex held.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw::{self, Ended, Manner, Moment};
use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, timespec};

use super::{layout, mutex, shared, stand_in, wake};
use crate::threads::stuck::Call;
use crate::threads::{cancel, signals};
use crate::{clock, errno};

/// glibc's `pthread_cond_t`: the first word is ours. One of the others has two flags, and in its
/// other bits a count of waiters that we leave alone.
#[repr(C)]
struct Cond {
    word: AtomicU32,
    theirs: [AtomicU32; 11],
}

const SHARED: u32 = 1;
const MONOTONIC: u32 = 2;
/// Both.
pub const FLAGS: u32 = SHARED | MONOTONIC;

// SAFETY: the C library's functions, by its headers.
unsafe extern "C-unwind" {
    fn pthread_cond_clockwait(
        cond: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        clock: clockid_t,
        at: *const timespec,
    ) -> c_int;
}

/// # Safety
/// 1. `cond` points to a condition variable.
unsafe fn of<'a>(cond: *mut pthread_cond_t) -> &'a Cond {
    // SAFETY: by 1; what is used of it is atomic.
    unsafe { &*cond.cast::<Cond>() }
}

impl Cond {
    /// The flags; where nobody knows where they are it is the C library's, as a shared one.
    #[inline(always)]
    fn flags(&self) -> u32 {
        // The first word is not among `theirs`.
        self.theirs.get(layout::cond_flags() - 1).map_or(SHARED, |flags| flags.load(Relaxed))
    }

    fn is_shared(&self) -> bool {
        self.flags() & SHARED != 0
    }

    fn clock(&self) -> clockid_t {
        match self.flags() & MONOTONIC {
            0 => libc::CLOCK_REALTIME,
            _ => libc::CLOCK_MONOTONIC,
        }
    }

    /// # Safety
    /// 1. `mutex` is one that the caller holds.
    unsafe fn wait(
        &self,
        mutex: *mut pthread_mutex_t,
        until: Moment,
        is_cancellable: bool,
    ) -> Result<Ended, c_int> {
        let seen = self.word.load(Relaxed);
        // SAFETY: by 1.
        let (then, what) = (unsafe { mutex::word_of(mutex) }, Call::Condition as u32);
        let manner = Manner { is_cancellable, then, what, ..Manner::PLAIN };
        let mut released = Err(libc::EPERM);
        let ended = raw::futex_wait_after(&self.word, seen, until, manner, || {
            // SAFETY: by 1.
            released = unsafe { mutex::give_up(mutex) };
            released.is_ok()
        });
        let released = released?;
        if ended == Ended::Cancelled {
            // Handlers run without the mutex.
            signals::interrupted();
        }
        match mutex::retake(&released) {
            0 => Ok(ended),
            error => Err(error),
        }
    }

    fn signal(&self) {
        self.word.fetch_add(1, Relaxed);
        wake(&self.word, 1);
    }

    fn broadcast(&self) {
        self.word.fetch_add(1, Relaxed);
        let _ = raw::futex_broadcast(&self.word);
    }
}

/// # Safety
/// As the exported functions.
unsafe fn wait(cond: &Cond, mutex: *mut pthread_mutex_t, until: Moment) -> c_int {
    let is_cancellable = cancel::before_wait();
    // SAFETY: passed on.
    let ended = errno::kept(|| unsafe { cond.wait(mutex, until, is_cancellable) });
    match ended {
        Ok(Ended::TimedOut) => libc::ETIMEDOUT,
        Ok(Ended::Cancelled) => {
            cancel::test();
            // A handler ran, and the wait returns without a reason.
            0
        }
        Ok(Ended::Woken | Ended::Changed) => 0,
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_pthread_cond_wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's objects.
    unsafe {
        let it = of(cond);
        if it.is_shared() {
            let clock = libc::CLOCK_MONOTONIC;
            return shared::cancellable(shared::NEVER, |until| {
                stand_in::wait(cond, mutex, |it| pthread_cond_clockwait(cond, it, clock, until))
            });
        }
        wait(it, mutex, Moment::Never)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_pthread_cond_timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: passed on.
    unsafe { heddle_user_pthread_cond_clockwait(cond, mutex, of(cond).clock(), at) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_cond_clockwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's objects and moment.
    unsafe {
        let it = of(cond);
        if it.is_shared() {
            return shared::cancellable(*at, |at| {
                stand_in::wait(cond, mutex, |it| pthread_cond_clockwait(cond, it, clock, at))
            });
        }
        match clock::moment(clock, &*at) {
            Ok(until) => wait(it, mutex, until),
            Err(error) => error,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's variable.
    unsafe {
        let it = of(cond);
        if it.is_shared() {
            return stand_in::signal(cond, || libc::pthread_cond_signal(cond));
        }
        it.signal();
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's variable.
    unsafe {
        let it = of(cond);
        if it.is_shared() {
            return stand_in::signal(cond, || libc::pthread_cond_broadcast(cond));
        }
        it.broadcast();
    }
    0
}
