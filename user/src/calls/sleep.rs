//! The sleep family: by the worker's timers.
//!
//! A handler that runs while a thread sleeps ends its sleep.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, or lead to no memory.

use core::ffi::{c_int, c_uint};

use heddle::raw::{self, Outcome};
use libc::{clockid_t, timespec};

use super::{Result, Stop, checked, exported, interruptible, made_int, resumed};
use crate::errno;
use crate::sys::own_memory;

const NS: i128 = 1_000_000_000;

/// A duration or moment in ns.
pub fn ns_of(time: &timespec) -> Result<i128> {
    if time.tv_sec < 0 || !(0..NS as i64).contains(&time.tv_nsec) {
        return Err(Stop::Error(libc::EINVAL));
    }
    Ok(i128::from(time.tv_sec) * NS + i128::from(time.tv_nsec))
}

fn now(clock: clockid_t) -> Result<i128> {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the result.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return Err(Stop::Error(libc::EINVAL));
    }
    ns_of(&time)
}

/// Waits until `deadline` (ns, 0 = never) of the runtime's clock.
pub fn until(deadline: u64) -> Result<()> {
    loop {
        match raw::sleep_until(deadline) {
            Outcome::Cancelled => resumed(Stop::Cancelled, true)?,
            Outcome::Woken | Outcome::TimedOut => return Ok(()),
        }
    }
}

fn sleep_for(ns: i128) -> Result<isize> {
    let deadline = i128::from(raw::now_ns()) + ns;
    until(u64::try_from(deadline).unwrap_or(u64::MAX)).map(|()| 0)
}

/// What is at the caller's `place`.
fn read(place: *const timespec) -> Result<timespec> {
    own_memory::read(place).map_err(Stop::Error)
}

/// What a sleep has ended with; when a handler has ended it, `place` has what was `left`.
fn telling(result: Result<isize>, left: &timespec, place: *mut timespec) -> Result<isize> {
    if result == Err(Stop::Error(libc::EINTR)) && !place.is_null() {
        own_memory::write(place, *left).map_err(Stop::Error)?;
    }
    result
}

/// As [`sleep_for`]; when a handler has ended it, `left` has what is left.
fn sleep_telling(time: &timespec, left: *mut timespec) -> Result<isize> {
    let ns = ns_of(time)?;
    let end = i128::from(raw::now_ns()) + ns;
    let result = sleep_for(ns);
    let ns = (end - i128::from(raw::now_ns())).max(0);
    telling(result, &timespec { tv_sec: (ns / NS) as i64, tv_nsec: (ns % NS) as i64 }, left)
}

/// Sleeps until `at` (ns) of `clock`; looks again at clocks that can be set.
fn sleep_until(clock: clockid_t, at: i128) -> Result<isize> {
    loop {
        let left = at - now(clock)?;
        if left <= 0 {
            return Ok(0);
        }
        sleep_for(left)?;
    }
}

/// By another clock: of CPU time, or one that the kernel says no to.
fn clock_sleep_elsewhere(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    place: *mut timespec,
) -> Result<isize> {
    let sleep = |time: *const timespec, left: *mut timespec| {
        // SAFETY: the kernel looks at them.
        match unsafe { libc::clock_nanosleep(clock, flags, time, left) } {
            0 => 0,
            error => {
                errno::set(error);
                -1
            }
        }
    };
    let Ok(mut time) = read(time) else {
        // It may say that of the clock first.
        return checked(sleep(time, place));
    };
    let mut left = time;
    // Called for nothing, it goes on with what is left.
    let result = interruptible(true, || {
        let result = sleep(&time, &mut left);
        time = left;
        result
    });
    let place = if flags & libc::TIMER_ABSTIME == 0 { place } else { core::ptr::null_mut() };
    telling(result, &left, place)
}

fn clock_sleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> Result<isize> {
    let known =
        [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME, libc::CLOCK_TAI];
    if !known.contains(&clock) {
        return clock_sleep_elsewhere(clock, flags, time, left);
    }
    let time = &read(time)?;
    let ns = ns_of(time)?;
    if flags & libc::TIMER_ABSTIME != 0 {
        sleep_until(clock, ns)
    } else {
        sleep_telling(time, left)
    }
}

exported! {
    (heddle_user_sleep) (seconds: c_uint) -> c_uint {
        let mut left = timespec { tv_sec: 0, tv_nsec: 0 };
        let time = timespec { tv_sec: seconds.into(), tv_nsec: 0 };
        // Whole seconds are told, as the C library does it.
        match errno::kept(|| made_int(|| sleep_telling(&time, &mut left))) {
            0 => 0,
            _ => {
                errno::set(libc::EINTR);
                left.tv_sec as c_uint
            }
        }
    }

    (heddle_user_usleep) (microseconds: c_uint) -> c_int {
        made_int(|| sleep_for(i128::from(microseconds) * 1000))
    }

    (heddle_user_nanosleep, heddle_user___nanosleep) (
        duration: *const timespec, remaining: *mut timespec
    ) -> c_int {
        made_int(|| sleep_telling(&read(duration)?, remaining))
    }

    (heddle_user_thrd_sleep) (duration: *const timespec, remaining: *mut timespec) -> c_int {
        errno::kept(|| {
            match made_int(|| sleep_telling(&read(duration)?, remaining)) {
                0 => 0,
                // That a signal came, or another error.
                _ if errno::get() == libc::EINTR => -1,
                _ => -2,
            }
        })
    }

    (heddle_user_clock_nanosleep) (
        clock: clockid_t, flags: c_int, time: *const timespec, remaining: *mut timespec
    ) -> c_int {
        let before = errno::get();
        match made_int(|| clock_sleep(clock, flags, time, remaining)) {
            0 => 0,
            _ => {
                // It returns its error.
                let error = errno::get();
                errno::set(before);
                error
            }
        }
    }
}
