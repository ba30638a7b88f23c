//! Names of threads and of what starts them; and the yield.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and a `pthread_t` names a thread
//! that exists.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;
use libc::pthread_t;

use super::{Pthread, find_kept, own, said, this};
use crate::{account, errno};

/// As the kernel has them, with the zero at the end.
pub const NAME_BYTES: usize = 16;

// SAFETY: the C library's functions, by its headers.
unsafe extern "C" {
    fn pthread_setname_np(thread: pthread_t, name: *const c_char) -> c_int;
    fn pthread_getname_np(thread: pthread_t, name: *mut c_char, bytes: usize) -> c_int;
}

/// A new thread's name is that of the one that makes it, as in the kernel.
pub fn inherited_name() -> [u8; NAME_BYTES] {
    if let Some(me) = this() {
        return me.about().name;
    }
    let changes = CHANGES.load(Relaxed);
    let (known_at, known) = KNOWN.get();
    if known_at == changes {
        return known;
    }
    let mut name = [0; NAME_BYTES];
    // SAFETY: a place of that size.
    unsafe { pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), NAME_BYTES) };
    KNOWN.set((changes, name));
    name
}

/// How often a kernel thread was renamed.
static CHANGES: AtomicU32 = AtomicU32::new(1);

thread_local! {
    /// The name of this kernel thread, and the number of changes by then: the kernel is asked once.
    static KNOWN: Cell<(u32, [u8; NAME_BYTES])> = const { Cell::new((0, [0; NAME_BYTES])) };
}

/// A kernel thread was renamed.
pub fn forget_names() {
    CHANGES.fetch_add(1, Relaxed);
}

/// The name of the function at `address`, or where it is.
pub fn describe(address: usize) -> String {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: a valid place, which is filled if the call succeeds; texts live with their library.
    unsafe {
        let look = || libc::dladdr(address as *const c_void, info.as_mut_ptr());
        if raw::answering_at_locks(look) == 0 {
            return format!("{address:#x}");
        }
        let info = info.assume_init();
        if !info.dli_sname.is_null() && info.dli_saddr as usize == address {
            return CStr::from_ptr(info.dli_sname).to_string_lossy().into_owned();
        }
        let path = CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned();
        let file = path.rsplit('/').next().unwrap_or(&path);
        format!("{file}+{:#x}", address - info.dli_fbase as usize)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_pthread_setname_np(
    thread: pthread_t,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's thread.
    let Some(target) = (unsafe { find_kept(thread) }) else {
        forget_names();
        // SAFETY: the caller's text.
        return unsafe { pthread_setname_np(thread, name) };
    };
    // SAFETY: the caller's text.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    if text.len() >= NAME_BYTES {
        return libc::ERANGE;
    }
    // The C library asks a file of the thread's.
    if target.has_ended() {
        return libc::ENOENT;
    }
    let mut name = [0; NAME_BYTES];
    name[..text.len()].copy_from_slice(text);
    rename(target, &name);
    0
}

/// Gives a thread, which has not ended, a name: what is before the first zero, of which there is
/// one.
pub fn rename(target: &Pthread, name: &[u8; NAME_BYTES]) {
    let Ok(text) = CStr::from_bytes_until_nul(name) else { return };
    let mut about = target.about();
    about.name = [0; NAME_BYTES];
    about.name[..text.count_bytes()].copy_from_slice(text.to_bytes());
    let Some(thread) = &about.thread else { return };
    thread.set_name(&text.to_string_lossy());
    // SAFETY: a thread's that exists.
    let kind = unsafe { &(*own::words_of(target.name)).kind };
    // SAFETY: a text.
    let ruled = unsafe { account::named(thread, kind, text.as_ptr(), &target.born.get()) };
    if !about.is_said {
        if let Some(ruled) = ruled {
            ruled.apply(thread, about.schedule.critical());
        }
        return;
    }
    drop(about);
    said::tell_account(target.name, target);
}

/// Gives the calling kernel thread the name of `me`, whose it is now.
pub fn give_kernel(me: &Pthread) {
    let name = me.about().name;
    // SAFETY: a text that ends within it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Copies the name of a thread; how long it is.
pub fn name_of(target: &Pthread, to: &mut [u8]) -> usize {
    let name = target.about().name;
    let text = CStr::from_bytes_until_nul(&name).map_or(&[] as &[u8], CStr::to_bytes);
    to[..text.len()].copy_from_slice(text);
    text.len()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_pthread_getname_np(
    thread: pthread_t,
    name: *mut c_char,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's thread.
    let Some(target) = (unsafe { find_kept(thread) }) else {
        // SAFETY: the caller's place.
        return unsafe { pthread_getname_np(thread, name, bytes) };
    };
    if bytes < NAME_BYTES {
        return libc::ERANGE;
    }
    if target.has_ended() {
        return libc::ENOENT;
    }
    let known = target.about().name;
    // SAFETY: the caller's place, of at least that size.
    unsafe { name.cast::<[u8; NAME_BYTES]>().write_unaligned(known) };
    0
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn heddle_user_sched_yield() -> c_int {
    errno::kept(heddle::thread::yield_now);
    super::signals::answer_if_called();
    0
}

#[unsafe(no_mangle)]
extern "C-unwind" fn heddle_user_pthread_yield() -> c_int {
    heddle_user_sched_yield()
}
