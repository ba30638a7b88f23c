//! Signals that were sent to the process and that the kernel gave to a worker: SIGPIPE and SIGXFSZ,
//! which workers let through for those that a write raises (`raised.rs`).
//!
//! The kernel has them no more, so they are pending here, one of each, until a thread that lets
//! them through takes them, or one that waits for them: a full thread as what the kernel has
//! (`process.rs`), a kernel thread when it changes its mask or begins to wait ([`fetch`]).
//!
//! Protocol: the main thread says what it is about to wait for and then looks here; who adds one
//! looks at that afterwards ([`add`]). So it waits for none that stays here.
//!
//! Not told of them are descriptors of `signalfd`, which are the kernel's.
//!
//! Invariant: a place is written and read by who has made it busy. Nobody waits for that: a signal
//! that comes meanwhile is the one that is there, as with the kernel.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU64};

use libc::siginfo_t;

use super::bit;
use super::raised::RAISED;
use crate::sys::signals;
use crate::threads::kernel;

const FREE: u8 = 0;
const BUSY: u8 = 1;
const FULL: u8 = 2;

struct Place {
    state: AtomicU8,
    info: UnsafeCell<MaybeUninit<siginfo_t>>,
}

// SAFETY: by the file's invariant one thread at a time uses it.
unsafe impl Sync for Place {}

static PLACES: [Place; RAISED.len()] =
    [const { Place { state: AtomicU8::new(FREE), info: UnsafeCell::new(MaybeUninit::uninit()) } };
        RAISED.len()];
/// What the main thread waits for in the C library's own call, or has when a jump left that.
static MAIN_WAITS: AtomicU64 = AtomicU64::new(0);

fn places() -> impl Iterator<Item = (c_int, &'static Place)> {
    RAISED.into_iter().map(|(signal, _)| signal).zip(&PLACES)
}

/// A bit for each that is pending.
pub fn pending() -> u64 {
    // ORDER: SeqCst: pairs with `add`.
    places().filter(|(_, it)| it.state.load(SeqCst) == FULL).map(|(signal, _)| bit(signal)).sum()
}

/// Adds one, unless the main thread waits for it and gets it; whether it was added.
pub fn add(info: &siginfo_t) -> bool {
    let signal = info.si_signo;
    let Some((_, place)) = places().find(|&(number, _)| number == signal) else { return false };
    // ORDER: Acquire pairs with the Release in `take_one`.
    if place.state.compare_exchange(FREE, BUSY, Acquire, Relaxed).is_ok() {
        // SAFETY: the caller has made it busy.
        unsafe { (*place.info.get()).write(*info) };
        // ORDER: SeqCst: before the look at who waits; pairs with `fetch`.
        place.state.store(FULL, SeqCst);
    }
    if MAIN_WAITS.load(SeqCst) & bit(signal) != 0 && take(bit(signal)).is_some() {
        signals::send_to_main(signal);
        return false;
    }
    true
}

fn take_one(place: &Place) -> Option<siginfo_t> {
    // ORDER: Acquire pairs with the store in `add`.
    place.state.compare_exchange(FULL, BUSY, Acquire, Relaxed).ok()?;
    // SAFETY: it is full, and the caller has made it busy.
    let info = unsafe { (*place.info.get()).assume_init() };
    // ORDER: Release pairs with the Acquire in `add`.
    place.state.store(FREE, Release);
    Some(info)
}

/// Takes one of `signals`.
pub fn take(signals: u64) -> Option<siginfo_t> {
    places().filter(|&(signal, _)| signals & bit(signal) != 0).find_map(|(_, it)| take_one(it))
}

/// Has none of `signals` any more.
pub fn discard(signals: u64) {
    while take(signals).is_some() {}
}

/// The calling kernel thread lets `signals` through, or is about to wait for them: what is here of
/// them is its own from now on.
pub fn fetch(signals: u64) {
    while pending() & signals != 0 {
        let Some(info) = take(signals) else { return };
        signals::queue_to_own(&info);
    }
}

/// As [`fetch`] of one that waits in `wait`.
pub fn waiting<T>(signals: u64, wait: impl FnOnce() -> T) -> T {
    // SAFETY: no arguments.
    let is_main = kernel::is_main(unsafe { libc::pthread_self() });
    if is_main {
        // ORDER: SeqCst: before the look; pairs with `add`.
        MAIN_WAITS.store(signals, SeqCst);
    }
    fetch(signals);
    let result = wait();
    if is_main {
        MAIN_WAITS.store(0, Relaxed);
    }
    result
}
