//! What the program's kernel threads let through, or wait for: whom those are sent on to that the
//! kernel may give to a worker though they are the process's (`stray.rs`).
//!
//! Protocol:
//! 1. A thread says here what it blocks, or is about to wait for, and then looks for what is
//!    pending (`stray::fetch`). Who adds one looks here afterwards. So none is missed.
//! 2. Who sends one on counts itself among [`SENDERS`] from before its look here until it has sent
//!    it. A thread that blocks more, or whose wait is over, says so, waits until nobody sends, and
//!    gives back what has come too late ([`take_back`]). So none stays behind.
//! 3. What is sent on has a code of its own, [`SENT_ON`]: it is told from what the program sends to
//!    the thread, and carries who sent it, which the thread is told ([`restore`]).
//!
//! A jump or another context ends a wait without its return: that says so, too. Who ends a handler
//! in which it has changed its mask says what is restored, and who jumps out of one what is kept
//! (`entered.rs`). Not known is what handlers do that an instruction of the program's own has set.
//!
//! Invariant: signal handlers come by, so nothing here takes a lock, and nothing but [`begin`]
//! allocates. A place stays for ever: when its thread has ended it is the next one's.

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64};
use std::thread::yield_now;

use libc::siginfo_t;

use super::bit;
use crate::calls::mask;
use crate::sys::signals;
use crate::threads::kernel;

/// `si_code`: one that the kernel does not know, and lets any thread send to any other of its
/// process. The signal's own code is where an error's number would be.
const SENT_ON: c_int = -104;

/// A kernel thread of the program's.
struct Place {
    /// Its number; 0: nobody has the place. Not of the main thread, which has the process's.
    tid: AtomicI32,
    blocked: AtomicU64,
    /// What it waits for in a call of the C library's, or is about to.
    waits: AtomicU64,
    /// What was sent on to it since it has looked.
    sent: AtomicU64,
    next: AtomicPtr<Place>,
}

impl Place {
    const fn new(tid: c_int, blocked: u64) -> Place {
        Place {
            tid: AtomicI32::new(tid),
            blocked: AtomicU64::new(blocked),
            waits: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn is_main(&self) -> bool {
        ptr::eq(self, &MAIN)
    }

    /// What it lets through, or waits for.
    fn taken(&self) -> u64 {
        // ORDER: SeqCst here and below, on `blocked`, `waits` and `SENDERS`, and in `stray.rs`: see
        // the file's head, 1 and 2.
        let taken = !self.blocked.load(SeqCst) | self.waits.load(SeqCst);
        if self.is_main() || self.tid.load(Acquire) != 0 { taken } else { 0 }
    }

    fn takes(&self, signal: u64) -> bool {
        self.taken() & signal != 0
    }

    /// False: the thread has ended without a word, and the place is nobody's from now on.
    fn send(&self, info: &siginfo_t) -> bool {
        // SAFETY: no arguments.
        let process = unsafe { libc::getpid() };
        let tid = if self.is_main() { process } else { self.tid.load(Relaxed) };
        self.sent.fetch_or(bit(info.si_signo), Relaxed);
        let mut told = *info;
        (told.si_errno, told.si_code) = (info.si_code, SENT_ON);
        if signals::queue(process, tid, info.si_signo, &told) == 0 {
            return true;
        }
        self.close();
        let _ = self.tid.compare_exchange(tid, 0, Release, Relaxed);
        false
    }

    /// Takes nothing from now on.
    fn close(&self) {
        self.blocked.store(u64::MAX, SeqCst);
        self.waits.store(0, SeqCst);
    }
}

/// The main thread's; the first of all.
static MAIN: Place = Place::new(0, 0);
/// How many send one on now.
static SENDERS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The calling thread's, but for the main one.
    static OWN: Cell<Option<&'static Place>> = const { Cell::new(None) };
    /// See [`changes`].
    static CHANGES: Cell<u32> = const { Cell::new(0) };
}

fn places() -> impl Iterator<Item = &'static Place> {
    // SAFETY: null, or a place: these stay for ever. ORDER: Acquire pairs with `new_place`.
    core::iter::successors(Some(&MAIN), |it| unsafe { it.next.load(Acquire).as_ref() })
}

/// `None` in a thread that is not the program's, or none of the kernel's.
fn own() -> Option<&'static Place> {
    // SAFETY: no arguments.
    OWN.get().or_else(|| kernel::is_main(unsafe { libc::pthread_self() }).then_some(&MAIN))
}

/// Whether the calling thread is a kernel thread of the program's that has begun.
pub fn is_known() -> bool {
    own().is_some()
}

