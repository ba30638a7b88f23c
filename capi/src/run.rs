//! The library itself: configuration, `heddle_run`, `heddle_blocking`, the version.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid or null where that is allowed.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use heddle::{Backend, Config, Io};

use crate::attr;
use crate::errno;

/// `struct heddle_config` of the header.
#[repr(C)]
pub struct HeddleConfig {
    size_bytes: usize,
    workers: u32,
    backend: c_int,
    io: c_int,
    stack_size_bytes: usize,
    trace_file: *const c_char,
}

#[unsafe(no_mangle)]
extern "C" fn heddle_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_configure(config: *const HeddleConfig) -> c_int {
    // SAFETY: the caller's structure, which says its size first.
    let config = unsafe {
        if *config.cast::<usize>() != size_of::<HeddleConfig>() {
            return libc::EINVAL;
        }
        &*config
    };
    let mut settings = Config::new();
    if config.workers != 0 {
        settings = settings.workers(config.workers as usize);
    }
    settings = match config.backend {
        0 => settings,
        1 => settings.backend(Backend::User),
        2 => settings.backend(Backend::Native),
        _ => return libc::EINVAL,
    };
    settings = match config.io {
        0 => settings,
        1 => settings.io(Io::Uring),
        2 => settings.io(Io::Epoll),
        _ => return libc::EINVAL,
    };
    if config.stack_size_bytes != 0 && !attr::set_default_stack_bytes(config.stack_size_bytes) {
        return libc::EINVAL;
    }
    if !config.trace_file.is_null() {
        // SAFETY: the caller's text.
        let path = unsafe { CStr::from_ptr(config.trace_file) };
        // SAFETY: the runtime has not started, so no thread of ours reads the environment.
        unsafe { libc::setenv(c"HEDDLE_TRACE".as_ptr(), path.as_ptr(), 1) };
    }
    match settings.start() {
        Ok(()) => 0,
        Err(error) => match error.kind() {
            std::io::ErrorKind::AlreadyExists => libc::EBUSY,
            std::io::ErrorKind::InvalidInput => libc::EINVAL,
            _ => error.raw_os_error().unwrap_or(libc::EAGAIN),
        },
    }
}

/// What `heddle_run` passes to the thread; it lies on the stack of the one that waits.
struct Body {
    body: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
    result: c_int,
}

unsafe extern "C-unwind" fn run_body(body: *mut c_void) -> *mut c_void {
    let body: *mut Body = body.cast();
    // SAFETY: `heddle_run` waits for this thread; the body is the caller's.
    unsafe {
        let result = ((*body).body)((*body).argument);
        (*body).result = result;
    }
    ptr::null_mut()
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_run(
    body: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int {
    let mut body = Body { body, argument, result: 0 };
    let mut thread = 0;
    // SAFETY: the body lives until the thread has been joined; this thread is not cancelled out of
    // the join, as cancellation is disabled meanwhile.
    unsafe {
        let error = crate::create::heddle_create(
            &mut thread,
            ptr::null(),
            run_body,
            (&raw mut body).cast(),
        );
        if error != 0 {
            errno::set(error);
            return -1;
        }
        let enabled = heddle::raw::set_cancellable(false);
        crate::join::heddle_join(thread, ptr::null_mut());
        heddle::raw::set_cancellable(enabled);
        (&raw const body.result).read()
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_blocking(
    call: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> *mut c_void {
    let argument = argument as usize;
    let run = move || {
        // SAFETY: the caller's function may run on another kernel thread: that is what it is
        // given here for.
        let result = unsafe { call(ptr::with_exposed_provenance_mut(argument)) };
        (result as usize, errno::get())
    };
    let (result, number) = heddle::blocking(run);
    errno::set(number);
    ptr::with_exposed_provenance_mut(result)
}
