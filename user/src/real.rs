//! The C library's own functions, as the rest of this library calls them.
//!
//! `link-shared.sh` sends every call of a taken name from in here through a table of addresses
//! (`__wrap_NAME`), which is filled when the library is loaded; a call that comes before that fills
//! its own place. So the functions of the `libc` crate and of std are the real ones, without a word
//! in the source. Those that may unwind, as the end of a kernel thread does, are declared here.
//!
//! Invariant: a place that was filled leads to the first library behind this one that has the name,
//! or to [`absent`].

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};
use std::sync::OnceLock;

use libc::{FILE, epoll_event, fd_set, nfds_t, pollfd, siginfo_t, sigset_t, timespec};

use crate::account;
use crate::sys::symbol;

// SAFETY: made by link-shared.sh from the list of names.
unsafe extern "C" {
    /// The taken names; null at the end.
    #[link_name = "heddle_user_names"]
    static NAMES: [*const c_char; 0];
    /// Where each of them is in the libraries behind this one, at the same index.
    #[link_name = "heddle_user_real"]
    static REAL: [AtomicPtr<c_void>; 0];
    /// What the program calls by that name, at the same index.
    #[link_name = "heddle_user_exported"]
    static EXPORTED: [*mut c_void; 0];
}

// SAFETY: the C library's functions; their signatures are POSIX's.
unsafe extern "C-unwind" {
    pub fn pthread_exit(result: *mut c_void) -> !;
    pub fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    pub fn pthread_testcancel();
    pub fn pthread_join(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int;
    pub fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    pub fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
    pub fn ppoll(
        fds: *mut pollfd,
        count: nfds_t,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int;
    pub fn __ppoll_chk(
        fds: *mut pollfd,
        count: nfds_t,
        timeout: *const timespec,
        mask: *const sigset_t,
        room: usize,
    ) -> c_int;
    pub fn pselect(
        count: c_int,
        readable: *mut fd_set,
        writable: *mut fd_set,
        exceptional: *mut fd_set,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int;
    pub fn epoll_pwait(
        fd: c_int,
        events: *mut epoll_event,
        count: c_int,
        timeout_ms: c_int,
        mask: *const sigset_t,
    ) -> c_int;
    pub fn epoll_pwait2(
        fd: c_int,
        events: *mut epoll_event,
        count: c_int,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int;
    pub fn sigsuspend(mask: *const sigset_t) -> c_int;
    pub fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int;
    pub fn sigtimedwait(
        set: *const sigset_t,
        info: *mut siginfo_t,
        timeout: *const timespec,
    ) -> c_int;
    pub fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    pub fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    pub fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    pub fn fclose(stream: *mut FILE) -> c_int;
    pub fn system(command: *const c_char) -> c_int;
    pub fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
}

/// What a name stands for that the C library does not have.
extern "C" fn absent() -> c_int {
    libc::ENOSYS
}

/// Fills one place of the table, of which any number of threads may ask for the same.
///
/// # Safety
/// 1. The index is that of a name.
unsafe fn find(index: usize) {
    let names = (&raw const NAMES).cast::<*const c_char>();
    // SAFETY: by 1; both have an entry for each name.
    unsafe {
        let name = *names.add(index);
        let mut address = match CStr::from_ptr(name) {
            // Taken names themselves, which are in this table.
            name if name == c"dlsym" || name == c"dlvsym" => symbol::behind_all(names.cast(), name),
            _ => libc::dlsym(libc::RTLD_NEXT, name),
        };
        if address.is_null() {
            address = absent as extern "C" fn() -> c_int as *mut c_void;
        }
        place_of(index).store(address, Relaxed);
    }
}

/// Called by the jump that finds its place in the table empty. It fills only that one: looking for
/// a name that the C library does not have allocates memory, and the caller may be the allocator.
#[unsafe(no_mangle)]
extern "C" fn heddle_user_find_real(place: *const AtomicPtr<c_void>) {
    let first = (&raw const REAL).cast::<AtomicPtr<c_void>>();
    // SAFETY: the jump's own place.
    unsafe { find(place.offset_from(first) as usize) };
}

/// Where the code lies that calls from here run before they reach the kernel: of the C library, and
/// of whatever library has put itself before it (libheddle-preload has).
pub fn texts() -> Vec<(usize, usize)> {
    let mut texts: Vec<(usize, usize)> = Vec::new();
    for (index, _) in names() {
        // SAFETY: the index of a name.
        let address = unsafe { place_of(index) }.load(Relaxed).addr();
        if !texts.iter().any(|&(low, high)| (low..high).contains(&address)) {
            texts.extend(heddle::raw::text_of(address));
        }
    }
    texts
}

/// A place of the table.
///
/// # Safety
/// 1. The index is that of a name.
unsafe fn place_of(index: usize) -> &'static AtomicPtr<c_void> {
    // SAFETY: by 1; it has an entry for each name.
    unsafe { &*(&raw const REAL).cast::<AtomicPtr<c_void>>().add(index) }
}

/// The taken names, each with its index.
fn names() -> impl Iterator<Item = (usize, &'static CStr)> {
    (0..).map_while(|index| {
        // SAFETY: the names are texts that stay, and end with null.
        unsafe {
            let name = *(&raw const NAMES).cast::<*const c_char>().add(index);
            (!name.is_null()).then(|| (index, CStr::from_ptr(name)))
        }
    })
}

/// The C library's functions of which libheddle-preload's is called from here, at load; each with
/// its index.
static BEHIND: OnceLock<Vec<(usize, usize)>> = OnceLock::new();
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// What the program calls instead of this function of the C library, which it has found by `name`:
/// where nobody stands between it and this library but libheddle-preload. By that name alone: of
/// two names for one function somebody may have taken over the other, which ours goes by.
///
/// # Safety
/// 1. `name` is a text.
pub unsafe fn in_place_of(found: *mut c_void, name: *const c_char) -> Option<*mut c_void> {
    let real = (&raw const REAL).cast::<AtomicPtr<c_void>>();
    // SAFETY: as many as there are names, once these are counted.
    let real = unsafe { core::slice::from_raw_parts(real, COUNT.load(Acquire)) };
    let next = real.iter().enumerate().filter(|(_, it)| it.load(Relaxed) == found);
    let behind = BEHIND.get()?.iter().filter(|it| it.0 == found.addr());
    let is_by_name = |index: &usize| {
        // SAFETY: the names are texts; by 1.
        unsafe { libc::strcmp(*(&raw const NAMES).cast::<*const c_char>().add(*index), name) == 0 }
    };
    let by_preload = || behind.map(|it| it.1).find(is_by_name);
    let index = next.map(|it| it.0).find(is_by_name).or_else(|| {
        // Somebody may stand behind that library, too.
        let index = by_preload()?;
        // SAFETY: by 1.
        let behind = unsafe { symbol::behind(real[index].load(Relaxed), CStr::from_ptr(name)) };
        (behind == found).then_some(index)
    })?;
    // SAFETY: it has an entry for each name.
    Some(unsafe { *(&raw const EXPORTED).cast::<*mut c_void>().add(index) })
}

/// Functions that a full thread does not call in the libraries behind this one; and comments.
const PASSED_BY: &str = include_str!("../passed-by");

/// A library that has put itself between this one and the C library, and a function of it that full
/// threads would pass by.
pub fn between() -> Option<(String, &'static CStr)> {
    let is_passed_by = |name: &CStr| PASSED_BY.lines().any(|it| it.as_bytes() == name.to_bytes());
    for (index, name) in names().filter(|(_, name)| is_passed_by(name)) {
        // SAFETY: the index of a name.
        let next = unsafe { place_of(index) }.load(Relaxed);
        let is_known = next == symbol::of_c_library(name)
            || BEHIND.get().is_some_and(|behind| behind.iter().any(|&(_, known)| known == index));
        if !is_known && let Some(library) = library_of(next) {
            return Some((library, name));
        }
    }
    None
}

/// The file of the library that has this address, if it is none of the C library's: older ones
/// consist of several.
fn library_of(address: *mut c_void) -> Option<String> {
    const PARTS: [&str; 4] = ["libc.so.", "libpthread.so.", "librt.so.", "libanl.so."];
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: a valid place, which is filled if the call succeeds; texts live with their library.
    let path = unsafe {
        if address.is_null() || libc::dladdr(address, info.as_mut_ptr()) == 0 {
            return None;
        }
        CStr::from_ptr(info.assume_init().dli_fname).to_string_lossy().into_owned()
    };
    let file = path.rsplit('/').next().unwrap_or(&path);
    let c_library = libc::gnu_get_libc_version as *const () as usize;
    if heddle::raw::text_of(c_library) == heddle::raw::text_of(address.addr()) {
        return None;
    }
    let is_part = PARTS.iter().any(|part| file.starts_with(part));
    (!is_part && !file.contains("libheddle-user")).then_some(path)
}

/// Where a name leads that is taken over.
pub fn exported(name: &CStr) -> Option<*mut c_void> {
    let (index, _) = names().find(|&(_, here)| here == name)?;
    // SAFETY: it has an entry for each name.
    Some(unsafe { *(&raw const EXPORTED).cast::<*mut c_void>().add(index) })
}

extern "C" fn at_load() {
    let other = account::code_of_library().and_then(heddle::raw::text_of);
    let (mut behind, mut count) = (Vec::new(), 0);
    for (index, name) in names() {
        // SAFETY: the index of a name.
        unsafe { find(index) };
        // SAFETY: as above.
        let next = unsafe { place_of(index) }.load(Relaxed).addr();
        if other.is_some_and(|(low, high)| (low..high).contains(&next)) {
            behind.push((symbol::of_c_library(name).addr(), index));
        }
        count = index + 1;
    }
    let _ = BEHIND.set(behind);
    // ORDER: pairs with `in_place_of`, if another constructor has made a thread.
    COUNT.store(count, Release);
    // SAFETY: takes nothing. What this C library does not have is no failure of the program's.
    unsafe { libc::dlerror() };
}

/// Before the program runs: `dlsym` in the middle of it might wait for a lock that it holds.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