fn new_place(tid: c_int) -> &'static Place {
    let place = Box::leak(Box::new(Place::new(tid, u64::MAX)));
    let mut second = MAIN.next.load(Relaxed);
    loop {
        place.next.store(second, Relaxed);
        // ORDER: Release: who sees the place sees what is in it.
        match MAIN.next.compare_exchange_weak(second, place, Release, Relaxed) {
            Ok(_) => return place,
            Err(now) => second = now,
        }
    }
}

/// The calling thread is one of the program's kernel threads, and blocks these.
pub fn begin(blocked: u64) {
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    // ORDER: Acquire pairs with the Release with which the last one has left it.
    let is_taken =
        |it: &&Place| !it.is_main() && it.tid.compare_exchange(0, tid, Acquire, Relaxed).is_ok();
    OWN.set(Some(places().find(is_taken).unwrap_or_else(|| new_place(tid))));
    masked(blocked);
}

/// The calling thread, which has given back what was sent on to it, has no place any more.
pub fn end() {
    if let Some(place) = OWN.take() {
        place.tid.store(0, Release);
    }
}

/// The calling thread is the one of a child, and its main thread.
pub fn in_child() {
    SENDERS.store(0, Relaxed);
    MAIN.waits.store(0, Relaxed);
    MAIN.sent.store(0, Relaxed);
    OWN.set(None);
    for place in places().skip(1) {
        place.close();
        place.tid.store(0, Relaxed);
    }
}

/// What the main thread has blocked, as far as the C library's functions were called for it.
pub fn of_main() -> u64 {
    MAIN.blocked.load(SeqCst)
}

/// The calling thread has this mask, and waits for nothing.
pub fn masked(blocked: u64) {
    CHANGES.set(CHANGES.get().wrapping_add(1));
    if let Some(place) = own() {
        place.blocked.store(blocked, SeqCst);
        place.waits.store(0, SeqCst);
    }
}

/// How often the calling thread was said to have a mask.
pub fn changes() -> u32 {
    CHANGES.get()
}

/// The calling thread is about to wait for these; none: its wait is over. What it waited for.
pub fn wait_for(signals: u64) -> u64 {
    own().map_or(0, |place| match place.waits.load(Relaxed) {
        // As at each jump: nobody else makes it anything but none.
        0 if signals == 0 => 0,
        _ => place.waits.swap(signals, SeqCst),
    })
}

/// Sends the calling thread what it lets through, or is about to wait for.
pub fn send_to_own(info: &siginfo_t) {
    match own() {
        Some(place) => _ = place.send(info),
        None => _ = signals::queue_to_own(info),
    }
}

/// What one of them lets through, or waits for.
pub fn taken() -> u64 {
    places().fold(0, |taken, it| taken | it.taken())
}

/// Sends one on to a thread that takes it, the main one first. It is taken from where it is pending
/// with `take` as soon as there is such a thread, and put back if that has ended. Whether it is
/// there no more.
pub fn send_on(
    signal: u64,
    take: impl Fn() -> Option<siginfo_t>,
    put_back: impl Fn(&siginfo_t),
) -> bool {
    if taken() & signal == 0 {
        return false;
    }
    // Nothing is to hold it up, or come by here again, while others wait for it.
    mask::with(u64::MAX, || {
        SENDERS.fetch_add(1, SeqCst);
        let mut is_gone = false;
        while !is_gone && let Some(place) = places().find(|it| it.takes(signal)) {
            let info = take();
            is_gone = info.is_none_or(|info| place.send(&info));
            info.filter(|_| !is_gone).iter().for_each(&put_back);
        }
        SENDERS.fetch_sub(1, SeqCst);
        is_gone
    })
}

/// Takes back what was sent on to the calling thread of `signal` too late.
pub fn take_back(signal: u64) -> Option<siginfo_t> {
    let place = own()?;
    while SENDERS.load(SeqCst) != 0 {
        yield_now();
    }
    if place.sent.load(Relaxed) & signal == 0 {
        return None;
    }
    place.sent.fetch_and(!signal, Relaxed);
    // Not what is the process's: it may have handled what was sent on to it.
    let mut info = signals::take_own(signal)?;
    if restore(&mut info) {
        return Some(info);
    }
    // The program has sent it.
    signals::queue_to_own(&info);
    None
}

/// Has what was sent on say what it said at first; whether it was.
pub fn restore(info: &mut siginfo_t) -> bool {
    let is_sent_on = info.si_code == SENT_ON;
    if is_sent_on {
        info.si_code = info.si_errno;
        info.si_errno = 0;
    }
    is_sent_on
}
