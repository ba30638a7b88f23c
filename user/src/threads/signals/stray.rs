//! Signals that were sent to the process and that the kernel gave to a worker: SIGPIPE and SIGXFSZ,
//! which workers let through for those that a write raises (`raised.rs`), SIGPROF and SIGVTALRM,
//! for the thread that computes (`timed.rs`), and SIGURG, by which threads are preempted
//! (`urgent.rs`). Or to a kernel thread that a full thread has just made, which begins with the
//! worker's mask.
//!
//! The kernel has them no more, so they are pending here, one of each, until a thread that lets
//! them through takes them, or one that waits for them: a full thread as what the kernel has
//! (`process.rs`), a kernel thread when it changes its mask or begins to wait ([`fetch`]). One that
//! comes where a kernel thread of the program's takes it is sent on to that (`kernels.rs`).
//!
//! Not told of them are descriptors of `signalfd`, which are the kernel's.
//!
//! Invariant: a place is written by who has made it busy, and what is there is taken so. Nobody
//! waits for that: a signal that comes meanwhile is the one that is there, as with the kernel. Who
//! only looks reads again if it was changed meanwhile ([`look`]).

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};

use heddle::raw;
use libc::siginfo_t;

use super::actions::is_in_vfork;
use super::raised::LET_THROUGH;
use super::sent::unused;
use super::{bit, kernels, process};
use crate::errno;
use crate::sys::signals;
use crate::threads::fork;

/// Which may come to a worker though they are the process's.
const STRAYS: [c_int; LET_THROUGH.len() + 1] = {
    let [first, second, third, fourth] = LET_THROUGH;
    [first, second, third, fourth, raw::PREEMPTION_SIGNAL]
};

const FREE: u32 = 0;
const BUSY: u32 = 1;
const FULL: u32 = 2;
/// How many there are; a multiple of it is added each time.
const STATES: u32 = 4;

/// Of a `siginfo_t`.
const WORDS: usize = size_of::<siginfo_t>() / size_of::<u64>();

struct Place {
    /// One of the above, and how often a signal was put here.
    state: AtomicU32,
    info: [AtomicU64; WORDS],
}

impl Place {
    const fn new() -> Place {
        Place { state: AtomicU32::new(FREE), info: [const { AtomicU64::new(0) }; WORDS] }
    }

    fn is_full(state: u32) -> bool {
        state % STATES == FULL
    }

    fn read(&self) -> siginfo_t {
        let mut info = MaybeUninit::<siginfo_t>::uninit();
        for (index, word) in self.info.iter().enumerate() {
            // SAFETY: it has so many words, and is aligned for them.
            unsafe { info.as_mut_ptr().cast::<u64>().add(index).write(word.load(Relaxed)) };
        }
        // SAFETY: any bytes are valid, and all were written.
        unsafe { info.assume_init() }
    }

    fn write(&self, info: &siginfo_t) {
        for (index, word) in self.info.iter().enumerate() {
            // SAFETY: as in `read`; what the kernel or this library wrote was zero before.
            word.store(unsafe { ptr::from_ref(info).cast::<u64>().add(index).read() }, Relaxed);
        }
    }
}

static PLACES: [Place; STRAYS.len()] = [const { Place::new() }; STRAYS.len()];

fn places() -> impl Iterator<Item = (c_int, &'static Place)> {
    STRAYS.into_iter().zip(&PLACES)
}

/// Whether it is one of those.
pub fn is_one(signal: c_int) -> bool {
    STRAYS.contains(&signal)
}

/// Whether some of `signals` can be pending here.
pub fn may_have(signals: u64) -> bool {
    fork::has_full() && places().any(|(signal, _)| signals & bit(signal) != 0)
}

/// A bit for each that is pending.
pub fn pending() -> u64 {
    // ORDER: SeqCst: pairs with `put`.
    places()
        .filter(|(_, it)| Place::is_full(it.state.load(SeqCst)))
        .map(|(signal, _)| bit(signal))
        .sum()
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
    let free = place.state.load(Relaxed);
    // ORDER: Acquire pairs with the Release in `take_one`.
    if free % STATES == FREE
        && place.state.compare_exchange(free, free + BUSY, Acquire, Relaxed).is_ok()
    {
        // ORDER: who sees something of the new one sees that it is busy; see `look`.
        fence(Release);
        place.write(info);
        // ORDER: SeqCst: before the look at who takes it; pairs with `fetch`.
        place.state.store(free.wrapping_add(STATES) + FULL, SeqCst);
    }
    true
}

fn take_one(place: &Place) -> Option<siginfo_t> {
    let full = place.state.load(Relaxed);
    if !Place::is_full(full) {
        return None;
    }
    let free = full - FULL;
    // ORDER: Acquire pairs with the store in `put`.
    place.state.compare_exchange(full, free + BUSY, Acquire, Relaxed).ok()?;
    let info = place.read();
    // ORDER: Release pairs with the Acquire in `put`.
    place.state.store(free, Release);
    Some(info)
}

/// What is pending there, and stays so.
fn look(place: &Place) -> Option<siginfo_t> {
    loop {
        // ORDER: Acquire pairs with the store in `put`; the fence, with the one there.
        let full = place.state.load(Acquire);
        if !Place::is_full(full) {
            return None;
        }
        let info = place.read();
        fence(Acquire);
        if place.state.load(Relaxed) == full {
            return Some(info);
        }
    }
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
    for signal in STRAYS.map(bit) {
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
/// the kernel has a copy of it for this thread meanwhile, and what is here goes with the memory. If
/// the call returns it has failed, and only the copies go. So others have what is here all the
/// time; one who takes it just before the process is another program leaves the copy there.
///
/// A signal of the thread's own that is pending already is there in place of the copy.
pub fn kept_by<T>(blocked: u64, call: impl FnOnce() -> T) -> T {
    if is_in_vfork() {
        // It is the parent's.
        return call();
    }
    give_back(blocked);
    let of_blocked = places().filter(|&(signal, _)| blocked & bit(signal) != 0);
    let copied = of_blocked.filter_map(|(_, it)| look(it)).map(|mut info| {
        *unused(&mut info) = mark();
        signals::queue_to_own(&info);
        bit(info.si_signo)
    });
    let copied: u64 = copied.sum();
    let result = call();
    for signal in STRAYS.map(bit).into_iter().filter(|it| copied & it != 0) {
        if let Some(mut info) = signals::take(signal)
            && *unused(&mut info) != mark()
        {
            // The thread's own.
            signals::queue_to_own(&info);
        }
    }
    result
}

/// Stands in copies: differs from that of the program before this one, which may have left some.
fn mark() -> c_int {
    ((&raw const PLACES).addr() >> 12) as c_int | 1
}

/// As [`fetch`] of one that waits in `wait`.
pub fn waiting<T>(signals: u64, wait: impl FnOnce() -> T) -> T {
    if is_in_vfork() {
        // What is here is the parent's.
        return wait();
    }
    kernels::wait_for(signals);
    fetch(signals);
    let result = wait();
    kernels::wait_for(0);
    give_back(signals);
    result
}
