//! What a debugger needs to find how a full thread is called and what it started with: the symbol
//! `heddle_user_debugger`, beside the runtime's `heddle_debugger`.
//!
//! Invariant: all zero before the first full thread, complete before that one runs.
//! `runtime/gdb/heddle.py` reads it word by word in this order.

use core::mem::offset_of;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::{Pthread, own};

/// See the file's head.
#[repr(C)]
struct Debugger {
    /// From a thread pointer to the address of the thread's `Pthread`, wrapping.
    distance: AtomicUsize,
    /// Where a `Pthread` has the start function.
    start: AtomicUsize,
    /// Where it has the name: 16 bytes.
    name: AtomicUsize,
}

#[used]
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static heddle_user_debugger: Debugger = Debugger {
    distance: AtomicUsize::new(0),
    start: AtomicUsize::new(0),
    name: AtomicUsize::new(0),
};

/// Notes where things are, by a thread that can't run yet.
pub fn learn(it: &Pthread) {
    if heddle_user_debugger.name.load(Relaxed) != 0 {
        return;
    }
    let name = it.about().name.as_ptr() as usize;
    let distance = own::distance().wrapping_add(offset_of!(own::Own, thread));
    heddle_user_debugger.distance.store(distance, Relaxed);
    heddle_user_debugger.start.store(offset_of!(Pthread, start), Relaxed);
    heddle_user_debugger.name.store(name - core::ptr::from_ref(it) as usize, Relaxed);
}
