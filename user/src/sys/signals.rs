//! What is asked of the kernel about signals, with what it tells left as it is.
//!
//! The C library's functions take signals of its own out of masks, and change what a `siginfo_t`
//! says of its sender; here a signal is only carried from the kernel to a full thread.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;
use std::os::fd::{FromRawFd, OwnedFd};

use heddle::raw::descriptor::{self, Brief};
use libc::{siginfo_t, timespec};

use super::descriptors::STATUS_BYTES;
use crate::errno;

/// What the kernel takes for the size of a set.
const SET_BYTES: usize = size_of::<u64>();

/// Takes a pending one of `signals`, the caller's kernel thread's or the process's, without
/// waiting.
pub fn take(signals: u64) -> Option<siginfo_t> {
    let at_once = timespec { tv_sec: 0, tv_nsec: 0 };
    take_by(signals, &at_once)
}

/// As [`take`] of what is pending for the caller's kernel thread alone, and not for the process:
/// the kernel gives the thread its own first, and nobody else takes that.
pub fn take_own(signals: u64) -> Option<siginfo_t> {
    let own = signals & pending_for_own();
    if own == 0 { None } else { take(own) }
}

/// What is pending for the caller's kernel thread alone; everything, where the kernel does not
/// tell. A signal handler may ask: nothing is allocated, and little of the stack is used.
fn pending_for_own() -> u64 {
    errno::kept(|| {
        let read = || {
            let file = Brief::open(c"/proc/thread-self/status").ok()?;
            read_set(b"\nSigPnd:\t", |part| rustix::io::read(&file, part).ok())
        };
        // A handler may have interrupted who puts a file somewhere.
        descriptor::try_low(read).unwrap_or_else(read)
    })
    .unwrap_or(u64::MAX)
}

/// The set that stands behind `label` in what `read` gives part by part.
fn read_set(label: &[u8], mut read: impl FnMut(&mut [u8]) -> Option<usize>) -> Option<u64> {
    let (mut part, mut matched, mut set, mut digits) = ([0_u8; 256], 0, 0, 0);
    loop {
        let bytes = read(&mut part).filter(|&bytes| bytes != 0)?;
        for &byte in &part[..bytes] {
            if matched < label.len() {
                matched = if byte == label[matched] {
                    matched + 1
                } else {
                    usize::from(byte == label[0])
                };
                continue;
            }
            set = set << 4 | u64::from(char::from(byte).to_digit(16)?);
            digits += 1;
            if digits == SET_BYTES * 2 {
                return Some(set);
            }
        }
    }
}

/// Waits for one of `signals`, which the calling kernel thread has blocked.
pub fn wait(signals: u64) -> Option<siginfo_t> {
    take_by(signals, ptr::null())
}

fn take_by(signals: u64, timeout: *const timespec) -> Option<siginfo_t> {
    let mut info = MaybeUninit::<siginfo_t>::zeroed();
    let number = libc::SYS_rt_sigtimedwait;
    // SAFETY: a set of that size, a place, and null or a time.
    let got = errno::kept(|| unsafe {
        libc::syscall(number, &raw const signals, info.as_mut_ptr(), timeout, SET_BYTES)
    });
    // SAFETY: all zero bytes are valid, and the kernel wrote it.
    (got > 0).then(|| unsafe { info.assume_init() })
}

/// The signals that are pending for the caller's kernel thread or the process.
pub fn pending() -> u64 {
    let mut set = 0_u64;
    // SAFETY: a set of that size.
    errno::kept(|| unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut set, SET_BYTES) });
    set
}

/// Sends a kernel thread of this process a signal.
pub fn send_to(tid: c_int, signal: c_int) {
    // SAFETY: numbers.
    errno::kept(|| unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) });
}

/// What the process's main thread has blocked; everything, where the kernel does not tell.
pub fn blocked_by_main() -> u64 {
    let mut buffer = [0; STATUS_BYTES];
    let status = descriptor::read(c"/proc/self/status", &mut buffer).unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(u64::MAX)
}

/// Makes a descriptor that is readable while one of `signals` is pending for the process. Negative
/// when it fails.
pub fn new_watch(signals: u64) -> c_int {
    let made = descriptor::raised(|| match watch(-1, signals) {
        // SAFETY: just made.
        fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        failed => Err(failed),
    });
    made.map_or_else(|failed| failed, descriptor::keep)
}

/// Has `fd`, or a new one (-1), tell of these signals from now on; who waits for it looks again.
pub fn watch(fd: c_int, signals: u64) -> c_int {
    let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
    // SAFETY: a set of that size.
    errno::kept(|| unsafe {
        libc::syscall(libc::SYS_signalfd4, fd, &raw const signals, SET_BYTES, flags)
    }) as c_int
}

/// Sends the calling kernel thread a signal as `info` tells it: the kernel lets it send itself any.
/// False: it has no place for one more.
pub fn queue_to_own(info: &siginfo_t) -> bool {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    // SAFETY: no arguments.
    queue(unsafe { libc::getpid() }, own, info.si_signo, info) == 0
}

/// Sends the kernel thread `tid` of a process a signal with what it carries; an error number,
/// or 0.
pub fn queue(process: c_int, tid: c_int, signal: c_int, info: *const siginfo_t) -> c_int {
    // SAFETY: the caller's `siginfo_t`; the kernel looks at the pointer.
    errno::kept(|| unsafe {
        let number = libc::SYS_rt_tgsigqueueinfo;
        match libc::syscall(number, process, tid, signal, info) {
            0 => 0,
            _ => errno::get(),
        }
    })
}
