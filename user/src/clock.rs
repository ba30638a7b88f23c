//! Moments of POSIX clocks, as the parking lot takes them.

use core::ffi::c_int;

use heddle::raw::Moment;
use libc::{clockid_t, timespec};

const NS: u64 = 1_000_000_000;

/// Whether the part below a second is one.
pub fn is_valid(at: &timespec) -> bool {
    (0..NS as i64).contains(&at.tv_nsec)
}

/// The moment `at` of `clock`.
///
/// # Errors
/// `EINVAL` when it is not a clock to wait by, or no moment.
pub fn moment(clock: clockid_t, at: &timespec) -> Result<Moment, c_int> {
    if !is_valid(at) {
        return Err(libc::EINVAL);
    }
    let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
    let ns = seconds.saturating_mul(NS).saturating_add(at.tv_nsec as u64);
    match clock {
        libc::CLOCK_REALTIME => Ok(Moment::Realtime(ns)),
        libc::CLOCK_MONOTONIC => Ok(Moment::Monotonic(ns)),
        _ => Err(libc::EINVAL),
    }
}
