//! What programs older than POSIX threads call for masks and actions: System V's `sigset` and its
//! kin, BSD's `sigblock` and its kin.
//!
//! The C library's own would change the worker's mask where the thread's is meant, and set for the
//! kernel what `actions.rs` keeps. `sigpause` is among the calls that wait (`calls/signal.rs`).
//!
//! Invariant: each does what POSIX says in terms of `pthread_sigmask` and `sigaction`.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::mem;

use libc::sigaction;

use super::actions::{self, change};
use super::{SIGNALS, bit};
use crate::calls::mask;
use crate::errno;

/// `SIG_HOLD`: the signal is blocked.
const HOLD: usize = 2;

fn refused<T>(failed: T) -> T {
    errno::set(libc::EINVAL);
    failed
}

fn is_signal(signal: c_int) -> bool {
    (1..SIGNALS).contains(&signal)
}

/// Changes the calling thread's mask; that of before.
fn masked(how: c_int, signals: u64) -> u64 {
    let mut before = mask::set_of(0);
    mask::change(how, &mask::set_of(signals), &mut before);
    mask::bits(&before)
}

fn action_with(handler: usize) -> sigaction {
    // SAFETY: all zero bytes are a valid action.
    let mut action: sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler;
    action
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sigset(signal: c_int, handler: usize) -> usize {
    if !is_signal(signal) {
        return refused(libc::SIG_ERR);
    }
    let mut old = action_with(libc::SIG_DFL);
    let wanted = action_with(handler);
    if change(signal, (handler != HOLD).then_some(&wanted), Some(&mut old)) != 0 {
        return libc::SIG_ERR;
    }
    let how = if handler == HOLD { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    if masked(how, bit(signal)) & bit(signal) != 0 { HOLD } else { old.sa_sigaction }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sighold(signal: c_int) -> c_int {
    if !is_signal(signal) {
        return refused(-1);
    }
    masked(libc::SIG_BLOCK, bit(signal));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sigrelse(signal: c_int) -> c_int {
    if !is_signal(signal) {
        return refused(-1);
    }
    masked(libc::SIG_UNBLOCK, bit(signal));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sigignore(signal: c_int) -> c_int {
    change(signal, Some(&action_with(libc::SIG_IGN)), None)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    let mut action = action_with(libc::SIG_DFL);
    if change(signal, None, Some(&mut action)) != 0 {
        return -1;
    }
    match interrupts {
        0 => action.sa_flags |= libc::SA_RESTART,
        _ => action.sa_flags &= !libc::SA_RESTART,
    }
    actions::interrupts(signal, interrupts != 0);
    change(signal, Some(&action), None)
}

/// The first 32 signals, as these functions have them.
fn word(signals: u64) -> c_int {
    signals as u32 as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sigblock(signals: c_int) -> c_int {
    word(masked(libc::SIG_BLOCK, u64::from(signals as u32)))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sigsetmask(signals: c_int) -> c_int {
    word(masked(libc::SIG_SETMASK, u64::from(signals as u32)))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_siggetmask() -> c_int {
    word(masked(libc::SIG_BLOCK, 0))
}
