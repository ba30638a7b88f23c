//! Waiting for signals, and the one that a write may raise.
//!
//! A thread waits for its own pending signals and, by a signalfd, for those that were sent to the
//! process and that all of the program's kernel threads have blocked. In `sigsuspend` and `pause`
//! these are the signals that its mask of the time lets through; their handlers run in the thread
//! that waits.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::mem;
use core::ptr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use heddle::raw::{self, Interest};
use libc::{siginfo_t, signalfd_siginfo, sigset_t, timespec};

use super::{Result, Stop, checked, exported, made_int, mask};
use crate::errno;
use crate::threads::signals::{self, Ran, Then};
use crate::threads::{self, Pthread};

/// A write or send that failed for want of a reader raises `SIGPIPE` in the thread that made it.
/// The kernel has sent it to the worker, if at all, which has it blocked.
pub fn broken_pipe(stop: &Stop) {
    if *stop != Stop::Error(libc::EPIPE) {
        return;
    }
    let at_once = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid set and time. The worker is rid of it.
    errno::kept(|| unsafe {
        libc::sigtimedwait(&mask::set_of(signals::bit(libc::SIGPIPE)), ptr::null_mut(), &at_once)
    });
    signals::send_to_own(libc::SIGPIPE);
}

/// A descriptor that tells of the process's pending `signals`.
fn signal_fd(signals: u64) -> Result<OwnedFd> {
    let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
    // SAFETY: a valid set.
    let fd = checked(unsafe { libc::signalfd(-1, &mask::set_of(signals), flags) } as isize)?;
    // SAFETY: made here.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// Takes one of the process's pending signals.
fn take_of_process(fd: &OwnedFd) -> Option<siginfo_t> {
    // SAFETY: all zero bytes are valid, and the kernel overwrites them.
    let mut taken: signalfd_siginfo = unsafe { mem::zeroed() };
    let room = size_of::<signalfd_siginfo>();
    // SAFETY: a valid place.
    let got = errno::kept(|| unsafe { libc::read(fd.as_raw_fd(), (&raw mut taken).cast(), room) });
    (got == room as isize).then(|| signals::info_of_taken(&taken))
}

/// Waits until one of `signals` is pending, for the thread or the process, and takes it.
fn wait_for(me: &'static Pthread, signals: u64, deadline: u64) -> Result<siginfo_t> {
    let fd = signal_fd(signals)?;
    loop {
        if let Some(signal) = me.signals().take(signals) {
            return Ok(signals::info_of(signal));
        }
        if let Some(info) = take_of_process(&fd) {
            return Ok(info);
        }
        match raw::wait_ready(fd.as_raw_fd(), Interest::Read, deadline).map_err(Stop::from) {
            Ok(()) => {}
            Err(Stop::Error(libc::ETIMEDOUT)) => return Err(Stop::Error(libc::EAGAIN)),
            Err(Stop::Cancelled)
                if me.signals().pending() & signals != 0 && !raw::is_cancelled() =>
            {
                raw::answer_call();
            }
            Err(Stop::Cancelled) => match signals::interrupted() {
                Then::End => return Err(Stop::Cancelled),
                Then::Fail | Then::Restart => return Err(Stop::Error(libc::EINTR)),
                Then::GoOn => {}
            },
            Err(other) => return Err(other),
        }
    }
}

/// Waits until a handler has run, with `blocked` as the thread's mask.
fn suspend(me: &'static Pthread, blocked: u64) -> Result<isize> {
    let before = me.signals().blocked();
    me.signals().block_only(blocked);
    let ended = wait_for_handler(me, !blocked);
    me.signals().block_only(before);
    ended
}

fn wait_for_handler(me: &'static Pthread, signals: u64) -> Result<isize> {
    let fd = signal_fd(signals)?;
    loop {
        if let Some(info) = take_of_process(&fd) {
            signals::send_to_own(info.si_signo);
            return Err(Stop::Error(libc::EINTR));
        }
        if signals::deliver(me) != Ran::Nothing {
            return Err(Stop::Error(libc::EINTR));
        }
        match raw::wait_ready(fd.as_raw_fd(), Interest::Read, 0).map_err(Stop::from) {
            Ok(()) => {}
            Err(Stop::Cancelled) if raw::is_cancelled() => return Err(Stop::Cancelled),
            // Called: the next turn looks why.
            Err(Stop::Cancelled) => {}
            Err(other) => return Err(other),
        }
    }
}

/// The calling thread; callers are full threads.
fn me() -> Result<&'static Pthread> {
    threads::this().ok_or(Stop::Error(libc::ENOSYS))
}

/// Waits for one of `set` and tells what it was.
///
/// # Safety
/// 1. `set` is valid, `info` null or a place.
unsafe fn wait(set: *const sigset_t, info: *mut siginfo_t, deadline: u64) -> Result<isize> {
    // SAFETY: by 1.
    let taken = wait_for(me()?, mask::bits(unsafe { &*set }), deadline)?;
    if !info.is_null() {
        // SAFETY: by 1.
        unsafe { info.write(taken) };
    }
    Ok(taken.si_signo as isize)
}

exported! {
    (heddle_user_sigwait) (set: *const sigset_t, signal: *mut c_int) -> c_int {
        let before = errno::get();
        loop {
            // SAFETY: the caller's set.
            let got = made_int(|| unsafe { wait(set, ptr::null_mut(), 0) });
            let error = errno::get();
            errno::set(before);
            if got > 0 {
                // SAFETY: the caller's place.
                unsafe { signal.write(got) };
                return 0;
            }
            if error != libc::EINTR {
                return error;
            }
        }
    }

    (heddle_user_sigwaitinfo) (set: *const sigset_t, info: *mut siginfo_t) -> c_int {
        // SAFETY: the caller's set, null or its place.
        made_int(|| unsafe { wait(set, info, 0) })
    }

    (heddle_user_sigtimedwait) (
        set: *const sigset_t, info: *mut siginfo_t, timeout: *const timespec
    ) -> c_int {
        made_int(|| {
            // SAFETY: null or the caller's timeout.
            let deadline = match unsafe { timeout.as_ref() } {
                None => 0,
                Some(time) => {
                    let ns = u64::try_from(super::sleep::ns_of(time)?).unwrap_or(u64::MAX);
                    raw::now_ns().saturating_add(ns)
                }
            };
            // SAFETY: the caller's set, null or its place.
            unsafe { wait(set, info, deadline) }
        })
    }

    (heddle_user_sigsuspend) (mask: *const sigset_t) -> c_int {
        // SAFETY: the caller's mask.
        made_int(|| suspend(me()?, mask::bits(unsafe { &*mask })))
    }

    (heddle_user_pause) () -> c_int {
        made_int(|| {
            let me = me()?;
            suspend(me, me.signals().blocked())
        })
    }
}
