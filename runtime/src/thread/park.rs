//! Park and unpark: the thread's token, one word in its control block.
//!
//! States: `EMPTY`; `NOTIFIED` = an unpark is pending; `PARKED` = the thread waits on it.
//!
//! Protocol:
//! 1. The thread goes `EMPTY -> PARKED` and waits; nobody else writes `PARKED`.
//! 2. An unpark writes `NOTIFIED`, whatever was there; the one that replaces `PARKED` makes the
//!    thread ready.
//! 3. A deadline or a cancellation goes `PARKED -> EMPTY`; where that fails, an unpark has the
//!    thread and its wake is on the way.
//! 4. The thread takes the token itself once it runs, so an unpark between the first one and that
//!    is seen and not wiped out.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::time::Duration;

use crate::control::{Control, Outcome, TOKEN_EMPTY, TOKEN_NOTIFIED, TOKEN_PARKED, WaitKind};
use crate::sched;
use crate::sys::clock;

/// Blocks until [`crate::thread::Thread::unpark`] is called for the calling thread, or was before.
///
/// As std's: may return spuriously (here: when the thread is cancelled).
pub fn park() {
    park_until(0, true);
}

/// As [`park`], at most for `duration`.
pub fn park_timeout(duration: Duration) {
    park_until(clock::deadline_after(duration), true);
}

/// As [`park_timeout`] with a deadline (ns, 0 = never); cancellation ends it only if it may.
pub(crate) fn park_until(deadline: u64, cancellable: bool) {
    let me = sched::current();
    // ORDER: Acquire pairs with the Release in `unpark`: what was written before it is seen.
    if me.token.compare_exchange(TOKEN_NOTIFIED, TOKEN_EMPTY, Acquire, Relaxed).is_ok() {
        return;
    }
    if cancellable && sched::is_cancellable(me) {
        // A loop around it must not keep its worker.
        return super::yield_now();
    }
    me.wait.set(WaitKind::Park);
    me.outcome.set(Outcome::Woken);
    me.cancellable.set(cancellable);
    // From here on an unparker may make us ready.
    let published = me.token.compare_exchange(TOKEN_EMPTY, TOKEN_PARKED, Release, Acquire);
    if published.is_err() || sched::wait(me, deadline) == Outcome::Woken {
        // ORDER: Acquire as above. The token is taken only now, so an unpark that came after the
        // one that woke us is seen as well, not wiped out.
        me.token.swap(TOKEN_EMPTY, Acquire);
    }
    me.wait.set(WaitKind::None);
    me.cancellable.set(false);
}

/// Gives `thread` its park token.
pub(crate) fn unpark(thread: &'static Control) {
    // ORDER: Release pairs with the Acquire in `park`; Acquire with the Release of its
    // `TOKEN_PARKED`, so that its wait is fully published before it is made ready.
    if thread.token.swap(TOKEN_NOTIFIED, AcqRel) == TOKEN_PARKED {
        sched::ready(thread);
    }
}

/// Ends the wait of a parked thread, unless an unpark has it already (step 3).
pub(crate) fn abandon_park(thread: &'static Control) -> bool {
    // ORDER: Acquire as in `park_until`.
    thread.token.compare_exchange(TOKEN_PARKED, TOKEN_EMPTY, Acquire, Relaxed).is_ok()
}
