//! What the C and C++ libraries keep per kernel thread, carried by a thread across its waits.
//!
//! Light threads of a worker share the worker's `errno`, and the C++ runtime's stack of exceptions
//! that are being handled. Whatever may run other threads is called through [`across`], which
//! leaves both empty for them and puts back what the thread had.
//!
//! Not carried: variables that programs declare `thread_local`.

use core::ffi::{c_char, c_uint, c_void};
use core::mem;
use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use crate::errno;

/// `__cxa_eh_globals` of the C++ ABI.
#[repr(C)]
struct Exceptions {
    caught: *mut c_void,
    uncaught: c_uint,
}

const NONE: Exceptions = Exceptions { caught: ptr::null_mut(), uncaught: 0 };

type Globals = unsafe extern "C" fn() -> *mut Exceptions;

/// `__cxa_get_globals`; null while no C++ runtime was found.
static GLOBALS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Looks for the C++ runtime; called for each new thread, as libraries may be loaded meanwhile.
pub fn look_for_exceptions() {
    if !GLOBALS.load(Relaxed).is_null() {
        return;
    }
    let name: *const c_char = c"__cxa_get_globals".as_ptr();
    // SAFETY: a valid text; the default handle needs no opening.
    GLOBALS.store(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name) }, Relaxed);
}

/// Puts `state` in the place of the calling kernel thread's exceptions.
fn replace(state: Exceptions) -> Exceptions {
    let globals = GLOBALS.load(Relaxed);
    if globals.is_null() {
        return state;
    }
    // SAFETY: the address of that function, found by its name in the C++ ABI.
    let globals: Globals = unsafe { mem::transmute(globals) };
    // SAFETY: it returns the calling kernel thread's state, which nobody else touches.
    unsafe { mem::replace(&mut *globals(), state) }
}

/// Runs `call`, which may switch; the thread's own state is there again afterwards.
#[inline]
pub fn across<T>(call: impl FnOnce() -> T) -> T {
    let number = errno::get();
    let exceptions = replace(NONE);
    let result = call();
    replace(exceptions);
    errno::set(number);
    result
}
