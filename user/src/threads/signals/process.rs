//! Signals that are sent to the process: by `kill`, a timer, a terminal, a child's end.
//!
//! The kernel gives them to a kernel thread that lets them through, the main one first. Workers let
//! none through but faults, what a write raises, what a timer of CPU time sends (`raised.rs`), and
//! SIGURG.
//! So what all of the program's kernel threads have blocked stays pending in the kernel, where
//! `sigpending`, `sigwait` and `signalfd` find it; and if a full thread lets it through, or waits
//! for it, that one takes it.
//!
//! A kernel thread of this library, the watcher, is told by a signalfd that such a signal is
//! pending. It takes nothing: it looks for a full thread and calls it, and that one takes the
//! signal from the kernel if its mask lets it through by then. The watcher looks again, and at the
//! next thread, until the signal is gone. So none is lost, whatever threads do meanwhile, and none
//! is taken that somebody else gets first.
//!
//! SIGPIPE and SIGXFSZ are given to workers, where a write raises them, and so are SIGPROF and
//! SIGVTALRM, for the thread that computes (`timed.rs`), and SIGURG, by which threads are
//! preempted: what of these is the process's is pending in `stray.rs`, for which all of this holds,
//! too.
//!
//! Protocol:
//! 1. Watched is what a kernel thread of the program has blocked at some time ([`watch`]), be it
//!    for a call that waits with another mask (`calls/mask.rs`), but for what the main thread was
//!    found to let through since ([`forget`]); all else is the kernel's.
//!    The main thread may block that again without a call: by the end of a handler that an
//!    instruction of the program's own has set. So it is looked at now and then, and watched again
//!    once some of it is pending ([`remember`]).
//! 2. If no thread lets a pending one through, the watcher holds it back: it adds it to [`HELD`],
//!    looks once more for a thread, and watches it no longer.
//!    Who sends its own process one calls such a thread at once (`to_process.rs`).
//! 3. A thread that lets a signal through stores its mask first and then looks at [`HELD`], and
//!    has what is held back watched again. So either the watcher sees the mask, or the thread sees
//!    what is held back. A watched one that it unblocks it takes itself, before its call returns.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use std::time::Duration;

use heddle::raw;
use libc::{siginfo_t, sigset_t};

use super::actions::is_in_vfork;
use super::news::News;
use super::{SI_TKILL, Signals, bit, kernels, stray};
use crate::calls::mask;
use crate::model::{futex_wait, futex_wake};
use crate::sys::signals;
use crate::threads::{Pthread, registry, this};

/// What a kernel thread of the program gets before a full thread does.
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// Longest time between two looks at a signal that nobody takes.
const LOOK_MAX: Duration = Duration::from_millis(32);

/// When the watcher first looks whether it has to watch on, and when for the last time.
const FIRST_FORGET_MS: c_int = 10;
const LAST_FORGET_MS: c_int = 1000;
const FOR_EVER: c_int = -1;
/// How often the watcher looks at what it has forgotten.
const REMEMBER_MS: c_int = 1000;

/// Faults, which workers let through, and what nobody can block.
pub const NEVER_WATCHED: u64 = bit(libc::SIGKILL)
    | bit(libc::SIGSTOP)
    | bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP);
/// Of what is pending in the kernel these are left there: the runtime's own signals, too.
const NEVER_TAKEN: u64 = NEVER_WATCHED | bit(raw::PREEMPTION_SIGNAL);

/// See the file's head, step 1.
static WATCHED: AtomicU64 = AtomicU64::new(0);
/// See the file's head, step 2.
static HELD: AtomicU64 = AtomicU64::new(0);
/// What was watched once, and is not because the main thread lets it through.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);
/// The signalfd; negative when there is none.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
/// The watcher's number; 0 while there is none.
static WATCHER: AtomicI32 = AtomicI32::new(0);
/// What ends its wait for the descriptor when sent to it.
const WAKES: c_int = raw::PREEMPTION_SIGNAL;
/// It was sent that.
static IS_WOKEN: AtomicBool = AtomicBool::new(false);
/// See [`end_main`].
static HAS_MAIN_ENDED: AtomicBool = AtomicBool::new(false);
/// What the thread has blocked that has ended last, from the main thread on.
static LAST_BLOCKED: AtomicU64 = AtomicU64::new(0);
/// For the watcher.
static NEWS: News = News::new();

