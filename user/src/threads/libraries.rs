//! What a program looks for by name, and libraries that are loaded while full threads exist.
//!
//! Initial-exec TLS of such a library has zeros instead of its first values in the threads that
//! are older than it (`sys/libc_tls/late.rs` in the runtime). They get them when the program first
//! asks for the address of a function: before a thread can call what is in the library, unless a
//! constructor of the library has told it.
//!
//! Who asks the C library itself, by a handle of it as foreign-function interfaces have (ctypes of
//! Python, JNA of Java, ffi of LuaJIT), gets the function of this library as everybody else does:
//! the C library's would not wake threads that wait in this one's. Not so where a library that has
//! put itself between asks for what it calls: it is called by this library and would call itself.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::OnceLock;

use heddle::raw;

use super::{own, registry};
use crate::real;
use crate::sys::symbol;

/// Where the code of the C library is.
static C_LIBRARY: OnceLock<Option<(usize, usize)>> = OnceLock::new();

// SAFETY: the C library's function, by its header.
unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// Before each `dlsym` of the program's.
#[unsafe(no_mangle)]
extern "C-unwind" fn heddle_user_before_dlsym() {
    // A library may wrap what the look calls, and find that by this.
    if own::looks().swap(true, Relaxed) {
        return;
    }
    if let Some(news) = raw::look_for_libraries() {
        news.give(|part| {
            let _none = registry::find_from(0, |thread| {
                if let Some(thread) = thread.thread() {
                    // SAFETY: who is in the registry does not end while somebody looks at it
                    // there.
                    unsafe { raw::give_late_part(&thread, part) };
                }
                false
            });
        });
    }
    own::looks().store(false, Relaxed);
}

#[unsafe(no_mangle)]
extern "C-unwind" fn heddle_user_before_dlvsym() {
    heddle_user_before_dlsym();
}

/// What it finds; null: the C library is to be asked.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_ask_dlsym(
    handle: *mut c_void,
    name: *const c_char,
) -> *mut c_void {
    // What these find depends on who asks, and this library has its place in the program's order.
    if handle == libc::RTLD_DEFAULT || handle == libc::RTLD_NEXT || name.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: passed on.
    unsafe { instead(libc::dlsym(handle, name), name) }
}

/// As above. This library's functions have no versions: a library that stands before it and wraps
/// one of them, of which the C library has several, asks so for the next one.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_ask_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    caller: *const c_void,
) -> *mut c_void {
    if name.is_null() || version.is_null() {
        return ptr::null_mut();
    }
    if handle != libc::RTLD_DEFAULT && handle != libc::RTLD_NEXT {
        // SAFETY: passed on.
        return unsafe { instead(dlvsym(handle, name, version), name) };
    }
    // SAFETY: passed on.
    unsafe {
        let found = dlvsym(libc::RTLD_DEFAULT, name, version);
        if found.is_null() {
            return found;
        }
        let first = match handle {
            libc::RTLD_NEXT => symbol::behind(caller, CStr::from_ptr(name)),
            _ => libc::dlsym(handle, name),
        };
        let is_ours = |it: &*mut c_void| *it == first;
        real::in_place_of(found, name).filter(is_ours).unwrap_or(ptr::null_mut())
    }
}

/// What the program gets instead of this function, which it has found by `name`.
///
/// # Safety
/// 1. `name` is a text.
unsafe fn instead(found: *mut c_void, name: *const c_char) -> *mut c_void {
    let c_library = C_LIBRARY.get().copied().flatten();
    if !c_library.is_some_and(|(low, high)| (low..high).contains(&found.addr())) {
        return found;
    }
    // SAFETY: by 1.
    unsafe { real::in_place_of(found, name) }.unwrap_or(found)
}

/// The functions of ours in whose calls of the C library's `dlsym` a thread holds nothing of this
/// library's.
pub fn between() -> impl Iterator<Item = usize> {
    let exported = [c"dlsym", c"dlvsym"].into_iter().filter_map(real::exported);
    let asks = [heddle_user_ask_dlsym as *const (), heddle_user_ask_dlvsym as *const ()];
    asks.into_iter().map(<*const ()>::addr).chain(exported.map(<*mut c_void>::addr))
}

extern "C" fn at_load() {
    let _ = C_LIBRARY.set(raw::text_of(libc::gnu_get_libc_version as *const () as usize));
}

/// Before the program runs: the look takes the loader's lock.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
