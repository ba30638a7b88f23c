//! Mutexes: glibc's word, which is 0 = free, 1 = held, 2 = held and somebody may wait.
//!
//! Invariants:
//! 1. `owner`, `count` and `waiting` are written by the owner only, while it holds the word.
//! 2. Who has waited takes the word as 2: there may be others behind it.
//! 3. An unlock touches nothing of the mutex after it has given the word up, so whoever gets it
//!    then may free it.
//!
//! Robust and process-shared mutexes are the C library's whole. Of the others those that inherit
//! priority or have a ceiling are ours, without that: the kernel, which the C library would ask for
//! it, does not know a full thread (`protocol.rs`).
//!
//! # Safety
//! For all exported functions of this file: pointers are valid and point to what their type says.

use core::ffi::c_int;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI16, AtomicI32, AtomicU32, AtomicU64};

use heddle::raw::{self, Ended, Moment};
use libc::{clockid_t, pthread_mutex_t, timespec};
use rustix::thread::Timespec;

use super::passed_over::{self, Patience};
use super::{protocol, theirs, wait, wake};
use crate::clock;
use crate::sys::proxy;
use crate::threads::stuck::Call;
use crate::threads::{mark, signals};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

pub const RECURSIVE: i32 = 1;
const ERRORCHECK: i32 = 2;
const TYPES: i32 = 3;
const ROBUST: i32 = 16;
/// Robust or process-shared: the C library's.
pub const FOREIGN: i32 = ROBUST | 128;
/// Where the C library has the ceiling in the word.
const CEILING_SHIFT: u32 = 19;
/// It inherits priority.
pub const INHERITING: i32 = 32;
/// It has a priority ceiling.
pub const PROTECTED: i32 = 64;
/// How often the word is looked at before a wait.
const TURNS: u32 = 60;
/// How long a pinned thread sleeps between two looks.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

/// The fields of glibc's `pthread_mutex_t`.
#[repr(C)]
pub struct Mutex {
    word: AtomicU32,
    count: AtomicU32,
    /// Its mark. The number is where the C library has it, the rest in a count that it keeps while
    /// somebody holds the mutex, and that it wants to be 0 when nobody does.
    owner: AtomicU64,
    kind: AtomicI32,
    /// The priority ceiling of a mutex that has one; the C library keeps it in the word.
    ceiling: AtomicI16,
    /// How many have given it up to wait for a condition, and will take it again. The C library has
    /// a link there, of robust mutexes alone; in all others that is 0.
    waiting: AtomicU32,
}

/// Where the number of the thread is that holds it; 0 = nobody, or not known.
pub const OWNER_AT: usize = core::mem::offset_of!(Mutex, owner);
/// Where the C library has it.
pub const KIND_AT: usize = core::mem::offset_of!(Mutex, kind);

/// A mutex of the program's.
///
/// # Safety
/// 1. `mutex` points to one.
#[inline(always)]
pub unsafe fn of<'a>(mutex: *mut pthread_mutex_t) -> &'a Mutex {
    // SAFETY: by 1; all fields are atomic.
    unsafe { &*mutex.cast::<Mutex>() }
}

impl Mutex {
    /// Whether the C library has to serve it.
    #[inline(always)]
    pub fn is_foreign(&self) -> bool {
        self.kind.load(Relaxed) & FOREIGN != 0
    }

    /// Before the C library locks it for the caller: whether it is the caller's may be asked by the
    /// number of its owner, in any process, and at its end by the kernel.
    fn prepare_foreign(&self) {
        if self.kind.load(Relaxed) & ROBUST != 0 || matches!(self.kind(), RECURSIVE | ERRORCHECK) {
            proxy::ask_for();
        }
    }

    /// Whether the kernel hands it on, by priority. One that was destroyed has all bits.
    pub fn is_the_kernels(&self) -> bool {
        let kind = self.kind.load(Relaxed);
        kind >= 0 && kind & FOREIGN != 0 && kind & INHERITING != 0
    }

    /// Whether it has a priority ceiling.
    #[inline(always)]
    pub fn has_ceiling(&self) -> bool {
        self.kind.load(Relaxed) & PROTECTED != 0
    }

    pub fn ceiling(&self) -> &AtomicI16 {
        &self.ceiling
    }

    /// After the C library has initialised it: the ceiling goes out of the word.
    pub fn move_ceiling(&self) {
        let word = self.word.swap(FREE, Relaxed);
        self.ceiling.store((word >> CEILING_SHIFT) as i16, Relaxed);
    }

