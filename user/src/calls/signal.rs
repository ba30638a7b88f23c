//! Waiting for signals, and the one that a write may raise.
//!
//! A thread waits for its own pending signals and for those that were sent to the process
//! (`threads/signals/process.rs`). In `sigsuspend` and `pause` these are the signals that its mask
//! of the time lets through; their handlers run in the thread that waits.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::ptr;

use heddle::raw::{self, Outcome};
use libc::{siginfo_t, sigset_t, timespec};

use super::{Result, Stop, exported, made_int, mask, sockets};
use crate::sys::own_memory;
use crate::threads::signals::{self, Masked, Ran, SI_TKILL, Then, stray};
use crate::threads::{self, Pthread};
use crate::{errno, real};

/// A write or send to `fd` that failed for want of a reader raises `SIGPIPE` in the thread that
/// made it, but for sockets that are no streams: of these the kernel raises none. Where it was not
/// asked to send none, that one is pending, and this adds nothing.
pub fn broken_pipe(fd: c_int, stop: &Stop) {
    if *stop == Stop::Error(libc::EPIPE)
        && sockets::option(fd, libc::SO_TYPE).is_none_or(|kind| kind == libc::SOCK_STREAM)
    {
        signals::raised::raise(libc::SIGPIPE);
    }
}

/// Never, as a deadline.
const NEVER: u64 = u64::MAX;
/// `si_code` of a signal to the process.
const SI_USER: c_int = 0;

/// Waits until one of `signals` is pending, for the thread or the process, and takes it.
fn wait_for(me: &'static Pthread, signals: u64, deadline: u64) -> Result<siginfo_t> {
    let ended = loop {
        if let Some(mut info) = me.signals().take_wanted(signals) {
            if info.si_code == SI_TKILL {
                // As the C library tells it.
                info.si_code = SI_USER;
            }
            break Ok(info);
        }
        match raw::sleep_until(deadline) {
            Outcome::Cancelled if raw::is_cancelled() => break Err(Stop::Cancelled),
            // The next turn looks what for, and says that it has been answered.
            Outcome::Cancelled => match signals::interrupted() {
                Then::End => break Err(Stop::Cancelled),
                Then::Fail | Then::Restart => break Err(Stop::Error(libc::EINTR)),
                Then::GoOn => {}
            },
            Outcome::Woken | Outcome::TimedOut => break Err(Stop::Error(libc::EAGAIN)),
        }
    };
    // A handler may have changed who it is.
    if let Some(me) = threads::this() {
        me.signals().want_none();
    }
    ended
}

/// Waits until a handler has run, with `blocked` as the thread's mask.
fn suspend(me: &'static Pthread, blocked: u64) -> Result<isize> {
    let masked = Masked::new(me, blocked);
    let ended = loop {
        if signals::deliver(me) != Ran::Nothing {
            break Err(Stop::Error(libc::EINTR));
        }
        if raw::sleep_until(NEVER) == Outcome::Cancelled && raw::is_cancelled() {
            break Err(Stop::Cancelled);
        }
    };
    masked.end();
    ended
}

/// The calling thread; callers are full threads.
fn me() -> Result<&'static Pthread> {
    threads::this().ok_or(Stop::Error(libc::ENOSYS))
}

/// The signals in the caller's set.
fn read(set: *const sigset_t) -> Result<u64> {
    own_memory::read(set.cast::<u64>()).map_err(Stop::Error)
}

/// Waits for one of `signals` and tells what it was, which is taken even where there is no such
/// place.
fn wait(signals: u64, info: *mut siginfo_t, deadline: u64) -> Result<isize> {
    let taken = wait_for(me()?, signals, deadline)?;
    if !info.is_null() {
        own_memory::write(info, taken).map_err(Stop::Error)?;
    }
    Ok(taken.si_signo as isize)
}

/// How long what the kernel has woken a thread for is looked for elsewhere.
const ON_ITS_WAY: timespec = timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Makes a kernel thread's wait, which is the C library's.
fn kernels(set: *const sigset_t, info: *mut siginfo_t, wait: impl FnOnce() -> c_int) -> c_int {
    let signals = read(set).unwrap_or(0);
    let got = stray::waiting(signals, || match wait() {
        -1 if errno::get() == libc::EINTR && stray::may_have(signals) => {
            // It may be no handler's: a worker may have taken what this thread was woken for, and
            // sends it on.
            // SAFETY: the caller's set and place.
            let got = unsafe { real::sigtimedwait(set, info, &ON_ITS_WAY) };
            if got < 0 {
                errno::set(libc::EINTR);
            }
            got
        }
        got => got,
    });
    if got > 0 && !info.is_null() {
        // SAFETY: the C library has written it.
        signals::kernels::restore(unsafe { &mut *info });
    }
    got
}

