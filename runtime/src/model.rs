//! The seam to the proofs: what the model checker and the simulation replace.
//!
//! The files that implement a protocol (`raw_lock`, `wait`, `inbox`, `sleep`, `sync`, `later`,
//! `thread/park`, `thread/join`, `offered`, `called`, `monitor/doze`, `heap_use`) take their
//! atomics, cells and pauses from here, so the code that is checked is the code that runs:
//! - here they are core's;
//! - `tests/later.rs` has a signal handler come before each of them;
//! - `tests/loom.rs` compiles the same files with loom's in a module of this name;
//! - with the feature `sim` each atomic operation is a point where the simulation may let another
//!   worker go on.

#[cfg(feature = "sim")]
pub(crate) use crate::sim::atomic::{AtomicPtr, AtomicU32};
pub(crate) use core::cell::Cell;
/// What is looked at without its lock: one step of the simulation's with what the lock guards.
pub(crate) use core::sync::atomic::AtomicU32 as Hint;
pub(crate) use core::sync::atomic::AtomicUsize;
pub(crate) use core::sync::atomic::fence;
#[cfg(not(feature = "sim"))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32};
use core::time::Duration;

/// The monitor's sleep while all workers sleep.
pub(crate) use crate::monitor::bed::{wait as doze_wait, wake as doze_wake};
use crate::sys::futex;

/// Turns of a spin-wait before the kernel is asked: a holder needs tens of nanoseconds.
pub(crate) const SPINS: u32 = 100;

/// Places of the ring of a worker's own new threads; a power of two.
pub(crate) const FRESH_RING: usize = 256;

/// The part of an address that may decide something. In a simulation that which is the same in
/// every process: a seed is one schedule wherever the program was loaded.
#[inline(always)]
pub(crate) fn known_part(address: usize) -> usize {
    if cfg!(feature = "sim") { address % crate::sys::memory::PAGE } else { address }
}

/// One turn of a spin-wait.
#[inline(always)]
pub(crate) fn spin() {
    #[cfg(feature = "sim")]
    crate::sim::pause();
    crate::arch::relax();
}

/// One turn of a wait for another value than `_seen`, from who may be without a processor.
pub(crate) fn give_way(_word: &AtomicU32, _seen: u32) {
    #[cfg(feature = "sim")]
    crate::sim::pause();
    rustix::thread::sched_yield();
}

/// A load in the one order that all see.
#[inline(always)]
pub(crate) fn newest(word: &AtomicU32) -> u32 {
    // ORDER: SeqCst: for who writes a word of his own before it.
    word.load(core::sync::atomic::Ordering::SeqCst)
}

/// Sleeps while `*word == expected`, at most for `timeout`; may return early.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    #[cfg(feature = "sim")]
    if crate::sim::pause() {
        return;
    }
    futex::wait(word_of(word), expected, timeout);
}

/// Wakes at most `count` sleepers of `word`.
pub(crate) fn futex_wake(word: &AtomicU32, count: u32) {
    futex::wake(word_of(word), count);
}

#[cfg(not(feature = "sim"))]
fn word_of(word: &AtomicU32) -> &core::sync::atomic::AtomicU32 {
    word
}

#[cfg(feature = "sim")]
fn word_of(word: &AtomicU32) -> &core::sync::atomic::AtomicU32 {
    word.plain()
}