    #[inline(always)]
    fn kind(&self) -> i32 {
        self.kind.load(Relaxed) & TYPES
    }

    fn is_mine(&self) -> bool {
        self.owner.load(Relaxed) == mark()
    }

    /// Whether the mutex knows its owner and the caller is not it.
    fn is_others(&self) -> bool {
        matches!(self.kind(), RECURSIVE | ERRORCHECK) && !self.is_mine()
    }

    #[inline(always)]
    fn take(&self, held: u32) -> bool {
        // ORDER: Acquire pairs with the Release in `release`.
        self.word.compare_exchange(FREE, held, Acquire, Relaxed).is_ok()
    }

    #[inline(always)]
    fn own(&self) {
        self.owner.store(mark(), Relaxed);
    }

    /// What locking it again means to its owner; `None` when the caller does not own it or the
    /// type does not care.
    fn relock(&self) -> Option<c_int> {
        match self.kind() {
            RECURSIVE if self.is_mine() => {
                let count = self.count.load(Relaxed);
                if count == u32::MAX {
                    return Some(libc::EAGAIN);
                }
                self.count.store(count + 1, Relaxed);
                Some(0)
            }
            ERRORCHECK if self.is_mine() => Some(libc::EDEADLK),
            _ => None,
        }
    }

    #[inline]
    fn lock(&self, until: impl FnOnce() -> Result<Moment, c_int>) -> c_int {
        if self.take(HELD) {
            self.own();
            return 0;
        }
        self.lock_slowly(until)
    }

    #[cold]
    fn lock_slowly(&self, until: impl FnOnce() -> Result<Moment, c_int>) -> c_int {
        if let Some(number) = self.relock() {
            return number;
        }
        for _ in 0..TURNS {
            core::hint::spin_loop();
            if self.word.load(Relaxed) == FREE && self.take(HELD) {
                self.own();
                return 0;
            }
        }
        match until() {
            Ok(until) => self.lock_awaited(until),
            Err(number) => number,
        }
    }

    /// Takes it as somebody who has waited (invariant 2).
    fn lock_awaited(&self, until: Moment) -> c_int {
        if raw::is_pinned() {
            return self.lock_pinned();
        }
        let mut patience = Patience::default();
        // ORDER: Acquire pairs with the Release in `release`.
        while self.word.swap(AWAITED, Acquire) != FREE {
            // SAFETY: the caller's mutex lives while somebody waits for it.
            if unsafe { wait(Call::Mutex, &self.word, AWAITED, until) } == Ended::TimedOut {
                return libc::ETIMEDOUT;
            }
            patience.woken((&raw const self.word).addr());
        }
        self.own();
        0
    }

    /// As [`Mutex::lock_awaited`] of a thread that may not leave its worker: the loader allocates
    /// the storage of a new thread by the program's allocator, and that locks its mutexes.
    /// Allocators wait without a deadline, so none is looked at.
    #[cold]
    fn lock_pinned(&self) -> c_int {
        // ORDER: as there.
        while self.word.swap(AWAITED, Acquire) != FREE {
            let _ = rustix::thread::nanosleep(&LOOK_AGAIN);
        }
        self.own();
        0
    }

    /// Calls `change` with the mutex locked.
    pub fn change(&self, change: impl FnOnce()) -> c_int {
        let error = self.lock(|| Ok(Moment::Never));
        if error == 0 {
            change();
            self.unlock();
        }
        error
    }

    #[inline]
    fn try_lock(&self) -> c_int {
        if self.take(HELD) {
            self.own();
            return 0;
        }
        match self.relock() {
            Some(libc::EDEADLK) | None => libc::EBUSY,
            Some(number) => number,
        }
    }

    #[inline]
    fn unlock(&self) -> c_int {
        if self.kind() & (RECURSIVE | ERRORCHECK) != 0 && self.kind() != TYPES {
            if !self.is_mine() {
                return libc::EPERM;
            }
            let count = self.count.load(Relaxed);
            if count != 0 {
                self.count.store(count - 1, Relaxed);
                return 0;
            }
        }
        if self.release() {
            passed_over::give_way((&raw const self.word).addr());
        }
        0
    }

    /// Whether somebody may have waited.
    #[inline]
    fn release(&self) -> bool {
        self.owner.store(0, Relaxed);
        // ORDER: Release publishes what the owner wrote to the Acquire of the next one.
        let is_awaited = self.word.swap(FREE, Release) == AWAITED;
        if is_awaited {
            wake(&self.word, 1);
        }
        is_awaited
    }

