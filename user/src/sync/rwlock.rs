//! Read-write locks, in the 56 bytes of glibc's.
//!
//! `state`: how many read (30 bits; all ones = one writes), whether readers wait, whether writers
//! wait. Readers wait for a change of `state`, writers for one of `writers_word`.
//!
//! Protocol:
//! 1. Who has to wait first sets its bit. Who frees the lock sees the bits, and clears the bit of
//!    those it wakes.
//! 2. It wakes one writer, if one waits; only if there was none, all readers.
//! 3. A writer that gives up clears both bits and wakes everybody: its bit may have kept readers
//!    out, and only they can say what bits there should be.
//!
//! By glibc's kinds a reader goes before writers that wait, so that a thread may read again what it
//! reads already; `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP` makes it wait behind them.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid and point to what their type says.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use heddle::raw::{Ended, Moment};
use libc::{clockid_t, pthread_rwlock_t, timespec};

use super::passed_over::{self, Patience};
use super::{theirs, wait, wake};
use crate::clock;
use crate::sys::{own_memory, proxy};
use crate::threads::stuck::Call;
use crate::threads::{mark, signals};

const COUNT: u32 = (1 << 30) - 1;
const WRITTEN: u32 = COUNT;
const READERS_MAX: u32 = COUNT - 1;
const READERS_WAIT: u32 = 1 << 30;
const WRITERS_WAIT: u32 = 1 << 31;
/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
const PREFERS_WRITERS: u32 = 2;
/// How often the word is looked at before a wait.
const TURNS: u32 = 60;

/// The fields of glibc's `pthread_rwlock_t`, by its offsets; the names of ours.
#[repr(C)]
struct RwLock {
    state: AtomicU32,
    writers_word: AtomicU32,
    unused: [u32; 3],
    /// What the mark of the thread that writes has beside the number.
    writer_generation: AtomicU32,
    /// Number of the thread that writes.
    writer: AtomicU32,
    shared: AtomicU32,
    more: [u32; 4],
    kind: AtomicU32,
}

/// Where the C library has it.
pub const SHARED_AT: usize = core::mem::offset_of!(RwLock, shared);

const _: () = assert!(core::mem::offset_of!(RwLock, writer) == 24);
const _: () = assert!(SHARED_AT == 28);
const _: () = assert!(core::mem::offset_of!(RwLock, kind) == 48);

/// Where the word is that writers wait for.
pub const WRITERS_AT: usize = core::mem::offset_of!(RwLock, writers_word);

/// Who has a lock.
pub enum Held {
    /// So many readers, perhaps none.
    Read(u32),
    /// The thread with this mark.
    Written(u64),
}

/// Who has the lock at this address.
///
/// # Errors
/// `EFAULT`: there is none any more.
pub fn held(lock: usize) -> Result<Held, c_int> {
    let word = |at| own_memory::read(core::ptr::with_exposed_provenance::<u32>(lock + at));
    Ok(match word(core::mem::offset_of!(RwLock, state))? & COUNT {
        WRITTEN => Held::Written(mark_of(
            word(core::mem::offset_of!(RwLock, writer))?,
            word(core::mem::offset_of!(RwLock, writer_generation))?,
        )),
        readers => Held::Read(readers),
    })
}

/// # Safety
/// 1. `lock` points to a read-write lock.
unsafe fn of<'a>(lock: *mut pthread_rwlock_t) -> &'a RwLock {
    // SAFETY: by 1; what is used of it is atomic.
    unsafe { &*lock.cast::<RwLock>() }
}

fn mark_of(number: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(number)
}

fn is_free(state: u32) -> bool {
    state & COUNT == 0
}

impl RwLock {
    /// The caller has taken it to write.
    fn own(&self) {
        let mark = mark();
        self.writer_generation.store((mark >> 32) as u32, Relaxed);
        self.writer.store(mark as u32, Relaxed);
    }

    fn writer_mark(&self) -> u64 {
        mark_of(self.writer.load(Relaxed), self.writer_generation.load(Relaxed))
    }

