//! Memory of the program's where there may be none, copied without a system call: where the kernel
//! would say EFAULT, the fault ends the copy. That is from the first full thread on, when faults
//! come by here; before that, and where the program has given the kernel a handler by number, the
//! fault is the program's as any other. `own_memory.rs` has the kernel copy.
//!
//! Invariant: a fault is ended here only where it came in the one instruction that copies.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

use libc::{siginfo_t, ucontext_t};

// SAFETY: in arch/; 0 when all bytes were copied.
unsafe extern "C" {
    fn heddle_user_copy(to: *mut u8, from: *const u8, bytes: usize) -> c_int;
    safe fn heddle_user_copy_instruction();
    safe fn heddle_user_copy_failed();
}

/// # Safety
/// 1. What of `to` can be written is the caller's to write.
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> Result<(), c_int> {
    // SAFETY: by 1, and see the file's head.
    match unsafe { heddle_user_copy(to, from, bytes) } {
        0 => Ok(()),
        _ => Err(libc::EFAULT),
    }
}

/// Whether a fault of the calling thread was in a copy, which goes on by failing.
pub fn on_fault(info: *mut siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: the kernel has passed both.
    let (code, context) = unsafe { ((*info).si_code, &mut *context.cast::<ucontext_t>()) };
    let at = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    if code <= 0 || *at != heddle_user_copy_instruction as *const () as i64 {
        return false;
    }
    *at = heddle_user_copy_failed as *const () as i64;
    true
}

/// Reads what is at `from`; of a type for which any bytes are valid.
///
/// # Errors
/// `EFAULT`.
pub fn read<T: Copy>(from: *const T) -> Result<T, c_int> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the local's bytes.
    unsafe { copy(value.as_mut_ptr().cast(), from.cast(), size_of::<T>()) }?;
    // SAFETY: by the caller's choice of the type.
    Ok(unsafe { value.assume_init() })
}

/// Reads the words at `from`.
///
/// # Errors
/// `EFAULT`.
pub fn read_words(from: *const usize, to: &mut [usize]) -> Result<(), c_int> {
    // SAFETY: the slice's bytes.
    unsafe { copy(to.as_mut_ptr().cast(), from.cast(), size_of_val(to)) }
}

/// Writes the words to `to`.
///
/// # Safety
/// 1. What is there is the program's own, which has asked for that.
///
/// # Errors
/// `EFAULT`; a part may have been written.
pub unsafe fn write_words(to: *mut usize, from: &[usize]) -> Result<(), c_int> {
    // SAFETY: by 1.
    unsafe { copy(to.cast(), from.as_ptr().cast(), size_of_val(from)) }
}
