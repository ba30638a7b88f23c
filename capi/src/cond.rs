//! Condition variables.
//!
//! Protocol: a waiter enters the queue, then gives the mutex up, both under the queue's lock; so
//! whoever takes the mutex afterwards and signals finds it there. It takes the mutex again
//! whatever ended the wait, before a cancellation unwinds. A waiter that was popped by a signal
//! is not cancelled, and a cancelled one was not popped: no signal is lost.
//!
//! A woken waiter does not touch the variable again, so it may be destroyed after a broadcast.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and point to initialised objects
//! except where the function initialises them; the waits are called with the mutex held.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw::{self, Outcome, WaitQueue};
use libc::{clockid_t, timespec};

use crate::clock::Until;
use crate::mutex::{Mutex, only_zero};
use crate::stop::{self, Stop};
use crate::{cancel, carried, exit};

/// `heddle_cond_t` of the header.
#[repr(C)]
pub struct Cond {
    /// Clock of timed waits: CLOCK_REALTIME is 0.
    clock: AtomicU32,
    unused: u32,
    queue: WaitQueue,
    reserved: usize,
}

const _: () = assert!(size_of::<Cond>() == 40);

fn wait(cond: &Cond, mutex: &Mutex, until: Until) -> Result<(), Stop> {
    if mutex.is_foreign() {
        return Err(Stop::Error(libc::EPERM));
    }
    match carried::across(|| wait_in_queue(cond, mutex, until)) {
        Outcome::Woken => Ok(()),
        Outcome::TimedOut => Err(Stop::Error(libc::ETIMEDOUT)),
        Outcome::Cancelled => Err(Stop::Cancelled),
    }
}

fn wait_in_queue(cond: &Cond, mutex: &Mutex, until: Until) -> Outcome {
    if cancel::check().is_err() {
        return Outcome::Cancelled;
    }
    let deadline = until.deadline();
    let me = raw::current();
    let queue = cond.queue.lock();
    queue.enqueue(me);
    let count = mutex.unlock_all();
    let outcome = raw::wait_cancellable(queue, me, deadline);
    mutex.lock_again(count);
    if outcome == Outcome::TimedOut && !until.is_over() {
        // The clock was set back. POSIX lets a wait end early, but not call that a timeout.
        return Outcome::Woken;
    }
    outcome
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_cond_wait(cond: *const Cond, mutex: *const Mutex) -> c_int {
    // SAFETY: the caller's objects.
    stop::number(unsafe { wait(&*cond, &*mutex, Until::Forever) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_cond_timedwait(
    cond: *const Cond,
    mutex: *const Mutex,
    at: *const timespec,
) -> c_int {
    // SAFETY: passed on.
    unsafe {
        let clock = (*cond).clock.load(Relaxed) as clockid_t;
        heddle_cond_clockwait(cond, mutex, clock, at)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_cond_clockwait(
    cond: *const Cond,
    mutex: *const Mutex,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's objects and moment.
    let (cond, mutex, at) = unsafe { (&*cond, &*mutex, &*at) };
    stop::number(Until::new(clock, at).and_then(|until| wait(cond, mutex, until)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_cond_signal(cond: *const Cond) -> c_int {
    // SAFETY: the caller's variable.
    unsafe { (*cond).queue.wake_one() };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_cond_broadcast(cond: *const Cond) -> c_int {
    // SAFETY: the caller's variable.
    let batch = unsafe { (*cond).queue.lock().take_all() };
    exit::wake_all(batch);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_cond_init(cond: *mut Cond, attr: *const u32) -> c_int {
    // SAFETY: null or the caller's attributes; then the caller's place.
    unsafe {
        let clock = attr.as_ref().copied().unwrap_or(libc::CLOCK_REALTIME as u32);
        cond.write(Cond {
            clock: AtomicU32::new(clock),
            unused: 0,
            queue: WaitQueue::new(),
            reserved: 0,
        });
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_cond_destroy(cond: *const Cond) -> c_int {
    // SAFETY: the caller's variable.
    if unsafe { (*cond).queue.lock().is_empty() } { 0 } else { libc::EBUSY }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_condattr_init(attr: *mut u32) -> c_int {
    // SAFETY: the caller's place.
    unsafe { attr.write(libc::CLOCK_REALTIME as u32) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn heddle_condattr_destroy(_: *mut u32) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_condattr_setclock(attr: *mut u32, clock: clockid_t) -> c_int {
    if clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
        return libc::EINVAL;
    }
    // SAFETY: the caller's attributes.
    unsafe { attr.write(clock as u32) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_condattr_getclock(attr: *const u32, clock: *mut clockid_t) -> c_int {
    // SAFETY: the caller's attributes and place.
    unsafe { clock.write(*attr as clockid_t) };
    0
}

only_zero! { heddle_condattr_setpshared, heddle_condattr_getpshared; }
