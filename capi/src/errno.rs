//! `errno` of the calling kernel thread; [`crate::carried`] makes it the thread's.

use core::ffi::c_int;

/// The calling kernel thread's `errno`.
pub fn get() -> c_int {
    // SAFETY: the C library returns a valid pointer for each kernel thread.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
pub fn set(number: c_int) {
    // SAFETY: as in `get`. The address is asked for anew: a thread could have moved.
    unsafe { *libc::__errno_location() = number };
}
