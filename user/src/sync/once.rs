//! `pthread_once`: 0 = not run, 2 = has run, odd = running.
//!
//! Above the two bits of a running one stands which child of `fork` it runs in: a child that was
//! forked while another thread ran the routine begins anew, as in the C library.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid and point to what their type says.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Release};

use heddle::raw::Moment;

use super::{wait, wake};
use crate::threads::fork;
use crate::threads::stuck::Call;

const NEW: u32 = 0;
const RUNNING: u32 = 1;
const DONE: u32 = 2;

/// Tells the others how it went: also if the routine ends its thread or throws.
struct Running<'a> {
    word: &'a AtomicU32,
    state: u32,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // ORDER: Release publishes what the routine wrote to the Acquire of the callers.
        self.word.store(self.state, Release);
        wake(self.word, u32::MAX);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_pthread_once(
    once: *const AtomicU32,
    routine: unsafe extern "C-unwind" fn(),
) -> c_int {
    // SAFETY: the caller's word.
    let word = unsafe { &*once };
    let running = fork::generation() << 2 | RUNNING;
    // ORDER: Acquire, here and below, pairs with the Release of whoever ran the routine.
    let mut seen = word.load(Acquire);
    while seen & DONE == 0 {
        if seen == running {
            // SAFETY: as above.
            let _ = unsafe { wait(Call::Once, word, running, Moment::Never) };
            seen = word.load(Acquire);
            continue;
        }
        match word.compare_exchange(seen, running, Acquire, Acquire) {
            Ok(_) => {
                run(word, routine);
                break;
            }
            Err(now) => seen = now,
        }
    }
    0
}

fn run(word: &AtomicU32, routine: unsafe extern "C-unwind" fn()) {
    let mut running = Running { word, state: NEW };
    // SAFETY: the caller's routine.
    unsafe { routine() };
    running.state = DONE;
}
