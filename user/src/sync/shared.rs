//! The C library's wait for a condition variable that is shared with other processes, as a point of
//! cancellation.
//!
//! The C library does not know that a full thread is cancelled. But it gives up a wait whose moment
//! has come, and the kernel reads that moment where the caller has it. So every such wait has one,
//! in a place of the thread's own. A thread that is cancelled is called, and answers in the middle
//! of the wait by putting there a moment that has passed. The kernel's wait was interrupted, so the
//! C library makes it again, which is over at once; it takes the thread out of the condition's
//! waiters, hands on a signal that it may have got, and locks the mutex. None of that can be told
//! from a wait with a timeout.
//!
//! Invariant: [`Place`] is set while the thread is in such a wait, and not while it runs a handler
//! there, which may leave the wait for good.

use core::cell::Cell;
use core::ffi::c_int;
use core::mem;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicI64};

use heddle::raw;
use libc::timespec;

use crate::threads::{cancel, signals, this};

/// A `timespec` that changes while it is read, and whether it has.
#[repr(C)]
struct Until {
    seconds: AtomicI64,
    ns: AtomicI64,
    is_over: AtomicBool,
}

const _: () = assert!(mem::offset_of!(Until, is_over) == size_of::<timespec>());

/// As late as the kernel's clocks go.
pub const NEVER: timespec = timespec { tv_sec: i64::MAX / 1_000_000_000, tv_nsec: 0 };

/// Where the moment is at which the wait is over that a thread is in; null when it is in none.
pub struct Place(Cell<*const Until>);

impl Place {
    pub const fn new() -> Self {
        Place(Cell::new(ptr::null()))
    }

    pub fn is_set(&self) -> bool {
        !self.0.get().is_null()
    }

    /// The calling thread, whose place this is, begins to run a handler.
    pub fn leave(&self) -> Place {
        Place(Cell::new(self.0.replace(ptr::null())))
    }

    /// The handler has returned to what it had interrupted.
    pub fn go_back(&self, left: &Place) {
        self.0.set(left.0.get());
    }

    /// Has the wait end, if the calling thread is in one and cancelled.
    pub fn end_if_cancelled(&self) {
        // SAFETY: null, or of a wait that the thread has not left: see the invariant.
        if let Some(until) = unsafe { self.0.get().as_ref() }
            && raw::is_cancelled()
        {
            until.is_over.store(true, Relaxed);
            until.seconds.store(0, Relaxed);
        }
    }
}

/// Makes a call that waits until a moment as the C library does it ([`super::theirs`]), and says
/// ETIMEDOUT then; a point of cancellation.
pub fn cancellable(until: timespec, call: impl FnOnce(*const timespec) -> c_int) -> c_int {
    let Some(me) = this().filter(|_| crate::me().is_some()) else { return call(&until) };
    cancel::test();
    let (seconds, ns) = (AtomicI64::new(until.tv_sec), AtomicI64::new(until.tv_nsec));
    let until = Until { seconds, ns, is_over: AtomicBool::new(false) };
    let place = &me.signals().shared_wait;
    let before = place.leave();
    place.0.set(&until);
    // Calls that came earlier have found no place.
    signals::answer_if_called();
    place.end_if_cancelled();
    let result = call((&raw const until).cast());
    // A handler may have been left to another thread, which goes on here.
    if let Some(me) = this() {
        me.signals().shared_wait.go_back(&before);
    }
    let was_ended = result == libc::ETIMEDOUT && until.is_over.load(Relaxed);
    match was_ended {
        true if cancel::check() => cancel::act(),
        // A handler has disabled the cancellation since: nobody has signalled.
        true => 0,
        false => result,
    }
}
