//! Filters on system calls that the program sets itself: whether they leave what heddle calls.
//!
//! A program that allows what the C library calls knows nothing of what its threads need here. So a
//! filter that it sets before its first thread is tried with each of these calls, all arguments
//! being zero; where one is refused, threads are kernel threads, and what they wait on is made
//! before the filter is set. Beside threads it can only be told that the filter kills who makes
//! such a call.
//!
//! What a filter set before the program began is for the command to find out.
//!
//! Invariant: the program's filter is read before it is set. As in the kernel, it only goes
//! forward, so that it ends.

use core::ffi::{c_int, c_long};
use core::ptr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;
use libc::{iovec, sock_filter, sock_fprog};

use crate::threads::create::prepare;
use crate::threads::fork;
use crate::threads::signals::actions::is_in_vfork;

/// What there is no way around.
const NEEDED: usize = 20;
/// These, and others, of which the kernel may know nothing: a filter may refuse them, but not kill.
const CALLS: [(&str, c_long); 69] = [
    ("futex", libc::SYS_futex),
    ("mmap", libc::SYS_mmap),
    ("munmap", libc::SYS_munmap),
    ("mprotect", libc::SYS_mprotect),
    ("madvise", libc::SYS_madvise),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask),
    ("rt_sigaction", libc::SYS_rt_sigaction),
    ("rt_sigreturn", libc::SYS_rt_sigreturn),
    ("sched_yield", libc::SYS_sched_yield),
    ("epoll_create1", libc::SYS_epoll_create1),
    ("epoll_ctl", libc::SYS_epoll_ctl),
    EPOLL_WAIT,
    ("eventfd2", libc::SYS_eventfd2),
    ("close", libc::SYS_close),
    ("read", libc::SYS_read),
    ("write", libc::SYS_write),
    ("getpid", libc::SYS_getpid),
    ("gettid", libc::SYS_gettid),
    ("tgkill", libc::SYS_tgkill),
    ("getrandom", libc::SYS_getrandom),
    ("clone3", libc::SYS_clone3),
    ("rseq", libc::SYS_rseq),
    ("set_robust_list", libc::SYS_set_robust_list),
    ("openat", libc::SYS_openat),
    ("ppoll", libc::SYS_ppoll),
    ("preadv2", libc::SYS_preadv2),
    ("pwritev2", libc::SYS_pwritev2),
    ("epoll_pwait2", libc::SYS_epoll_pwait2),
    ("clock_gettime", libc::SYS_clock_gettime),
    ("clock_nanosleep", libc::SYS_clock_nanosleep),
    ("fcntl", libc::SYS_fcntl),
    ("getsockopt", libc::SYS_getsockopt),
    ("recvmsg", libc::SYS_recvmsg),
    ("sendmsg", libc::SYS_sendmsg),
    ("prctl", libc::SYS_prctl),
    ("sigaltstack", libc::SYS_sigaltstack),
    ("signalfd4", libc::SYS_signalfd4),
    ("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("prlimit64", libc::SYS_prlimit64),
    ("accept4", libc::SYS_accept4),
    ("clone", libc::SYS_clone),
    ("exit", libc::SYS_exit),
    ("fallocate", libc::SYS_fallocate),
    ("ftruncate", libc::SYS_ftruncate),
    ("get_robust_list", libc::SYS_get_robust_list),
    ("getdents64", libc::SYS_getdents64),
    ("geteuid", libc::SYS_geteuid),
    ("getuid", libc::SYS_getuid),
    ("memfd_create", libc::SYS_memfd_create),
    ("newfstatat", libc::SYS_newfstatat),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("pipe2", libc::SYS_pipe2),
    ("pread64", libc::SYS_pread64),
    ("process_madvise", libc::SYS_process_madvise),
    ("readlinkat", libc::SYS_readlinkat),
    ("recvfrom", libc::SYS_recvfrom),
    ("rt_sigpending", libc::SYS_rt_sigpending),
    ("rt_sigtimedwait", libc::SYS_rt_sigtimedwait),
    ("sched_get_priority_max", libc::SYS_sched_get_priority_max),
    ("sched_get_priority_min", libc::SYS_sched_get_priority_min),
    ("sched_getparam", libc::SYS_sched_getparam),
    ("sched_getscheduler", libc::SYS_sched_getscheduler),
    ("sendto", libc::SYS_sendto),
    ("statx", libc::SYS_statx),
    ("timerfd_create", libc::SYS_timerfd_create),
    ("timerfd_settime", libc::SYS_timerfd_settime),
    ("unlinkat", libc::SYS_unlinkat),
];

