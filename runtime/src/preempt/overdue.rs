//! Full threads that were asked to leave where they could not be left.
//!
//! One that is in the embedding library whenever the signal comes, for it calls nothing else in a
//! loop, would go on for long: the monitor asks again, and mostly meets it there again. So it is
//! noted in its word that it is overdue, and the library looks at that, at the end of calls in
//! which such a thread may spend its time ([`leave`]). In calls that take no longer than to find
//! that word it looks first whether there is such a thread ([`are_overdue`]), or one that is called
//! and could not answer.
//!
//! Invariants:
//! 1. A hint. Who does not look is asked again, and who is overdue for something that is over by
//!    then goes on.
//! 2. Nobody leaves while the kernel has something of the thread's on its worker, as in a handler
//!    that the kernel has called: a mask, or that the worker's alternate stack is in use. Where a
//!    filter may not let it be asked nobody does.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use super::{CANCEL_CALLED, SIGNAL, is_asked, outside_of_runtime, yield_here};
use crate::control::Control;
use crate::monitor::bed;
use crate::sched;
use crate::sys::task;
use crate::worker::Worker;

/// `Control::cancel`: see the file's head.
const CANCEL_OVERDUE: u8 = 16;

/// Alone in its cache line: it is looked at often, and seldom written.
#[repr(align(128))]
struct Flag(AtomicBool);

/// Some thread was found overdue, or is called, since the monitor's last tick.
static ARE_SOME: Flag = Flag(AtomicBool::new(false));

/// `thread`, which the caller's worker runs, was asked in vain.
pub(super) fn note(thread: &Control) {
    thread.cancel.fetch_or(CANCEL_OVERDUE, Relaxed);
    note_called();
}

/// The thread that the caller's worker runs is called, and could not answer.
pub(super) fn note_called() {
    ARE_SOME.0.store(true, Relaxed);
}

/// Whether the caller may be overdue, or called.
#[inline(always)]
pub fn are_overdue() -> bool {
    ARE_SOME.0.load(Relaxed)
}

/// A tick of the monitor's: who is overdue still is noted anew.
pub(crate) fn begin_tick() {
    if are_overdue() {
        ARE_SOME.0.store(false, Relaxed);
    }
}

/// `thread` leaves.
pub(super) fn is_over(thread: &Control) {
    if is_one(thread) {
        thread.cancel.fetch_and(!CANCEL_OVERDUE, Relaxed);
    }
}

/// Whether `thread` was asked in vain, and has not been made to leave since.
pub(crate) fn is_one(thread: &Control) -> bool {
    thread.cancel.load(Relaxed) & CANCEL_OVERDUE != 0
}

/// Whether the calling thread, a full one, is called or overdue.
#[inline]
pub fn is_called_or_overdue() -> bool {
    sched::current().cancel.load(Relaxed) & (CANCEL_CALLED | CANCEL_OVERDUE) != 0
}

/// Has the calling thread leave, if it is a full one that is overdue.
#[cold]
pub fn leave() {
    let Some(me) = outside_of_runtime() else { return };
    let before = me.cancel.fetch_and(!CANCEL_OVERDUE, Relaxed);
    let is_free = || bed::unfiltered(|| task::is_in_no_handler(SIGNAL).then_some(()));
    if before & CANCEL_OVERDUE != 0 && is_asked() && is_free().is_some() {
        yield_here(me, Worker::preempt_full);
    }
}
