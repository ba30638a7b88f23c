//! Semaphores, in glibc's layout: the value, and how many wait for it, in one word of 64 bits.
//!
//! A post adds one and learns in the same step whether somebody waits; it does not touch the
//! semaphore afterwards, so the one it lets go may destroy it. `sem_init`, `sem_trywait` and
//! `sem_getvalue` are the C library's: they only touch that word. Semaphores that are shared with
//! other processes, those with a name among them, are the C library's, but for a full thread's
//! wait: that is in the kernel, on its worker, where signals and cancellation find it.
//!
//! A kernel thread waits by the C library's own function, in the kernel: a signal handler ends that
//! wait (EINTR), which programs rely on. A post wakes one full thread, and only if none waited one
//! kernel thread. Whoever is about to wait sees the new value instead, so no post is lost.
//!
//! A signal handler may post, also one that has interrupted the lot: the value is changed at once,
//! and who waits for it is woken as soon as the lot is left.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid and point to what their type says.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use heddle::raw::{self, Ended, Manner, Moment};
use libc::{clockid_t, sem_t, timespec};
use rustix::thread::futex::{self, Flags};

use super::passed_over::{self, Patience};
use super::wake;
use crate::sys::interruptible;
use crate::threads::cancel;
use crate::threads::signals::{self, Then};
use crate::threads::stuck::Call;
use crate::{clock, errno};

/// glibc's `struct new_sem`.
#[repr(C)]
struct Sem {
    /// Low half: the value; high half: who waits.
    word: AtomicU64,
    /// Zero unless other processes use it.
    shared: AtomicI32,
}

/// Where the C library has it.
pub const SHARED_AT: usize = core::mem::offset_of!(Sem, shared);

const VALUE: u64 = u32::MAX as u64;
const VALUE_MAX: u64 = i32::MAX as u64;
const WAITER: u64 = 1 << 32;
const CANCELLABLE: Manner =
    Manner { is_cancellable: true, what: Call::Semaphore as u32, ..Manner::PLAIN };

/// # Safety
/// 1. `sem` points to a semaphore.
unsafe fn of<'a>(sem: *mut sem_t) -> &'a Sem {
    // SAFETY: by 1; all fields are atomic.
    unsafe { &*sem.cast::<Sem>() }
}

impl Sem {
    fn is_shared(&self) -> bool {
        self.shared.load(Relaxed) != 0
    }

    /// The half that the lot watches.
    fn value(&self) -> *const AtomicU32 {
        (&raw const self.word).cast()
    }

    /// Takes `taken`, one of the value and perhaps a waiter with it, if the value is not zero.
    fn try_take(&self, taken: u64) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & VALUE != 0 {
            // ORDER: Acquire pairs with the Release in `post`.
            match self.word.compare_exchange_weak(word, word - taken, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Waits as a thread that is counted; afterwards it is not.
    fn wait(&self, until: Moment) -> Ended {
        self.word.fetch_add(WAITER, Relaxed);
        let mut patience = Patience::default();
        loop {
            if self.try_take(WAITER + 1) {
                return Ended::Woken;
            }
            // SAFETY: the caller's semaphore, which lives while somebody waits for it.
            let ended = unsafe { self.sleep(until) };
            if matches!(ended, Ended::TimedOut | Ended::Cancelled) {
                self.word.fetch_sub(WAITER, Relaxed);
                return ended;
            }
            patience.woken(self.value().addr());
        }
    }

    /// Waits for a post if the value is zero.
    ///
    /// # Safety
    /// 1. The semaphore lives until this returns.
    unsafe fn sleep(&self, until: Moment) -> Ended {
        if !self.is_shared() {
            // SAFETY: by 1.
            return unsafe { raw::futex_wait(self.value(), 0, until, CANCELLABLE) };
        }
        // SAFETY: by 1.
        match unsafe { interruptible::futex_wait(self.value(), 0, raw::ANY, until) } {
            Ok(ended) => ended,
            // It could be read just now: nothing is wrong that would not pass.
            Err(_refused) => Ended::Woken,
        }
    }

    fn post(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            if word & VALUE == VALUE_MAX {
                return false;
            }
            // ORDER: Release pairs with the Acquire in `try_take`.
            match self.word.compare_exchange_weak(word, word + 1, Release, Relaxed) {
                Ok(_) => break,
                Err(seen) => word = seen,
            }
        }
        if word / WAITER != 0 {
            let address = self.value().expose_provenance();
            raw::when_unpinned(wake_some, address);
            passed_over::give_way(address);
        }
        true
    }
}

/// Wakes so many of those who wait for the value at this address: full threads first.
fn wake_some(value: usize, times: u32) {
    let value: *const AtomicU32 = ptr::with_exposed_provenance(value);
    // Without full threads nobody is in the lot; and a handler may have come in the middle of it,
    // unseen, for nobody is pinned then.
    let woken = if raw::full_threads_exist() { wake(value, times) } else { 0 };
    if woken < times {
        // SAFETY: the address of four bytes; a futex need not be there any more.
        let _ = futex::wake(unsafe { &*value }, Flags::PRIVATE, times - woken);
    }
}

fn wait(sem: &Sem, until: Moment) -> c_int {
    cancel::test();
    if sem.try_take(1) {
        return 0;
    }
    loop {
        let error = match errno::kept(|| sem.wait(until)) {
            Ended::Woken | Ended::Changed => return 0,
            Ended::TimedOut => libc::ETIMEDOUT,
            Ended::Cancelled => match signals::interrupted() {
                Then::End => cancel::act(),
                Then::GoOn => continue,
                // No wait with a deadline goes on after a handler, whatever that wants.
                Then::Restart if until == Moment::Never => continue,
                Then::Restart | Then::Fail => libc::EINTR,
            },
        };
        errno::set(error);
        return -1;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sem_wait(sem: *mut sem_t) -> c_int {
    // SAFETY: the caller's semaphore.
    unsafe { wait(of(sem), Moment::Never) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sem_timedwait(
    sem: *mut sem_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: passed on.
    unsafe { heddle_user_sem_clockwait(sem, libc::CLOCK_REALTIME, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sem_clockwait(
    sem: *mut sem_t,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's semaphore and moment.
    unsafe {
        match clock::moment(clock, &*at) {
            Ok(until) => wait(of(sem), until),
            Err(error) => {
                errno::set(error);
                -1
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sem_post(sem: *mut sem_t) -> c_int {
    // SAFETY: the caller's semaphore.
    unsafe {
        let it = of(sem);
        if it.is_shared() {
            return libc::sem_post(sem);
        }
        if it.post() {
            signals::answer_soon();
            return 0;
        }
    }
    errno::set(libc::EOVERFLOW);
    -1
}