/// More that only this processor's kernels have.
#[cfg(target_arch = "x86_64")]
const OF_THIS_PROCESSOR: &[(&str, c_long)] = &[
    ("arch_prctl", libc::SYS_arch_prctl),
    ("fstat", libc::SYS_fstat),
    ("modify_ldt", libc::SYS_modify_ldt),
    ("open", libc::SYS_open),
    ("poll", libc::SYS_poll),
    ("readlink", libc::SYS_readlink),
    ("unlink", libc::SYS_unlink),
];
#[cfg(not(target_arch = "x86_64"))]
const OF_THIS_PROCESSOR: &[(&str, c_long)] = &[];

#[cfg(target_arch = "x86_64")]
const EPOLL_WAIT: (&str, c_long) = ("epoll_wait", libc::SYS_epoll_wait);
#[cfg(not(target_arch = "x86_64"))]
const EPOLL_WAIT: (&str, c_long) = ("epoll_pwait", libc::SYS_epoll_pwait);

// Of linux/audit.h.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// `BPF_MAXINSNS` of linux/bpf_common.h.
const STEPS_MAX: u16 = 4096;

// Of linux/seccomp.h: what a filter returns, without its data.
const ACTION: u32 = 0xFFFF_0000;
const ALLOWS: u32 = 0x7FFF_0000;
const LOGS: u32 = 0x7FFC_0000;
const FAILS: u32 = 0x0005_0000;

/// The filter that is about to be set leaves it to no full thread to be made; and one that was set.
static IS_TO_REFUSE: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicBool = AtomicBool::new(false);
/// The program has set one, which may kill for a call that asks about memory.
static IS_SET: AtomicBool = AtomicBool::new(false);

/// A kernel thread is about to set the filter at this address.
pub fn before(filter: usize) {
    IS_TO_REFUSE.store(false, Relaxed);
    if is_in_vfork() || refuses() {
        return;
    }
    let has_full = fork::has_full();
    let is_refused = |at: usize, action: u32| match action & ACTION {
        ALLOWS | LOGS => false,
        FAILS => at < NEEDED && !has_full,
        _ => true,
    };
    let calls = || CALLS.iter().chain(OF_THIS_PROCESSOR).enumerate();
    let found = read(filter).and_then(|steps| {
        calls().find(|&(at, call)| is_refused(at, run(&steps, call.1))).map(|(_, call)| call.0)
    });
    IS_TO_REFUSE.store(found.is_some() && !has_full, Relaxed);
    let Some(call) = found else { return };
    if has_full {
        raw::say::line(format_args!(
            "heddle: the filter on system calls that the program sets kills who calls {call}, as \
             its threads do: allow it, or run without --threads user"
        ));
    } else {
        // Children that lock themselves up are many, and few of them have threads.
        if fork::generation() == 0 {
            raw::say::line(format_args!(
                "heddle: threads are kernel threads below the filter on system calls that the \
                 program sets: it refuses {call}"
            ));
        }
        prepare();
    }
}

/// It was set. No call is made here: it may kill for any.
pub fn after() {
    if IS_TO_REFUSE.load(Relaxed) {
        REFUSED.store(true, Relaxed);
    }
    IS_SET.store(true, Relaxed);
}