    fn is_shared(&self) -> bool {
        self.shared.load(Relaxed) != 0
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    fn may_read(&self, state: u32) -> bool {
        let behind = state & WRITERS_WAIT != 0 && self.kind.load(Relaxed) == PREFERS_WRITERS;
        state & COUNT < READERS_MAX && !behind
    }

    fn try_read(&self) -> c_int {
        let mut state = self.state.load(Relaxed);
        while self.may_read(state) {
            // ORDER: Acquire pairs with the Release of whoever unlocked.
            match self.state.compare_exchange_weak(state, state + 1, Acquire, Relaxed) {
                Ok(_) => return 0,
                Err(seen) => state = seen,
            }
        }
        if state & COUNT == READERS_MAX { libc::EAGAIN } else { libc::EBUSY }
    }

    fn read(&self, until: Moment) -> c_int {
        match self.try_read() {
            libc::EBUSY => self.read_slowly(until),
            result => result,
        }
    }

    #[cold]
    fn read_slowly(&self, until: Moment) -> c_int {
        if self.is_mine() {
            return libc::EDEADLK;
        }
        for _ in 0..TURNS {
            core::hint::spin_loop();
            match self.try_read() {
                libc::EBUSY => {}
                result => return result,
            }
        }
        let mut patience = Patience::default();
        loop {
            match self.try_read() {
                libc::EBUSY => {}
                result => return result,
            }
            let state = self.state.load(Relaxed);
            let waited = state | READERS_WAIT;
            if self.may_read(state)
                || state != waited
                    && self.state.compare_exchange(state, waited, Relaxed, Relaxed).is_err()
            {
                continue;
            }
            // SAFETY: the caller's lock lives while somebody waits for it.
            if unsafe { wait(Call::Read, &self.state, waited, until) } == Ended::TimedOut {
                return libc::ETIMEDOUT;
            }
            patience.woken(self.address());
        }
    }

    fn try_write(&self) -> c_int {
        let mut state = self.state.load(Relaxed);
        while is_free(state) {
            // ORDER: Acquire pairs with the Release of whoever unlocked.
            match self.state.compare_exchange_weak(state, state | WRITTEN, Acquire, Relaxed) {
                Ok(_) => {
                    self.own();
                    return 0;
                }
                Err(seen) => state = seen,
            }
        }
        libc::EBUSY
    }

    fn write(&self, until: Moment) -> c_int {
        if self.try_write() == 0 { 0 } else { self.write_slowly(until) }
    }

    #[cold]
    fn write_slowly(&self, until: Moment) -> c_int {
        if self.is_mine() {
            return libc::EDEADLK;
        }
        for _ in 0..TURNS {
            core::hint::spin_loop();
            if self.try_write() == 0 {
                return 0;
            }
        }
        self.wait_to_write(until)
    }

    fn wait_to_write(&self, until: Moment) -> c_int {
        // Whoever woke us cleared the bit, for it cannot know whether more of us wait.
        let mut others = 0;
        let mut patience = Patience::default();
        loop {
            let state = self.state.load(Relaxed);
            if is_free(state) {
                let taken = state | WRITTEN | others;
                // ORDER: Acquire pairs with the Release of whoever unlocked.
                if self.state.compare_exchange(state, taken, Acquire, Relaxed).is_ok() {
                    self.own();
                    return 0;
                }
                continue;
            }
            if state & WRITERS_WAIT == 0
                && self
                    .state
                    .compare_exchange(state, state | WRITERS_WAIT, Relaxed, Relaxed)
                    .is_err()
            {
                continue;
            }
            others = WRITERS_WAIT;
            // ORDER: Acquire pairs with the Release in `wake_writer`: the state is newer.
            let word = self.writers_word.load(Acquire);
            let state = self.state.load(Relaxed);
            if is_free(state) || state & WRITERS_WAIT == 0 {
                continue;
            }
            // SAFETY: the caller's lock lives while somebody waits for it.
            if unsafe { wait(Call::Write, &self.writers_word, word, until) } == Ended::TimedOut {
                self.writer_gave_up();
                return libc::ETIMEDOUT;
            }
            patience.woken(self.address());
        }
    }

    /// Step 3.
    fn writer_gave_up(&self) {
        self.state.fetch_and(!(READERS_WAIT | WRITERS_WAIT), Relaxed);
        // ORDER: as in `wake_writer`.
        self.writers_word.fetch_add(1, Release);
        wake(&self.writers_word, u32::MAX);
        wake(&self.state, u32::MAX);
    }

    fn is_mine(&self) -> bool {
        self.state.load(Relaxed) & COUNT == WRITTEN && self.writer_mark() == mark()
    }

    fn unlock(&self) -> c_int {
        let state = self.state.load(Relaxed);
        if is_free(state) {
            return libc::EPERM;
        }
        let left = if state & COUNT == WRITTEN {
            self.writer.store(0, Relaxed);
            // ORDER: Release publishes what was written.
            self.state.fetch_sub(WRITTEN, Release) - WRITTEN
        } else {
            // ORDER: Release: what was read is not changed before.
            self.state.fetch_sub(1, Release) - 1
        };
        if is_free(left) && left & (READERS_WAIT | WRITERS_WAIT) != 0 {
            let address = self.address();
            self.wake_next(left);
            passed_over::give_way(address);
        }
        0
    }

    /// Step 2; `state` is that of a free lock for which somebody waits.
    #[cold]
    fn wake_next(&self, mut state: u32) {
        let change = |from: u32, to: u32| self.state.compare_exchange(from, to, Relaxed, Relaxed);
        if state == WRITERS_WAIT {
            match change(state, 0) {
                Ok(_) => {
                    self.wake_writer();
                    return;
                }
                Err(seen) => state = seen,
            }
        }
        if state == READERS_WAIT | WRITERS_WAIT {
            if change(state, READERS_WAIT).is_err() || self.wake_writer() {
                // Somebody has the lock already, or will, and wakes the others in his turn.
                return;
            }
            state = READERS_WAIT;
        }
        if state == READERS_WAIT && change(state, 0).is_ok() {
            wake(&self.state, u32::MAX);
        }
    }

    fn wake_writer(&self) -> bool {
        // ORDER: Release pairs with the Acquire in `wait_to_write`.
        self.writers_word.fetch_add(1, Release);
        wake(&self.writers_word, 1) != 0
    }
}

// SAFETY: the C library's functions, by its headers.
unsafe extern "C" {
    fn pthread_rwlock_clockrdlock(
        lock: *mut pthread_rwlock_t,
        clock: clockid_t,
        at: *const timespec,
    ) -> c_int;
    fn pthread_rwlock_clockwrlock(
        lock: *mut pthread_rwlock_t,
        clock: clockid_t,
        at: *const timespec,
    ) -> c_int;
}

/// The blocking, trying and timed functions of one side.
macro_rules! side {
    ($wait:ident, $attempt:ident, $lock:ident = $real_lock:path, $try:ident = $real_try:path,
        $timed:ident, $clock:ident = $real_clock:path) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $lock(lock: *mut pthread_rwlock_t) -> c_int {
            // SAFETY: the caller's lock.
            unsafe {
                let it = of(lock);
                if it.is_shared() {
                    proxy::ask_for();
                    return theirs(|| $real_lock(lock));
                }
                it.$wait(Moment::Never)
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $try(lock: *mut pthread_rwlock_t) -> c_int {
            // SAFETY: the caller's lock.
            unsafe {
                let it = of(lock);
                if it.is_shared() {
                    proxy::ask_for();
                    return $real_try(lock);
                }
                it.$attempt()
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $timed(lock: *mut pthread_rwlock_t, at: *const timespec) -> c_int {
            // SAFETY: passed on.
            unsafe { $clock(lock, libc::CLOCK_REALTIME, at) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $clock(
            lock: *mut pthread_rwlock_t,
            clock: clockid_t,
            at: *const timespec,
        ) -> c_int {
            // SAFETY: the caller's lock and moment.
            unsafe {
                let it = of(lock);
                if it.is_shared() {
                    proxy::ask_for();
                    return theirs(|| $real_clock(lock, clock, at));
                }
                // As in the C library a moment that is none is refused where the lock is free, too.
                match clock::moment(clock, &*at) {
                    Ok(until) => it.$wait(until),
                    Err(error) => error,
                }
            }
        }
    };
}

side!(
    read,
    try_read,
    heddle_user_pthread_rwlock_rdlock = libc::pthread_rwlock_rdlock,
    heddle_user_pthread_rwlock_tryrdlock = libc::pthread_rwlock_tryrdlock,
    heddle_user_pthread_rwlock_timedrdlock,
    heddle_user_pthread_rwlock_clockrdlock = pthread_rwlock_clockrdlock
);
side!(
    write,
    try_write,
    heddle_user_pthread_rwlock_wrlock = libc::pthread_rwlock_wrlock,
    heddle_user_pthread_rwlock_trywrlock = libc::pthread_rwlock_trywrlock,
    heddle_user_pthread_rwlock_timedwrlock,
    heddle_user_pthread_rwlock_clockwrlock = pthread_rwlock_clockwrlock
);

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_rwlock_unlock(
    lock: *mut pthread_rwlock_t,
) -> c_int {
    // SAFETY: the caller's lock.
    unsafe {
        let it = of(lock);
        if it.is_shared() {
            let error = libc::pthread_rwlock_unlock(lock);
            signals::answer_soon();
            return error;
        }
        let error = it.unlock();
        signals::answer_soon();
        error
    }
}
