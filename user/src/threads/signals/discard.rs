//! Signals that are pending and are to be handled by nobody: those that the program begins to
//! ignore, and stop signals when the process is to go on, and the other way round.
//!
//! The kernel discards what it has itself: for the process, and for each kernel thread. Here it is
//! done for full threads, for all of them as the kernel does it. What a sender adds meanwhile was
//! sent before, or afterwards.
//!
//! Not seen is SIGCONT or a stop signal that another process sends: the kernel acts by it, and what
//! a full thread has pending of the others stays.

use core::ffi::c_int;

use heddle::raw;

use super::actions::is_in_vfork;
use super::pending::count_discarded;
use super::{IGNORED, bit, call, stray, timers};
use crate::sys::signals;
use crate::threads::{fork, registry};

const CONTINUES: u64 = bit(libc::SIGCONT);
const STOPS: u64 =
    bit(libc::SIGSTOP) | bit(libc::SIGTSTP) | bit(libc::SIGTTIN) | bit(libc::SIGTTOU);

/// Discards what is pending of `signals` for any full thread of this process.
pub fn discard(signals: u64) {
    if !fork::has_full() || is_in_vfork() {
        return;
    }
    stray::discard(signals);
    if !count_discarded(signals) {
        return;
    }
    timers::discarded(signals);
    let mut from = 0;
    while let Some(slot) = registry::find_from(from, |it| it.signals.pending.discard(signals)) {
        // It gives back the memory of what it had.
        raw::when_unpinned(call, slot as usize);
        if slot < from {
            // What was sent since.
            return;
        }
        from = slot + 1;
    }
}

/// Whether `signal` is ignored with this handler.
pub fn is_ignored(signal: c_int, handler: usize) -> bool {
    match handler {
        libc::SIG_IGN => true,
        libc::SIG_DFL => (IGNORED | CONTINUES) & bit(signal) != 0,
        _ => false,
    }
}

/// What `signal` puts an end to when it is sent.
fn ended_by(signal: c_int) -> u64 {
    match bit(signal) {
        CONTINUES => STOPS,
        stop if STOPS & stop != 0 => CONTINUES,
        _ => 0,
    }
}

/// This process has been sent `signal`, by the kernel.
pub fn sent(signal: c_int) {
    discard(ended_by(signal));
}

/// A full thread is to be sent `signal`: the kernel does not know.
pub fn sending(signal: c_int) {
    let ended = ended_by(signal);
    if ended != 0 {
        discard(ended);
        while signals::take(ended).is_some() {}
    }
}
