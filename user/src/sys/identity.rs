//! What a program takes for a kernel thread's: its number, its name, its priority, its processors.
//!
//! A full thread has a number of its own, above all that the kernel gives. The kernel does not know
//! it, so the calls that take such a number are answered here. What has no meaning for a thread
//! that any worker may run (its niceness, its processors) is accepted, remembered where somebody
//! may ask for it, and acts on nothing; above all not on the worker. A real-time policy acts in
//! heddle's scheduler, as by `pthread_setschedparam`.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::cell::Cell;
use core::ffi::{c_char, c_int, c_uint, c_ulong};

use libc::{cpu_set_t, pid_t, sched_param};

use super::kept;
use crate::threads::identity::{heddle_user_pthread_getname_np, heddle_user_pthread_setname_np};
use crate::threads::{affinity, schedule};
use crate::{errno, threads};

thread_local! {
    /// The niceness that this full thread was given; before that it has the process's.
    static NICENESS: Cell<Option<c_int>> = const { Cell::new(None) };
}

/// Whether `tid` is the number of a full thread, or stands for the caller, who is one.
fn is_full(tid: pid_t) -> bool {
    threads::is_number(tid) || (tid == 0 && crate::me().is_some())
}

fn fail(number: c_int) -> c_int {
    errno::set(number);
    -1
}

/// The calling thread's number.
#[unsafe(no_mangle)]
pub extern "C" fn heddle_user_gettid() -> pid_t {
    threads::number() as pid_t
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_sched_setaffinity(
    tid: pid_t,
    bytes: usize,
    processors: *const cpu_set_t,
) -> c_int {
    if !is_full(tid) {
        // SAFETY: the caller's set.
        return unsafe { libc::sched_setaffinity(tid, bytes, processors) };
    }
    // SAFETY: the caller's set.
    answer(threads::with_number(tid as u32, |target| unsafe {
        affinity::set(target, bytes, processors)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_sched_getaffinity(
    tid: pid_t,
    bytes: usize,
    processors: *mut cpu_set_t,
) -> c_int {
    if !is_full(tid) {
        // SAFETY: the caller's set.
        return unsafe { libc::sched_getaffinity(tid, bytes, processors) };
    }
    // SAFETY: the caller's set.
    answer(threads::with_number(tid as u32, |target| unsafe {
        affinity::get(target, bytes, processors)
    }))
}

/// An error number as a system call says it; no number: no such thread.
fn answer(error: Option<c_int>) -> c_int {
    match error {
        Some(0) => 0,
        Some(error) => fail(error),
        None => fail(libc::ESRCH),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_sched_setscheduler(
    tid: pid_t,
    policy: c_int,
    param: *const sched_param,
) -> c_int {
    if !is_full(tid) {
        // SAFETY: the caller's parameter.
        return unsafe { libc::sched_setscheduler(tid, policy, param) };
    }
    // SAFETY: as above.
    let priority = unsafe { (*param).sched_priority };
    answer(Some(schedule::change_number(tid as u32, Some(policy), priority)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_sched_setparam(
    tid: pid_t,
    param: *const sched_param,
) -> c_int {
    if !is_full(tid) {
        // SAFETY: the caller's parameter.
        return unsafe { libc::sched_setparam(tid, param) };
    }
    // SAFETY: as above.
    let priority = unsafe { (*param).sched_priority };
    answer(Some(schedule::change_number(tid as u32, None, priority)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_sched_getscheduler(tid: pid_t) -> c_int {
    if !is_full(tid) {
        // SAFETY: no pointers.
        return unsafe { libc::sched_getscheduler(tid) };
    }
    schedule::of_number(tid as u32).map_or_else(|| fail(libc::ESRCH), |(policy, _)| policy)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_sched_getparam(tid: pid_t, param: *mut sched_param) -> c_int {
    if !is_full(tid) {
        // SAFETY: the caller's place.
        return unsafe { libc::sched_getparam(tid, param) };
    }
    let Some((_, priority)) = schedule::of_number(tid as u32) else { return fail(libc::ESRCH) };
    // SAFETY: the caller's place.
    unsafe { (*param).sched_priority = priority };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_setpriority(
    kind: c_uint,
    who: libc::id_t,
    niceness: c_int,
) -> c_int {
    if kind != libc::PRIO_PROCESS || !is_full(who as pid_t) {
        // SAFETY: no pointers.
        return unsafe { libc::setpriority(kind, who, niceness) };
    }
    if who == 0 || who == threads::number() {
        NICENESS.set(Some(niceness.clamp(-20, 19)));
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_getpriority(kind: c_uint, who: libc::id_t) -> c_int {
    let is_own = who == 0 || who == threads::number();
    let known = if is_own { NICENESS.get() } else { None };
    match (kind == libc::PRIO_PROCESS && is_full(who as pid_t), known) {
        (true, Some(niceness)) => niceness,
        // SAFETY: no pointers.
        (true, None) => unsafe { libc::getpriority(kind, 0) },
        // SAFETY: no pointers.
        (false, _) => unsafe { libc::getpriority(kind, who) },
    }
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

// SAFETY: the C library's function, by its header.
unsafe extern "C" {
    fn tgkill(process: pid_t, tid: pid_t, signal: c_int) -> c_int;
}
