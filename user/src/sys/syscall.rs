//! `syscall`: what the program asks of the kernel by number.
//!
//! Taken are the calls that would tell of the worker instead of the thread, change it, or hold it:
//! futex on a word of this process, for all threads, in all of its calls, and `rt_sigaction`; what
//! takes or tells a full thread's number; its CPU time, the yield, its mask, its alternate stack,
//! its end, and what is in `scheduling.rs`, `kept.rs` and `rings.rs`, for full threads; a fork; an
//! area of restartable sequences. A descriptor that `signalfd` makes is noted. All else goes to the
//! kernel; what may sleep there so that the signals of a full thread end it. At the end of each
//! call a thread answers what it was called for meanwhile.
//!
//! # Safety
//! For the exported function: as the C library's function of the same name.

use core::ffi::{c_int, c_long, c_ulong};

use super::futex::{self, Call};
use super::{cpu_clock, identity, interruptible, kept, own_memory, rings, scheduling};
use crate::calls::{mask, signalfd};
use crate::errno;
use crate::threads::signals::{self, Ran, actions, alternate, to_process};
use crate::threads::{cancel, end, fork, is_number, kernel, running};

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
    let result = by_number(number, [a, b, c, d, e, f]);
    signals::answer_unless_others_allocate();
    result
}

/// The call, behind which no signals are answered.
pub(super) fn by_number(number: c_long, arguments: [usize; 6]) -> c_long {
    let [a, b, c, d, e, f] = arguments;
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
        libc::SYS_rt_sigaction => signals::rt_sigaction(a as c_int, b, c, d),
        libc::SYS_sigaltstack if kept::has_none() => {
            running().map(|me| alternate::by_number(me, a as *const _, b as *mut _).map(|()| 0))
        }
        libc::SYS_io_uring_setup | libc::SYS_io_uring_register => {
            rings::answer(number, arguments, kept::has_none())
        }
        // An area of the program's own would be a worker's, whichever thread that runs. Allocators
        // take their threads' caches then.
        libc::SYS_rseq => Some(Err(libc::ENOSYS)),
        libc::SYS_exit if kept::has_none() => match running() {
            Some(me) => end::end_by_number(me, a as c_int),
            None => None,
        },
        libc::SYS_exit if fork::has_full() && !actions::is_in_vfork() => {
            kernel::ends_by_number(a as c_int);
            None
        }
        libc::SYS_clone | libc::SYS_clone3 | FORK if makes_process(number, a, b) => {
            return forked(number, arguments);
        }
        libc::SYS_signalfd4 | SIGNALFD => {
            let fd = real(number, arguments) as c_int;
            return signalfd::made(a as c_int, fd, b as *const u64).into();
        }
        futex::WAITV | futex::WAIT => {
            return futex::waiting_in_kernel(|| of_thread(number, arguments));
        }
        futex::WAKE | futex::REQUEUE => {
            return futex::woken_in_kernel(number, arguments, real(number, arguments));
        }
        _ => return of_thread(number, arguments),
    };
    match taken {
        Some(Ok(value)) => value,
        Some(Err(number)) => failed(number),
        None => real(number, arguments),
    }
}

#[cfg(target_arch = "x86_64")]
const FORK: c_long = libc::SYS_fork;
#[cfg(target_arch = "x86_64")]
const SIGNALFD: c_long = libc::SYS_signalfd;
/// No call has it: elsewhere there are only `clone` and `signalfd4`.
#[cfg(not(target_arch = "x86_64"))]
const FORK: c_long = -1;
#[cfg(not(target_arch = "x86_64"))]
const SIGNALFD: c_long = -2;

/// Whether a call makes a process that goes on here in memory of its own. What a new thread needs
/// besides, or a child in this memory or on another stack, is its maker's to give.
fn makes_process(number: c_long, first: usize, second: usize) -> bool {
    let (flags, stack) = match number {
        libc::SYS_clone => (first as u64, second as u64),
        libc::SYS_clone3 => match own_memory::read(first as *const [u64; 6]) {
            Ok([flags, .., stack]) => (flags, stack),
            Err(_) => return false,
        },
        _ => (0, 0),
    };
    flags & libc::CLONE_VM as u64 == 0 && stack == 0 && !actions::is_in_vfork()
}

/// A fork by number, of which the C library's handlers learn nothing: the child of a full thread
/// would take itself for a thread on a worker, and wait for threads of its parent. And one of
/// heddle's threads might have locked the allocator.
fn forked(number: c_long, arguments: [usize; 6]) -> c_long {
    let result = heddle::raw::without_heap_users(|| real(number, arguments));
    if result == 0 {
        errno::kept(|| fork::in_child());
    }
    result
}

