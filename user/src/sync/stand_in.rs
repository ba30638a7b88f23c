//! Waits for a condition variable that is shared with other processes, by who holds a mutex that is
//! not.
//!
//! The C library waits, and would give the mutex up and take it again by itself, as one of its own:
//! who waits for it in the lot would never hear of that, and who unlocks it here never of the C
//! library's waiters. So the C library gets a mutex of its own that stands in for it.
//!
//! Protocol:
//! 1. A waiter locks the stand-in, gives its mutex up, and waits with the stand-in. The C library
//!    counts it among the waiters before it unlocks that.
//! 2. Who signals in this process locks the stand-in meanwhile. So a signal that is sent after the
//!    mutex was given up finds the waiter.
//!
//! Other processes cannot hold the mutex: their signals come at any moment, natively, too.
//!
//! Invariant: nobody holds a stand-in while it waits for anything but the C library's own locks.
//! So which variables share one, by their addresses, is all the same. (But for a handler that comes
//! when the C library has taken the stand-in again and has not returned yet.)
//!
//! Not here: the cancellation of a kernel thread in such a wait, which is acted on before the wait;
//! and a variable that a process has at two addresses, and waits for by one, and signals by the
//! other.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;
use libc::{PTHREAD_MUTEX_INITIALIZER, pthread_cond_t, pthread_mutex_t};

use super::{mutex, theirs};
use crate::real;
use crate::threads::{cancel, signals};

const COUNT: usize = 64;
/// Variables are at least as far apart.
const COND_BYTES: usize = size_of::<pthread_cond_t>();

struct StandIn(UnsafeCell<pthread_mutex_t>);

// SAFETY: a mutex is there for being used by many.
unsafe impl Sync for StandIn {}

static ALL: [StandIn; COUNT] =
    [const { StandIn(UnsafeCell::new(PTHREAD_MUTEX_INITIALIZER)) }; COUNT];

/// Somebody has waited so. Who signals after that by the mutex's order sees it by that.
static ARE_USED: AtomicBool = AtomicBool::new(false);

fn of(cond: *mut pthread_cond_t) -> *mut pthread_mutex_t {
    ALL[cond.addr() / COND_BYTES % COUNT].0.get()
}

fn lock(stand_in: *mut pthread_mutex_t) {
    // SAFETY: one of ours, of a type without errors. No handler of the program's runs meanwhile.
    unsafe { libc::pthread_mutex_lock(stand_in) };
}

fn unlock(stand_in: *mut pthread_mutex_t) {
    // SAFETY: as above; the caller has locked it.
    unsafe { libc::pthread_mutex_unlock(stand_in) };
}

/// Makes the C library's wait `call` for `cond` with a mutex that it can give up and take again:
/// `mutex`, or what stands in for it.
///
/// # Safety
/// 1. The variable and the mutex are valid, and the caller holds the mutex.
pub unsafe fn wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    call: impl FnOnce(*mut pthread_mutex_t) -> c_int,
) -> c_int {
    // SAFETY: by 1.
    if unsafe { mutex::of(mutex) }.is_foreign() {
        return theirs(|| call(mutex));
    }
    if crate::me().is_some() {
        // SAFETY: by 1.
        return unsafe { wait_with(of(cond), mutex, call) };
    }
    // SAFETY: by 1.
    unsafe {
        real::pthread_testcancel();
        cancel::disabled(|| wait_with(of(cond), mutex, call))
    }
}

/// # Safety
/// As of [`wait`]; and the mutex is this library's.
unsafe fn wait_with(
    stand_in: *mut pthread_mutex_t,
    mutex: *mut pthread_mutex_t,
    call: impl FnOnce(*mut pthread_mutex_t) -> c_int,
) -> c_int {
    ARE_USED.store(true, Relaxed);
    lock(stand_in);
    // SAFETY: passed on.
    let released = match unsafe { mutex::give_up(mutex) } {
        Ok(released) => released,
        Err(error) => {
            unlock(stand_in);
            return error;
        }
    };
    let result = match crate::me() {
        None => call(stand_in),
        Some(_) => raw::answering(|| call(stand_in)),
    };
    unlock(stand_in);
    if crate::me().is_some() {
        // What came just before or behind it.
        signals::answer_if_called();
    }
    match mutex::retake(&released) {
        0 => result,
        error => error,
    }
}

/// Makes `call`, which signals `cond`: step 2.
pub fn signal(cond: *mut pthread_cond_t, call: impl FnOnce() -> c_int) -> c_int {
    if !ARE_USED.load(Relaxed) {
        return call();
    }
    let stand_in = of(cond);
    lock(stand_in);
    let result = call();
    unlock(stand_in);
    result
}

/// In a child, which has one thread: others of the parent may have held some.
pub fn in_child() {
    if ARE_USED.load(Relaxed) {
        for stand_in in &ALL {
            // SAFETY: nobody else is there to use it.
            unsafe { stand_in.0.get().write(PTHREAD_MUTEX_INITIALIZER) };
        }
    }
}
