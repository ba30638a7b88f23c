//! Barriers.
//!
//! The last to arrive takes everybody out of the queue under its lock, and wakes them afterwards
//! by their control blocks: so the serial thread may destroy the barrier at once.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and point to initialised objects
//! except where the function initialises them.

use core::cell::Cell;
use core::ffi::c_int;

use heddle::raw::{self, WaitQueue};

use crate::mutex::only_zero;
use crate::{carried, exit};

/// `HEDDLE_BARRIER_SERIAL_THREAD`.
const SERIAL: c_int = -1;

/// `heddle_barrier_t` of the header.
#[repr(C)]
pub struct Barrier {
    threshold: u32,
    /// Under the queue's lock.
    arrived: Cell<u32>,
    queue: WaitQueue,
}

const _: () = assert!(size_of::<Barrier>() == 32);

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_barrier_wait(barrier: *const Barrier) -> c_int {
    // SAFETY: the caller's barrier. Not a reference: another thread may destroy it while this one
    // is on its way out.
    let queue = unsafe { (*barrier).queue.lock() };
    // SAFETY: alive at least until this thread lets go of the lock.
    let (threshold, arrived) = unsafe { ((*barrier).threshold, &(*barrier).arrived) };
    if arrived.get() + 1 == threshold {
        arrived.set(0);
        let batch = queue.take_all();
        drop(queue);
        exit::wake_all(batch);
        return SERIAL;
    }
    arrived.set(arrived.get() + 1);
    let me = raw::current();
    queue.enqueue(me);
    let _ = carried::across(|| queue.wait(me, 0));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_barrier_init(
    barrier: *mut Barrier,
    _attr: *const u32,
    count: u32,
) -> c_int {
    if count == 0 {
        return libc::EINVAL;
    }
    let new = Barrier { threshold: count, arrived: Cell::new(0), queue: WaitQueue::new() };
    // SAFETY: the caller's place.
    unsafe { barrier.write(new) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_barrier_destroy(barrier: *const Barrier) -> c_int {
    // SAFETY: the caller's barrier.
    if unsafe { (*barrier).queue.lock().is_empty() } { 0 } else { libc::EBUSY }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_barrierattr_init(attr: *mut u32) -> c_int {
    // SAFETY: the caller's place.
    unsafe { attr.write(0) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn heddle_barrierattr_destroy(_: *mut u32) -> c_int {
    0
}

only_zero! { heddle_barrierattr_setpshared, heddle_barrierattr_getpshared; }
