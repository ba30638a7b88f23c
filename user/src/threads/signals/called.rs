//! What a full thread does that is called: it runs its handlers, or ends.
//!
//! Invariant: who was not ended although that is due is called again.

use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;

use super::{Ran, deliver};
use crate::errno;
use crate::threads::{cancel, this};

/// What a full thread runs that was called while it computed, or in a call that is not heddle's.
/// True: that one is to fail. Unless it `may_end` it is called again if that is due.
pub fn answer(may_end: bool) -> bool {
    called_where(may_end) == Ran::Interrupting
}

/// Runs what the calling full thread was called for, unless the call that it is in does so itself.
pub fn called() -> Ran {
    called_where(true)
}

fn called_where(may_end: bool) -> Ran {
    let Some(me) = this() else { return Ran::Nothing };
    if me.signals.masked.get().is_some() {
        return Ran::Nothing;
    }
    let is_ended = me.own.asynchronous.load(Relaxed)
        && raw::is_cancelled()
        && !me.signals.shared_wait.is_set();
    if is_ended && may_end && !cancel::is_held_back_by_library() {
        raw::answer_call();
        cancel::act();
    }
    let ran = deliver(me);
    if is_ended {
        raw::call_again();
    }
    if let Some(me) = this() {
        me.signals.shared_wait.end_if_cancelled();
    }
    ran
}

/// Whether calls of the calling full thread are answered by [`called`].
pub fn are_answered() -> bool {
    this().is_some_and(|me| me.signals.masked.get().is_none())
}

/// As [`answer`], if the caller is a full thread that was called. For calls in which a thread may
/// spend all of its time, and where nothing interrupts it.
pub fn answer_if_called() {
    if crate::me().is_some() && raw::is_called() {
        errno::kept(called);
    }
}
