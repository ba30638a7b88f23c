//! The C library changes a process's identities (`setuid` and its kin) by having each of its kernel
//! threads do so: they get a signal, whose handler notes in its own thread's block that it has.
//! On a worker that runs a full thread it would note that in the full thread's block, and who waits
//! for the note would send the signal again, for ever. So the handler is called with the worker's
//! own thread pointer.
//!
//! Invariant: only the thread that the signal has interrupted runs on this kernel thread, and it
//! has its thread pointer again before it goes on: everything is blocked meanwhile.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use core::{mem, ptr};

use libc::siginfo_t;

use super::task;
use crate::{arch, runtime};

/// `SIGSETXID` of glibc's, which its own functions do not touch for others.
const SIGNAL: c_int = 33;
/// Bytes of the kernel's set of signals.
const SET_BYTES: usize = 8;

type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// The kernel's `struct sigaction`.
#[repr(C)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// The C library's handler; 0 = none yet.
static ORIGINAL: AtomicUsize = AtomicUsize::new(0);

/// Whether the handler is called so. Else a full thread that changes the identities stands still.
pub(crate) fn are_changed_by_all() -> bool {
    ORIGINAL.load(Relaxed) != 0
}

/// Called once, before the first full thread. The C library has its handler since the first kernel
/// thread was made.
pub(crate) fn prepare() {
    let mut action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
    let before = &raw mut action;
    // SAFETY: valid places of the kernel's layout. What is replaced is called by what replaces it.
    unsafe {
        let call = libc::SYS_rt_sigaction;
        let failed = libc::syscall(call, SIGNAL, ptr::null::<Action>(), before, SET_BYTES) != 0;
        if failed || action.handler == libc::SIG_DFL || action.handler == libc::SIG_IGN {
            return;
        }
        // Before ours can be called.
        ORIGINAL.store(action.handler, Relaxed);
        action.handler = on_signal as *const () as usize;
        action.mask = u64::MAX;
        let none = ptr::null_mut::<Action>();
        if libc::syscall(call, SIGNAL, &raw const action, none, SET_BYTES) != 0 {
            ORIGINAL.store(0, Relaxed);
        }
    }
}

/// The thread pointer of the worker whose kernel thread this is. Not by what is thread-local: whose
/// block that is, is the question.
fn own_thread_pointer() -> Option<usize> {
    if runtime::is_of_parent() {
        // Its workers are not here, and others may have their numbers.
        return None;
    }
    let tid = task::tid();
    let worker = runtime::get()?.workers().find(|worker| worker.tid() == tid)?;
    Some(worker.own_thread_pointer())
}

/// The handler that the kernel calls.
///
/// # Safety
/// As the C library's, whose arguments it gets.
unsafe extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the C library's handler of this signal, stored before this was installed.
    let original: Handler = unsafe { mem::transmute(ORIGINAL.load(Relaxed)) };
    let current = arch::thread_pointer();
    let own = own_thread_pointer().filter(|own| *own != current);
    // SAFETY: where it runs a full thread the processor lets programs change it; the block is the
    // worker's, which waits for that thread, and nothing comes between.
    unsafe {
        own.into_iter().for_each(|own| arch::set_thread_pointer(own));
        original(signal, info, context);
        own.into_iter().for_each(|_| arch::set_thread_pointer(current));
    }
}
