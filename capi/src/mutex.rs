//! Mutexes: the runtime's raw mutex, with POSIX's types on top.
//!
//! Invariants:
//! 1. `struct heddle_mutex` has the layout of [`RawMutex`]; all zero bytes are a normal mutex.
//! 2. The recursion count is touched by the owner only.
//! 3. No function here is a cancellation point: a wait is never ended by a request.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and point to initialised objects
//! except where the function initialises them.

use core::ffi::c_int;
use core::sync::atomic::AtomicU16;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw::{Outcome, RawMutex, WaitQueue};
use libc::{clockid_t, timespec};

use crate::carried;
use crate::clock::Until;
use crate::stop::Stop;

const RECURSIVE: u8 = 1;
const ERRORCHECK: u8 = 2;
const TYPES: u8 = 3;
/// Protocol `HEDDLE_PRIO_INHERIT` was asked for. The raw mutex inherits in any case.
const INHERIT: u8 = 4;
const QUEUE_OFFSET: usize = 8;

const _: () = assert!(size_of::<RawMutex>() == 40 && size_of::<WaitQueue>() == 24);

/// `heddle_mutex_t` of the header.
#[repr(transparent)]
pub struct Mutex(RawMutex);

impl Mutex {
    fn kind(&self) -> u8 {
        self.0.kind.load(Relaxed) & TYPES
    }

    /// Locks above the first of a recursive mutex.
    fn count(&self) -> &AtomicU16 {
        &self.0.count
    }

    fn queue(&self) -> &WaitQueue {
        // SAFETY: invariant 1.
        unsafe { &*core::ptr::from_ref(self).byte_add(QUEUE_OFFSET).cast() }
    }

    /// Whether the mutex knows its owner and the caller is not it.
    pub fn is_foreign(&self) -> bool {
        self.kind() != 0 && !self.0.is_mine()
    }

    /// What locking it again means to its owner; `None` when the caller does not own it.
    fn relock(&self) -> Option<c_int> {
        match self.kind() {
            RECURSIVE if self.0.is_mine() => {
                let count = self.count().load(Relaxed);
                if count == u16::MAX {
                    return Some(libc::EAGAIN);
                }
                self.count().store(count + 1, Relaxed);
                Some(0)
            }
            ERRORCHECK if self.0.is_mine() => Some(libc::EDEADLK),
            _ => None,
        }
    }

    /// Takes it, waiting for ever.
    #[inline]
    pub fn lock(&self) -> c_int {
        if self.0.try_lock() { 0 } else { self.lock_slow(|| Ok(Until::Forever)) }
    }

    #[cold]
    fn lock_slow(&self, until: impl FnOnce() -> Result<Until, Stop>) -> c_int {
        if let Some(number) = self.relock() {
            return number;
        }
        let until = match until() {
            Ok(until) => until,
            Err(Stop::Error(number)) => return number,
            Err(Stop::Cancelled) => return libc::EINVAL,
        };
        let outcome = carried::across(|| until.wait(|deadline| self.0.lock_until(deadline)));
        if outcome == Outcome::Woken { 0 } else { libc::ETIMEDOUT }
    }

    /// Gives it up.
    #[inline]
    pub fn unlock(&self) -> c_int {
        if self.kind() != 0 {
            if !self.0.is_mine() {
                return libc::EPERM;
            }
            let count = self.count().load(Relaxed);
            if count != 0 {
                self.count().store(count - 1, Relaxed);
                return 0;
            }
        }
        // SAFETY: the caller holds it: checked, or promised for a normal mutex.
        unsafe { self.0.unlock() };
        0
    }

    /// Gives it up however often the caller has locked it; returns how often besides once.
    pub fn unlock_all(&self) -> u16 {
        let count = if self.kind() == RECURSIVE { self.count().swap(0, Relaxed) } else { 0 };
        // SAFETY: the caller holds it, as the callers of `heddle_cond_wait` must.
        unsafe { self.0.unlock() };
        count
    }

