//! System calls that may sleep on the caller's worker, and end when the caller is called.
//!
//! The worker is blocked meanwhile, and compensated for. That costs nothing where the call mostly
//! does not sleep; what is bound to sleep is not made so.
//!
//! Invariant: a caller that is called or cancelled before such a call, or in it, is behind it at
//! once; the call has failed with EINTR then, unless it was over. Whether a handler is to end the
//! call is for its caller to say.

use core::ffi::{c_char, c_int, c_long, c_uint};
use core::sync::atomic::AtomicU32;

use heddle::raw::{self, Ended, Moment};
use libc::{sockaddr, socklen_t, timespec};

use crate::errno;

// SAFETY: in arch/; the arguments are a byte, and the system call's number and its own.
unsafe extern "C" {
    fn heddle_user_interruptible_call(called: *const u8, call: *const [usize; 7]) -> isize;
    safe fn heddle_user_interruptible_first();
    safe fn heddle_user_interruptible_last();
    safe fn heddle_user_interruptible_end();
}

/// As in arch/.
const _: () = assert!(matches!(raw::CALLED, [8, 1, 2]));

/// Has calls end; before the first full thread is made.
pub fn prepare() {
    raw::end_calls_in(
        heddle_user_interruptible_first as *const () as usize,
        heddle_user_interruptible_last as *const () as usize,
        heddle_user_interruptible_end as *const () as usize,
    );
}

/// `accept4`; the caller is a full thread.
///
/// # Safety
/// 1. As for the C library's function.
pub unsafe fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> isize {
    let places = [fd as usize, address as usize, length as usize, flags as usize, 0, 0];
    // SAFETY: by 1.
    unsafe { as_function(libc::SYS_accept4, places) }
}

/// `connect`; the caller is a full thread.
///
/// # Safety
/// 1. As for the C library's function.
pub unsafe fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> isize {
    let places = [fd as usize, address as usize, length as usize, 0, 0, 0];
    // SAFETY: by 1.
    unsafe { as_function(libc::SYS_connect, places) }
}

/// `openat`; the caller is a full thread. Of a mode that `flags` have no use for the kernel takes
/// no notice.
///
/// # Safety
/// 1. As for the C library's function.
pub unsafe fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> isize {
    let places = [directory as usize, path as usize, flags as usize, mode as usize, 0, 0];
    // SAFETY: by 1.
    unsafe { as_function(libc::SYS_openat, places) }
}

/// The result of a call, or -1 and `errno`.
///
/// # Safety
/// 1. As for the system call.
unsafe fn as_function(number: c_long, places: [usize; 6]) -> isize {
    // SAFETY: by 1.
    match unsafe { call(number, places) } {
        Ok(result) => result,
        Err(number) => {
            errno::set(number);
            -1
        }
    }
}

/// A call that the program makes by number; the caller is a full thread. It is none that can be
/// cancelled: a cancellation ends it only where `is_asynchronous`.
///
/// # Safety
/// 1. As for the system call.
pub unsafe fn by_number(
    number: c_long,
    arguments: [usize; 6],
    is_asynchronous: bool,
) -> Result<isize, c_int> {
    let is_enabled = !is_asynchronous && raw::set_cancellable(false);
    // SAFETY: by 1.
    let result = unsafe { call(number, arguments) };
    if is_enabled {
        raw::set_cancellable(true);
    }
    result
}

/// Waits for a wake of `word`, by another process too, if it is `expected`; the caller is a full
/// thread. A cancellation, and a call, ends it. `errno` is kept.
///
/// # Errors
/// The kernel's, but for those that [`Ended`] knows.
///
/// # Safety
/// 1. `word` may be read until the call returns.
pub unsafe fn futex_wait(
    word: *const AtomicU32,
    expected: u32,
    bits: u32,
    until: Moment,
) -> Result<Ended, c_int> {
    let (clock, at) = match until {
        Moment::Never => (0, None),
        Moment::Monotonic(at) => (0, Some(at)),
        Moment::Realtime(at) => (libc::FUTEX_CLOCK_REALTIME, Some(at)),
    };
    let time = |at: u64| timespec {
        tv_sec: (at / 1_000_000_000).min(i64::MAX as u64) as i64,
        tv_nsec: (at % 1_000_000_000) as i64,
    };
    let time = at.map(time);
    let time: *const timespec = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let operation = (libc::FUTEX_WAIT_BITSET | clock) as usize;
    let places = [word as usize, operation, expected as usize, time as usize, 0, bits as usize];
    // SAFETY: by 1; the time lives until then.
    match unsafe { call(libc::SYS_futex, places) } {
        Ok(_) => Ok(Ended::Woken),
        Err(libc::EAGAIN) => Ok(Ended::Changed),
        Err(libc::ETIMEDOUT) => Ok(Ended::TimedOut),
        Err(libc::EINTR) => Ok(Ended::Cancelled),
        Err(number) => Err(number),
    }
}

/// Makes a call; its result, or the error's number.
///
/// # Safety
/// 1. As for the system call.
unsafe fn call(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> Result<isize, c_int> {
    let places = [number as usize, a, b, c, d, e, f];
    // SAFETY: by 1.
    let result = unsafe { heddle_user_interruptible_call(raw::called_word(), &raw const places) };
    if (-4095..0).contains(&result) { Err(-result as c_int) } else { Ok(result) }
}
