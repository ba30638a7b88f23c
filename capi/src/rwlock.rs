//! Read-write locks.
//!
//! `readers.lock` guards everything; the writers' queue is locked inside it. Whoever unlocks
//! grants the lock to those it wakes, so a woken thread holds it and a waiter that gives up was
//! granted nothing.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and point to initialised objects
//! except where the function initialises them.

use core::cell::Cell;
use core::ffi::c_int;

use heddle::raw::{self, Locked, Outcome, WaitQueue};
use libc::{clockid_t, timespec};

use crate::carried;
use crate::clock::Until;
use crate::mutex::only_zero;
use crate::stop::Stop;

/// `state`: a waiting writer keeps new readers out.
const PREFERS_WRITERS: u32 = 1 << 31;
const READERS_MAX: u32 = PREFERS_WRITERS - 1;
/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
const KIND_WRITERS: c_int = 2;

/// `heddle_rwlock_t` of the header; all zero bytes are a free lock.
#[repr(C)]
pub struct RwLock {
    /// Readers that hold it, and the kind.
    state: Cell<u32>,
    /// Slot + 1 of the writer that holds it.
    writer: Cell<u32>,
    readers: WaitQueue,
    writers: WaitQueue,
}

const _: () = assert!(size_of::<RwLock>() == 56);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Read,
    Write,
}

fn mark() -> u32 {
    raw::current().slot() + 1
}

impl RwLock {
    fn count(&self) -> u32 {
        self.state.get() & READERS_MAX
    }

    fn set_count(&self, count: u32) {
        self.state.set(self.state.get() & PREFERS_WRITERS | count);
    }

    /// Takes the lock if it is free for this side; under the lock.
    fn take(&self, side: Side) -> Result<bool, Stop> {
        if self.writer.get() != 0 {
            return Ok(false);
        }
        match side {
            Side::Read if self.count() == READERS_MAX => Err(Stop::Error(libc::EAGAIN)),
            Side::Read => {
                let waits = self.state.get() & PREFERS_WRITERS != 0;
                let free = !waits || self.writers.lock().is_empty();
                if free {
                    self.set_count(self.count() + 1);
                }
                Ok(free)
            }
            Side::Write => {
                let free = self.count() == 0;
                if free {
                    self.writer.set(mark());
                }
                Ok(free)
            }
        }
    }

    fn try_lock(&self, side: Side) -> c_int {
        let guard = self.readers.lock();
        let taken = self.take(side);
        drop(guard);
        match taken {
            Ok(true) => 0,
            Ok(false) => libc::EBUSY,
            Err(_) => libc::EAGAIN,
        }
    }

    fn lock(&self, side: Side, until: impl FnOnce() -> Result<Until, Stop>) -> c_int {
        {
            let _guard = self.readers.lock();
            match self.take(side) {
                Ok(true) => return 0,
                Ok(false) if self.writer.get() == mark() => return libc::EDEADLK,
                Ok(false) => {}
                Err(_) => return libc::EAGAIN,
            }
        }
        match until() {
            Ok(until) => carried::across(|| self.lock_slow(side, until)),
            Err(_) => libc::EINVAL,
        }
    }

    #[cold]
    fn lock_slow(&self, side: Side, until: Until) -> c_int {
        let mut refused = false;
        let outcome = until.wait(|deadline| {
            let guard = self.readers.lock();
            match self.take(side) {
                Ok(true) => Outcome::Woken,
                Ok(false) => self.enqueue(guard, side, deadline),
                Err(_) => {
                    refused = true;
                    Outcome::Woken
                }
            }
        });
        if outcome != Outcome::Woken && side == Side::Write {
            self.writer_left();
        }
        match outcome {
            Outcome::Woken if refused => libc::EAGAIN,
            Outcome::Woken => 0,
            _ => libc::ETIMEDOUT,
        }
    }

    fn enqueue(&self, guard: Locked<'_>, side: Side, deadline: u64) -> Outcome {
        let me = raw::current();
        if side == Side::Read {
            guard.enqueue(me);
            return guard.wait(me, deadline);
        }
        let queue = self.writers.lock();
        queue.enqueue(me);
        drop(guard);
        queue.wait(me, deadline)
    }

    /// A writer gave up: readers that it kept out may go on.
    fn writer_left(&self) {
        let guard = self.readers.lock();
        if self.writer.get() == 0 && self.writers.lock().is_empty() {
            self.grant_readers(&guard);
        }
    }

