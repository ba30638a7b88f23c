//! Where stdio reads and writes: points of cancellation, as the system calls behind them are.
//!
//! The C library makes these calls by itself, where nobody sees them. But it goes there by its
//! tables of a stream's functions: in each that reads and writes a file there are two of ours,
//! which look for a cancellation before the C library's own and where that was interrupted. A
//! thread is ended from there by a forced unwind, as natively: the functions of stdio are made to
//! let the stream's lock go then.
//!
//! Files are opened in no table; the functions that do so are taken over, and the one that closes
//! them for the sake of names (`calls/comm.rs`).
//!
//! Invariant: a table is changed only where it has those two functions side by side, and its pages
//! are as they were after that. A C library that is made otherwise is left as it is: there a
//! cancellation makes stdio's call fail with EINTR, and ends the thread at its next point.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::offset_of;
use core::ops::Range;
use core::ptr;
use core::slice;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;
use libc::{FILE, dl_phdr_info, ssize_t};

use crate::calls::comm;
use crate::threads::signals;
use crate::threads::{self, cancel};
use crate::{errno, real};

/// What glibc's `FILE` has for everybody: the rest is only passed on.
#[repr(C)]
struct Stream {
    flags: c_int,
    pointers: [usize; 13],
    fd: c_int,
    more_flags: c_int,
}

const _: () = assert!(offset_of!(Stream, fd) == 112);

/// In `more_flags`: its system calls are no points of cancellation (`_IO_FLAGS2_NOTCANCEL`).
const NO_POINT: c_int = 2;
const WORD: usize = size_of::<usize>();

// SAFETY: the C library's functions and table, which are in its ABI; of the table only the place
// is asked.
unsafe extern "C-unwind" {
    static _IO_file_jumps: usize;
    fn _IO_file_read(stream: *mut Stream, to: *mut c_void, bytes: ssize_t) -> ssize_t;
    fn _IO_file_write(stream: *mut Stream, from: *const c_void, bytes: ssize_t) -> ssize_t;
}

/// Whether the caller is to be ended here.
///
/// # Safety
/// 1. The stream is the caller's.
unsafe fn is_due(stream: *const Stream) -> bool {
    // SAFETY: by 1.
    let is_point = unsafe { (*stream).more_flags } & NO_POINT == 0;
    cancel::check() && is_point && !cancel::is_held_back_by_library()
}

/// # Safety
/// As the C library's function.
unsafe extern "C-unwind" fn read(stream: *mut Stream, to: *mut c_void, bytes: ssize_t) -> ssize_t {
    // SAFETY: the C library's call, passed on.
    unsafe {
        if is_due(stream) {
            cancel::act();
        }
        let result = _IO_file_read(stream, to, bytes);
        if result < 0 && errno::get() == libc::EINTR && is_due(stream) {
            cancel::act();
        }
        result
    }
}

/// # Safety
/// As the C library's function.
unsafe extern "C-unwind" fn write(
    stream: *mut Stream,
    from: *const c_void,
    bytes: ssize_t,
) -> ssize_t {
    // SAFETY: the C library's call, passed on.
    unsafe {
        if is_due(stream) {
            cancel::act();
        }
        let flags = (*stream).flags;
        let result = _IO_file_write(stream, from, bytes);
        if result < bytes && errno::get() == libc::EINTR && is_due(stream) {
            // It has noted an error, of which natively there is none.
            (*stream).flags = flags;
            cancel::act();
        }
        if result < bytes {
            // What it has raised is handled here, as natively: with the stream's lock.
            signals::answer_if_called();
        }
        result
    }
}

/// The functions of ours in its tables: in their calls a thread holds nothing of this library's.
pub fn between() -> [usize; 2] {
    [read as *const () as usize, write as *const () as usize]
}

/// As far the C library looks for letters in how a file is to be opened.
const LETTERS: usize = 7;

/// Makes a full thread's call that opens a file as `mode` says. A pipe with a name waits for its
/// other end, and ends with EINTR where the thread is cancelled (`preempt.rs` of the runtime).
///
/// # Safety
/// 1. `mode` is a text.
unsafe fn opened(mode: *const c_char, open: impl FnOnce() -> *mut FILE) -> *mut FILE {
    // SAFETY: by 1.
    let letters = unsafe { CStr::from_ptr(mode) }.to_bytes();
    // So it sets `NO_POINT`.
    let is_point = !letters.iter().take(LETTERS).skip(1).any(|letter| *letter == b'c');
    if !is_point {
        let was_enabled = cancel::hold_back();
        let stream = raw::answering_at_locks(open);
        cancel::put_back(was_enabled);
        return stream;
    }
    if cancel::check() {
        cancel::act();
    }
    let stream = raw::answering_at_locks(open);
    if stream.is_null() && errno::get() == libc::EINTR && cancel::check() {
        cancel::act();
    }
    signals::answer_if_called();
    stream
}

