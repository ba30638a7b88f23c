//! Signals of faults that somebody sends to this process: they are meant for the program, too.
//!
//! A fault of this process's own is not: what was there before for it comes back, and the
//! instruction runs again.
//!
//! Invariant: what the handler calls may be called in any handler.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

const FAULTS: [c_int; 6] =
    [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];

/// Whom they are sent on to; 0 = nobody.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// What was there for each of [`FAULTS`].
static BEFORE: [OnceLock<libc::sigaction>; FAULTS.len()] =
    [const { OnceLock::new() }; FAULTS.len()];

/// From now on these are sent on to `program`, a child that nobody has waited for.
pub fn pass_faults_on(program: i32) {
    PROGRAM.store(program, Relaxed);
    for (signal, before) in FAULTS.into_iter().zip(&BEFORE) {
        // SAFETY: both are valid places, of which all zero bytes are a valid content.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut old) != 0 {
                continue;
            }
            let _ = before.set(old);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = pass_on as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// The program has ended.
pub fn pass_no_faults_on() {
    PROGRAM.store(0, Relaxed);
}

/// # Safety
/// 1. The kernel calls it, for one of [`FAULTS`].
unsafe extern "C" fn pass_on(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the calling thread's own word; by 1 the information is valid.
    let (errno, is_sent) = unsafe { (*libc::__errno_location(), (*info).si_code <= 0) };
    let program = PROGRAM.load(Relaxed);
    if is_sent && program > 0 {
        // SAFETY: by 1, of one that was sent; no arguments.
        let (sender, own) = unsafe { ((*info).si_pid(), libc::getpid()) };
        // What the program has sent to its process group it has got.
        if sender != program && sender != own {
            // SAFETY: no pointers.
            unsafe { libc::kill(program, signal) };
        }
    } else if let Some(at) = FAULTS.iter().position(|it| *it == signal) {
        let before = BEFORE[at].get().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: null, or what the kernel has said.
        unsafe {
            libc::sigaction(signal, before, std::ptr::null_mut());
            // These are told of an instruction behind them.
            if is_sent || matches!(signal, libc::SIGTRAP | libc::SIGSYS) {
                libc::raise(signal);
            }
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
