//! Spin locks. The holder may be a thread of the same worker, so after some turns the spinner
//! lets others run, and handles its signals. The word is the C library's (1 = free), and so are the
//! other functions.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid and point to what their type says.

use core::ffi::c_int;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::errno;
use crate::threads::signals;

const FREE: i32 = 1;
const HELD: i32 = 0;
const TURNS: u32 = 200;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_spin_lock(lock: *const AtomicI32) -> c_int {
    // SAFETY: the caller's lock.
    let word = unsafe { &*lock };
    loop {
        for _ in 0..TURNS {
            // ORDER: Acquire pairs with the store of `pthread_spin_unlock`.
            if word.load(Relaxed) == FREE
                && word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
            {
                return 0;
            }
            core::hint::spin_loop();
        }
        errno::kept(heddle::thread::yield_now);
        // Nothing is held: a handler may end the thread.
        signals::answer_if_called();
    }
}
