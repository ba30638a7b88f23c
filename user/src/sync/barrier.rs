//! Barriers, in glibc's layout and by its algorithm: threads are numbered as they come, and
//! `round` says up to which number they may go.
//!
//! The numbers begin anew when they would overflow: whoever is the last to leave then resets all
//! three words, and those who have come too early wait for it. A barrier may be destroyed as soon
//! as one thread has left it: destroying waits for the others.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid and point to what their type says.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heddle::raw::Moment;
use libc::pthread_barrier_t;

use super::{theirs, wait, wake};
use crate::errno;
use crate::threads::stuck::Call;

/// glibc's `struct pthread_barrier`.
#[repr(C)]
struct Barrier {
    came: AtomicU32,
    round: AtomicU32,
    count: u32,
    shared: c_int,
    left: AtomicU32,
}

/// Where the C library has them.
pub const COUNT_AT: usize = core::mem::offset_of!(Barrier, count);
pub const SHARED_AT: usize = core::mem::offset_of!(Barrier, shared);

/// Numbers are reset at the last multiple of the count below this one.
const CAME_MAX: u32 = u32::MAX / 2;

impl Barrier {
    fn last_number(&self) -> u32 {
        CAME_MAX - CAME_MAX % self.count
    }

    /// The number of the caller, 1 for the first.
    fn come(&self) -> u32 {
        loop {
            // ORDER: AcqRel: who completes the round sees what all the others did before.
            let number = self.came.fetch_add(1, AcqRel).wrapping_add(1);
            if number <= self.last_number() {
                return number;
            }
            // ORDER: Acquire, here and below, pairs with the reset in `leave`.
            let mut came = self.came.load(Acquire);
            while came > self.last_number() {
                // SAFETY: the caller's barrier.
                let _ = unsafe { wait(Call::Barrier, &self.came, came, Moment::Never) };
                came = self.came.load(Acquire);
            }
        }
    }

    /// Lets everybody go whose group is complete with `number`; whether the caller is among them.
    fn complete(&self, number: u32) -> bool {
        let mut round = self.round.load(Relaxed);
        while round + self.count <= number {
            let next = number - number % self.count;
            // ORDER: Release passes on what `come` has acquired.
            match self.round.compare_exchange(round, next, Release, Relaxed) {
                Ok(_) => {
                    wake(&self.round, u32::MAX);
                    round = next;
                }
                Err(seen) => round = seen,
            }
        }
        number <= round
    }

    fn leave(&self) -> c_int {
        // ORDER: Release, for whoever resets or destroys the barrier; Acquire, for the reset is by
        // the last one, after all that the others did to it.
        let left = self.left.fetch_add(1, AcqRel) + 1;
        let is_last = left.is_multiple_of(self.count);
        if left == self.last_number() {
            self.round.store(0, Relaxed);
            self.left.store(0, Relaxed);
            // ORDER: Release: who comes next finds the other two reset.
            self.came.store(0, Release);
            wake(&self.came, u32::MAX);
        }
        if is_last { libc::PTHREAD_BARRIER_SERIAL_THREAD } else { 0 }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's barrier.
    let it = unsafe { &*barrier.cast::<Barrier>() };
    if it.shared != 0 {
        // SAFETY: as above.
        return theirs(|| unsafe { libc::pthread_barrier_wait(barrier) });
    }
    let number = it.come();
    if !it.complete(number) {
        // ORDER: Acquire, here and below, pairs with the Release in `complete`.
        let mut round = it.round.load(Acquire);
        while round < number {
            // SAFETY: as above.
            let _ = unsafe { wait(Call::Barrier, &it.round, round, Moment::Never) };
            round = it.round.load(Acquire);
        }
    }
    it.leave()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's barrier.
    let it = unsafe { &*barrier.cast::<Barrier>() };
    if it.shared != 0 {
        // SAFETY: as above.
        return unsafe { libc::pthread_barrier_destroy(barrier) };
    }
    // ORDER: Acquire pairs with `leave`: who has left does not touch the barrier any more.
    while it.left.load(Acquire) < it.came.load(Acquire) / it.count * it.count {
        errno::kept(heddle::thread::yield_now);
    }
    0
}
