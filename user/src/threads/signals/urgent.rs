//! SIGURG that others send: who sends data out of turn, another process, a timer.
//!
//! The signal is the runtime's, too, which preempts threads by it and passes on here what it has
//! not sent itself. So workers let it through, and the kernel may give them what is the process's.
//! There it is pending in `stray.rs`, and a thread that lets it through handles it: on its own
//! stack, with its own mask, as any other signal that was sent to the process. On the program's
//! kernel threads its handler is called as the kernel would, but that it ends no system call which
//! the kernel can restart: the runtime's flags say so.
//!
//! Invariant: no handler of the program's runs where this signal came to a worker, which would go
//! on with others while its mask is that of the handler.

use core::ffi::{c_int, c_void};

use heddle::raw;
use libc::siginfo_t;

use super::actions::{Kept, is_in_vfork, is_plain, kept};
use super::around::put_off;
use super::faults::handle_of_kernel_thread;
use super::{SI_TKILL, bit, kernels, process, raised};
use crate::errno;
use crate::threads::{own, this};

/// What the runtime's handler has not sent itself.
pub extern "C-unwind" fn urgent(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo.
    let told = unsafe { &mut *info };
    kernels::restore(told);
    let Some(action) = kept(signal).map(Kept::get) else { return };
    let me = this().filter(|_| own::is_running());
    let (is_handled, is_in_vfork) = (!is_plain(&action), is_in_vfork());
    if !is_in_vfork && (me.is_some() || is_nobodys(told)) {
        // What nobody handles stays pending where the main thread blocks it.
        let stays = is_handled || kernels::of_main() & bit(signal) != 0;
        match me.filter(|me| is_handled && me.signals.blocked() & bit(signal) == 0) {
            _ if !stays => {}
            Some(me) => errno::kept(|| raised::pass_on_of_process(me, told)),
            None => errno::kept(|| process::stray(told)),
        }
        return;
    }
    let is_put_off = || !is_in_vfork && raw::is_pinned() && put_off(signal, info, context);
    if is_handled && !is_put_off() {
        handle_of_kernel_thread(&action, signal, info, context);
    }
}

/// Whether it came to a kernel thread that is not the program's: a worker, or one that is about to
/// be the program's and has the worker's mask still.
fn is_nobodys(info: &siginfo_t) -> bool {
    raw::is_on_worker() || !kernels::is_known() && info.si_code != SI_TKILL
}
