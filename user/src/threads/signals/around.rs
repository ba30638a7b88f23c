//! The kernel's handler of all signals that are neither faults nor let through by workers, on the
//! program's kernel threads: the main one mostly.
//!
//! A handler that comes in the middle of the runtime leaves there what it wakes (`raw::
//! when_unpinned`), and its thread does it when it is out of that. A handler that waits for an
//! answer would wait for ever: collectors have a stopped thread post a semaphore and wait in its
//! handler until it may go on. So there the program's handler is not called: the signal is sent to
//! the thread again, which has it blocked until it is out of the runtime, a few instructions
//! later.
//!
//! Invariants:
//! 1. A signal is in [`PUT_OFF`] while its thread has it blocked for this alone.
//! 2. The program's handlers find no pin of their thread's, but for those of faults, of what
//!    workers let through, and of what an instruction of the program's own has set.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::mem;
use core::ptr;

use heddle::raw;
use libc::siginfo_t;

use super::actions::{Kept, is_in_vfork, is_plain, kept, reset};
use super::bit;
use super::entered::Entered;
use super::faults::blocked_in;
use crate::calls::mask;
use crate::errno;
use crate::sys::signals;

thread_local! {
    /// See invariant 1.
    static PUT_OFF: Cell<u64> = const { Cell::new(0) };
}

/// A handler, as the kernel calls it; one without SA_SIGINFO takes the first argument alone, and
/// the calling convention lets it be given more.
type Handler = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// The kernel's handler, with the mask, on the stack and with most flags that the program wants.
pub extern "C-unwind" fn around(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if raw::is_pinned() && !is_in_vfork() && put_off(signal, info, context) {
        return;
    }
    // Somebody may have changed it meanwhile.
    let Some(action) = kept(signal).map(Kept::get).filter(|action| !is_plain(action)) else {
        return;
    };
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        errno::kept(|| reset(signal, &action));
    }
    let entered = Entered::new(context);
    // SAFETY: the program's handler, called as by the kernel.
    unsafe {
        let handler: Handler = mem::transmute(action.sa_sigaction);
        handler(signal, info, context);
    }
    entered.end(context);
}

/// What the calling thread has blocked for this alone.
pub fn put_off_now() -> u64 {
    PUT_OFF.get()
}

/// Sends the signal to the calling thread again; false if the kernel has no place for it.
pub fn put_off(signal: c_int, info: *mut siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: the kernel passed it to a handler, which has not returned.
    if unsafe { !signals::queue_to_own(&*info) } {
        return false;
    }
    *blocked_in(context) |= bit(signal);
    PUT_OFF.set(PUT_OFF.get() | bit(signal));
    raw::when_unpinned(let_through, 0);
    true
}

/// The calling thread is out of the runtime. Its handlers run in here, and may jump out.
fn let_through(_argument: usize, _times: u32) {
    let signals = mask::set_of(PUT_OFF.take());
    errno::kept(|| {
        // SAFETY: a valid set.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &signals, ptr::null_mut()) };
    });
}
