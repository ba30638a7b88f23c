//! Spin locks: 0 = free, 1 = held. Spinning for a thread of the same worker would never end, so
//! after a few turns the spinner yields.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid.

use core::ffi::c_int;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::carried;

const TURNS: u32 = 100;

fn try_lock(word: &AtomicI32) -> bool {
    // ORDER: Acquire pairs with the Release in `heddle_spin_unlock`.
    word.load(Relaxed) == 0 && word.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_spin_init(lock: *mut AtomicI32, shared: c_int) -> c_int {
    match shared {
        // SAFETY: the caller's place.
        0 => unsafe { lock.write(AtomicI32::new(0)) },
        1 => return libc::ENOTSUP,
        _ => return libc::EINVAL,
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn heddle_spin_destroy(_: *mut AtomicI32) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_spin_lock(lock: *const AtomicI32) -> c_int {
    // SAFETY: the caller's lock.
    let word = unsafe { &*lock };
    loop {
        for _ in 0..TURNS {
            if try_lock(word) {
                return 0;
            }
            core::hint::spin_loop();
        }
        carried::across(heddle::thread::yield_now);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_spin_trylock(lock: *const AtomicI32) -> c_int {
    // SAFETY: the caller's lock.
    if try_lock(unsafe { &*lock }) { 0 } else { libc::EBUSY }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_spin_unlock(lock: *const AtomicI32) -> c_int {
    // SAFETY: the caller's lock.
    unsafe { (*lock).store(0, Release) };
    0
}
