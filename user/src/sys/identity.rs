//! What a program takes for a kernel thread's: its number and its name.
//!
//! A full thread has a number of its own, above all that the kernel gives. The kernel does not know
//! it, so the calls that take such a number are answered in this library: here, in `scheduling.rs`
//! and in `kept.rs`. Where the kernel takes the number of any thread for its process, so does
//! [`process_of`].
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_char, c_int, c_long, c_ulong};

use libc::{iovec, pid_t, rlimit};

use super::{filter, kept};
use crate::threads::identity::{heddle_user_pthread_getname_np, heddle_user_pthread_setname_np};
use crate::{errno, threads};

fn fail(number: c_int) -> c_int {
    errno::set(number);
    -1
}

/// The calling thread's number. Only a full thread's is kept anywhere: that of a kernel thread is
/// another one in each child, whatever way that was made, and may not be kept in a child that has
/// its parent's memory.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn heddle_user_gettid() -> pid_t {
    match kept::has_none() {
        true => {
            threads::signals::answer_soon();
            threads::number() as pid_t
        }
        false => rustix::thread::gettid().as_raw_nonzero().get(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_tgkill(
    process: pid_t,
    tid: pid_t,
    signal: c_int,
) -> c_int {
    // SAFETY: no arguments.
    if threads::is_number(tid) && process == unsafe { libc::getpid() } {
        return match errno::kept(|| threads::signals::send_to(tid as u32, signal)) {
            0 => 0,
            error => fail(error),
        };
    }
    // SAFETY: no pointers.
    unsafe { tgkill(process, tid, signal) }
}

/// `prctl`: a full thread's name is its own; all else is the process's or the worker's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    let text = a as *mut c_char;
    if !kept::has_none() {
        let is_filter = filter::is_set_by(option, a as usize);
        if is_filter {
            errno::kept(|| filter::before(b as usize));
        }
        // SAFETY: the caller's arguments.
        let result = kept::option_of_kernel(option, a as usize, || unsafe {
            libc::prctl(option, a, b, c, d)
        });
        if is_filter && result == 0 {
            filter::after();
        }
        return result;
    }
    // SAFETY: the caller's text, or its place of 16 bytes.
    let error = unsafe {
        match option {
            libc::PR_SET_NAME => set_name(text),
            libc::PR_GET_NAME => heddle_user_pthread_getname_np(libc::pthread_self(), text, 16),
            _ => {
                let own = kept::option(option, a as usize);
                return own.unwrap_or_else(|| libc::prctl(option, a, b, c, d));
            }
        }
    };
    if error == 0 { 0 } else { fail(error) }
}

/// As the kernel does it: what is too long is cut.
///
/// # Safety
/// 1. `text` is a text, or has 16 bytes.
unsafe fn set_name(text: *const c_char) -> c_int {
    let mut short = [0; 16];
    for (at, place) in short.iter_mut().take(15).enumerate() {
        // SAFETY: by 1; the text has not ended before.
        *place = unsafe { text.add(at).read() };
        if *place == 0 {
            break;
        }
    }
    // SAFETY: a text that ends.
    unsafe { heddle_user_pthread_setname_np(libc::pthread_self(), short.as_ptr()) }
}

// SAFETY: the C library's functions, by its headers.
unsafe extern "C" {
    fn tgkill(process: pid_t, tid: pid_t, signal: c_int) -> c_int;
}

// ---- where a number stands for its thread's process

/// The process of the full thread that has this number; any other number as it is.
pub fn process_of(tid: pid_t) -> pid_t {
    match threads::is_number(tid) && threads::with_number(tid as u32, |_| ()).is_some() {
        // SAFETY: no arguments.
        true => unsafe { libc::getpid() },
        false => tid,
    }
}

/// What a system call with such numbers is to be called with; `None`: it has none.
pub fn of_processes(number: c_long, mut arguments: [usize; 6]) -> Option<[usize; 6]> {
    let count = match number {
        libc::SYS_kcmp => 2,
        libc::SYS_prlimit64
        | libc::SYS_getpgid
        | libc::SYS_getsid
        | libc::SYS_rt_sigqueueinfo
        | libc::SYS_process_vm_readv
        | libc::SYS_process_vm_writev
        | libc::SYS_move_pages
        | libc::SYS_migrate_pages => 1,
        _ => return None,
    };
    for argument in &mut arguments[..count] {
        *argument = process_of(*argument as pid_t) as usize;
    }
    Some(arguments)
}

#[unsafe(no_mangle)]
extern "C" fn heddle_user_getpgid(tid: pid_t) -> pid_t {
    // SAFETY: no pointers.
    unsafe { libc::getpgid(process_of(tid)) }
}

#[unsafe(no_mangle)]
extern "C" fn heddle_user_getsid(tid: pid_t) -> pid_t {
    // SAFETY: no pointers.
    unsafe { libc::getsid(process_of(tid)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_prlimit(
    tid: pid_t,
    resource: libc::__rlimit_resource_t,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: the caller's places.
    unsafe { libc::prlimit(process_of(tid), resource, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_prlimit64(
    tid: pid_t,
    resource: libc::__rlimit_resource_t,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: passed on; a limit has 64 bits.
    unsafe { heddle_user_prlimit(tid, resource, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_process_vm_readv(
    tid: pid_t,
    here: *const iovec,
    heres: usize,
    there: *const iovec,
    theres: usize,
    flags: usize,
) -> isize {
    let (heres, theres, flags) = (heres as _, theres as _, flags as _);
    // SAFETY: the caller's parts.
    unsafe { libc::process_vm_readv(process_of(tid), here, heres, there, theres, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_process_vm_writev(
    tid: pid_t,
    here: *const iovec,
    heres: usize,
    there: *const iovec,
    theres: usize,
    flags: usize,
) -> isize {
    let (heres, theres, flags) = (heres as _, theres as _, flags as _);
    // SAFETY: the caller's parts.
    unsafe { libc::process_vm_writev(process_of(tid), here, heres, there, theres, flags) }
}
