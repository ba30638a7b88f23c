//! Signals that carry a value, or all that a sender says of itself, to one full thread.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_int, c_long};

use libc::{pid_t, pthread_t, siginfo_t, sigval};

use super::actions::OF_C_LIBRARY;
use super::sent::Sent;
use super::{is_the_kernels, send_info, send_info_to};
use crate::errno;
use crate::sys::signals;
use crate::threads::{find, is_number};

/// `si_code` of a signal that carries a value.
const SI_QUEUE: c_int = -1;

// SAFETY: the C library's function, by its header.
unsafe extern "C" {
    fn pthread_sigqueue(thread: pthread_t, signal: c_int, value: sigval) -> c_int;
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_sigqueue(
    thread: pthread_t,
    signal: c_int,
    value: sigval,
) -> c_int {
    // SAFETY: the caller's thread.
    let target = match unsafe { find(thread) } {
        Some(target) if !is_the_kernels(target) => target,
        // SAFETY: as above.
        _ => return unsafe { pthread_sigqueue(thread, signal, value) },
    };
    let value = value.sival_ptr.addr() as u64;
    match signal {
        _ if target.has_ended() => libc::ESRCH,
        _ if OF_C_LIBRARY.contains(&signal) => libc::EINVAL,
        0 => 0,
        1..super::SIGNALS => {
            let info = Sent::by_us(signal, SI_QUEUE, value).info();
            errno::kept(|| send_info(target, &info))
        }
        _ => libc::EINVAL,
    }
}

/// `rt_tgsigqueueinfo`: as the system call, whose result this is.
///
/// # Safety
/// 1. `info` is valid, as the system call asks for it.
pub unsafe fn queue_info(
    process: pid_t,
    tid: pid_t,
    signal: c_int,
    info: *const siginfo_t,
) -> c_long {
    // SAFETY: no arguments.
    let is_own = process == unsafe { libc::getpid() };
    let error = match (is_own, is_number(tid)) {
        (true, true) if !(0..super::SIGNALS).contains(&signal) => libc::EINVAL,
        (true, true) if signal == 0 => 0,
        (true, true) => {
            // SAFETY: by 1. The number is what the kernel makes it: the argument.
            let mut info = unsafe { *info };
            info.si_signo = signal;
            errno::kept(|| send_info_to(tid as u32, &info))
        }
        _ => signals::queue(process, tid, signal, info),
    };
    if error == 0 {
        return 0;
    }
    errno::set(error);
    -1
}
