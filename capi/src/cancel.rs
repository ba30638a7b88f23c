//! Cancellation: deferred, at the calls that block.
//!
//! Protocol: the request is kept in the runtime's control block; the runtime ends waits that it
//! can end. A kernel thread that waits for a descriptor is woken by an eventfd which it polls
//! along: it publishes the eventfd, then looks at the request; the canceller sets the request,
//! then looks for the eventfd. One of the two sees the other.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid or null where that is allowed.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;

use heddle::raw;

use crate::stop::Stop;
use crate::{current, data, exit};

const ENABLE: c_int = 0;
const DISABLE: c_int = 1;
const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;
/// `HEDDLE_CANCELED`.
const CANCELED: usize = usize::MAX;

/// Ends the calling thread, which was cancelled.
#[cold]
pub fn act() -> ! {
    exit::exit(current::data(), ptr::without_provenance_mut(CANCELED))
}

/// Every cancellation point begins with this.
///
/// # Errors
/// [`Stop::Cancelled`] when a request is pending and enabled.
#[inline]
pub fn check() -> Result<(), Stop> {
    // Nobody knows an id of a thread that has no data, so nobody can have cancelled it.
    if current::known().is_some() && raw::is_cancelled() { Err(Stop::Cancelled) } else { Ok(()) }
}

/// The eventfd that a request makes readable; for kernel threads.
///
/// # Errors
/// When the kernel has none left.
pub fn event() -> Result<c_int, Stop> {
    let data = current::data();
    let known = data.cancel_event.load(SeqCst);
    if known >= 0 {
        return Ok(known);
    }
    // SAFETY: no pointers.
    let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if event < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    data.cancel_event.store(event, SeqCst);
    fence(SeqCst);
    Ok(event)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_cancel(thread: u64) -> c_int {
    let Some((data, mut shared)) = data::find(thread) else { return libc::ESRCH };
    if shared.finished {
        return 0;
    }
    shared.cancel_asked = true;
    if let Some(thread) = &shared.thread {
        thread.cancel();
    }
    fence(SeqCst);
    let event = data.cancel_event.load(SeqCst);
    if event >= 0 {
        let one = 1_u64;
        // SAFETY: eight valid bytes; the descriptor lives as long as the slot is taken.
        unsafe { libc::write(event, ptr::from_ref(&one).cast(), 8) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_setcancelstate(state: c_int, old: *mut c_int) -> c_int {
    if state != ENABLE && state != DISABLE {
        return libc::EINVAL;
    }
    current::data();
    let was_enabled = raw::set_cancellable(state == ENABLE);
    if !old.is_null() {
        // SAFETY: the caller's place.
        unsafe { old.write(if was_enabled { ENABLE } else { DISABLE }) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
    match kind {
        DEFERRED => {}
        ASYNCHRONOUS => return libc::ENOTSUP,
        _ => return libc::EINVAL,
    }
    if !old.is_null() {
        // SAFETY: the caller's place.
        unsafe { old.write(DEFERRED) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_testcancel() {
    if check().is_err() {
        act();
    }
}
