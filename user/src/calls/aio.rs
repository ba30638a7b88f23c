//! Waits for asynchronous input and output: `aio_suspend`, and `lio_listio` with `LIO_WAIT`.
//!
//! The C library's kernel threads read and write; what waits for them is one of the blocking pool.
//! Handlers interrupt both; `aio_suspend` is a point of cancellation, and `lio_listio` none.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::ptr;
use core::slice;
use core::time::Duration;
use std::time::Instant;

use libc::{LIO_NOP, LIO_NOWAIT, LIO_WAIT, aiocb, sigevent, timespec};

use super::{Result, Stop, away_for_long, checked, exported, interruptible, made_int};
use crate::errno;
use crate::threads::cancel;

const NO_TIME: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

fn left_until(deadline: Instant) -> timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
}

/// When it is over; `None`: never.
fn deadline_of(timeout: &timespec) -> Option<Instant> {
    let seconds = Duration::from_secs(timeout.tv_sec.max(0) as u64);
    Instant::now().checked_add(seconds + Duration::from_nanos(timeout.tv_nsec.max(0) as u64))
}

/// Waits until one of them is done. `timeout`: null, or for how long.
///
/// # Safety
/// 1. As for `aio_suspend`.
unsafe fn suspend(
    list: *const *const aiocb,
    count: c_int,
    timeout: *const timespec,
) -> Result<isize> {
    // SAFETY: by 1.
    let call = |time: *const timespec| unsafe { libc::aio_suspend(list, count, time) as isize };
    // What is done already is found without leaving the worker.
    match checked(call(&NO_TIME)) {
        Err(Stop::Error(libc::EAGAIN | libc::EINTR)) => {}
        told => return told,
    }
    // SAFETY: by 1.
    match unsafe { timeout.as_ref() } {
        None => interruptible(false, || call(ptr::null())),
        // The kernel restarts no such wait that has an end.
        Some(timeout) => {
            let deadline = deadline_of(timeout);
            interruptible(true, || match deadline {
                Some(deadline) => call(&left_until(deadline)),
                None => call(ptr::null()),
            })
        }
    }
}

/// Waits until `request` is done, also where the caller is cancelled meanwhile.
///
/// # Safety
/// 1. It was given to the C library.
unsafe fn wait_for(request: *const aiocb) -> Result<isize> {
    // SAFETY: by 1.
    match unsafe { suspend(&request, 1, ptr::null()) } {
        Err(Stop::Cancelled) => {
            // SAFETY: by 1.
            away_for_long(|| unsafe { libc::aio_suspend(&request, 1, ptr::null()) });
            Ok(0)
        }
        told => told,
    }
}

/// `lio_listio` with `LIO_WAIT`, by one that does not wait: a wait that was called for nothing must
/// not ask for everything once more.
///
/// # Safety
/// 1. As for `lio_listio`.
unsafe fn list_and_wait(list: *const *mut aiocb, count: c_int) -> Result<isize> {
    // SAFETY: by 1.
    let asked =
        checked(unsafe { libc::lio_listio(LIO_NOWAIT, list, count, ptr::null_mut()) as isize });
    if count <= 0 {
        return asked;
    }
    // SAFETY: by 1.
    let all = unsafe { slice::from_raw_parts(list, count as usize) };
    // SAFETY: by 1.
    let is_one =
        |it: &&*mut aiocb| unsafe { it.as_ref() }.is_some_and(|it| it.aio_lio_opcode != LIO_NOP);
    // SAFETY: by 1.
    let error_of = |it: &*mut aiocb| unsafe { libc::aio_error(*it) };
    let goes_on = |it: &*mut aiocb| error_of(it) == libc::EINPROGRESS;
    if asked == Err(Stop::Error(libc::EAGAIN)) && !all.iter().filter(is_one).any(goes_on) {
        return asked;
    }
    // Any other error is of one of the requests, and `errno` is not set for that.
    for request in all.iter().filter(is_one) {
        while goes_on(request) {
            // SAFETY: by 1.
            unsafe { wait_for(*request)? };
        }
    }
    let failed = asked.is_err() || all.iter().filter(is_one).any(|it| error_of(it) != 0);
    if failed { Err(Stop::Error(libc::EIO)) } else { Ok(0) }
}

exported! {
    (heddle_user_aio_suspend, heddle_user_aio_suspend64) (
        list: *const *const aiocb, count: c_int, timeout: *const timespec
    ) -> c_int {
        // SAFETY: the caller's arguments.
        made_int(|| unsafe { suspend(list, count, timeout) })
    }

    (heddle_user_lio_listio, heddle_user_lio_listio64) (
        mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut sigevent
    ) -> c_int {
        if mode != LIO_WAIT {
            // SAFETY: the caller's arguments.
            return unsafe { libc::lio_listio(mode, list, count, event) };
        }
        let before = errno::get();
        // SAFETY: as above.
        let result = unsafe { list_and_wait(list, count) };
        errno::set(match result {
            Err(Stop::Error(number)) => number,
            _ => before,
        });
        // Of the asynchronous type it may have been cancelled meanwhile.
        cancel::act_if_asynchronous();
        if result.is_ok() { 0 } else { -1 }
    }
}
