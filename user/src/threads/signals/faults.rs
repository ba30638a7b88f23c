//! Handlers of faults: signals that report what the thread itself did, on its kernel thread.
//!
//! The kernel calls such a handler on the kernel thread that runs a full thread, with that one's
//! mask changed and on that one's alternate stack. But the full thread may wait in the handler, or
//! be preempted there, and go on on another kernel thread; and the first one runs others meanwhile.
//! So the kernel has one handler for all, [`entry`] (the runtime's for SIGSEGV, which asks
//! [`handle`]); the program's are kept in `actions.rs`. Ours has no signal blocked, and moves the
//! kernel's frame from the worker's alternate stack to the one that the program asked for, before
//! it calls the program's handler as the kernel does. The thread's own mask is what the handler
//! changes. When it returns, wherever that is, the kernel restores all registers from the frame,
//! and leaves the kernel thread's alternate stack alone.
//!
//! A fault in the middle of the runtime is handled where it is: a handler that waits there, or
//! jumps, would leave the runtime's locks behind.

use core::ffi::{c_int, c_void};
use core::mem;
use core::ptr;

use heddle::raw::{self, Frame};
use libc::{sigaction, siginfo_t, ucontext_t};

use super::actions::{Kept, is_plain, kept, reset};
use super::alternate::call_here;
use super::entered::Entered;
use super::raised::is_let_through;
use super::{bit, deliver, failure, handled_with};
use crate::calls::mask;
use crate::errno;
use crate::sys::probed;
use crate::threads::{fork, own, this};

/// What a handler needs at least.
const HANDLER_BYTES: usize = 2 << 10;
const PAGE: usize = 4096;
/// Of a SIGBUS that comes before anybody has used the memory that is broken.
const BUS_MCEERR_AO: c_int = 5;

fn user(context: *mut c_void) -> &'static mut ucontext_t {
    // SAFETY: the kernel passed it to a handler, which has not returned.
    unsafe { &mut *context.cast() }
}

/// The mask that the handler's return restores: one word, where the C library's type has more.
pub fn blocked_in(context: *mut c_void) -> &'static mut u64 {
    // SAFETY: a set begins with the word, and is aligned for it.
    unsafe { &mut *(&raw mut user(context).uc_sigmask).cast() }
}

fn frame(context: *mut c_void) -> Frame {
    // SAFETY: as in `user`.
    unsafe { Frame::of(context) }
}

/// What a handler needs between the stack pointer and the end of the stack.
fn needed_bytes(context: *mut c_void) -> usize {
    frame(context).bytes() + HANDLER_BYTES
}

/// The program may have put the thread on a stack of its own making, as coroutines have them: how
/// far down there is one at least, below `below`. `None`: there is none, or the kernel (before
/// 5.14) doesn't say.
fn stack_of_program(below: usize, context: *mut c_void) -> Option<usize> {
    let low = below.checked_sub(needed_bytes(context))?;
    let first = low / PAGE * PAGE;
    let place = ptr::with_exposed_provenance_mut(first);
    let bytes = below.checked_next_multiple_of(PAGE)? - first;
    // SAFETY: makes pages present that are the program's, and says whether they can be written to.
    let failed =
        errno::kept(|| unsafe { libc::madvise(place, bytes, libc::MADV_POPULATE_WRITE) }) != 0;
    (!failed).then_some(low)
}

/// Whether so much and a handler's frames fit between `low` and `top`.
fn is_room(low: usize, top: usize, context: *mut c_void) -> bool {
    top.checked_sub(needed_bytes(context)).is_some_and(|end| end >= low)
}

/// The kernel's handler.
pub extern "C-unwind" fn entry(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let is_sent = is_sent(info);
    match handle(signal, info, context) {
        None => {}
        Some(action) if !is_plain(&action) => {
            // SAFETY: the program's handler, as the kernel calls it.
            unsafe { call_here(&action, info, context) };
        }
        Some(action) if is_sent && action.sa_sigaction == libc::SIG_IGN => {}
        Some(_) => {
            let is_news = is_news(signal, info);
            if !is_sent && !is_news {
                failure::tell(signal, info, context);
            }
            end_process(signal, is_sent || is_news);
        }
    }
}

