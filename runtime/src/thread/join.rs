//! The join word of a thread: who waits for its end, or that it has ended.
//!
//! States: `OPEN` = the handle lives, nobody waits; a control block = that thread waits; `DONE` =
//! the result is there; `DETACHED` = nobody will ask for it.
//!
//! Protocol:
//! 1. The joiner goes `OPEN -> itself` and waits; its deadline goes back to `OPEN`.
//! 2. The end goes from `OPEN` or a joiner to `DONE`, and makes that joiner ready.
//! 3. A handle that goes without joining goes `OPEN -> DETACHED`; where that fails the thread has
//!    ended, and the result is the handle's to drop.
//!
//! So each result has exactly one owner, and each joiner is woken at most once.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::control::{Control, JOIN_DETACHED, JOIN_DONE, JOIN_OPEN, Outcome, WaitKind};
use crate::sched;

/// Whether the thread has ended; its result is seen then.
pub(crate) fn is_done(thread: &Control) -> bool {
    thread.join.load(Acquire) == JOIN_DONE
}

/// Waits for `target`'s end or until `deadline` (ns, 0 = never); the caller holds a reference.
pub(crate) fn join_until(target: &'static Control, deadline: u64) -> Outcome {
    let me = sched::current();
    let mine = ptr::from_ref(me).cast_mut();
    if target.join.load(Acquire) == JOIN_DONE {
        return Outcome::Woken;
    }
    me.wait.set(WaitKind::Join);
    me.prev.set(target);
    me.outcome.set(Outcome::Woken);
    // ORDER: Release publishes the three stores above to the one that wakes us.
    if target.join.compare_exchange(JOIN_OPEN, mine, AcqRel, Acquire).is_err() {
        me.wait.set(WaitKind::None);
        return Outcome::Woken;
    }
    sched::wait(me, deadline)
}

/// Ends the wait of a joiner, unless the thread it joins has ended and wakes it (step 1).
///
/// The waiter's `prev` names that thread (`next` links the waiter as soon as it is woken).
pub(crate) fn abandon_join(waiter: &'static Control) -> bool {
    // SAFETY: the waiter holds a reference to the thread it joins.
    let target = unsafe { &*waiter.prev.get() };
    let me = ptr::from_ref(waiter).cast_mut();
    target.join.compare_exchange(me, JOIN_OPEN, Relaxed, Relaxed).is_ok()
}

/// The handle goes without joining. False: the thread has ended, the result is the caller's.
pub(crate) fn detach(thread: &Control) -> bool {
    // ORDER: Acquire pairs with the Release in `hand_over` in the case that it was first.
    thread.join.compare_exchange(JOIN_OPEN, JOIN_DETACHED, Acquire, Acquire).is_ok()
}

/// The thread has ended and left its result; false when there is no handle to have it.
pub(crate) fn hand_over(me: &'static Control) -> bool {
    loop {
        let waiter = me.join.load(Acquire);
        if waiter == JOIN_DETACHED {
            return false;
        }
        // ORDER: Release publishes the result; pairs with the Acquire of the joiner.
        if me.join.compare_exchange(waiter, JOIN_DONE, AcqRel, Relaxed).is_ok() {
            if waiter != JOIN_OPEN {
                // SAFETY: a control block that waits, and is ours to wake since the exchange.
                sched::ready(unsafe { &*waiter });
            }
            return true;
        }
    }
}
