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
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use libc::{FILE, epoll_event, fd_set, nfds_t, pollfd, siginfo_t, sigset_t, timespec};

// SAFETY: made by link-shared.sh from the list of names.
unsafe extern "C" {
    /// The taken names; null at the end.
    #[link_name = "heddle_user_names"]
    static NAMES: [*const c_char; 0];
    /// Where each of them is in the libraries behind this one, at the same index.
    #[link_name = "heddle_user_real"]
    static REAL: [AtomicPtr<c_void>; 0];
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
    let real = (&raw const REAL).cast::<AtomicPtr<c_void>>();
    // SAFETY: by 1; both have an entry for each name.
    unsafe {
        let name = *names.add(index);
        let mut address = match CStr::from_ptr(name) {
            // A taken name itself, which is in this table.
            name if name == c"dlsym" => dlsym_itself(),
            _ => libc::dlsym(libc::RTLD_NEXT, name),
        };
        if address.is_null() {
            address = absent as extern "C" fn() -> c_int as *mut c_void;
        }
        (*real.add(index)).store(address, Relaxed);
    }
}

/// The next library's `dlsym`, found by the C library's, which has moved within it once.
fn dlsym_itself() -> *mut c_void {
    let with = |version: &CStr| {
        // SAFETY: texts.
        unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) }
    };
    let newest = with(c"GLIBC_2.34");
    let found = if newest.is_null() { with(c"GLIBC_2.2.5") } else { newest };
    if found.is_null() {
        return found;
    }
    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    // SAFETY: the C library's function.
    unsafe {
        let dlsym: Dlsym = core::mem::transmute(found);
        dlsym(libc::RTLD_NEXT, c"dlsym".as_ptr())
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
    let (names, real) = (&raw const NAMES, &raw const REAL);
    for index in 0.. {
        // SAFETY: the names end with null; both have an entry for each name.
        let address = unsafe {
            if (*names.cast::<*const c_char>().add(index)).is_null() {
                return texts;
            }
            (*real.cast::<AtomicPtr<c_void>>().add(index)).load(Relaxed) as usize
        };
        if !texts.iter().any(|&(low, high)| (low..high).contains(&address)) {
            texts.extend(heddle::raw::text_of(address));
        }
    }
    texts
}

extern "C" fn at_load() {
    let names = (&raw const NAMES).cast::<*const c_char>();
    for index in 0.. {
        // SAFETY: the names end with null.
        unsafe {
            if (*names.add(index)).is_null() {
                return;
            }
            find(index);
        }
    }
}

/// Before the program runs: `dlsym` in the middle of it might wait for a lock that it holds.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