    fn unlock(&self) -> c_int {
        let guard = self.readers.lock();
        match (self.writer.get(), self.count()) {
            (0, 0) => return libc::EPERM,
            (0, count) => self.set_count(count - 1),
            (writer, _) if writer != mark() => return libc::EPERM,
            _ => self.writer.set(0),
        }
        if self.count() != 0 {
            return 0;
        }
        let prefers_writers = self.state.get() & PREFERS_WRITERS != 0;
        if (prefers_writers || guard.is_empty()) && self.grant_writer() {
            return 0;
        }
        self.grant_readers(&guard);
        0
    }

    /// Gives the free lock to the first writer; whether there was one.
    fn grant_writer(&self) -> bool {
        let Some(writer) = self.writers.lock().pop() else { return false };
        self.writer.set(writer.slot() + 1);
        raw::wake(writer, Outcome::Woken);
        true
    }

    /// Gives the lock to all readers that wait. They can't give it back, and so nobody can free
    /// it, before the caller lets go of the guard.
    fn grant_readers(&self, guard: &Locked<'_>) {
        while self.count() < READERS_MAX
            && let Some(reader) = guard.pop()
        {
            self.set_count(self.count() + 1);
            raw::wake(reader, Outcome::Woken);
        }
    }
}

/// The blocking, trying and timed functions of one side.
macro_rules! side {
    ($side:expr, $lock:ident, $try:ident, $timed:ident, $clock:ident) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $lock(lock: *const RwLock) -> c_int {
            // SAFETY: the caller's lock.
            unsafe { (*lock).lock($side, || Ok(Until::Forever)) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $try(lock: *const RwLock) -> c_int {
            // SAFETY: the caller's lock.
            unsafe { (*lock).try_lock($side) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $timed(lock: *const RwLock, at: *const timespec) -> c_int {
            // SAFETY: passed on.
            unsafe { $clock(lock, libc::CLOCK_REALTIME, at) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $clock(
            lock: *const RwLock,
            clock: clockid_t,
            at: *const timespec,
        ) -> c_int {
            // SAFETY: the caller's lock and moment.
            unsafe { (*lock).lock($side, || Until::new(clock, &*at)) }
        }
    };
}

side!(
    Side::Read,
    heddle_rwlock_rdlock,
    heddle_rwlock_tryrdlock,
    heddle_rwlock_timedrdlock,
    heddle_rwlock_clockrdlock
);
side!(
    Side::Write,
    heddle_rwlock_wrlock,
    heddle_rwlock_trywrlock,
    heddle_rwlock_timedwrlock,
    heddle_rwlock_clockwrlock
);

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_rwlock_unlock(lock: *const RwLock) -> c_int {
    // SAFETY: the caller's lock.
    unsafe { (*lock).unlock() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_rwlock_init(lock: *mut RwLock, attr: *const u32) -> c_int {
    // SAFETY: null or the caller's attributes; then the caller's place.
    unsafe {
        let prefers_writers = attr.as_ref().is_some_and(|&kind| kind as c_int == KIND_WRITERS);
        lock.write(RwLock {
            state: Cell::new(if prefers_writers { PREFERS_WRITERS } else { 0 }),
            writer: Cell::new(0),
            readers: WaitQueue::new(),
            writers: WaitQueue::new(),
        });
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_rwlock_destroy(lock: *const RwLock) -> c_int {
    // SAFETY: the caller's lock.
    let lock = unsafe { &*lock };
    let guard = lock.readers.lock();
    let free = lock.writer.get() == 0 && lock.count() == 0 && guard.is_empty();
    drop(guard);
    if free { 0 } else { libc::EBUSY }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_rwlockattr_init(attr: *mut u32) -> c_int {
    // SAFETY: the caller's place.
    unsafe { attr.write(0) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn heddle_rwlockattr_destroy(_: *mut u32) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_rwlockattr_setkind_np(attr: *mut u32, kind: c_int) -> c_int {
    if !(0..=KIND_WRITERS).contains(&kind) {
        return libc::EINVAL;
    }
    // SAFETY: the caller's attributes.
    unsafe { attr.write(kind as u32) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_rwlockattr_getkind_np(attr: *const u32, kind: *mut c_int) -> c_int {
    // SAFETY: the caller's attributes and place.
    unsafe { kind.write(*attr as c_int) };
    0
}

only_zero! { heddle_rwlockattr_setpshared, heddle_rwlockattr_getpshared; }
