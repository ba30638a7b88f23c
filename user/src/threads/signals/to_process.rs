//! What a thread of the program sends to its own process: `kill` and `sigqueue`.
//!
//! The kernel gives a signal to a thread before such a call returns, and that thread handles it
//! before anything else of its own. Where the kernel leaves it pending (`process.rs`), because no
//! kernel thread of the program lets it through, the caller does the same: it takes the signal
//! itself, or calls a full thread that lets it through. (A thread that was woken, and ended, before
//! the watcher had looked took the signal with it.)
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;
use libc::pid_t;

use super::actions::is_in_vfork;
use super::process::{self, NEVER_WATCHED, next_that_takes};
use super::sent::Sent;
use super::{bit, discard, kernels, stray};
use crate::errno;
use crate::sys::identity::process_of;
use crate::threads::{fork, this};

/// The caller has sent its process a signal. If no kernel thread is there for it, and the caller is
/// a full thread that lets it through, POSIX has it handled before the call returns; another one
/// that lets it through is called.
fn sent(to: pid_t, signal: c_int) {
    // SAFETY: no arguments.
    let is_own = to == 0 || to == -1 || to == unsafe { libc::getpid() };
    if !is_own || !(1..super::SIGNALS).contains(&signal) || is_in_vfork() {
        return;
    }
    discard::sent(signal);
    let signal = bit(signal);
    if signal & NEVER_WATCHED != 0 || !fork::has_full() || kernels::taken() & signal != 0 {
        return;
    }
    match this() {
        Some(me) if me.signals.blocked() & signal == 0 && me.signals.masked.get().is_none() => {
            me.signals.look.store(true, Relaxed);
            errno::kept(|| super::deliver(me));
        }
        _ => assign(signal),
    }
}

/// Calls a full thread for one that is pending for the process. Always the first that there is:
/// should it take none for long, the watcher calls others.
fn assign(signal: u64) {
    if let Some(slot) = next_that_takes(signal, 0) {
        errno::kept(|| raw::when_unpinned(super::call, slot as usize));
    }
}

/// Whether the caller sends its own process what a worker would be given: that one could not tell
/// it from what a write raises. What no write raises need not go by way of a worker either.
fn is_kept_here(to: pid_t, signal: c_int) -> bool {
    stray::is_one(signal)
        && kernels::of_main() & bit(signal) != 0
        && fork::has_full()
        // SAFETY: no arguments.
        && to == unsafe { libc::getpid() }
        && !is_in_vfork()
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_kill(to: pid_t, signal: c_int) -> c_int {
    let to = process_of(to);
    let failed = if is_kept_here(to, signal) {
        process::stray(&Sent::by_us(signal, libc::SI_USER, 0).info());
        0
    } else {
        // SAFETY: no pointers.
        unsafe { libc::kill(to, signal) }
    };
    if failed == 0 {
        sent(to, signal);
    }
    failed
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sigqueue(
    to: pid_t,
    signal: c_int,
    value: libc::sigval,
) -> c_int {
    let to = process_of(to);
    // SAFETY: no pointers that are followed.
    let failed = unsafe { libc::sigqueue(to, signal, value) };
    if failed == 0 {
        sent(to, signal);
    }
    failed
}
