//! SIGPROF and SIGVTALRM, which a timer sends to the process when it has used CPU time: profilers
//! look what the thread does that gets them.
//!
//! The kernel gives them to the kernel thread that computes, if that lets them through. So workers
//! do, and the full thread that a worker runs handles them, where it was interrupted and with its
//! registers, if it may be left there ([`handled_here`]): the handler may wait, and go on elsewhere
//! (`faults.rs`). In the middle of the runtime or of the C library it is called as for any other
//! signal, as soon as it may be, which is at once in most of the C library, and sees the registers
//! of its own call.
//!
//! Where the thread blocks them, or the worker runs none, they are the process's (`stray.rs`).
//!
//! Invariant: what comes while there is a handler does not end the process when that is gone: it
//! would have been handled by then ([`is_late`]).

use core::ffi::{c_int, c_void};
use core::ptr;

use heddle::raw;
use libc::{siginfo_t, ucontext_t};

use super::faults;
use super::sent::unused;
use crate::threads::Pthread;

/// The signals.
pub const TIMED: [c_int; 2] = [libc::SIGPROF, libc::SIGVTALRM];

/// Stands in those that are handled later than they came.
const LATE: c_int = 1;

/// Handles what has come to the calling full thread, `me`, which does not block it; false: it is to
/// be handled later.
pub fn handled_here(
    me: &Pthread,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) -> bool {
    if !TIMED.contains(&signal) {
        return false;
    }
    // SAFETY: the kernel passed it to a handler, which has not returned.
    unsafe { *unused(&mut *info) = LATE };
    let first = before_preemption(context);
    // SAFETY: as above; or the kernel is about to pass it.
    if me.signals.masked.get().is_some() || !unsafe { raw::may_be_left(first.unwrap_or(context)) } {
        return false;
    }
    match first {
        Some(first) => faults::handle_before(signal, info, context, first),
        None => faults::handle(signal, info, context).is_none(),
    }
}

/// The frame of the preemption signal's handler, if that was to begin next: the processor was given
/// to somebody else, and both signals came meanwhile.
fn before_preemption(context: *mut c_void) -> Option<*mut c_void> {
    // SAFETY: the kernel passed it to a handler, which has not returned.
    let registers = unsafe { (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let of = |register: c_int| registers[register as usize] as usize;
    (of(libc::REG_RIP) == raw::interrupter())
        .then(|| ptr::with_exposed_provenance_mut(of(libc::REG_RDX)))
}

/// Whether it was to be handled earlier.
pub fn is_late(info: &mut siginfo_t) -> bool {
    TIMED.contains(&info.si_signo) && *unused(info) == LATE
}
