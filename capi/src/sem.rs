//! Semaphores.
//!
//! One word: the value in the upper bits, bit 0 = somebody may be in the queue. The bit is set and
//! cleared under the queue's lock only; a post that sees it hands its permit to the first waiter,
//! so that no third thread can steal it. A post's last access to the semaphore is what lets the
//! waiter go, so the waiter may destroy it.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and point to initialised objects
//! except where the function initialises them.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heddle::raw::{self, Outcome, WaitQueue};
use libc::{clockid_t, timespec};

use crate::clock::Until;
use crate::stop::{self, Stop};
use crate::{cancel, carried};

const WAITERS: u32 = 1;
const ONE: u32 = 2;
/// `HEDDLE_SEM_VALUE_MAX`.
const VALUE_MAX: u32 = i32::MAX as u32;

/// `heddle_sem_t` of the header.
#[repr(C)]
pub struct Sem {
    word: AtomicU32,
    unused: u32,
    queue: WaitQueue,
}

const _: () = assert!(size_of::<Sem>() == 32);

impl Sem {
    #[inline]
    fn try_wait(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        while word >= ONE {
            // ORDER: Acquire pairs with the Release in `post`.
            match self.word.compare_exchange_weak(word, word - ONE, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    fn wait(&self, until: impl FnOnce() -> Result<Until, Stop>) -> Result<(), Stop> {
        cancel::check()?;
        if self.try_wait() {
            return Ok(());
        }
        let until = until()?;
        match carried::across(|| until.wait(|deadline| self.wait_slow(deadline))) {
            Outcome::Woken => Ok(()),
            Outcome::TimedOut => Err(Stop::Error(libc::ETIMEDOUT)),
            Outcome::Cancelled => Err(Stop::Cancelled),
        }
    }

    fn wait_slow(&self, deadline: u64) -> Outcome {
        if cancel::check().is_err() {
            return Outcome::Cancelled;
        }
        let me = raw::current();
        let queue = self.queue.lock();
        // With the bit set, every post comes through the lock that we hold.
        let mut word = self.word.fetch_or(WAITERS, Acquire) | WAITERS;
        while word >= ONE {
            match self.word.compare_exchange_weak(word, word - ONE, Acquire, Acquire) {
                Ok(_) => {
                    if queue.is_empty() {
                        self.word.fetch_and(!WAITERS, Relaxed);
                    }
                    return Outcome::Woken;
                }
                Err(seen) => word = seen,
            }
        }
        queue.enqueue(me);
        raw::wait_cancellable(queue, me, deadline)
    }

    #[inline]
    fn post(&self) -> Result<(), Stop> {
        let mut word = self.word.load(Relaxed);
        loop {
            if word & WAITERS != 0 {
                if self.post_to_waiter() {
                    return Ok(());
                }
                word = self.word.load(Relaxed);
                continue;
            }
            if word / ONE == VALUE_MAX {
                return Err(Stop::Error(libc::EOVERFLOW));
            }
            // ORDER: Release pairs with the Acquire in `try_wait`.
            match self.word.compare_exchange_weak(word, word + ONE, Release, Relaxed) {
                Ok(_) => return Ok(()),
                Err(seen) => word = seen,
            }
        }
    }

    fn post_to_waiter(&self) -> bool {
        let queue = self.queue.lock();
        let first = queue.pop();
        if queue.is_empty() {
            self.word.fetch_and(!WAITERS, AcqRel);
        }
        drop(queue);
        first.map(|thread| raw::wake(thread, Outcome::Woken)).is_some()
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_sem_init(sem: *mut Sem, shared: c_int, value: u32) -> c_int {
    if shared != 0 {
        return stop::flag(Err(Stop::Error(libc::ENOTSUP)));
    }
    if value > VALUE_MAX {
        return stop::flag(Err(Stop::Error(libc::EINVAL)));
    }
    let new = Sem { word: AtomicU32::new(value * ONE), unused: 0, queue: WaitQueue::new() };
    // SAFETY: the caller's place.
    unsafe { sem.write(new) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_sem_destroy(sem: *const Sem) -> c_int {
    // SAFETY: the caller's semaphore.
    let free = unsafe { (*sem).queue.lock().is_empty() };
    stop::flag(if free { Ok(()) } else { Err(Stop::Error(libc::EBUSY)) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_sem_wait(sem: *const Sem) -> c_int {
    // SAFETY: the caller's semaphore.
    stop::flag(unsafe { (*sem).wait(|| Ok(Until::Forever)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_sem_trywait(sem: *const Sem) -> c_int {
    // SAFETY: the caller's semaphore.
    let taken = unsafe { (*sem).try_wait() };
    stop::flag(if taken { Ok(()) } else { Err(Stop::Error(libc::EAGAIN)) })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_sem_timedwait(sem: *const Sem, at: *const timespec) -> c_int {
    // SAFETY: passed on.
    unsafe { heddle_sem_clockwait(sem, libc::CLOCK_REALTIME, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_sem_clockwait(
    sem: *const Sem,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's semaphore and moment.
    stop::flag(unsafe { (*sem).wait(|| Until::new(clock, &*at)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_sem_post(sem: *const Sem) -> c_int {
    // SAFETY: the caller's semaphore.
    stop::flag(unsafe { (*sem).post() })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_sem_getvalue(sem: *const Sem, value: *mut c_int) -> c_int {
    // SAFETY: the caller's semaphore and place.
    unsafe { value.write(((*sem).word.load(Relaxed) / ONE) as c_int) };
    0
}
