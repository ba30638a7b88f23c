//! What threads wait for each other with, in the C library's layouts.
//!
//! Each object is a few atomic words; who has to wait does so in the parking lot, at the address
//! of one of them. A word is changed first and its waiters are woken then, which loses no wake,
//! see the lot.

mod barrier;
pub mod c11;
mod cond;
pub mod layout;
pub mod mutex;
mod once;
pub mod passed_over;
mod protocol;
pub mod rwlock;
mod sem;
pub mod shared;
mod spin;
pub mod stand_in;

use core::sync::atomic::AtomicU32;

use heddle::raw::{self, Ended, Manner, Moment};

use crate::errno;
use crate::threads::signals;
use crate::threads::stuck::Call;

/// Waits in `call` for a wake of `word` if it is `expected`; not a cancellation point. `errno` is
/// kept.
///
/// A full thread that is sent a signal runs its handler and waits again: who has stopped all
/// threads by signals holds what this one waits for, or never hears of it.
///
/// # Safety
/// 1. `word` may be read until the call returns or a wake has ended the wait.
unsafe fn wait(call: Call, word: *const AtomicU32, expected: u32, until: Moment) -> Ended {
    let manner = Manner { what: call as u32, ..Manner::PLAIN };
    // SAFETY: by 1.
    errno::kept(|| unsafe { wait_called(word, expected, until, manner, true) })
}

/// As [`raw::futex_wait`], but no cancellation ends it. A full thread that is called answers, and
/// waits again; a handler ends the wait if it does not `go_on`, as it ends the kernel's: if it is
/// to interrupt calls, or if the wait has a deadline.
///
/// # Safety
/// 1. `word` may be read until the call returns or a wake has ended the wait.
pub unsafe fn wait_called(
    word: *const AtomicU32,
    expected: u32,
    until: Moment,
    manner: Manner,
    go_on: bool,
) -> Ended {
    if crate::me().is_none() {
        // SAFETY: by 1.
        return unsafe { raw::futex_wait(word, expected, until, manner) };
    }
    // A call that can't be answered now does not end the wait. Not asked by whether there is one:
    // it may come at any moment.
    let manner = Manner { is_cancellable: signals::are_answered(), ..manner };
    let mut has_waited = false;
    loop {
        if raw::is_called() && signals::called().ends(until) && has_waited && !go_on {
            return Ended::Cancelled;
        }
        let was_enabled = raw::set_cancellable(false);
        // SAFETY: by 1.
        let ended = unsafe { raw::futex_wait(word, expected, until, manner) };
        raw::set_cancellable(was_enabled);
        if ended != Ended::Cancelled {
            return ended;
        }
        has_waited = true;
    }
}

/// Waits as the C library does it, for what is shared with other processes or robust: in the
/// kernel. A full thread does so on its worker, and handles signals meanwhile, as any thread.
#[inline]
fn theirs<T>(call: impl FnOnce() -> T) -> T {
    if crate::me().is_none() {
        return call();
    }
    let result = raw::answering(call);
    // What came just before or behind it.
    signals::answer_if_called();
    result
}

/// Wakes at most `most` waiters for `word`, which need not exist any more; returns how many.
#[inline]
fn wake(word: *const AtomicU32, most: u32) -> u32 {
    raw::futex_wake(word, most, raw::ANY)
}
