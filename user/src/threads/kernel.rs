//! The end of kernel threads: they give their control block in the runtime back.
//!
//! A kernel thread gets one when it first waits for a lock or a word, and that may be in the middle
//! of the program's allocator, whose locks are this library's. std would see to the end of a thread
//! by `__cxa_thread_atexit_impl`, which allocates: the allocator would be entered twice. (redis
//! with jemalloc stood still so.) The destructor of a key needs no memory for one of the first keys
//! of a process.
//!
//! Invariant: nothing here allocates, and nothing waits.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;

/// `PTHREAD_KEY_2NDLEVEL_SIZE` of glibc: values of so many keys lie in the thread's own block.
const KEYS_INSIDE: u32 = 32;
const NONE: u32 = u32::MAX;

static KEY: AtomicU32 = AtomicU32::new(NONE);

/// When the library is loaded: the key is one of the first then.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    let mut key = NONE;
    // SAFETY: a valid place.
    if unsafe { libc::pthread_key_create(&mut key, Some(at_end)) } == 0 {
        KEY.store(key, Relaxed);
    }
    raw::arrange_end(arrange);
}

/// A kernel thread has got a control block. Without a key it keeps it.
fn arrange() {
    let key = KEY.load(Relaxed);
    if key < KEYS_INSIDE {
        // SAFETY: the key exists; the value is not followed.
        unsafe { libc::pthread_setspecific(key, ptr::without_provenance(1)) };
    }
}

/// If a later destructor waits, the thread gets a new block, and this comes again: glibc looks up
/// to four times whether there are values.
///
/// # Safety
/// 1. The calling thread ends.
unsafe extern "C" fn at_end(_value: *mut c_void) {
    raw::end_kernel_thread();
}
