//! Threads as the C library's callers know them.
//!
//! A `pthread_t` is the address of the thread's control block in the C library, which is the
//! thread pointer; the C library's own inlined code relies on that. Thread-local words of this
//! library say for any `pthread_t` whether it is a full thread, and which (`own.rs`).
//!
//! Invariants:
//! 1. A [`Pthread`] exists from before its thread can run until it has ended and has been joined
//!    or detached; it holds a handle of the runtime's thread, so its own memory, beside the
//!    thread's storage, and that which its `pthread_t` names stay as long.
//! 2. `state` goes from `JOINABLE` to `DETACHED` or `ENDED`, once. Who finds the other one there
//!    frees it: the thread itself when it is detached, else whoever joins or detaches it.

pub mod affinity;
pub mod attributes;
mod c11;
pub mod cancel;
mod cleanup;
pub mod create;
mod debugger;
pub mod end;
pub mod fork;
pub mod identity;
pub mod inherited;
mod join;
pub mod kernel;
pub mod libraries;
pub mod own;
mod registry;
pub mod said;
pub mod schedule;
pub mod signals;
pub mod stuck;

use core::cell::Cell;
use core::ffi::c_void;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};

use heddle::raw;
use heddle::thread::Thread;
use libc::{cpu_set_t, pthread_t};
use rustix::thread::futex::{self, Flags};

use self::cleanup::Buffer;
use self::end::UnwindException;
use self::signals::Signals;

pub use self::schedule::priority;
use crate::account::Born;
use crate::account::tripwire::Tripwire;
use crate::calls::shells::Shells;
use crate::sync::passed_over::Waits;
use crate::sys::proxy::Lent;

thread_local! {
    /// See [`mark`]; 0 = not known yet.
    static MARK: Cell<u64> = const { Cell::new(0) };
}

/// A start function.
pub type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// `state`: it runs, and somebody may join it.
const JOINABLE: u32 = 0;
/// `state`: nobody will join it.
const DETACHED: u32 = 1;
/// `state`: it has ended, and its result waits.
const ENDED: u32 = 2;
/// `state`: it was joined, or detached after its end, and its memory is not another thread's yet.
/// Who still names it gets ESRCH.
const GONE: u32 = 3;

/// Numbers of full threads begin here: above all that the kernel gives (2^22), below the bits that
/// a mutex's owner field has for other things.
const NUMBER_FIRST: u32 = 1 << 29;

/// See the file's head. Its alignment leaves room for a count in its address (`registry.rs`).
#[repr(align(64))]
pub struct Pthread {
    state: AtomicU32,
    /// The `pthread_t` of whoever joins it; 0 = nobody.
    joined_by: AtomicUsize,
    start: Start,
    argument: *mut c_void,
    about: Mutex<About>,
    /// Its own `pthread_t`.
    name: pthread_t,
    /// The slot of the runtime's thread.
    slot: AtomicU32,
    signals: Signals,
    own: Own,
    /// Most that was told of its CPU time, ns.
    told_cpu_ns: AtomicU64,
    /// As the account has it; set before the thread can run.
    born: Cell<Born>,
}

/// What only the thread itself touches; but for `result`, which its joiner reads after the end.
struct Own {
    result: Cell<*mut c_void>,
    /// The innermost open `pthread_cleanup_push` of C code.
    cleanup: Cell<*mut Buffer>,
    /// An address in the frame below the start function.
    base: Cell<usize>,
    exception: Cell<UnwindException>,
    /// Written by itself alone.
    asynchronous: AtomicBool,
    tripwire: Tripwire,
    /// The word that its end clears: `set_tid_address`.
    end_word: Cell<*mut u32>,
    lent: Lent,
    shells: Shells,
    /// For futexes by number.
    waits: Waits,
}

impl Default for Own {
    fn default() -> Self {
        Own {
            result: Cell::new(core::ptr::null_mut()),
            cleanup: Cell::new(core::ptr::null_mut()),
            base: Cell::new(0),
            exception: Cell::new(UnwindException::default()),
            asynchronous: AtomicBool::new(false),
            tripwire: Tripwire::default(),
            end_word: Cell::new(core::ptr::null_mut()),
            lent: Lent::default(),
            shells: Shells::default(),
            waits: Waits::default(),
        }
    }
}

