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

use core::ffi::{c_char, c_void};
use std::sync::OnceLock;

use heddle::raw;

use super::registry;
use crate::real;

/// Where the code of the C library is.
static C_LIBRARY: OnceLock<Option<(usize, usize)>> = OnceLock::new();

/// Before each `dlsym` of the program's.
#[unsafe(no_mangle)]
extern "C-unwind" fn heddle_user_before_dlsym() {
    let Some(news) = raw::look_for_libraries() else { return };
    news.give(|part| {
        let _none = registry::find_from(0, |thread| {
            if let Some(thread) = thread.thread() {
                // SAFETY: who is in the registry does not end while somebody looks at him there.
                unsafe { raw::give_late_part(&thread, part) };
            }
            false
        });
    });
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
    // What these find depends on who asks, and in the program's order this library comes first.
    if handle == libc::RTLD_DEFAULT || handle == libc::RTLD_NEXT || name.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: passed on.
    let found = unsafe { libc::dlsym(handle, name) };
    let c_library = C_LIBRARY.get().copied().flatten();
    if !c_library.is_some_and(|(low, high)| (low..high).contains(&found.addr())) {
        return found;
    }
    // SAFETY: the text by which it was found.
    unsafe { real::in_place_of(found, name) }.unwrap_or(found)
}

/// The functions of ours in whose calls of the C library's `dlsym` a thread holds nothing of this
/// library's.
pub fn between() -> impl Iterator<Item = usize> {
    let exported = real::exported(c"dlsym").map(|it| it.addr());
    [heddle_user_ask_dlsym as *const () as usize].into_iter().chain(exported)
}

extern "C" fn at_load() {
    let _ = C_LIBRARY.set(raw::text_of(libc::gnu_get_libc_version as *const () as usize));
}

/// Before the program runs: the look takes the loader's lock.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