    /// Gives it up however often the caller has locked it, which will take it again; returns how
    /// often besides once.
    fn release_all(&self) -> u32 {
        let count = self.count.swap(0, Relaxed);
        self.waiting.store(self.waiting.load(Relaxed).wrapping_add(1), Relaxed);
        self.release();
        count
    }

    fn lock_again(&self, count: u32) {
        self.lock_awaited(Moment::Never);
        self.count.store(count, Relaxed);
        self.waiting.store(self.waiting.load(Relaxed).wrapping_sub(1), Relaxed);
    }
}

/// A mutex that its holder gives up while it waits for something else.
pub struct Released {
    mutex: *mut pthread_mutex_t,
    count: u32,
}

/// The address of the word that [`retake`] waits for; 0 when the C library waits.
///
/// # Safety
/// 1. `mutex` points to a mutex.
pub unsafe fn word_of(mutex: *mut pthread_mutex_t) -> usize {
    // SAFETY: by 1.
    let it = unsafe { of(mutex) };
    if it.is_foreign() { 0 } else { (&raw const it.word).addr() }
}

/// Gives up the mutex that the caller holds.
///
/// # Errors
/// `EPERM` when it is known that the caller does not hold it.
///
/// # Safety
/// 1. `mutex` points to a mutex, until [`retake`] has returned.
pub unsafe fn give_up(mutex: *mut pthread_mutex_t) -> Result<Released, c_int> {
    // SAFETY: by 1.
    let it = unsafe { of(mutex) };
    if it.is_foreign() {
        // SAFETY: by 1.
        let error = unsafe { libc::pthread_mutex_unlock(mutex) };
        return if error == 0 { Ok(Released { mutex, count: 0 }) } else { Err(error) };
    }
    if it.is_others() {
        return Err(libc::EPERM);
    }
    Ok(Released { mutex, count: it.release_all() })
}

/// Takes the mutex again, as often as the caller had it.
pub fn retake(released: &Released) -> c_int {
    // SAFETY: by the promise that was made to `give_up`.
    unsafe {
        let it = of(released.mutex);
        if it.is_foreign() {
            return theirs(|| libc::pthread_mutex_lock(released.mutex));
        }
        it.lock_again(released.count);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    unsafe {
        let it = of(mutex);
        if it.is_foreign() {
            it.prepare_foreign();
            return protocol::refusal(it)
                .unwrap_or_else(|| theirs(|| libc::pthread_mutex_lock(mutex)));
        }
        if it.has_ceiling() && protocol::is_above(it) {
            return libc::EINVAL;
        }
        it.lock(|| Ok(Moment::Never))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    unsafe {
        let it = of(mutex);
        if it.is_foreign() {
            it.prepare_foreign();
            return protocol::refusal(it).unwrap_or_else(|| libc::pthread_mutex_trylock(mutex));
        }
        if it.has_ceiling() && protocol::is_above(it) {
            return libc::EINVAL;
        }
        it.try_lock()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: passed on.
    unsafe { heddle_user_pthread_mutex_clocklock(mutex, libc::CLOCK_REALTIME, at) }
}

// SAFETY: the C library's functions, by its headers.
unsafe extern "C" {
    fn pthread_mutex_clocklock(
        mutex: *mut pthread_mutex_t,
        clock: clockid_t,
        at: *const timespec,
    ) -> c_int;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_user_pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's mutex and moment.
    unsafe {
        let it = of(mutex);
        if it.is_foreign() {
            it.prepare_foreign();
            return protocol::refusal(it)
                .unwrap_or_else(|| theirs(|| pthread_mutex_clocklock(mutex, clock, at)));
        }
        if clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
            return libc::EINVAL;
        }
        if it.has_ceiling() && protocol::is_above(it) {
            return libc::EINVAL;
        }
        it.lock(|| clock::moment(clock, &*at))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_pthread_mutex_unlock(
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's mutex.
    unsafe {
        let it = of(mutex);
        if it.is_foreign() {
            let error = libc::pthread_mutex_unlock(mutex);
            signals::answer_soon();
            return error;
        }
        let error = it.unlock();
        signals::answer_soon();
        error
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    unsafe {
        let it = of(mutex);
        let is_used = |it: &Mutex| it.word.load(Relaxed) != FREE || it.waiting.load(Relaxed) != 0;
        if !it.is_foreign() && is_used(it) {
            return libc::EBUSY;
        }
        libc::pthread_mutex_destroy(mutex)
    }
}