/// `sigwait` of a kernel thread. The C library's goes on after a handler, and would not know what
/// has become of the wait meanwhile.
fn kernels_sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    let before = errno::get();
    loop {
        // SAFETY: the caller's set.
        let got =
            kernels(set, ptr::null_mut(), || unsafe { real::sigwaitinfo(set, ptr::null_mut()) });
        match errno::get() {
            _ if got > 0 => {
                errno::set(before);
                // SAFETY: the caller's place.
                unsafe { signal.write(got) };
                return 0;
            }
            libc::EINTR => {}
            error => return error,
        }
    }
}

/// `sigsuspend`, of whatever thread.
fn suspend_with(blocked: u64) -> c_int {
    let set = mask::set_of(blocked);
    // SAFETY: a valid set.
    match mask::kernels_wait(&set, || unsafe { real::sigsuspend(&set) }) {
        Some(result) => result,
        None => made_int(|| suspend(me()?, blocked)),
    }
}

/// `sigpause` as BSD has it: with a mask of the first 32 signals.
fn suspend_with_word(blocked: c_int) -> c_int {
    suspend_with(u64::from(blocked as u32))
}

/// `sigpause` as XSI has it: with its mask, but for one signal.
fn suspend_for(signal: c_int) -> c_int {
    if !(1..signals::SIGNALS).contains(&signal) {
        errno::set(libc::EINVAL);
        return -1;
    }
    suspend_with(mask::own() & !signals::bit(signal))
}

exported! {
    (heddle_user_sigwait) (set: *const sigset_t, signal: *mut c_int) -> c_int {
        if crate::me().is_none() {
            return kernels_sigwait(set, signal);
        }
        let before = errno::get();
        loop {
            let got = made_int(|| wait(read(set)?, ptr::null_mut(), NEVER));
            let error = errno::get();
            if got < 0 && error != libc::EINTR {
                return error;
            }
            errno::set(before);
            if got > 0 {
                // SAFETY: the caller's place.
                unsafe { signal.write(got) };
                return 0;
            }
        }
    }

    (heddle_user_sigwaitinfo) (set: *const sigset_t, info: *mut siginfo_t) -> c_int {
        if crate::me().is_none() {
            // SAFETY: passed on.
            return kernels(set, info, || unsafe { real::sigwaitinfo(set, info) });
        }
        made_int(|| wait(read(set)?, info, NEVER))
    }

    (heddle_user_sigtimedwait) (
        set: *const sigset_t, info: *mut siginfo_t, timeout: *const timespec
    ) -> c_int {
        if crate::me().is_none() {
            // SAFETY: passed on.
            return kernels(set, info, || unsafe { real::sigtimedwait(set, info, timeout) });
        }
        made_int(|| {
            let signals = read(set)?;
            let deadline = if timeout.is_null() {
                NEVER
            } else {
                let time = own_memory::read(timeout).map_err(Stop::Error)?;
                let ns = u64::try_from(super::sleep::ns_of(&time)?).unwrap_or(u64::MAX);
                raw::now_ns().saturating_add(ns)
            };
            wait(signals, info, deadline)
        })
    }

    (heddle_user_sigsuspend) (mask: *const sigset_t) -> c_int {
        // SAFETY: passed on.
        if let Some(result) = mask::kernels_wait(mask, || unsafe { real::sigsuspend(mask) }) {
            return result;
        }
        made_int(|| suspend(me()?, read(mask)?))
    }

    (heddle_user_sigpause) (blocked: c_int) -> c_int {
        suspend_with_word(blocked)
    }

    (heddle_user___xpg_sigpause) (signal: c_int) -> c_int {
        suspend_for(signal)
    }

    (heddle_user___sigpause) (signal_or_mask: c_int, is_signal: c_int) -> c_int {
        match is_signal {
            0 => suspend_with_word(signal_or_mask),
            _ => suspend_for(signal_or_mask),
        }
    }

    (heddle_user_pause) () -> c_int {
        made_int(|| {
            let me = me()?;
            suspend(me, me.signals().blocked())
        })
    }
}
