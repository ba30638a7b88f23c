//! `syscall`: what the program asks of the kernel by number.
//!
//! Taken are the calls that would tell of the worker instead of the thread, change it, or hold it:
//! futex on a word of this process, for all threads; what takes or tells a full thread's number;
//! its CPU time, the yield, its mask, its alternate stack, its end, and what is in `scheduling.rs`
//! and `kept.rs`, for full threads. All else goes to the kernel.
//!
//! # Safety
//! For the exported function: as the C library's function of the same name.

use core::ffi::{c_int, c_long, c_ulong};

use super::futex::{self, Call};
use super::{cpu_clock, identity, kept, scheduling};
use crate::calls::mask;
use crate::errno;
use crate::threads::signals::{self, alternate, process};
use crate::threads::{end, this};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let taken = match number {
        libc::SYS_futex => futex::call(&Call {
            word: a,
            operation: b as c_int,
            value: c as u32,
            timeout_or_count: d,
            other: e,
            bits: f as u32,
        }),
        libc::SYS_sched_yield if crate::me().is_some() => {
            heddle::thread::yield_now();
            signals::answer_if_called();
            Some(Ok(0))
        }
        libc::SYS_rt_sigprocmask if kept::has_none() => {
            Some(mask::by_number(a as c_int, b as *const u64, c as *mut u64, d).map(|()| 0))
        }
        libc::SYS_sigaltstack if kept::has_none() => {
            this().map(|me| alternate::by_number(me, a as *const _, b as *mut _).map(|()| 0))
        }
        libc::SYS_exit if kept::has_none() => match this() {
            Some(me) => end::end_by_number(me),
            None => None,
        },
        _ => return of_thread(number, [a, b, c, d, e, f]),
    };
    match taken {
        Some(Ok(value)) => value,
        Some(Err(number)) => {
            errno::set(number);
            -1
        }
        None => real(number, [a, b, c, d, e, f]),
    }
}

fn real(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> c_long {
    // SAFETY: the caller's arguments.
    unsafe { libc::syscall(number, a, b, c, d, e, f) }
}

/// Calls that take or tell a thread's number.
fn of_thread(number: c_long, arguments: [usize; 6]) -> c_long {
    let [a, b, c, d, ..] = arguments;
    // SAFETY: the caller's arguments, of the same types.
    let result = unsafe {
        match number {
            libc::SYS_gettid => identity::heddle_user_gettid(),
            libc::SYS_tgkill => identity::heddle_user_tgkill(a as i32, b as i32, c as i32),
            libc::SYS_tkill => identity::heddle_user_tgkill(libc::getpid(), a as i32, b as i32),
            libc::SYS_rt_tgsigqueueinfo => {
                return signals::queue_info(a as i32, b as i32, c as i32, d as *const _);
            }
            libc::SYS_kill => process::heddle_user_kill(a as i32, b as i32),
            libc::SYS_clock_gettime => cpu_clock::heddle_user_clock_gettime(a as i32, b as *mut _),
            libc::SYS_prctl if crate::me().is_some() => {
                let [_, b, c, d, e, _] = arguments.map(|word| word as c_ulong);
                identity::heddle_user_prctl(a as i32, b, c, d, e)
            }
            libc::SYS_getrusage => cpu_clock::heddle_user_getrusage(a as i32, b as *mut _),
            _ => {
                let answer = scheduling::by_number(number, arguments);
                if let Some(result) = answer.or_else(|| kept::answer(number, arguments)) {
                    return result;
                }
                return real(
                    number,
                    identity::of_processes(number, arguments).unwrap_or(arguments),
                );
            }
        }
    };
    c_long::from(result)
}