pub(super) fn real(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> c_long {
    // SAFETY: the caller's arguments.
    unsafe { libc::syscall(number, a, b, c, d, e, f) }
}

/// What becomes of a call in which a handler has run that asks for calls to go on.
#[derive(Clone, Copy, PartialEq)]
enum After {
    GoesOn,
    Fails,
}

/// Whether a call may sleep for long, and end when a signal comes. Not those that change the mask
/// meanwhile: that would be the worker's.
fn waits(number: c_long, arguments: [usize; 6]) -> Option<After> {
    // The kernel goes on with those that have no timeout.
    let unless = |timeout| if timeout == 0 { After::GoesOn } else { After::Fails };
    match number {
        futex::WAITV => Some(unless(arguments[3])),
        futex::WAIT => Some(unless(arguments[4])),
        libc::SYS_read
        | libc::SYS_write
        | libc::SYS_readv
        | libc::SYS_writev
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_connect
        | libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_wait4
        | libc::SYS_waitid
        | libc::SYS_flock
        | libc::SYS_fcntl
        | libc::SYS_splice
        | libc::SYS_tee
        | libc::SYS_mq_timedreceive
        | libc::SYS_mq_timedsend
        | libc::SYS_getrandom => Some(After::GoesOn),
        libc::SYS_poll
        | libc::SYS_select
        | libc::SYS_epoll_wait
        | libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_pause
        | libc::SYS_msgrcv
        | libc::SYS_msgsnd
        | libc::SYS_semop
        | libc::SYS_semtimedop
        | libc::SYS_io_getevents => Some(After::Fails),
        _ => None,
    }
}

/// A call of a full thread that may sleep, on its worker.
fn waiting(number: c_long, arguments: [usize; 6], after: After) -> c_long {
    loop {
        // SAFETY: the caller's arguments.
        match unsafe { interruptible::by_number(number, arguments, cancel::is_asynchronous()) } {
            Ok(value) => {
                signals::answer_if_called();
                return value as c_long;
            }
            Err(libc::EINTR) => match errno::kept(signals::called) {
                Ran::Interrupting => return failed(libc::EINTR),
                Ran::Restarting if after == After::Fails => return failed(libc::EINTR),
                Ran::Restarting | Ran::Nothing => {}
            },
            Err(number) => {
                // What a write has raised is handled before the call returns.
                signals::answer_if_called();
                return failed(number);
            }
        }
    }
}

fn failed(number: c_int) -> c_long {
    errno::set(number);
    -1
}

/// Calls that take or tell a thread's number.
fn of_thread(number: c_long, arguments: [usize; 6]) -> c_long {
    let [a, b, c, d, ..] = arguments;
    // SAFETY: the caller's arguments, of the same types.
    let result = unsafe {
        match number {
            libc::SYS_gettid => identity::heddle_user_gettid(),
            libc::SYS_tgkill => identity::heddle_user_tgkill(a as i32, b as i32, c as i32),
            libc::SYS_tkill if is_number(a as i32) => {
                identity::heddle_user_tgkill(libc::getpid(), a as i32, b as i32)
            }
            libc::SYS_rt_tgsigqueueinfo => {
                return signals::queue_info(a as i32, b as i32, c as i32, d as *const _);
            }
            libc::SYS_kill => to_process::heddle_user_kill(a as i32, b as i32),
            libc::SYS_clock_gettime => cpu_clock::heddle_user_clock_gettime(a as i32, b as *mut _),
            libc::SYS_prctl => {
                let [_, b, c, d, e, _] = arguments.map(|word| word as c_ulong);
                identity::heddle_user_prctl(a as i32, b, c, d, e)
            }
            libc::SYS_getrusage => cpu_clock::heddle_user_getrusage(a as i32, b as *mut _),
            _ => {
                kept::before(number, arguments);
                let answer = scheduling::by_number(number, arguments);
                if let Some(result) = answer.or_else(|| kept::answer(number, arguments)) {
                    return result;
                }
                let arguments = identity::of_processes(number, arguments).unwrap_or(arguments);
                return match (waits(number, arguments), crate::me()) {
                    (Some(after), Some(_)) => waiting(number, arguments, after),
                    (_, is_full) => {
                        let result = real(number, arguments);
                        errno::kept(|| {
                            if is_full.is_none() {
                                kept::after(number, arguments, result);
                            }
                            scheduling::after(number, arguments, result);
                        });
                        result
                    }
                };
            }
        }
    };
    c_long::from(result)
}
