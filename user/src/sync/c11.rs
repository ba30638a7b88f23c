//! C11's names for the same objects: their layouts are those of the POSIX ones.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid and point to what their type says.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;

use libc::{pthread_cond_t, pthread_mutex_t, timespec};

use super::{cond, mutex, once};

/// POSIX's error number as C11 says it (`thrd_success`, ...).
pub fn result(number: c_int) -> c_int {
    const SUCCESS: c_int = 0;
    const BUSY: c_int = 1;
    const ERROR: c_int = 2;
    const NO_MEMORY: c_int = 3;
    const TIMED_OUT: c_int = 4;
    match number {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_mtx_lock(it: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    result(unsafe { mutex::heddle_user_pthread_mutex_lock(it) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_mtx_trylock(it: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    result(unsafe { mutex::heddle_user_pthread_mutex_trylock(it) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_mtx_timedlock(
    it: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's mutex and moment.
    result(unsafe { mutex::heddle_user_pthread_mutex_timedlock(it, at) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_mtx_unlock(it: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    result(unsafe { mutex::heddle_user_pthread_mutex_unlock(it) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_cnd_wait(
    it: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's objects.
    result(unsafe { cond::heddle_user_pthread_cond_wait(it, mutex) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_cnd_timedwait(
    it: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's objects and moment.
    result(unsafe { cond::heddle_user_pthread_cond_timedwait(it, mutex, at) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_cnd_signal(it: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's variable.
    result(unsafe { cond::heddle_user_pthread_cond_signal(it) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_cnd_broadcast(it: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's variable.
    result(unsafe { cond::heddle_user_pthread_cond_broadcast(it) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_call_once(
    it: *const AtomicU32,
    routine: unsafe extern "C-unwind" fn(),
) {
    // SAFETY: the caller's word and routine.
    unsafe { once::heddle_user_pthread_once(it, routine) };
}
