//! Waiting for signals, and the one that a write may raise.
//!
//! Workers and the blocking pool have all signals blocked, so a wait for a signal on a kernel
//! thread of the pool takes one that was sent to the process and that the program's other kernel
//! threads have blocked.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::ptr;

use libc::{siginfo_t, sigset_t, timespec};

use super::{Stop, away, elsewhere, exported, made_int};

/// A write or send that failed for want of a reader raises `SIGPIPE`, unless that is ignored.
///
/// Sent to the process: the kernel would have sent it to the worker, which has it blocked.
pub fn broken_pipe(stop: &Stop) {
    if *stop != Stop::Error(libc::EPIPE) {
        return;
    }
    // SAFETY: all zero bytes are a valid action, which the call overwrites.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: a valid place.
    let failed = unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), &mut action) } != 0;
    if !failed && action.sa_sigaction != libc::SIG_IGN {
        // SAFETY: no pointers.
        unsafe { libc::kill(libc::getpid(), libc::SIGPIPE) };
    }
}

exported! {
    (heddle_user_sigwait) (set: *const sigset_t, signal: *mut c_int) -> c_int {
        let mut result = 0;
        made_int(|| {
            // SAFETY: the caller's set and place.
            result = away(|| unsafe { libc::sigwait(set, signal) });
            Ok(0)
        });
        result
    }

    (heddle_user_sigwaitinfo) (set: *const sigset_t, info: *mut siginfo_t) -> c_int {
        // SAFETY: the caller's set, null or its place.
        made_int(|| elsewhere(move || unsafe { libc::sigwaitinfo(set, info) as isize }))
    }

    (heddle_user_sigtimedwait) (
        set: *const sigset_t, info: *mut siginfo_t, timeout: *const timespec
    ) -> c_int {
        // SAFETY: the caller's set, null or its place and timeout.
        made_int(|| elsewhere(move || unsafe { libc::sigtimedwait(set, info, timeout) as isize }))
    }

    (heddle_user_sigsuspend) (mask: *const sigset_t) -> c_int {
        // SAFETY: the caller's mask.
        made_int(|| elsewhere(move || unsafe { libc::sigsuspend(mask) as isize }))
    }
}