/// What is to be watched now.
///
/// ORDER: what is SeqCst here and below, on [`WATCHED`], [`HELD`] and [`DESCRIPTOR`], and in
/// `kernels.rs` and `news.rs`, is in one order: whoever changes one of them and then looks at
/// another either sees what was done to that, or is seen.
fn watched() -> u64 {
    WATCHED.load(SeqCst) & !HELD.load(SeqCst)
}

/// Has the signalfd tell of what is watched now.
fn set_watched() {
    let fd = DESCRIPTOR.load(SeqCst);
    if fd < 0 {
        return;
    }
    loop {
        let signals = watched();
        signals::watch(fd, signals | bit(WAKES));
        // Somebody else's change may have been overwritten by that.
        if watched() == signals {
            return;
        }
    }
}

/// What is pending for the process.
fn all_pending() -> u64 {
    signals::pending() & !NEVER_TAKEN | stray::pending()
}

/// Has the watcher look at what is watched now.
fn tell() {
    set_watched();
    NEWS.tell();
}

/// A kernel thread has blocked these signals, or a full thread waits for them.
pub fn watch(signals: u64) {
    let wanted = signals & !NEVER_WATCHED;
    if wanted & !WATCHED.load(SeqCst) != 0 {
        WATCHED.fetch_or(wanted, SeqCst);
        tell();
    }
}

/// A worker was given a signal for the process, or would be.
pub fn stray(info: &siginfo_t) {
    let signal = bit(info.si_signo);
    if stray::add(info) {
        WATCHED.fetch_or(signal, SeqCst);
        HELD.fetch_and(!signal, SeqCst);
        tell();
        // Its descriptor does not tell.
        signals::send_to(WATCHER.load(SeqCst), WAKES);
        // Behind that: what it wakes takes it, or finds it at its next look.
        IS_WOKEN.store(true, SeqCst);
    }
}

/// The calling kernel thread has this mask now. That of a child of `vfork`, which has its parent's
/// memory, is nothing to the parent.
pub fn masked(blocked: u64) {
    if is_in_vfork() {
        return;
    }
    // Before the look at what is watched; pairs with `forget`.
    kernels::masked(blocked);
    watch(blocked);
    stray::fetch(!blocked);
    stray::give_back(blocked);
}

/// The calling main thread has come to its end, and its kernel thread only waits for the others: it
/// takes no signals from now on. Before anybody is told of the end.
pub fn end_main() {
    LAST_BLOCKED.store(mask::own(), Relaxed);
    HAS_MAIN_ENDED.store(true, Relaxed);
    mask::block_all();
    masked(u64::MAX);
}

/// A thread of the program ends, which blocks these.
pub fn ended(blocked: impl FnOnce() -> u64) {
    if HAS_MAIN_ENDED.load(Relaxed) {
        LAST_BLOCKED.store(blocked(), Relaxed);
    }
}

/// The calling main thread ends the process in place of the last thread: with the mask of that.
pub fn stand_in_for_last() {
    let blocked = LAST_BLOCKED.load(Relaxed);
    mask::take_on(blocked);
    masked(blocked);
}

/// In a child: the watcher's descriptor is the parent's, and would tell that one.
pub fn in_child() {
    DESCRIPTOR.store(-1, Relaxed);
    HAS_MAIN_ENDED.store(false, Relaxed);
}

/// What the main thread lets through is not watched for now: the kernel gives it that, and a
/// signalfd that watches it wakes the watcher for each signal that anybody is sent, preemptions
/// too. Programs that block all signals while they start their threads are many.
///
/// The kernel is asked, too: what the main thread said inside a handler ended with that.
fn forget() {
    let open = !(kernels::of_main() | signals::blocked_by_main());
    let forgotten = WATCHED.fetch_and(!open, SeqCst) & open;
    if forgotten == 0 {
        return;
    }
    FORGOTTEN.fetch_or(forgotten, Relaxed);
    // ORDER: SeqCst, as in `masked`: what it has blocked by then is seen here, or it sees that
    // nobody watches it.
    WATCHED.fetch_or(kernels::of_main() & open & !NEVER_WATCHED, SeqCst);
    set_watched();
}