/// Whether it is no fault, which happens again: a process has sent it, or a timer of the kernel's.
fn is_sent(info: *const siginfo_t) -> bool {
    // SAFETY: the kernel passes a valid siginfo.
    let info = unsafe { &*info };
    info.si_code <= 0 || is_let_through(info.si_signo)
}

/// The default action: the fault happens again and ends the process; what was sent does not, nor
/// does a trap, which is behind its instruction.
fn end_process(signal: c_int, is_over: bool) {
    // SAFETY: all zero bytes are the default action.
    unsafe { libc::sigaction(signal, &mem::zeroed(), ptr::null_mut()) };
    if is_over || signal == libc::SIGTRAP {
        // SAFETY: a number.
        unsafe { libc::raise(signal) };
    }
}

/// A fault of the calling thread. `None`: it has been handled. Else the program's action,
/// for who looks further and acts by it where the thread is.
pub fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) -> Option<sigaction> {
    if probed::on_fault(info, context) {
        return None;
    }
    // SAFETY: all zero bytes are the default action.
    let default: sigaction = unsafe { mem::zeroed() };
    let Some(action) = kept(signal).map(Kept::get) else { return Some(default) };
    if is_plain(&action) {
        return Some(action);
    }
    let me = this().filter(|_| own::is_running());
    let Some(me) = me else {
        handle_of_kernel_thread(&action, signal, info, context);
        return None;
    };
    if raw::is_pinned() {
        return Some(action);
    }
    if me.signals.blocked() & bit(signal) != 0 && !is_sent(info) {
        // As the kernel does it with a fault that is blocked.
        return Some(default);
    }
    let (below, is_moved) = (frame(context).below(), frame(context).was_moved());
    // SAFETY: the kernel passed it.
    unsafe { raw::keep_alternate_stack(context) };
    let alternate = me.signals.alternate();
    let (low, bytes) = raw::stack_bounds().map_or((0, 0), |(low, bytes)| (low.addr(), bytes));
    let wanted = if alternate.has(below) { 0 } else { alternate.place_for(&action) };
    let (low, top) = match wanted {
        0 if !is_moved => {
            run(signal, info, context);
            return None;
        }
        0 if alternate.has(below) => (alternate.low(), below),
        0 if below.wrapping_sub(low) < bytes => (low, below),
        // An overflow of its own is told by who looks further.
        0 if low.wrapping_sub(below) <= raw::BEYOND_STACK_BYTES_MAX => return Some(action),
        0 => match stack_of_program(below, context) {
            Some(low) => (low, below),
            None => return Some(action),
        },
        top => (alternate.low(), top),
    };
    if !is_room(low, top, context) {
        // Nor could the kernel call a handler there.
        return Some(default);
    }
    // SAFETY: there is room, and what is there is nobody's.
    unsafe { frame(context).go_on_below(top, run) }
}

/// As [`handle`] of what was sent when the kernel is about to call the preemption signal's handler,
/// too, and has put that one's frame, `first`, above: the handler is called as if that had not come
/// yet. If that one's is on the kernel thread's alternate stack, as if it had not come at all; who
/// has sent it sends it again. False: it is to be called elsewhere.
pub fn handle_before(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
    first: *mut c_void,
) -> bool {
    let (Some(me), Some(kept)) = (this(), kept(signal)) else { return false };
    let action = kept.get();
    if is_plain(&action) || raw::is_pinned() {
        return false;
    }
    if frame(first).was_moved() {
        if !frame(first).is_of_runtime() {
            // It would be lost.
            return false;
        }
        let place = frame(first).info();
        // SAFETY: both are what the kernel passed, or is about to pass, to a handler.
        let of_first = unsafe { place.replace(info.read()) };
        let is_handled = handle(signal, place, first).is_none();
        // SAFETY: as above.
        unsafe { place.write(of_first) };
        return is_handled;
    }
    if frame(context).was_moved() || me.signals.alternate().place_for(&action) != 0 {
        return false;
    }
    run(signal, info, first);
    // SAFETY: the kernel passed it.
    unsafe { raw::keep_alternate_stack(context) };
    true
}

