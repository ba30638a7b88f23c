//! Signals that were sent to the process and that the kernel gave to a worker: SIGPIPE and SIGXFSZ,
//! which workers let through for those that a write raises (`raised.rs`).
//!
//! The kernel has them no more, so they are pending here, one of each, until a thread that lets
//! them through takes them, or one that waits for them: a full thread as what the kernel has
//! (`process.rs`), a kernel thread when it changes its mask or begins to wait ([`fetch`]). One that
//! comes where a kernel thread of the program's takes it is sent on to that (`kernels.rs`).
//!
//! Not told of them are descriptors of `signalfd`, which are the kernel's.
//!
//! Invariant: a place is written and read by who has made it busy. Nobody waits for that: a signal
//! that comes meanwhile is the one that is there, as with the kernel.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use libc::siginfo_t;

use super::actions::is_in_vfork;
use super::raised::RAISED;
use super::{bit, kernels, process};
use crate::errno;
use crate::sys::signals;
use crate::threads::fork;

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

fn places() -> impl Iterator<Item = (c_int, &'static Place)> {
    RAISED.into_iter().map(|(signal, _)| signal).zip(&PLACES)
}

/// Whether some of `signals` can be pending here.
pub fn may_have(signals: u64) -> bool {
    fork::has_full() && places().any(|(signal, _)| signals & bit(signal) != 0)
}

/// A bit for each that is pending.
pub fn pending() -> u64 {
    // ORDER: SeqCst: pairs with `put`.
    places().filter(|(_, it)| it.state.load(SeqCst) == FULL).map(|(signal, _)| bit(signal)).sum()
}

/// Adds one, unless a kernel thread of the program's takes it; whether it was added.
pub fn add(info: &siginfo_t) -> bool {
    put(info)
        && !kernels::send_on(bit(info.si_signo), || take(bit(info.si_signo)), |it| _ = put(it))
}

/// Whether it is one of those that can be pending here, which it is then.
fn put(info: &siginfo_t) -> bool {
    let Some((_, place)) = places().find(|&(number, _)| number == info.si_signo) else {
        return false;
    };
    // ORDER: Acquire pairs with the Release in `take_one`.
    if place.state.compare_exchange(FREE, BUSY, Acquire, Relaxed).is_ok() {
        // SAFETY: the caller has made it busy.
        unsafe { (*place.info.get()).write(*info) };
        // ORDER: SeqCst: before the look at who takes it; pairs with `fetch`.
        place.state.store(FULL, SeqCst);
    }
    true
}

fn take_one(place: &Place) -> Option<siginfo_t> {
    // ORDER: Acquire pairs with the store in `put`.
    place.state.compare_exchange(FULL, BUSY, Acquire, Relaxed).ok()?;
    // SAFETY: it is full, and the caller has made it busy.
    let info = unsafe { (*place.info.get()).assume_init() };
    // ORDER: Release pairs with the Acquire in `put`.
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

/// In a child: none was sent to that. Nobody else is there who could use a place.
pub fn in_child() {
    places().for_each(|(_, it)| it.state.store(FREE, Relaxed));
}

/// The calling kernel thread lets `signals` through, or is about to wait for them: what is here of
/// them is its own from now on.
pub fn fetch(signals: u64) {
    while pending() & signals != 0 {
        let Some(info) = take(signals) else { return };
        kernels::send_to_own(&info);
    }
}

/// The calling kernel thread does not take `signals` any more: what was sent on to it of them, and
/// what it has fetched, is the process's if it is still there.
pub fn give_back(signals: u64) {
    for signal in RAISED.map(|(signal, _)| bit(signal)) {
        if signals & signal != 0
            && let Some(info) = kernels::take_back(signal)
        {
            errno::kept(|| process::stray(&info));
        }
    }
}

/// The calling thread is a kernel thread of the program's from now on, and blocks these.
pub fn begin(blocked: u64) {
    kernels::begin(blocked);
    fetch(!blocked);
}

/// It is none any more.
pub fn end() {
    kernels::masked(u64::MAX);
    give_back(u64::MAX);
    kernels::end();
}

/// The calling kernel thread jumps. If that leaves no wait, as in a handler, the wait fails behind
/// that, and is begun anew.
pub fn jumped() {
    if kernels::wait_for(0) != 0 {
        give_back(u64::MAX);
    }
}

/// Makes a call by which the process becomes another program, for a thread that blocks `blocked`;
/// the calling kernel thread does so, too. What is pending here of that is pending in the program:
/// the kernel keeps what it has for this thread. If the call returns it has failed.
pub fn kept_by<T>(blocked: u64, call: impl FnOnce() -> T) -> T {
    if is_in_vfork() {
        // It is the parent's.
        return call();
    }
    give_back(blocked);
    let all = RAISED.map(|(signal, _)| bit(signal) & blocked);
    let moved = all.map(|signal| take(signal).inspect(signals::queue_to_own).is_some());
    let result = call();
    for (signal, _) in all.into_iter().zip(moved).filter(|&(_, is_moved)| is_moved) {
        if let Some(info) = signals::take(signal) {
            errno::kept(|| process::stray(&info));
        }
    }
    result
}

/// As [`fetch`] of one that waits in `wait`.
pub fn waiting<T>(signals: u64, wait: impl FnOnce() -> T) -> T {
    kernels::wait_for(signals);
    fetch(signals);
    let result = wait();
    kernels::wait_for(0);
    give_back(signals);
    result
}