/// What is pending although the main thread was found to let it through is watched again: the main
/// thread has it blocked by now, or does not run.
fn remember() {
    let forgotten = FORGOTTEN.load(Relaxed);
    if forgotten != 0 {
        let pending = all_pending() & forgotten;
        FORGOTTEN.fetch_and(!pending, Relaxed);
        watch(pending);
    }
}

/// The calling thread, whose signals these are, lets `signals` through, of which it had blocked
/// `opened` before: step 3.
pub fn let_through(own: &Signals, signals: u64, opened: u64) {
    if WATCHED.load(Relaxed) & opened != 0 {
        own.look.store(true, Relaxed);
    }
    // ORDER: SeqCst: the caller's mask is stored before this look; pairs with `hand_over`.
    if HELD.load(SeqCst) & signals != 0 {
        release(signals);
    }
}

/// Has `signals` watched again.
pub fn release(signals: u64) {
    if HELD.fetch_and(!signals, SeqCst) & signals != 0 {
        tell();
    }
}

/// A thread that lets through what `blocked` does not have can be found now.
pub fn entered(blocked: u64) {
    if HELD.load(SeqCst) & !blocked != 0 {
        release(!blocked);
    }
}

/// Takes one of `signals` that is pending for the process, if the calling thread is to look.
pub fn take(own: &Signals, signals: u64) -> Option<siginfo_t> {
    if !own.look.swap(false, Relaxed) {
        return None;
    }
    let info = stray::take(signals).or_else(|| signals::take(signals & !NEVER_TAKEN))?;
    NEWS.tell();
    // There may be more.
    own.look.store(true, Relaxed);
    Some(info)
}

// ---- the watcher

/// Makes the watcher, which waits until it may [`begin`]. Where that is refused, full threads take
/// from the process only what they wait for.
pub fn make() {
    DESCRIPTOR.store(signals::new_watch(watched()), SeqCst);
    // Whoever changed what is watched in between has found no descriptor.
    set_watched();
    let body = || {
        mask::block_all();
        while MAY_BEGIN.load(Relaxed) == NOT_YET {
            futex_wait(&MAY_BEGIN, NOT_YET, None);
        }
        if MAY_BEGIN.load(Relaxed) == BEGINS {
            run();
        }
    };
    let start = || raw::start_kernel_thread("heddle-signals", STACK_BYTES, body);
    let _refused = mask::with_all_blocked(start);
}

/// The watcher begins if there are workers, else it ends.
pub fn begin(are_workers: bool) {
    MAY_BEGIN.store(if are_workers { BEGINS } else { ENDS }, Relaxed);
    futex_wake(&MAY_BEGIN);
}

static MAY_BEGIN: AtomicU32 = AtomicU32::new(NOT_YET);
const NOT_YET: u32 = 0;
const BEGINS: u32 = 1;
const ENDS: u32 = 2;

/// The watcher's stack: it calls little.
const STACK_BYTES: usize = 64 << 10;

fn run() -> ! {
    WATCHER.store(rustix::thread::gettid().as_raw_nonzero().get(), SeqCst);
    // From which slot on the next thread is looked for.
    let mut from = 0;
    let mut pause = FIRST_LOOK;
    let mut forget_ms = FIRST_FORGET_MS;
    loop {
        if sleep_while_none_is_watched() {
            forget_ms = FIRST_FORGET_MS;
        }
        let seen = NEWS.seen();
        let pending = all_pending() & watched();
        if pending == 0 {
            pause = FIRST_LOOK;
            let is_last = forget_ms == FOR_EVER;
            let forgets = FORGOTTEN.load(Relaxed) != 0;
            let limit = match forgets {
                true if is_last => REMEMBER_MS,
                true => forget_ms.min(REMEMBER_MS),
                false => forget_ms,
            };
            if !wait(limit) && !is_last {
                forget();
                forget_ms = if forget_ms < LAST_FORGET_MS { forget_ms * 8 } else { FOR_EVER };
            }
            remember();
            continue;
        }
        // The kernel threads that let it through, or wait for it, go first, and then those that
        // were called.
        if pending & kernels::taken() != 0 {
            std::thread::sleep(FIRST_LOOK);
        }
        if pause != FIRST_LOOK && NEWS.sleep(seen, Some(pause)) {
            // Somebody has taken one: what is pending now may be another.
            pause = FIRST_LOOK;
        }
        pause = (pause * 2).min(LOOK_MAX);
        for signal in (1..=u64::BITS as c_int).map(bit).filter(|signal| pending & signal != 0) {
            if all_pending() & watched() & signal != 0 {
                hand_over(signal, &mut from);
            }
        }
    }
}

