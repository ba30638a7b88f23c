//! What a full thread does that is called: it runs its handlers, or ends.
//!
//! Invariant: who was not ended although that is due is called again.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;

use super::actions::is_in_vfork;
use super::{Ran, deliver};
use crate::errno;
use crate::threads::{cancel, registry, this};

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

/// As [`called`], if the caller is a full thread that was called; and it leaves if it is overdue.
/// For calls in which a thread may spend all of its time, and where nothing interrupts it.
pub fn answer_if_called() {
    if crate::me().is_some() && raw::is_called_or_overdue() {
        errno::kept(|| at_end(called));
    }
}

/// What a full thread that is called or overdue does at the end of a call: `called` for the one,
/// and for the other it leaves. Not in the middle of the runtime, nor in a child of `vfork`, which
/// is on its parent's stack.
#[cold]
pub fn at_end<T>(called: impl FnOnce() -> T) {
    if raw::is_called() && !raw::is_pinned() && !is_in_vfork() {
        called();
    }
    leave();
}

/// As [`answer_if_called`], for calls that an allocator may make in the middle of something.
#[inline]
pub fn answer_unless_others_allocate() {
    if crate::me().is_some() && raw::is_called_or_overdue() && !OTHERS_ALLOCATE.load(Relaxed) {
        errno::kept(|| at_end(called));
    }
}

/// The same, for calls that take a few nanoseconds.
#[inline(always)]
pub fn answer_soon() {
    if raw::are_overdue() {
        answer_behind_short();
    }
}

#[cold]
fn answer_behind_short() {
    answer_unless_others_allocate();
}

#[cold]
fn leave() {
    if !OTHERS_ALLOCATE.load(Relaxed) && !is_in_vfork() {
        raw::leave_if_overdue();
    }
}

/// What a descriptor tells of was changed: those who wait for it ask again. The caller may be a
/// handler in the middle of the runtime.
pub fn have_all_look() {
    raw::when_unpinned(call_all_who_wait, 0);
}

fn call_all_who_wait(_: usize, _times: u32) {
    let _none = registry::find_from(0, |target| {
        target.signals.told.count();
        if target.signals.told.waits()
            && let Some(thread) = target.thread()
        {
            raw::call(&thread);
        }
        false
    });
}

/// A library is the allocator, not the C library: it makes calls where it has locks.
static OTHERS_ALLOCATE: AtomicBool = AtomicBool::new(false);

/// Before the first full thread.
pub fn prepare_to_leave() {
    let allocator = raw::text_of(libc::malloc as *const () as usize);
    let c_library = raw::text_of(libc::gnu_get_libc_version as *const () as usize);
    OTHERS_ALLOCATE.store(allocator != c_library, Relaxed);
}
