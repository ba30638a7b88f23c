//! The CPU time of a full thread, as POSIX's clocks and `getrusage` tell it.
//!
//! The kernel's clock of a thread would be that of the worker, with all that ran on it. Told is the
//! runtime's account (its `cpu.rs`): of the caller up to now, of another thread up to the monitor's
//! last look at it. What `getrusage` says is all CPU time of the user's.
//!
//! Invariant: what is told of a thread never goes back, though the account may, where the kernel
//! has said that a stint was less than its time by the clock.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;

use heddle::raw;
use libc::{clockid_t, pthread_t, rusage, timespec, timeval};

use crate::threads::{self, Pthread, fork, signals};
use crate::{errno, me};

const NS: u64 = 1_000_000_000;
/// The lower bits of the kernel's name for a thread's clock of CPU time; above them is the thread's
/// number, inverted.
const OF_THREAD: clockid_t = 0b110;
const BITS: u32 = 3;
/// Set in what stands for the number of a full thread, above all numbers that the kernel gives.
const FULL: u32 = 1 << 27;

/// The number of the full thread whose clock this is; `None`: it is the kernel's.
fn number_of(clock: clockid_t) -> Option<u32> {
    if clock >= 0 {
        let is_own = clock == libc::CLOCK_THREAD_CPUTIME_ID && me().is_some();
        return is_own.then_some(0);
    }
    let marked = !(clock >> BITS) as u32;
    let is_full = clock & !(-1 << BITS) == OF_THREAD && marked & FULL != 0;
    is_full.then(|| threads::number_of_slot(marked & !FULL))
}

/// Whether it is the clock of a full thread: no timer goes by it.
pub fn is_of_full(clock: clockid_t) -> bool {
    number_of(clock).is_some()
}

/// What the thread has used, ns.
fn used_by(thread: &Pthread) -> u64 {
    let is_own = threads::this().is_some_and(|me| core::ptr::eq(me, thread));
    let now = if is_own { raw::own_cpu_ns() } else { raw::cpu_ns_of(thread.slot()) };
    thread.tell_cpu_ns(now)
}

fn fail(number: c_int) -> c_int {
    errno::set(number);
    -1
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_clock_gettime(
    clock: clockid_t,
    place: *mut timespec,
) -> c_int {
    let Some(number) = number_of(clock) else {
        // SAFETY: the caller's place.
        return unsafe { libc::clock_gettime(clock, place) };
    };
    let Some(ns) = threads::with_number(number, used_by) else { return fail(libc::EINVAL) };
    let now = timespec { tv_sec: (ns / NS) as i64, tv_nsec: (ns % NS) as i64 };
    // SAFETY: as above.
    unsafe { place.write(now) };
    signals::answer_unless_others_allocate();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_clock_getres(clock: clockid_t, place: *mut timespec) -> c_int {
    // All clocks of CPU time have the same.
    let clock = if is_of_full(clock) { libc::CLOCK_THREAD_CPUTIME_ID } else { clock };
    // SAFETY: null or the caller's place.
    unsafe { libc::clock_getres(clock, place) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_getcpuclockid(
    thread: pthread_t,
    place: *mut clockid_t,
) -> c_int {
    // SAFETY: the caller names a living thread, or one that is not joined yet.
    let Some(full) = (unsafe { threads::find(thread) }) else {
        // SAFETY: the caller's thread and place.
        return unsafe { libc::pthread_getcpuclockid(thread, place) };
    };
    if full.has_ended() {
        return libc::ESRCH;
    }
    let clock = match fork::is_child_of(full) {
        // The one thread of its process, and the caller.
        true => libc::CLOCK_THREAD_CPUTIME_ID,
        false => (!(full.slot() | FULL) << BITS) as clockid_t | OF_THREAD,
    };
    // SAFETY: the caller's place.
    unsafe { place.write(clock) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_getrusage(who: c_int, place: *mut rusage) -> c_int {
    // SAFETY: the caller's place.
    let result = unsafe { libc::getrusage(who, place) };
    if who != libc::RUSAGE_THREAD || result != 0 {
        return result;
    }
    // A forked child's thread is the kernel's.
    let Some(me) = threads::this().filter(|_| me().is_some()) else { return result };
    let us = used_by(me) / 1000;
    let time = timeval { tv_sec: (us / 1_000_000) as i64, tv_usec: (us % 1_000_000) as i64 };
    // SAFETY: all zero bytes are a valid `rusage`.
    let mut told: rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel has filled the caller's place.
    unsafe {
        told.ru_utime = time;
        told.ru_maxrss = (*place).ru_maxrss;
        place.write(told);
    }
    signals::answer_unless_others_allocate();
    0
}