/// Waits until a watched signal is pending, for so long at most; false when the time is over.
fn wait(limit_ms: c_int) -> bool {
    let fd = DESCRIPTOR.load(SeqCst);
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut count = 1;
    if watched() != 0 {
        // SAFETY: a valid entry.
        count = raw::idle(|| unsafe { libc::poll(&mut entry, 1, limit_ms) });
        if entry.revents & libc::POLLNVAL != 0 {
            // The program has closed what it did not open.
            std::thread::sleep(LOOK_MAX);
        }
    }
    if IS_WOKEN.swap(false, SeqCst) {
        if let Some(other) = signals::take(bit(WAKES)).filter(|it| it.si_code != SI_TKILL) {
            // The process's.
            stray(&other);
        }
    } else if count != 0 && all_pending() & watched() == 0 {
        // One like that, on its way to a worker; or for long where there are none.
        std::thread::sleep(FIRST_LOOK);
    }
    count != 0
}

/// Sleeps while nothing is watched: a poll would look at each signal that anybody is sent. Whether
/// it has.
fn sleep_while_none_is_watched() -> bool {
    let mut has = false;
    loop {
        let seen = NEWS.seen();
        if watched() != 0 {
            return has;
        }
        has = true;
        let limit =
            (FORGOTTEN.load(Relaxed) != 0).then_some(Duration::from_millis(REMEMBER_MS as u64));
        raw::idle(|| NEWS.sleep(seen, limit));
        remember();
    }
}

/// Calls a thread that lets `signal` through, the next one from slot `from` on; or holds it back.
fn hand_over(signal: u64, from: &mut u32) {
    if call_one(signal, from) {
        return;
    }
    // ORDER: SeqCst: held back before the look at the masks; pairs with `let_through`.
    HELD.fetch_or(signal, SeqCst);
    if call_one(signal, from) {
        HELD.fetch_and(!signal, SeqCst);
    }
    set_watched();
}

fn call_one(signal: u64, from: &mut u32) -> bool {
    let Some(slot) = next_that_takes(signal, *from) else { return false };
    *from = slot + 1;
    super::call(slot as usize, 1);
    true
}

/// The slot of a thread that lets `signal` through, the next one from slot `from` on: it is to look
/// at what is pending.
pub fn next_that_takes(signal: u64, from: u32) -> Option<u32> {
    let takes = |thread: &Pthread| {
        let takes = thread.signals.lets_through(signal);
        if takes {
            thread.signals.look.store(true, Relaxed);
        }
        takes
    };
    registry::find_from(from, takes)
}

// ---- what is pending for the caller

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sigpending(set: *mut sigset_t) -> c_int {
    // SAFETY: the caller's place.
    let failed = unsafe { libc::sigpending(set) };
    let of_full = crate::me().and_then(|_| this()).map(|me| me.signals.pending.set());
    if failed == 0 && (of_full.is_some() || stray::pending() != 0) && !is_in_vfork() {
        // SAFETY: as above.
        let of_kernel = mask::bits(unsafe { &*set });
        // What is pending and not blocked is on its way to somebody.
        let all = (of_kernel | stray::pending() | of_full.unwrap_or(0)) & mask::own();
        // SAFETY: as above.
        unsafe { set.write(mask::set_of(all)) };
    }
    failed
}
