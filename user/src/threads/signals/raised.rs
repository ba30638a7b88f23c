//! What a write raises in the thread that made it: `SIGPIPE` without a reader, `SIGXFSZ` past the
//! limit of a file's size.
//!
//! The kernel sends it to the kernel thread that made the system call. For a full thread that is a
//! worker, where the C library writes by itself, as stdio does, or the program by number: so
//! workers let it through, and the kernel has a handler of ours for it ([`arrived`]), which makes
//! it the full thread's. Or it is a kernel thread of the pool, which blocks it: there it is taken
//! when the call is done ([`take`]), and sent to the thread that waits for the call.
//!
//! One that somebody sends to the process may come to a worker as well. It is the process's
//! (`stray.rs`) where the thread that runs there blocks it, and if that does not, until it is
//! handled. What a write raises is told as if this process had sent it by `kill`, as a process may
//! to its own group; but it comes right behind the system call that fails ([`is_of_write`]). Not
//! known is that of a write which has written a part.
//!
//! Invariant: none stays pending at a kernel thread of this library's, where it would act later,
//! for somebody else.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;
use libc::{siginfo_t, ucontext_t};

use super::actions::{is_in_vfork, kept};
use super::faults::entry;
use super::timed::{TIMED, handled_here};
use super::{SI_TKILL, add, bit, call, info_of, kernels, process};
use crate::errno;
use crate::sys::{probed, signals};
use crate::threads::{Pthread, own, this};

/// The signals, and the error with which a call fails that raises it.
pub const RAISED: [(c_int, c_int); 2] =
    [(libc::SIGPIPE, libc::EPIPE), (libc::SIGXFSZ, libc::EFBIG)];

/// The instruction.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// What workers let through besides faults: these, and what a timer of CPU time sends.
pub const LET_THROUGH: [c_int; 4] = [RAISED[0].0, RAISED[1].0, TIMED[0], TIMED[1]];

/// Whether it is one of those. The preemption signal is not, for which the runtime has its handler.
pub fn is_let_through(signal: c_int) -> bool {
    LET_THROUGH.contains(&signal)
}

/// Before the first worker is made.
pub fn begin() {
    LET_THROUGH.into_iter().for_each(raw::let_through);
}

/// The kernel's handler of what workers let through, where the program does not ignore it.
pub extern "C-unwind" fn arrived(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let me = this().filter(|_| own::is_running());
    let is_default = kept(signal).is_none_or(|kept| kept.get().sa_sigaction == libc::SIG_DFL);
    // SAFETY: the kernel passes a valid siginfo.
    let told = unsafe { &mut *info };
    kernels::restore(told);
    let is_blocked = me.is_some_and(|me| me.signals.blocked() & bit(signal) != 0);
    match me {
        Some(_) if is_blocked && !is_of_write(told, context) => {
            errno::kept(|| process::stray(told))
        }
        Some(me) if !is_blocked && !is_default && handled_here(me, signal, info, context) => {}
        Some(me) if !is_blocked && !is_default && is_of_process(told) => {
            errno::kept(|| pass_on_of_process(me, told))
        }
        Some(me) if is_blocked || !is_default => errno::kept(|| pass_on(me, told)),
        None if is_nobodys(told, context) => errno::kept(|| process::stray(told)),
        _ => entry(signal, info, context),
    }
}

/// Whether one that came to a kernel thread which runs no full thread is not for that: it is a
/// worker, is about to be one or was, or will be a thread of the program's, which has the worker's
/// mask still. No write of a thread's: one that is about to leave its stack makes none. The child
/// of a vfork is a process of its own.
fn is_nobodys(info: &siginfo_t, context: *mut c_void) -> bool {
    let is_unknown =
        || !kernels::is_known() && info.si_code != SI_TKILL && !is_of_write(info, context);
    !is_in_vfork() && (raw::is_on_worker() || is_unknown())
}

/// Whether it is one that a write raises, and no write has raised it.
fn is_of_process(info: &siginfo_t) -> bool {
    RAISED.iter().any(|&(raised, _)| raised == info.si_signo) && !may_be_of_write(info)
}

/// Whether it is told as what a write raises.
fn may_be_of_write(info: &siginfo_t) -> bool {
    // SAFETY: what is told of a sender; no arguments.
    info.si_code == libc::SI_USER && unsafe { info.si_pid() == libc::getpid() }
}

/// Whether a write has raised it.
fn is_of_write(info: &siginfo_t, context: *mut c_void) -> bool {
    let error = RAISED.iter().find(|&&(raised, _)| raised == info.si_signo);
    may_be_of_write(info) && error.is_some_and(|&(_, error)| is_behind_failed(context, error))
}

/// Whether the kernel interrupted a thread there right behind a system call that fails so.
fn is_behind_failed(context: *mut c_void, error: c_int) -> bool {
    let mut context = context.cast::<ucontext_t>();
    // SAFETY: the kernel passed it to a handler, which has not returned.
    let of = |context: *mut ucontext_t, register: c_int| unsafe {
        (*context).uc_mcontext.gregs[register as usize] as usize
    };
    let is_handler = |at: usize| at == raw::interrupter() || at == arrived as *const () as usize;
    // Of another handler, which has not begun yet: its context is its third argument.
    while is_handler(of(context, libc::REG_RIP)) {
        context = ptr::with_exposed_provenance_mut(of(context, libc::REG_RDX));
    }
    let behind = of(context, libc::REG_RIP).wrapping_sub(SYSCALL.len());
    of(context, libc::REG_RAX) as isize == -(error as isize)
        // Elsewhere there may be nothing before it.
        && probed::read(ptr::with_exposed_provenance::<[u8; 2]>(behind)) == Ok(SYSCALL)
}

/// Makes it the thread's own: it is handled when that is called, which is at once where it may be.
fn pass_on(me: &Pthread, info: &siginfo_t) {
    // Step 1 of the protocol.
    me.signals.pending.add(info);
    me.signals.told.count();
    raw::when_unpinned(call, me.slot.load(Relaxed) as usize);
}

/// One that was sent to the process, and that the thread lets through: it stays the process's until
/// it is handled. Among the thread's own, what a write raises then would be the same one.
pub fn pass_on_of_process(me: &Pthread, info: &siginfo_t) {
    process::stray(info);
    me.signals.look.store(true, Relaxed);
    raw::when_unpinned(call, me.slot.load(Relaxed) as usize);
}

/// Raises a signal in the calling full thread, in a call: the handler runs when that has let go of
/// all that it holds.
pub fn raise(signal: c_int) {
    let Some(me) = this() else { return };
    if errno::kept(|| add(me, &info_of(signal))).is_none() {
        raw::call_again();
    }
}

/// Takes from the calling kernel thread, which blocks it, what a call that left `error` raised.
pub fn take(error: c_int) -> Option<c_int> {
    let (signal, _) = RAISED.into_iter().find(|&(_, with)| with == error)?;
    let info = signals::take(bit(signal))?;
    if may_be_of_write(&info) {
        return Some(signal);
    }
    // The call has raised none; the kernel had one for the process.
    process::stray(&info);
    None
}
