//! System calls that may sleep on the caller's worker, and end when the caller is called.
//!
//! The worker is blocked meanwhile, and compensated for. That costs nothing where the call mostly
//! does not sleep; what is bound to sleep is not made so.
//!
//! Invariant: a caller that is called or cancelled before such a call, or in it, is behind it at
//! once; the call has failed with EINTR then, unless it was over. Whether a handler is to end the
//! call is for its caller to say.

use core::ffi::{c_int, c_long};

use heddle::raw;
use libc::{sockaddr, socklen_t};

// SAFETY: in arch/; the arguments are a byte, and those of the system call.
unsafe extern "C" {
    fn heddle_user_interruptible_call(
        called: *const u8,
        number: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
    ) -> isize;
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
    let places = [fd as usize, address as usize, length as usize, flags as usize];
    // SAFETY: by 1.
    unsafe { call(libc::SYS_accept4, places) }
}

/// Makes a call; its result, or -1 and `errno`.
///
/// # Safety
/// 1. As for the system call.
unsafe fn call(number: c_long, [a, b, c, d]: [usize; 4]) -> isize {
    // SAFETY: by 1.
    let result = unsafe { heddle_user_interruptible_call(raw::called_word(), number, a, b, c, d) };
    if (-4095..0).contains(&result) {
        crate::errno::set(-result as i32);
        return -1;
    }
    result
}
