//! Cancellation: at the calls that block, and asynchronously.
//!
//! The request is kept in the runtime's control block; the runtime ends waits that it can end. A
//! thread of the asynchronous type is called, too, and acts where it is interrupted: in the middle
//! of what it computes, but not of this library. Kernel threads are cancelled by the C library, and
//! so is, in a child that a full thread has forked, that thread: see [`give_kernel`].
//!
//! # Safety
//! For all exported functions of this file: pointers are valid or null where that is allowed.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;

use heddle::raw::{self, Calls};
use libc::pthread_t;

use super::{Pthread, cleanup, end, find, fork, kernel, running, this};
use crate::real;
use crate::sys::callers::{self, Found};

const ENABLE: c_int = 0;
const DISABLE: c_int = 1;
const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;
/// `PTHREAD_CANCELED`.
const CANCELED: usize = usize::MAX;

/// Every cancellation point begins with this: it ends the caller if that was cancelled.
///
/// Nothing with a destructor may live in the caller.
#[inline]
pub fn test() {
    if check() {
        act();
    }
    if running().is_none() {
        // SAFETY: as above for the C library's own.
        unsafe { real::pthread_testcancel() };
    }
}

/// As [`test`], before a wait in the lot: whether a request is to end that.
///
/// Of a kernel thread one is noted in its control block, too, and stays there: where the thread
/// does not want to hear of it none ends its waits.
pub fn before_wait() -> bool {
    if crate::me().is_some() {
        test();
        return true;
    }
    let is_asked = raw::has_request();
    // ORDER: SeqCst: the block before the look for a request; pairs with `kernel::cancel_wait`.
    fence(SeqCst);
    test();
    !is_asked
}

/// Whether the caller is a full thread with a request that is pending and enabled.
#[inline]
pub fn check() -> bool {
    crate::me().is_some() && raw::is_cancelled()
}

/// Whether the calling full thread is to be ended at any time.
pub fn is_asynchronous() -> bool {
    // ORDER: the thread's own word.
    this().is_some_and(|me| me.own.asynchronous.load(SeqCst))
}

/// What the calling full thread may do in the middle of the C library. It is not ended where the C
/// library itself puts that off, nor where it waits for a lock: it may have another one.
///
/// # Safety
/// As [`callers::look`].
pub unsafe fn calls(context: *mut c_void, top: usize, waits: bool) -> Calls {
    // SAFETY: as the caller promises.
    let Found { is_program, holds_nothing } = unsafe { callers::look(context, top, waits) };
    let may_end = is_program && !waits && !cleanup::is_put_off();
    Calls { may_leave: is_program, holds_nothing, may_end }
}

/// Whether the C library has disabled cancellation for the calling full thread, as it does in
/// `error` and `sem_open`: by the thread's state as it knows it, which nobody else changes.
pub fn is_held_back_by_library() -> bool {
    let mut before = ENABLE;
    // SAFETY: a place of ours. A thread that the C library has not cancelled goes on.
    unsafe {
        real::pthread_setcancelstate(DISABLE, &mut before);
        real::pthread_setcancelstate(before, ptr::null_mut());
    }
    before == DISABLE
}

fn state(is_enabled: bool) -> c_int {
    if is_enabled { ENABLE } else { DISABLE }
}

