//! C11's threads: the same, but for the start function's result, which is an `int`.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid or null where that is allowed.

use core::ffi::{c_int, c_void};
use core::ptr;

use libc::pthread_t;

use super::{Start, create, end, identity, join};
use crate::account::Origin;
use crate::sync::c11::result;

type Start11 = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

/// What `thrd_create` passes on through `pthread_create`.
struct Call {
    start: Start11,
    argument: *mut c_void,
}

/// An `int` as a thread's result.
fn packed(value: c_int) -> *mut c_void {
    ptr::without_provenance_mut(value as isize as usize)
}

unsafe extern "C-unwind" fn run(call: *mut c_void) -> *mut c_void {
    // SAFETY: `thrd_create` made it for this thread; nothing of it is left when the start
    // function, which may end the thread, is called.
    let Call { start, argument } = *unsafe { Box::from_raw(call.cast::<Call>()) };
    // SAFETY: as the caller of `thrd_create` promises.
    packed(unsafe { start(argument) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_thrd_create(
    thread: *mut pthread_t,
    start: Start11,
    argument: *mut c_void,
    _fourth: usize,
    site: usize,
) -> c_int {
    let origin = Origin { start: start as usize, argument, site };
    let call = Box::into_raw(Box::new(Call { start, argument })).cast();
    let run: Start = run;
    // SAFETY: the caller's place; `run` takes what it is given.
    let error = unsafe { create::make(thread, ptr::null(), (run as Start, call), &origin) };
    if error != 0 {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(call.cast::<Call>()) });
    }
    // C11 has no EAGAIN: memory is what is short then.
    result(if error == libc::EAGAIN { libc::ENOMEM } else { error })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_thrd_join(thread: pthread_t, place: *mut c_int) -> c_int {
    let mut value = ptr::null_mut();
    // SAFETY: the caller's thread and place.
    unsafe {
        let error = join::heddle_user_pthread_join(thread, &mut value);
        if error == 0 && !place.is_null() {
            place.write(value.addr() as c_int);
        }
        result(error)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_thrd_detach(thread: pthread_t) -> c_int {
    // SAFETY: the caller's thread.
    result(unsafe { join::heddle_user_pthread_detach(thread) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_thrd_exit(value: c_int) -> ! {
    // SAFETY: no pointer that is followed.
    unsafe { end::heddle_user_pthread_exit(packed(value)) }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn heddle_user_thrd_yield() {
    identity::heddle_user_sched_yield();
}
