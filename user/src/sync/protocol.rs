//! What mutexes are to do about priorities: nobody's is raised.
//!
//! Ceilings are kept and compared. The C library has the ceiling in the mutex's word, where a lock
//! of ours would find it, so it is moved as the mutex is initialised.
//!
//! A mutex that inherits priority is the kernel's, who finds its owner by the kernel's number of a
//! thread. A full thread has none there: its unlock would fail, and who waits for it would wait for
//! ever. Ours do without; one that is the C library's, being shared or robust, is made without. One
//! that another process has made is refused to full threads, with a line.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid and point to what their type says.

use core::ffi::c_int;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;
use libc::{pthread_mutex_t, pthread_mutexattr_t};

use super::mutex::{self, Mutex};
use crate::threads;

/// The priorities that a ceiling may have.
const PRIORITIES: core::ops::RangeInclusive<c_int> = 1..=99;

// SAFETY: the C library's functions, by its headers.
unsafe extern "C" {
    fn pthread_mutex_getprioceiling(mutex: *const pthread_mutex_t, ceiling: *mut c_int) -> c_int;
    fn pthread_mutex_setprioceiling(
        mutex: *mut pthread_mutex_t,
        ceiling: c_int,
        old: *mut c_int,
    ) -> c_int;
}

/// Whether the caller is more urgent than the mutex allows.
#[cold]
pub fn is_above(mutex: &Mutex) -> bool {
    threads::priority() > c_int::from(mutex.ceiling().load(Relaxed))
}

/// Why the caller cannot have a mutex, and says so once.
#[cold]
pub fn refusal(mutex: &Mutex) -> Option<c_int> {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !mutex.is_the_kernels() || crate::me().is_none() {
        return None;
    }
    if !IS_SAID.swap(true, Relaxed) {
        raw::say::line(format_args!(
            "heddle: a mutex refused (ENOTSUP): it inherits priority, and another process has made \
             it; the kernel knows no user-level thread as its owner"
        ));
    }
    Some(libc::ENOTSUP)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_mutex_init(
    mutex: *mut pthread_mutex_t,
    attributes: *const pthread_mutexattr_t,
) -> c_int {
    // SAFETY: the caller's mutex and attributes.
    unsafe {
        let error = libc::pthread_mutex_init(mutex, attributes);
        let it = mutex::of(mutex);
        if error != 0 {
            return error;
        }
        if it.is_the_kernels() {
            let mut without = attributes.read();
            libc::pthread_mutexattr_setprotocol(&mut without, libc::PTHREAD_PRIO_NONE);
            return libc::pthread_mutex_init(mutex, &without);
        }
        if it.has_ceiling() && !it.is_foreign() {
            it.move_ceiling();
        }
        0
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_mutex_getprioceiling(
    mutex: *mut pthread_mutex_t,
    ceiling: *mut c_int,
) -> c_int {
    // SAFETY: the caller's mutex and place.
    unsafe {
        let it = mutex::of(mutex);
        if it.is_foreign() || !it.has_ceiling() {
            return pthread_mutex_getprioceiling(mutex, ceiling);
        }
        ceiling.write(it.ceiling().load(Relaxed).into());
    }
    0
}

/// Locks the mutex for the change, as POSIX says, whatever the caller's priority is.
#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_mutex_setprioceiling(
    mutex: *mut pthread_mutex_t,
    ceiling: c_int,
    old: *mut c_int,
) -> c_int {
    // SAFETY: the caller's mutex and place.
    unsafe {
        let it = mutex::of(mutex);
        if it.is_foreign() || !it.has_ceiling() {
            return pthread_mutex_setprioceiling(mutex, ceiling, old);
        }
        if !PRIORITIES.contains(&ceiling) {
            return libc::EINVAL;
        }
        it.change(|| {
            let before = it.ceiling().swap(ceiling as i16, Relaxed);
            if !old.is_null() {
                old.write(before.into());
            }
        })
    }
}
