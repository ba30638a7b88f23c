//! `heddle_once`: 0 = not run, 1 = running, 2 = has run.
//!
//! The word has no room for a queue: those who wait do so in one of a few queues chosen by the
//! word's address, and look again when they are woken.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid.

use core::ffi::c_int;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use heddle::raw::{self, WaitQueue};

use crate::carried;

const NEW: c_int = 0;
const RUNNING: c_int = 1;
const DONE: c_int = 2;
const QUEUES: usize = 64;

static WAITING: [WaitQueue; QUEUES] = [const { WaitQueue::new() }; QUEUES];

/// Puts the word back if the routine does not return: cancellation, exit, an exception.
struct Running<'a> {
    word: &'a AtomicI32,
    state: c_int,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let queue = queue_of(self.word);
        let locked = queue.lock();
        // ORDER: Release publishes what the routine wrote to the Acquire of the callers.
        self.word.store(self.state, Release);
        let batch = locked.take_all();
        drop(locked);
        crate::exit::wake_all(batch);
    }
}

fn queue_of(word: &AtomicI32) -> &'static WaitQueue {
    &WAITING[(core::ptr::from_ref(word) as usize >> 2) % QUEUES]
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_once(
    once: *const AtomicI32,
    init: unsafe extern "C-unwind" fn(),
) -> c_int {
    // SAFETY: the caller's word.
    let word = unsafe { &*once };
    while word.load(Acquire) != DONE {
        if word.compare_exchange(NEW, RUNNING, Acquire, Acquire).is_ok() {
            let mut running = Running { word, state: NEW };
            // SAFETY: the caller's routine.
            unsafe { init() };
            running.state = DONE;
            break;
        }
        carried::across(|| wait_while_running(word));
    }
    0
}

fn wait_while_running(word: &AtomicI32) {
    let queue = queue_of(word).lock();
    if word.load(Relaxed) == RUNNING {
        let me = raw::current();
        queue.enqueue(me);
        let _ = queue.wait(me, 0);
    }
}
