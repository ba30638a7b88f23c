//! Destructors of `pthread_key_create`'s keys, run for full threads as glibc does at a thread's
//! end: glibc's own function for that is not to be had.
//!
//! A thread's values lie in blocks of 32; the first block is inside `struct pthread`, the others
//! are the allocator's. A key that was deleted, or made anew, has another sequence number, and
//! what is left under the old one is nobody's.

use std::ffi::c_void;
use std::ptr;

/// Values in a block, and blocks of a thread.
const BLOCK: usize = 32;
const BLOCKS: usize = 32;
/// `PTHREAD_DESTRUCTOR_ITERATIONS`.
const ROUNDS: usize = 4;

/// An entry of glibc's table of keys.
#[repr(C)]
pub(super) struct Key {
    /// Odd while the key exists.
    sequence: usize,
    pub destructor: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// A thread's value for a key.
#[repr(C)]
pub(super) struct Value {
    sequence: usize,
    pub data: *mut c_void,
}

pub(super) const VALUE_BYTES: usize = size_of::<Value>();
pub(super) const BLOCK_BYTES: usize = BLOCK * VALUE_BYTES;
/// Of the pointers to a thread's blocks.
pub(super) const BLOCKS_BYTES: usize = BLOCKS * size_of::<usize>();

/// Where the value of `key` lies, in the thread whose blocks are at `specific`; null if the thread
/// has no such block.
///
/// # Safety
/// 1. `specific` is the field of a living thread, `key` below 1024.
pub(super) unsafe fn value(specific: *mut u8, key: usize) -> *mut Value {
    // SAFETY: by 1 there are 32 pointers to blocks of 32 values, or null.
    unsafe {
        let block = specific.cast::<*mut Value>().add(key / BLOCK).read();
        if block.is_null() { block } else { block.add(key % BLOCK) }
    }
}

/// Runs the destructors of the calling thread's values.
///
/// # Safety
/// 1. `specific` is the field of the calling thread; `keys` is glibc's table.
pub(super) unsafe fn run_destructors(specific: *mut u8, keys: *const Key) {
    for _ in 0..ROUNDS {
        // SAFETY: passed on.
        if !unsafe { run_round(specific, keys) } {
            return;
        }
    }
}

/// # Safety
/// As [`run_destructors`].
unsafe fn run_round(specific: *mut u8, keys: *const Key) -> bool {
    let mut any = false;
    for first in (0..BLOCKS * BLOCK).step_by(BLOCK) {
        // SAFETY: by the caller's promise.
        unsafe {
            if !value(specific, first).is_null() {
                any |= run_block(specific, keys, first);
            }
        }
    }
    any
}

/// Runs the destructors of the block whose first key is `first`.
///
/// # Safety
/// As [`run_destructors`]; the thread has the block.
unsafe fn run_block(specific: *mut u8, keys: *const Key, first: usize) -> bool {
    let mut any = false;
    for number in first..first + BLOCK {
        // SAFETY: by the caller's promise; the value is taken out before foreign code runs, which
        // may set it again, or delete the key.
        unsafe {
            // The library's table first: who made the thread has written to its values, far away.
            let key = keys.add(number).read_volatile();
            let Some(destructor) = key.destructor else { continue };
            let value = value(specific, number);
            if (*value).data.is_null() {
                continue;
            }
            let data = ptr::replace(&raw mut (*value).data, ptr::null_mut());
            if key.sequence == (*value).sequence {
                any = true;
                destructor(data);
            }
        }
    }
    any
}

/// Frees the blocks of a thread that has ended.
///
/// # Safety
/// 1. `specific` is the field of a thread that will not run again.
pub(super) unsafe fn free_blocks(specific: *mut u8) {
    for block in 1..BLOCKS {
        // SAFETY: by 1. All blocks but the first came from calloc.
        unsafe {
            let block = specific.cast::<*mut c_void>().add(block).read();
            if !block.is_null() {
                libc::free(block);
            }
        }
    }
}