/// Ends the calling full thread, which was cancelled. Nothing with a destructor may live in the
/// caller.
#[cold]
pub fn act() -> ! {
    match this() {
        Some(me) => end::exit(me, ptr::without_provenance_mut(CANCELED)),
        None => unreachable!("the wait of a kernel thread was cancelled"),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the caller's thread.
    let target = match unsafe { find(thread) } {
        Some(target) if !fork::is_child_of(target) => target,
        // It lives as long as the process, for the C library.
        Some(target) if target.has_ended() => return 0,
        // SAFETY: as above.
        _ => unsafe {
            let result = real::pthread_cancel(thread);
            if result == 0 {
                kernel::cancel_wait(thread);
            }
            return result;
        },
    };
    if ask(target) && check() && this().is_some_and(|me| ptr::eq(me, target)) {
        act();
    }
    0
}

/// Asks `target` to end; whether it does so at any time.
fn ask(target: &Pthread) -> bool {
    if target.has_ended() {
        return false;
    }
    let Some(thread) = target.thread() else { return false };
    thread.cancel();
    // It may sleep on its worker, or be of the asynchronous type.
    raw::call(&thread);
    // ORDER: SeqCst: the request before the look at the type; pairs with `setcanceltype`, which
    // changes the type before it looks for a request.
    target.own.asynchronous.load(SeqCst)
}

/// In a child that the calling full thread has forked: hands what the thread has said and was asked
/// over to the C library, whose calls it makes from here on, and whose unwind ends it.
pub fn give_kernel(me: &'static Pthread) {
    cleanup::give_kernel(me);
    me.own.result.set(ptr::without_provenance_mut(CANCELED));
    let is_enabled = raw::set_cancellable(true);
    let is_asked = raw::is_cancelled();
    let is_asynchronous = is_asynchronous();
    // SAFETY: no places; the caller's own thread.
    unsafe {
        real::pthread_setcancelstate(state(is_enabled), ptr::null_mut());
        // One that would be acted upon at once came in the middle of the fork: it is the parent's.
        if is_asked && !(is_enabled && is_asynchronous) {
            real::pthread_cancel(libc::pthread_self());
        }
        if is_asynchronous {
            real::pthread_setcanceltype(ASYNCHRONOUS, ptr::null_mut());
        }
    }
}

/// Before a full thread waits in a call that is no point of cancellation: disables it, unless the
/// thread is to be ended at any time. Whether it was enabled.
pub fn hold_back() -> bool {
    let was_enabled = raw::set_cancellable(false);
    if is_asynchronous() {
        raw::set_cancellable(was_enabled);
    }
    was_enabled
}

/// A full thread's cancellation was disabled for a call, or was before.
pub fn put_back(was_enabled: bool) {
    if running().is_none() {
        // In a child that a handler has forked meanwhile.
        // SAFETY: no place.
        unsafe { real::pthread_setcancelstate(state(was_enabled), ptr::null_mut()) };
        return;
    }
    raw::set_cancellable(was_enabled);
    act_if_asynchronous();
}

/// The calling full thread's cancellation was enabled, perhaps: one that is pending may be due.
pub fn act_if_asynchronous() {
    if is_asynchronous() {
        test();
    }
}

/// The calling kernel thread has come to its end.
pub fn never_again() {
    // SAFETY: no pointer that is followed.
    unsafe { real::pthread_setcancelstate(DISABLE, ptr::null_mut()) };
}

/// Makes a call of a kernel thread's that no cancellation is to end.
pub fn disabled<T>(call: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: a valid place.
    unsafe { real::pthread_setcancelstate(DISABLE, &mut before) };
    let result = call();
    // SAFETY: no place.
    unsafe { real::pthread_setcancelstate(before, ptr::null_mut()) };
    result
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_testcancel() {
    test();
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_setcancelstate(
    wanted: c_int,
    old: *mut c_int,
) -> c_int {
    if running().is_none() {
        // SAFETY: the caller's place.
        return unsafe { real::pthread_setcancelstate(wanted, old) };
    }
    if wanted != ENABLE && wanted != DISABLE {
        return libc::EINVAL;
    }
    let was_enabled = raw::set_cancellable(wanted == ENABLE);
    if !old.is_null() {
        // SAFETY: the caller's place.
        unsafe { old.write(state(was_enabled)) };
    }
    act_if_asynchronous();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_setcanceltype(
    kind: c_int,
    old: *mut c_int,
) -> c_int {
    let Some(me) = running() else {
        // SAFETY: the caller's place.
        return unsafe { real::pthread_setcanceltype(kind, old) };
    };
    if kind != DEFERRED && kind != ASYNCHRONOUS {
        return libc::EINVAL;
    }
    // ORDER: SeqCst, see `ask`.
    let before = me.own.asynchronous.swap(kind == ASYNCHRONOUS, SeqCst);
    if !old.is_null() {
        // SAFETY: the caller's place.
        unsafe { old.write(c_int::from(before)) };
    }
    if kind == ASYNCHRONOUS {
        test();
    }
    0
}
