//! The sleep family.
//!
//! Light threads sleep by their worker's timers. Kernel threads that a request may reach sleep in
//! `ppoll` with the eventfd of their cancellation; the others in the C library's own call. On
//! kernel threads a signal handler ends the sleep.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid or null where that is allowed.

use core::ffi::{c_int, c_uint};
use core::ptr;

use heddle::raw::{self, Outcome};
use libc::{clockid_t, timespec};

use crate::stop::{self, Stop};
use crate::{cancel, carried, clock, current, io};

const NS: i128 = 1_000_000_000;

fn is_valid(time: &timespec) -> bool {
    time.tv_sec >= 0 && (0..NS as i64).contains(&time.tv_nsec)
}

/// Sleeps until `at` (ns) of `clock`.
///
/// # Errors
/// `EINTR` on kernel threads.
fn sleep_until(clock: clockid_t, at: i128) -> Result<(), Stop> {
    cancel::check()?;
    carried::across(|| {
        loop {
            let left = at - clock::now(clock);
            if left <= 0 {
                return Ok(());
            }
            let deadline = i128::from(raw::now_ns()) + left;
            sleep_once(u64::try_from(deadline).unwrap_or(u64::MAX))?;
        }
    })
}

fn sleep_once(deadline: u64) -> Result<(), Stop> {
    if heddle::thread::is_user_level() {
        return match raw::sleep_until(deadline) {
            Outcome::Cancelled => Err(Stop::Cancelled),
            _ => Ok(()),
        };
    }
    if current::known().is_some() {
        return io::wait_in_kernel(&mut [io::NO_FD], deadline).map(drop);
    }
    let at = timespec {
        tv_sec: (deadline / NS as u64).min(i64::MAX as u64) as i64,
        tv_nsec: (deadline % NS as u64) as i64,
    };
    // SAFETY: a valid moment.
    let error = unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &at, ptr::null_mut())
    };
    if error == 0 { Ok(()) } else { Err(Stop::Error(error)) }
}

/// Sleeps for `duration` ns; what remains when it is interrupted.
fn sleep_for(duration: i128) -> (Result<(), Stop>, i128) {
    let end = clock::now(libc::CLOCK_MONOTONIC) + duration;
    let result = sleep_until(libc::CLOCK_MONOTONIC, end);
    (result, (end - clock::now(libc::CLOCK_MONOTONIC)).max(0))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_sleep(seconds: c_uint) -> c_uint {
    let (result, left) = sleep_for(i128::from(seconds) * NS);
    match result {
        Ok(()) => 0,
        Err(Stop::Cancelled) => cancel::act(),
        // Rounded as the C library does: a second that has begun counts.
        Err(Stop::Error(_)) => ((left + NS / 2) / NS) as c_uint,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_usleep(microseconds: c_uint) -> c_int {
    stop::flag(sleep_for(i128::from(microseconds) * 1000).0)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_nanosleep(
    duration: *const timespec,
    remaining: *mut timespec,
) -> c_int {
    // SAFETY: passed on.
    let error = unsafe { heddle_clock_nanosleep(libc::CLOCK_MONOTONIC, 0, duration, remaining) };
    stop::flag(if error == 0 { Ok(()) } else { Err(Stop::Error(error)) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    remaining: *mut timespec,
) -> c_int {
    // SAFETY: the caller's time.
    let time = unsafe { &*time };
    let known =
        [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME, libc::CLOCK_TAI];
    if !known.contains(&clock) || !is_valid(time) {
        return libc::EINVAL;
    }
    if flags & libc::TIMER_ABSTIME != 0 {
        return stop::number(sleep_until(clock, clock::ns(time)));
    }
    // A duration is one on any clock that can't be set.
    let (result, left) = sleep_for(clock::ns(time));
    if result == Err(Stop::Error(libc::EINTR)) && !remaining.is_null() {
        let left = timespec { tv_sec: (left / NS) as i64, tv_nsec: (left % NS) as i64 };
        // SAFETY: the caller's place.
        unsafe { remaining.write(left) };
    }
    stop::number(result)
}