/// What others may ask for or change.
struct About {
    thread: Option<Thread>,
    name: [u8; 16],
    /// What is told of it.
    stack: (usize, usize),
    guard_bytes: usize,
    schedule: schedule::Schedule,
    /// The program has said what it is for: the policy says no more.
    is_said: bool,
    /// The processors that it was given; it runs on those of its workers all the same.
    processors: Option<Box<cpu_set_t>>,
}

// SAFETY: `own` is the thread's own as described; the rest may be used from anywhere.
unsafe impl Sync for Pthread {}
// SAFETY: as above.
unsafe impl Send for Pthread {}

/// What others may ask for or change, locked. Its holder keeps its worker: whoever waits for such
/// a lock does so in the kernel.
struct Locked<'a> {
    // Given back in this order.
    about: MutexGuard<'a, About>,
    _pin: raw::Pin,
}

impl Deref for Locked<'_> {
    type Target = About;

    fn deref(&self) -> &About {
        &self.about
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut About {
        &mut self.about
    }
}

impl Pthread {
    fn about(&self) -> Locked<'_> {
        let pin = raw::pin();
        Locked { about: self.about.lock().unwrap_or_else(PoisonError::into_inner), _pin: pin }
    }

    /// The runtime's handle.
    fn thread(&self) -> Option<Thread> {
        self.about().thread.clone()
    }

    /// The slot of the runtime's thread.
    pub fn slot(&self) -> u32 {
        self.slot.load(Relaxed)
    }

    /// What is told of its CPU time when the account says `now`, ns: it never goes back.
    pub fn tell_cpu_ns(&self, now: u64) -> u64 {
        self.told_cpu_ns.fetch_max(now, Relaxed).max(now)
    }

    /// For the thread itself alone: the word that its end clears and wakes.
    pub fn set_end_word(&self, word: *mut u32) {
        self.own.end_word.set(word);
    }

    /// For the thread itself alone: null if none was given.
    pub fn end_word(&self) -> *mut u32 {
        self.own.end_word.get()
    }

    /// For the thread itself alone.
    pub fn tripwire(&self) -> &Tripwire {
        &self.own.tripwire
    }

    /// For the thread itself alone.
    pub fn lent(&self) -> &Lent {
        &self.own.lent
    }

    /// For the thread itself alone.
    pub fn shells(&self) -> &Shells {
        &self.own.shells
    }

    /// For the thread itself alone.
    pub fn waits(&self) -> &Waits {
        &self.own.waits
    }

    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Whether it has ended, which some functions tell as the C library does by the number that the
    /// kernel has taken back.
    pub fn has_ended(&self) -> bool {
        // ORDER: pairs with the exchange in `end.rs`; SeqCst for who joins, see there.
        matches!(self.state.load(SeqCst), ENDED | GONE)
    }

    /// Says that nobody will join it; false when it has ended before, and is the caller's to free.
    fn give_up(&self) -> bool {
        // ORDER: as in `end.rs`: whoever frees it sees what the other one did to it.
        self.state.compare_exchange(JOINABLE, DETACHED, AcqRel, Acquire).is_ok()
    }
}

/// Frees what describes a thread.
///
/// # Safety
/// 1. The caller is the one whom invariant 2 names.
unsafe fn free(thread: *const Pthread) {
    // A child's main thread is on its stack until the process ends.
    // SAFETY: by 1.
    if fork::is_child_of(unsafe { &*thread }) {
        return;
    }
    let thread = thread.cast_mut();
    // SAFETY: by 1 this is the only time. It lies beside the thread's stack, which stays for as
    // long as the handle does; the state needs no drop.
    unsafe {
        let about = (*thread).about.get_mut().unwrap_or_else(PoisonError::into_inner);
        let handle = about.thread.take();
        core::ptr::drop_in_place(thread);
        let _ = (*thread).state.compare_exchange(ENDED, GONE, Relaxed, Relaxed);
        drop(handle);
    }
}

