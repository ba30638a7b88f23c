//! The calling thread's `errno`.

use core::ffi::c_int;

/// Sets it.
pub fn set(number: c_int) {
    // SAFETY: every thread has one.
    unsafe { *libc::__errno_location() = number };
}

/// It.
pub fn get() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// Calls `body`, which may use `errno` for itself, and puts the old value back.
///
/// The value is the thread's own wherever it goes on: a full thread has its own `errno`.
#[inline]
pub fn kept<T>(body: impl FnOnce() -> T) -> T {
    let before = get();
    let result = body();
    set(before);
    result
}
