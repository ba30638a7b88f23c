//! Who a thread is: ids, names, whether it exists; and the yield.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;

use crate::{carried, current, data};

/// `HEDDLE_NAME_BYTES_MAX`.
const NAME_BYTES: usize = 16;
/// Signal numbers end before this one.
const SIGNALS: c_int = 65;

static CONCURRENCY: AtomicI32 = AtomicI32::new(0);

#[unsafe(no_mangle)]
extern "C" fn heddle_self() -> u64 {
    current::data().id()
}

#[unsafe(no_mangle)]
extern "C" fn heddle_equal(a: u64, b: u64) -> c_int {
    c_int::from(a == b)
}

#[unsafe(no_mangle)]
extern "C" fn heddle_yield() -> c_int {
    carried::across(heddle::thread::yield_now);
    0
}

#[unsafe(no_mangle)]
extern "C" fn heddle_kill(thread: u64, signal: c_int) -> c_int {
    if data::find(thread).is_none() {
        return libc::ESRCH;
    }
    match signal {
        0 => 0,
        1..SIGNALS => libc::ENOTSUP,
        _ => libc::EINVAL,
    }
}

#[unsafe(no_mangle)]
extern "C" fn heddle_setconcurrency(level: c_int) -> c_int {
    if level < 0 {
        return libc::EINVAL;
    }
    CONCURRENCY.store(level, Relaxed);
    0
}

#[unsafe(no_mangle)]
extern "C" fn heddle_getconcurrency() -> c_int {
    CONCURRENCY.load(Relaxed)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_setname_np(thread: u64, name: *const c_char) -> c_int {
    let Some((_data, mut shared)) = data::find(thread) else { return libc::ESRCH };
    // SAFETY: the caller's text.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    if text.len() >= NAME_BYTES {
        return libc::ERANGE;
    }
    shared.name = [0; NAME_BYTES];
    shared.name[..text.len()].copy_from_slice(text);
    if let Some(thread) = &shared.thread {
        thread.set_name(&String::from_utf8_lossy(text));
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_getname_np(thread: u64, name: *mut c_char, size: usize) -> c_int {
    let Some((_data, shared)) = data::find(thread) else { return libc::ESRCH };
    let length = shared.name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES - 1);
    if size <= length {
        return libc::ERANGE;
    }
    // SAFETY: the caller's place of `size` bytes; the name ends with a zero byte within 16.
    unsafe { name.copy_from_nonoverlapping(shared.name.as_ptr().cast(), length + 1) };
    0
}
