//! Kernel threads of heddle's own, made by the C library alone.
//!
//! Not by std: as a thread of std's begins, it registers destructors of its values, for which the C
//! library takes the loader's lock. Who makes the thread may have that, in the constructor of a
//! library that is being loaded, and waits until the thread runs.
//!
//! Invariant: a thread comes to its body without a lock of the loader's, and without the allocator:
//! at a thread's first call of that the C library makes it an arena, which every fork copies. What
//! the thread was given is freed when its body is over.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use std::io;
use std::panic::{self, AssertUnwindSafe};

use crate::heap_use;

/// What std gives its threads.
pub(crate) const STACK_BYTES: usize = 2 << 20;
/// Larger ones are not tried.
const STACK_BYTES_MAX: usize = 1 << 30;

/// Bytes of a kernel thread's name, with the 0 at its end.
const NAME_BYTES: usize = 16;

/// What a thread is given.
struct Given {
    name: [u8; NAME_BYTES],
    body: Option<Box<dyn FnOnce() + Send>>,
}

/// Starts one with this name, which begins with "heddle-" and is known (`tasks.rs`), and so large a
/// stack, larger if it would not do. It begins with the mask of whoever makes it.
///
/// # Errors
/// As the kernel refuses it.
pub fn start(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let mut given = Given { name: [0; NAME_BYTES], body: Some(Box::new(body)) };
    for (place, byte) in given.name[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    let given = Box::into_raw(Box::new(given));
    match create(stack_bytes, given) {
        0 => Ok(()),
        error => {
            // SAFETY: no thread has it.
            drop(unsafe { Box::from_raw(given) });
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

/// An error number, or 0: then the thread has what is `given`.
fn create(mut stack_bytes: usize, given: *mut Given) -> c_int {
    loop {
        let error = try_to_create(stack_bytes, given);
        // The libraries' thread-local storage lies there, too, and may leave too little.
        if error != libc::EINVAL || stack_bytes >= STACK_BYTES_MAX {
            return error;
        }
        stack_bytes *= 2;
    }
}

fn try_to_create(stack_bytes: usize, given: *mut Given) -> c_int {
    let (mut attributes, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let attributes = attributes.as_mut_ptr();
    // SAFETY: valid places; `begin` takes what it is given.
    unsafe {
        libc::pthread_attr_init(attributes);
        libc::pthread_attr_setstacksize(attributes, stack_bytes);
        libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        // The thread-local storage is of the heap.
        let error = heap_use::within(|| {
            libc::pthread_create(thread.as_mut_ptr(), attributes, begin, given.cast())
        });
        libc::pthread_attr_destroy(attributes);
        error
    }
}

/// First function of all of them.
extern "C" fn begin(given: *mut c_void) -> *mut c_void {
    // SAFETY: `start` gave it to this thread alone.
    let mut given = unsafe { Box::from_raw(given.cast::<Given>()) };
    // SAFETY: a text, which the kernel copies.
    unsafe { libc::prctl(libc::PR_SET_NAME, given.name.as_ptr()) };
    if let Some(body) = given.body.take() {
        // A panic was told; who waits for the thread learns that it has ended.
        let _ = panic::catch_unwind(AssertUnwindSafe(body));
    }
    ptr::null_mut()
}
