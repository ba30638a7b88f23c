//! The parking lot: waits that are keyed by an address, with the meaning of the kernel's futex.
//!
//! User-level threads and kernel threads wait and wake here alike. A wait for a word begins only
//! if the word has the value that the caller has seen; a wake comes after the word was changed. In
//! that order no wake is lost, see `buckets.rs`.
//!
//! As with the kernel's futex: a wait may end without a reason, so callers look at their word
//! again; a word that nobody waits for needs no memory and no set-up; waiters for an address are
//! woken the most urgent first, then first come first served.
//!
//! A forked child begins with an empty lot.
//!
//! Differences from the kernel's, all on purpose:
//! - Only words of one process (`FUTEX_PRIVATE_FLAG`): another process can't wake our threads.
//! - An address that can't be read is the caller's fault (SIGSEGV), not EFAULT.
//! - Not for signal handlers: a handler that interrupts the lot on its own kernel thread would
//!   wait for itself. `later.rs` is for them.
//! - `CLOCK_REALTIME`: the deadline is converted to the monotonic clock as the wait begins. A
//!   clock that was set back meanwhile makes the wait longer, as it should; one that was set
//!   forward does not end it earlier.

mod buckets;
pub(crate) mod node;
pub(crate) mod nodes;

use core::sync::atomic;

use crate::model::AtomicU32;
use crate::sys::clock;

pub(crate) use buckets::{BUCKETS, for_each_waiter};
pub use buckets::{Ended, Manner, Requeued};

/// Bits for waits and wakes that don't tell each other apart (`FUTEX_BITSET_MATCH_ANY`).
pub const ANY: u32 = u32::MAX;

/// When a wait ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Never.
    Never,
    /// At this time of `CLOCK_MONOTONIC`, ns.
    Monotonic(u64),
    /// At this time of `CLOCK_REALTIME`, ns.
    Realtime(u64),
}

impl Moment {
    /// The runtime's deadline: ns of the monotonic clock, 0 = never.
    fn deadline(self) -> u64 {
        match self {
            Moment::Never => 0,
            Moment::Monotonic(at) => at.max(1),
            Moment::Realtime(at) => {
                let now = clock::now_ns();
                let left = i128::from(at) - i128::from(clock::realtime_ns());
                u64::try_from((i128::from(now) + left).max(1)).unwrap_or(u64::MAX)
            }
        }
    }

    /// Whether a wait until then is over by the clock that it was given in.
    fn is_over(self) -> bool {
        match self {
            Moment::Realtime(at) => clock::realtime_ns() >= at,
            Moment::Never | Moment::Monotonic(_) => true,
        }
    }
}

/// Waits for a wake of `word` if `*word` is `expected`, until `moment` at most.
///
/// # Safety
/// 1. `word` may be read until the call returns or a wake has ended the wait.
pub unsafe fn futex_wait(
    word: *const atomic::AtomicU32,
    expected: u32,
    moment: Moment,
    manner: Manner,
) -> Ended {
    loop {
        let deadline = moment.deadline();
        // SAFETY: by 1; `watched` names the same four bytes.
        let ended = unsafe { buckets::wait(watched(word), expected, manner, deadline) };
        if ended != Ended::TimedOut || moment.is_over() {
            return ended;
        }
    }
}

/// Waits for a wake of `word`, which is not looked at, until `moment` at most. Whoever wakes after
/// `give_up` was called finds the caller waiting; it is called once, however the wait ends, and
/// must not wait. If it returns false the wait ends with [`Ended::Changed`], or with the wake that
/// came before.
///
/// For a condition variable: what the caller gives up is its mutex, so whoever holds that finds
/// all who wait, and may destroy the variable once it has woken them. `seen` is what the word was,
/// to tell waits in vain from others.
pub fn futex_wait_after(
    word: *const atomic::AtomicU32,
    seen: u32,
    moment: Moment,
    manner: Manner,
    give_up: impl FnOnce() -> bool,
) -> Ended {
    let ended = buckets::wait_after(word.addr(), seen, manner, moment.deadline(), give_up);
    // A clock was set back: who comes again may have missed a wake, so the caller is to look.
    if ended == Ended::TimedOut && !moment.is_over() { Ended::Woken } else { ended }
}

/// Wakes at most `most` of those who wait for `word` with one of `bits`; returns how many.
///
/// The word itself is not looked at, and need not exist any more.
#[inline]
pub fn futex_wake(word: *const atomic::AtomicU32, most: u32, bits: u32) -> u32 {
    buckets::wake(word.addr(), most, bits)
}

/// Wakes at most `wake` of those who wait for `from` and makes at most `most` of the others wait
/// for `to` instead, if `*from` is `expected` (when that is given; else `None`, and nothing
/// happens).
///
/// # Safety
/// 1. If `expected` is given, `from` may be read.
pub unsafe fn futex_requeue(
    from: *const atomic::AtomicU32,
    expected: Option<u32>,
    to: *const atomic::AtomicU32,
    wake: u32,
    most: u32,
) -> Option<Requeued> {
    // SAFETY: by 1.
    unsafe { buckets::requeue(watched(from), expected, to.addr(), wake, most) }
}

/// Wakes one of those who wait for `word`, and makes those wait for the word that they need next
/// ([`Manner::then`]) who need the same one as the first; the others are woken, too.
///
/// For a condition variable whose waiters all need its mutex. Who is woken must take the next word
/// as one that others wait for. Neither word is looked at.
#[inline]
pub fn futex_broadcast(word: *const atomic::AtomicU32) -> Requeued {
    buckets::broadcast(word.addr())
}

/// In a forked child: those who waited are threads of the parent's.
pub(crate) fn forget_waiters() {
    nodes::forget_maker();
    buckets::forget_waiters();
}

/// The same word as the simulation and the model see it: a wrapper without anything else.
fn watched(word: *const atomic::AtomicU32) -> *const AtomicU32 {
    word.cast()
}