    /// Takes it `count` times besides once.
    pub fn lock_again(&self, count: u16) {
        self.lock();
        if count != 0 {
            self.count().store(count, Relaxed);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutex_init(mutex: *mut Mutex, attr: *const u32) -> c_int {
    // SAFETY: null or the caller's attributes; then the caller's place.
    unsafe {
        let kind = attr.as_ref().map_or(0, |kind| *kind as u8);
        mutex.write_bytes(0, 1);
        (*mutex).0.kind.store(kind, Relaxed);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutex_destroy(mutex: *const Mutex) -> c_int {
    // SAFETY: the caller's mutex.
    let mutex = unsafe { &*mutex };
    // The last unlock may hold the queue's lock still: whoever destroys waits for that.
    drop(mutex.queue().lock());
    if mutex.0.is_locked() { libc::EBUSY } else { 0 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutex_lock(mutex: *const Mutex) -> c_int {
    // SAFETY: the caller's mutex.
    unsafe { (*mutex).lock() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutex_trylock(mutex: *const Mutex) -> c_int {
    // SAFETY: the caller's mutex.
    let mutex = unsafe { &*mutex };
    if mutex.0.try_lock() {
        return 0;
    }
    match mutex.relock() {
        Some(libc::EDEADLK) | None => libc::EBUSY,
        Some(number) => number,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutex_timedlock(mutex: *const Mutex, at: *const timespec) -> c_int {
    // SAFETY: passed on.
    unsafe { heddle_mutex_clocklock(mutex, libc::CLOCK_REALTIME, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutex_clocklock(
    mutex: *const Mutex,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's mutex and moment.
    let (mutex, at) = unsafe { (&*mutex, &*at) };
    if mutex.0.try_lock() { 0 } else { mutex.lock_slow(|| Until::new(clock, at)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutex_unlock(mutex: *const Mutex) -> c_int {
    // SAFETY: the caller's mutex.
    unsafe { (*mutex).unlock() }
}

#[unsafe(no_mangle)]
extern "C" fn heddle_mutex_consistent(_: *const Mutex) -> c_int {
    libc::EINVAL
}

#[unsafe(no_mangle)]
extern "C" fn heddle_mutex_setprioceiling(_: *const Mutex, _: c_int, _: *mut c_int) -> c_int {
    libc::EINVAL
}

#[unsafe(no_mangle)]
extern "C" fn heddle_mutex_getprioceiling(_: *const Mutex, _: *mut c_int) -> c_int {
    libc::EINVAL
}

// ---- attributes: one word, the `kind` of the mutex

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutexattr_init(attr: *mut u32) -> c_int {
    // SAFETY: the caller's place.
    unsafe { attr.write(0) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn heddle_mutexattr_destroy(_: *mut u32) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutexattr_settype(attr: *mut u32, kind: c_int) -> c_int {
    // PTHREAD_MUTEX_ADAPTIVE_NP, 3, is a normal one that spins first, as ours do.
    let kind = match kind {
        0 | 3 => 0,
        1 | 2 => kind as u32,
        _ => return libc::EINVAL,
    };
    // SAFETY: the caller's attributes.
    unsafe { *attr = *attr & !u32::from(TYPES) | kind };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutexattr_gettype(attr: *const u32, kind: *mut c_int) -> c_int {
    // SAFETY: the caller's attributes and place.
    unsafe { kind.write((*attr & u32::from(TYPES)) as c_int) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutexattr_setprotocol(attr: *mut u32, protocol: c_int) -> c_int {
    let inherit = match protocol {
        0 => 0,
        1 => u32::from(INHERIT),
        2 => return libc::ENOTSUP,
        _ => return libc::EINVAL,
    };
    // SAFETY: the caller's attributes.
    unsafe { *attr = *attr & !u32::from(INHERIT) | inherit };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_mutexattr_getprotocol(attr: *const u32, value: *mut c_int) -> c_int {
    // SAFETY: the caller's attributes and place.
    unsafe { value.write(c_int::from(*attr & u32::from(INHERIT) != 0)) };
    0
}

/// Setters of what exists in one form only, and getters that say so.
macro_rules! only_zero {
    ($($set:ident, $get:ident;)+) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $set(_: *mut u32, value: c_int) -> c_int {
            match value {
                0 => 0,
                1 => libc::ENOTSUP,
                _ => libc::EINVAL,
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $get(_: *const u32, value: *mut c_int) -> c_int {
            // SAFETY: the caller's place.
            unsafe { value.write(0) };
            0
        }
    )+ };
}

pub(crate) use only_zero;

only_zero! {
    heddle_mutexattr_setpshared, heddle_mutexattr_getpshared;
    heddle_mutexattr_setrobust, heddle_mutexattr_getrobust;
}

#[unsafe(no_mangle)]
extern "C" fn heddle_mutexattr_setprioceiling(_: *mut u32, _: c_int) -> c_int {
    libc::ENOTSUP
}

#[unsafe(no_mangle)]
extern "C" fn heddle_mutexattr_getprioceiling(_: *const u32, _: *mut c_int) -> c_int {
    libc::ENOTSUP
}