/// Calls the program's handler for a full thread, on the stack that it asks for.
extern "C-unwind" fn run(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let (Some(me), Some(kept)) = (this(), kept(signal)) else { return };
    let action = kept.get();
    if is_plain(&action) {
        return changed_meanwhile(&action, signal, info);
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        reset(signal, &action);
    }
    let workers = *blocked_in(context);
    if is_let_through(signal) {
        // The thread may wait in the handler, and the worker run others.
        mask::take_on(workers);
    }
    user(context).uc_stack = me.signals.alternate().told_at(frame(context).stack_pointer());
    handled_with(me, &action, signal, |before| {
        *blocked_in(context) = before;
        // SAFETY: the program's action, and what belongs to the signal.
        unsafe { me.signals.alternate().call_on_it(&action, info, context) };
        before
    });
    // The handler may have changed what the thread goes on with.
    let wanted = mem::replace(blocked_in(context), workers);
    if this().is_some_and(fork::is_child_of) {
        *blocked_in(context) = wanted;
    }
    // SAFETY: the kernel passed it, or it is a copy.
    unsafe { raw::keep_alternate_stack(context) };
    open(wanted);
}

/// Gives the calling thread the mask with which it goes on, and what that lets through.
fn open(wanted: u64) {
    let Some(me) = this() else { return };
    me.signals.go_on_with(wanted & !mask::NEVER);
    if me.signals.is_due() {
        errno::kept(|| deliver(me));
    }
}

/// As the kernel does it, for a kernel thread: with its mask, on its stack.
pub fn handle_of_kernel_thread(
    action: &sigaction,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    let is_asked_for = action.sa_flags & libc::SA_ONSTACK != 0;
    if !is_asked_for && frame(context).was_moved() {
        // SAFETY: where the kernel would have put it.
        unsafe { frame(context).go_on_below(frame(context).below(), run_of_kernel_thread) };
    }
    run_of_kernel_thread(signal, info, context);
}

extern "C-unwind" fn run_of_kernel_thread(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    let Some(action) = kept(signal).map(Kept::get) else { return };
    if is_plain(&action) {
        return changed_meanwhile(&action, signal, info);
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        reset(signal, &action);
    }
    let own = if action.sa_flags & libc::SA_NODEFER == 0 { bit(signal) } else { 0 };
    // Of what ours blocks nothing else stays: the frame has the mask of before.
    mask::take_on(*blocked_in(context) | mask::bits(&action.sa_mask) | own);
    let entered = Entered::new(context);
    // SAFETY: the program's handler, as the kernel calls it.
    unsafe { call_here(&action, info, context) };
    entered.end(context);
}

/// There was a handler, and is none any more. A fault happens again, but where the thread is behind
/// its instruction.
fn changed_meanwhile(action: &sigaction, signal: c_int, info: *const siginfo_t) {
    let ends = action.sa_sigaction == libc::SIG_DFL && signal != raw::PREEMPTION_SIGNAL;
    let is_behind = signal == libc::SIGTRAP || signal == libc::SIGSYS;
    if ends && (is_behind || is_sent(info) || is_news(signal, info)) {
        end_process(signal, true);
    }
}

/// Whether it tells of memory that broke before anybody has used it.
fn is_news(signal: c_int, info: *const siginfo_t) -> bool {
    // SAFETY: the kernel passes a valid siginfo.
    signal == libc::SIGBUS && unsafe { (*info).si_code } == BUS_MCEERR_AO
}