/// Whether a filter of the program's refuses what full threads need.
pub fn refuses() -> bool {
    REFUSED.load(Relaxed)
}

/// Whether an operation of `prctl` sets a filter.
pub fn is_set_by(option: c_int, mode: usize) -> bool {
    (option, mode) == (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER as usize)
}

/// `None`: it is the kernel's to refuse.
fn read(filter: usize) -> Option<Vec<sock_filter>> {
    let mut header = sock_fprog { len: 0, filter: ptr::null_mut() };
    copy(filter as *const sock_fprog, &raw mut header, 1)?;
    if !(1..=STEPS_MAX).contains(&header.len) {
        return None;
    }
    let step = sock_filter { code: 0, jt: 0, jf: 0, k: 0 };
    let mut steps = vec![step; usize::from(header.len)];
    copy(header.filter, steps.as_mut_ptr(), steps.len())?;
    Some(steps)
}

/// Copies the program's memory, which there may not be; as it is where nobody may be asked.
fn copy<T>(from: *const T, to: *mut T, count: usize) -> Option<()> {
    if from.is_null() || !from.is_aligned() {
        return None;
    }
    if IS_SET.load(Relaxed) {
        // SAFETY: as far as the program's filter is one; so many of ours.
        unsafe { ptr::copy_nonoverlapping(from, to, count) };
        return Some(());
    }
    let bytes = count * size_of::<T>();
    let part = |base: *mut T| iovec { iov_base: base.cast(), iov_len: bytes };
    // SAFETY: one part each; the kernel says if the program's is none.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &part(to), 1, &part(from.cast_mut()), 1, 0)
    };
    (copied == bytes as isize).then_some(())
}

/// A 32-bit word of what the kernel gives a filter: number, architecture, then all zero.
fn word(number: c_long, at: u32) -> u32 {
    match at {
        0 => number as u32,
        4 => ARCHITECTURE,
        _ => 0,
    }
}

/// What the filter returns for a call; 0, which kills, for one that the kernel would not take.
fn run(steps: &[sock_filter], number: c_long) -> u32 {
    let (mut a, mut x, mut memory) = (0_u32, 0_u32, [0_u32; 16]);
    let mut at = 0;
    while let Some(&sock_filter { code, jt, jf, k }) = steps.get(at) {
        at += 1;
        let cell = k as usize % memory.len();
        // With X in place of the constant.
        let other = if code & 0x08 != 0 { x } else { k };
        let mut jump = |is_so: bool| at += usize::from(if is_so { jt } else { jf });
        match code {
            0x20 => a = word(number, k),
            0x80 => a = SIZE,
            0x81 => x = SIZE,
            0x00 => a = k,
            0x01 => x = k,
            0x60 => a = memory[cell],
            0x61 => x = memory[cell],
            0x02 => memory[cell] = a,
            0x03 => memory[cell] = x,
            0x06 => return k,
            0x16 => return a,
            0x05 => at += k as usize,
            0x15 | 0x1D => jump(a == other),
            0x25 | 0x2D => jump(a > other),
            0x35 | 0x3D => jump(a >= other),
            0x45 | 0x4D => jump(a & other != 0),
            0x04 | 0x0C => a = a.wrapping_add(other),
            0x14 | 0x1C => a = a.wrapping_sub(other),
            0x24 | 0x2C => a = a.wrapping_mul(other),
            0x34 | 0x3C => match a.checked_div(other) {
                Some(quotient) => a = quotient,
                None => return 0,
            },
            0x44 | 0x4C => a |= other,
            0x54 | 0x5C => a &= other,
            0x64 | 0x6C => a = a.wrapping_shl(other),
            0x74 | 0x7C => a = a.wrapping_shr(other),
            0x84 => a = a.wrapping_neg(),
            0xA4 | 0xAC => a ^= other,
            0x07 => x = a,
            0x87 => a = x,
            _ => return 0,
        }
    }
    0
}

/// Bytes of `struct seccomp_data`.
const SIZE: u32 = 64;
