//! Memory of the program's where there may be none: where the kernel would find that out, and say
//! EFAULT, a look of our own would be a fault of the program's.
//!
//! Invariant: nothing here faults, but where the kernel refuses to copy for us (filters on system
//! calls do): then it is read and written as it is. So is what lies on the caller's stack, as most
//! of it does: the kernel is not asked.

use core::ffi::{c_int, c_ulong, c_void};
use core::mem::MaybeUninit;
use core::ptr;

use heddle::raw;
use libc::{iovec, pid_t};

use crate::errno;

type Call =
    unsafe extern "C" fn(pid_t, *const iovec, c_ulong, *const iovec, c_ulong, c_ulong) -> isize;

/// Whether so many bytes at `place` lie on the caller's own stack, in what its callers have of it:
/// there is such memory.
fn is_on_stack(place: usize, bytes: usize) -> bool {
    let here = 0_u8;
    let here = (&raw const here).addr();
    crate::me().and_then(|_| raw::stack_bounds()).is_some_and(|(low, size)| {
        let end = low.addr() + size;
        low.addr() <= here && here < place && place < end && bytes <= end - place
    })
}

/// Copies `bytes` bytes between `here`, which is ours, and `there`; false where the kernel copies
/// for nobody, or is not asked. `errno` is kept.
fn copy(here: *mut u8, there: *mut u8, bytes: usize, call: Call) -> Result<bool, c_int> {
    if is_on_stack(there.addr(), bytes) {
        return Ok(false);
    }
    let part = |base: *mut u8| iovec { iov_base: base.cast::<c_void>(), iov_len: bytes };
    errno::kept(|| {
        // SAFETY: one part each; the kernel says if `there` is none.
        let copied = unsafe { call(libc::getpid(), &part(here), 1, &part(there), 1, 0) };
        match copied {
            -1 if errno::get() != libc::EFAULT => Ok(false),
            copied if copied as usize == bytes => Ok(true),
            _ => Err(libc::EFAULT),
        }
    })
}

/// Reads `to.len()` bytes at `from`.
///
/// # Errors
/// `EFAULT`.
pub fn read_bytes(from: *const u8, to: &mut [u8]) -> Result<(), c_int> {
    if !copy(to.as_mut_ptr(), from.cast_mut(), to.len(), libc::process_vm_readv)? {
        // SAFETY: see the file's head.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }
    Ok(())
}

/// Reads what is at `from`; of a type for which any bytes are valid.
///
/// # Errors
/// `EFAULT`.
pub fn read<T: Copy>(from: *const T) -> Result<T, c_int> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: its bytes, which are initialised.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    read_bytes(from.cast(), bytes)?;
    // SAFETY: by the caller's choice of the type.
    Ok(unsafe { value.assume_init() })
}

/// Writes `value` to `to`.
///
/// # Errors
/// `EFAULT`.
pub fn write<T: Copy>(to: *mut T, mut value: T) -> Result<(), c_int> {
    let here = (&raw mut value).cast::<u8>();
    if !copy(here, to.cast(), size_of::<T>(), libc::process_vm_writev)? {
        // SAFETY: see the file's head.
        unsafe { to.write_unaligned(value) };
    }
    Ok(())
}