/// What the kernel is asked for by `mode`, as far as it says who reads and who writes.
///
/// # Safety
/// 1. `mode` is a text.
unsafe fn flags_of(mode: *const c_char) -> c_int {
    // SAFETY: by 1.
    let letters = unsafe { CStr::from_ptr(mode) }.to_bytes();
    let has = |letter| letters.iter().take(LETTERS).skip(1).any(|it| *it == letter);
    let access = match letters.first() {
        _ if has(b'+') => libc::O_RDWR,
        Some(b'r') => libc::O_RDONLY,
        _ => libc::O_WRONLY,
    };
    if has(b'e') { access | libc::O_CLOEXEC } else { access }
}

/// # Safety
/// As the C library's function.
unsafe fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller's texts.
    unsafe {
        match comm::opened(path, || flags_of(mode)) {
            Some(-1) => return ptr::null_mut(),
            Some(fd) => {
                let stream = libc::fdopen(fd, mode);
                if stream.is_null() {
                    errno::kept(|| libc::close(fd));
                }
                return stream;
            }
            None => {}
        }
        if threads::is_running() {
            return opened(mode, || libc::fopen(path, mode));
        }
        real::fopen(path, mode)
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_fopen(
    path: *const c_char,
    mode: *const c_char,
) -> *mut FILE {
    // SAFETY: the caller's texts.
    unsafe { fopen(path, mode) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_fopen64(
    path: *const c_char,
    mode: *const c_char,
) -> *mut FILE {
    // SAFETY: the caller's texts.
    unsafe { fopen(path, mode) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_fclose(stream: *mut FILE) -> c_int {
    // SAFETY: the caller's stream.
    unsafe {
        if comm::are_open() {
            let fd = libc::fileno(stream);
            if comm::is_open(fd) {
                libc::fflush(stream);
                comm::before_close(fd);
            }
        }
        raw::answering_at_locks(|| real::fclose(stream))
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> *mut FILE {
    // SAFETY: the caller's texts and stream.
    unsafe { opened(mode, || libc::freopen(path, mode, stream)) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_freopen64(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> *mut FILE {
    // SAFETY: the caller's texts and stream.
    unsafe { opened(mode, || libc::freopen(path, mode, stream)) }
}

/// Changes the tables in what an object has for constants, if it is the one that has the first.
///
/// # Safety
/// The loader calls it.
unsafe extern "C" fn look_at(info: *mut dl_phdr_info, _size: usize, _: *mut c_void) -> c_int {
    let table = (&raw const _IO_file_jumps).addr();
    // SAFETY: the loader's description of an object, which is mapped.
    let (base, headers) = unsafe {
        let info = &*info;
        (info.dlpi_addr as usize, slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()))
    };
    let constants = headers.iter().filter(|it| it.p_type == libc::PT_GNU_RELRO).map(|it| {
        let start = base + it.p_vaddr as usize;
        // What is left of a page behind them is no constant.
        start..(start + it.p_memsz as usize) & !(page() - 1)
    });
    let Some(constants) = constants.into_iter().find(|it| it.contains(&table)) else { return 0 };
    let start = constants.start.next_multiple_of(WORD);
    // SAFETY: words of the object, which nobody changes any more.
    let words = unsafe {
        slice::from_raw_parts(
            ptr::with_exposed_provenance::<AtomicUsize>(start),
            (constants.end - start) / WORD,
        )
    };
    let theirs = [_IO_file_read as *const () as usize, _IO_file_write as *const () as usize];
    let ours = [read as *const () as usize, write as *const () as usize];
    let is_theirs =
        |pair: &&[AtomicUsize]| theirs == [pair[0].load(Relaxed), pair[1].load(Relaxed)];
    let tables = words.windows(2).filter(is_theirs);
    while_open(constants, || {
        for (word, function) in tables.flat_map(|pair| pair.iter().zip(ours)) {
            word.store(function, Relaxed);
        }
    });
    1
}

/// Bytes of a page.
fn page() -> usize {
    // SAFETY: a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Changes constants. All pages of them are opened at once: at the start of each program, one table
/// after the other took longer than all the rest here.
fn while_open(constants: Range<usize>, change: impl FnOnce()) {
    let first = constants.start & !(page() - 1);
    let protect = |protection| {
        let pages = ptr::with_exposed_provenance_mut(first);
        // SAFETY: pages of constants, as the loader has closed them, which keep what they have.
        unsafe { libc::mprotect(pages, constants.end - first, protection) }
    };
    if protect(libc::PROT_READ | libc::PROT_WRITE) == 0 {
        change();
        protect(libc::PROT_READ);
    }
}

extern "C" fn at_load() {
    // SAFETY: a function for it.
    unsafe { libc::dl_iterate_phdr(Some(look_at), ptr::null_mut()) };
}

/// Before there are several threads: to ask takes the loader's lock.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
