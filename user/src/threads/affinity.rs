//! The processors of full threads: what a program sets is kept and given back, and acts on nothing.
//!
//! A full thread runs on whatever worker takes it; above all, a worker's own processors stay.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and a `pthread_t` names a thread
//! that exists.

use core::ffi::c_int;
use core::mem;
use core::ptr;

use libc::{cpu_set_t, pthread_t};

use super::{Pthread, find};
use crate::errno;

// SAFETY: the C library's functions, by its headers.
unsafe extern "C" {
    fn pthread_setaffinity_np(thread: pthread_t, bytes: usize, set: *const cpu_set_t) -> c_int;
    fn pthread_getaffinity_np(thread: pthread_t, bytes: usize, set: *mut cpu_set_t) -> c_int;
}

/// The processors that the process may use.
fn allowed() -> Result<cpu_set_t, c_int> {
    // SAFETY: all zero bytes are an empty set; a valid place.
    unsafe {
        let mut set: cpu_set_t = mem::zeroed();
        match libc::sched_getaffinity(libc::getpid(), size_of::<cpu_set_t>(), &mut set) {
            0 => Ok(set),
            _ => Err(errno::get()),
        }
    }
}

fn words(set: &cpu_set_t) -> &[u8; size_of::<cpu_set_t>()] {
    // SAFETY: plain bytes.
    unsafe { &*ptr::from_ref(set).cast() }
}

/// Gives `target` the processors of `set`; an error number.
///
/// # Safety
/// 1. `set` has `bytes` bytes.
pub unsafe fn set(target: &Pthread, bytes: usize, set: *const cpu_set_t) -> c_int {
    // SAFETY: all zero bytes are an empty set; by 1.
    let wanted = unsafe {
        let mut wanted: cpu_set_t = mem::zeroed();
        let known = bytes.min(size_of::<cpu_set_t>());
        ptr::copy_nonoverlapping(set.cast::<u8>(), (&raw mut wanted).cast(), known);
        wanted
    };
    let Ok(allowed) = allowed() else { return libc::EINVAL };
    if words(&wanted).iter().zip(words(&allowed)).all(|(a, b)| a & b == 0) {
        return libc::EINVAL;
    }
    let wanted = Box::new(wanted);
    let before = target.about().processors.replace(wanted);
    drop(before);
    0
}

/// Writes the processors of `target`; an error number.
///
/// # Safety
/// 1. `set` has room for `bytes` bytes.
pub unsafe fn get(target: &Pthread, bytes: usize, set: *mut cpu_set_t) -> c_int {
    // SAFETY: by 1; the kernel says what it thinks of the size.
    if unsafe { libc::sched_getaffinity(libc::getpid(), bytes, set) } != 0 {
        return errno::get();
    }
    if let Some(own) = target.about().processors.as_deref() {
        let known = bytes.min(size_of::<cpu_set_t>());
        // SAFETY: by 1.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(own).cast::<u8>(), set.cast(), known) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_setaffinity_np(
    thread: pthread_t,
    bytes: usize,
    processors: *const cpu_set_t,
) -> c_int {
    // SAFETY: the caller's thread and set.
    unsafe {
        match find(thread) {
            Some(target) => errno::kept(|| set(target, bytes, processors)),
            None => pthread_setaffinity_np(thread, bytes, processors),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_getaffinity_np(
    thread: pthread_t,
    bytes: usize,
    processors: *mut cpu_set_t,
) -> c_int {
    // SAFETY: the caller's thread and place.
    unsafe {
        match find(thread) {
            Some(target) => errno::kept(|| get(target, bytes, processors)),
            None => pthread_getaffinity_np(thread, bytes, processors),
        }
    }
}