/// The full thread that `thread` names; `None` when it is a kernel thread.
///
/// # Safety
/// 1. `thread` names a thread that exists, as POSIX asks for.
#[inline]
pub unsafe fn find<'a>(thread: pthread_t) -> Option<&'a Pthread> {
    // SAFETY: by 1 that thread's words, which are set before the thread runs and then stay.
    unsafe { (*own::words_of(thread)).thread.as_ref() }
}

/// As [`find`], for what the kernel keeps of a thread: in a forked child that is the C library's to
/// tell.
///
/// # Safety
/// As [`find`].
unsafe fn find_kept<'a>(thread: pthread_t) -> Option<&'a Pthread> {
    // SAFETY: passed on.
    unsafe { find(thread) }.filter(|found| !fork::is_child_of(found))
}

/// The calling thread, if it is a full one.
#[inline]
pub fn this() -> Option<&'static Pthread> {
    // SAFETY: null, or the calling thread's own, which lives as long as it runs.
    unsafe { own::thread().as_ref() }
}

/// The calling thread, if it is a full one on a worker. In a child that it has forked it is none:
/// there it is the C library's.
#[inline]
pub fn running() -> Option<&'static Pthread> {
    this().filter(|_| is_running())
}

/// The number by which the calling thread holds locks: unique among those that live, never 0. For a
/// kernel thread it is the one that the kernel gave it; after a fork the one thread of the child
/// keeps it, and with it its locks. (What the program is told is [`crate::sys::identity`]'s.)
#[inline(always)]
pub fn number() -> u32 {
    mark() as u32
}

/// What tells the calling thread from all that were there before: its number, and in the high half
/// the generation of a full thread's slot.
#[inline(always)]
pub fn mark() -> u64 {
    match MARK.get() {
        0 => find_mark(),
        mark => mark,
    }
}

#[cold]
fn find_mark() -> u64 {
    let mark = match crate::me() {
        // The slot in the low half, as there, and its generation.
        Some(_) => heddle::thread::current().id().as_u64() + u64::from(NUMBER_FIRST),
        None => rustix::thread::gettid().as_raw_nonzero().get() as u64,
    };
    MARK.set(mark);
    mark
}

/// Whether `number` is one of a full thread's.
pub fn is_number(number: i32) -> bool {
    number > 0 && number as u32 & NUMBER_FIRST != 0
}

/// The number of the full thread in this slot.
pub fn number_of_slot(slot: u32) -> u32 {
    NUMBER_FIRST + slot
}

/// Calls `look` with the full thread that has this number, or whose own is asked for by 0. In a
/// child there is none: those that have a number are its parent's.
pub fn with_number<T>(number: u32, look: impl FnOnce(&Pthread) -> T) -> Option<T> {
    if !fork::has_full() {
        return None;
    }
    match this() {
        Some(me) if number == 0 || number == self::number() => Some(look(me)),
        _ => registry::with(number.checked_sub(NUMBER_FIRST)?, look),
    }
}

/// Whether the caller is a full thread on a worker.
#[inline(always)]
pub fn is_running() -> bool {
    own::is_running()
}

/// Threads of the program that have not ended, without the main one, which may wait for this word
/// at its end.
static LIVE: AtomicU32 = AtomicU32::new(0);
/// Whether it does, or is about to.
static AWAITED: AtomicBool = AtomicBool::new(false);

/// Kernel threads among them.
static LIVE_KERNEL: AtomicU32 = AtomicU32::new(0);

/// How many full threads there are with it.
fn count_in() -> u32 {
    (LIVE.fetch_add(1, Relaxed) + 1).saturating_sub(LIVE_KERNEL.load(Relaxed))
}

fn count_in_kernel() {
    LIVE_KERNEL.fetch_add(1, Relaxed);
    LIVE.fetch_add(1, Relaxed);
}

fn count_out_kernel() {
    LIVE_KERNEL.fetch_sub(1, Relaxed);
    count_out();
}

fn count_out() {
    // ORDER: Release publishes what the thread did to the process's end. SeqCst: either the flag is
    // seen here, or the count by who has set it (`end.rs`).
    if LIVE.fetch_sub(1, SeqCst) == 1 && AWAITED.load(SeqCst) {
        let _ = futex::wake(&LIVE, Flags::PRIVATE, 1);
    }
}
