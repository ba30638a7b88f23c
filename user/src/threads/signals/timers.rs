//! Timers that send their signal to one full thread (`SIGEV_THREAD_ID` with its number).
//!
//! The kernel does not know the thread. Its timer sends to a kernel thread of this library, the
//! bearer, which passes on what it gets: the program's signal, with the timer's number, its value
//! and how often it expired. As with the kernel, one signal of a timer is pending at a time; what
//! comes meanwhile is counted as overrun.
//!
//! Invariants:
//! 1. A slot belongs to the timer whose number stands in it, from before the timer can expire until
//!    it is deleted.
//! 2. An expiry is told of by the signal that is pending, or by a new one: whether one is pending
//!    and what it does not tell of yet is one word.
//! 3. A timer outlives its thread, but sends to nobody then: the number is another thread's soon.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use heddle::raw;
use libc::{clockid_t, pid_t, sigevent, siginfo_t, timer_t};
use rustix::thread::futex::{self, Flags};

use super::actions::is_in_vfork;
use super::sent::fields_of;
use super::{SIGNALS, bit, process, send_info_to};
use crate::calls::mask;
use crate::errno;
use crate::sys::{cpu_clock, signals};
use crate::threads::{fork, is_number};

/// Timers for full threads that may exist at a time.
const TIMERS: usize = 256;
/// By which the bearer gets what it passes on; the value that it carries is the slot.
const BORNE: c_int = raw::PREEMPTION_SIGNAL;
/// The bearer's stack.
const STACK_BYTES: usize = 2 << 20;
/// `number`: the slot is free.
const FREE: i32 = -1;
/// `number`: it is about to be made.
const TAKEN: i32 = -2;

struct Slot {
    /// The kernel's number of the timer, or one of the above.
    number: AtomicI32,
    /// The thread, the signal, and what that carries.
    thread: AtomicU32,
    signal: AtomicI32,
    value: AtomicU64,
    /// [`PENDING`] while a signal of it is pending for the thread, and how often it expired since.
    state: AtomicU32,
}

const PENDING: u32 = 1 << 31;
/// `thread`: it has ended.
const NOBODY: u32 = 0;

static SLOTS: [Slot; TIMERS] = [const {
    Slot {
        number: AtomicI32::new(FREE),
        thread: AtomicU32::new(0),
        signal: AtomicI32::new(0),
        value: AtomicU64::new(0),
        state: AtomicU32::new(0),
    }
}; TIMERS];

fn slot_of(number: i32) -> Option<&'static Slot> {
    // ORDER: pairs with the Release in `create`.
    SLOTS.iter().find(|slot| slot.number.load(Acquire) == number)
}

/// A thread takes this signal: if it is a timer's, the next one may be sent, and this one tells of
/// what came since.
pub fn taken(info: siginfo_t) -> siginfo_t {
    if info.si_code != libc::SI_TIMER {
        return info;
    }
    let mut sent = fields_of(&info);
    let Some(slot) = slot_of(sent.pid as i32) else { return info };
    // ORDER: AcqRel: this signal was taken before the next one is sent.
    sent.uid = sent.uid.wrapping_add(slot.state.swap(0, AcqRel) & !PENDING);
    sent.info()
}

/// Nobody will take this signal, or it will not be known whose it was: as if it were taken now.
pub fn dropped(info: &siginfo_t) -> c_int {
    taken(*info);
    0
}

/// What is pending of `signals` was discarded: as if it were taken now.
pub fn discarded(signals: u64) {
    if ARE_SOME.load(Relaxed) {
        for slot in &SLOTS {
            let signal = slot.signal.load(Relaxed);
            if signal != 0 && signals & bit(signal) != 0 {
                // ORDER: as in `taken`.
                slot.state.store(0, Release);
            }
        }
    }
}

/// Passes on what the kernel sent for a timer.
fn pass_on(info: &siginfo_t) {
    let mut sent = fields_of(info);
    let slot = SLOTS.iter().find(|slot| ptr::from_ref(*slot).addr() as u64 == sent.value);
    let Some(slot) = slot.filter(|_| info.si_code == libc::SI_TIMER) else {
        return process::stray(info);
    };
    // From here on the slot stays whose it is.
    let _alone = alone();
    if slot.number.load(Relaxed) != sent.pid as i32 {
        // It is gone.
        return;
    }
    sent.value = slot.value.load(Relaxed);
    let more = |state: u32| {
        let missed = (state & !PENDING).saturating_add(1).saturating_add(sent.uid);
        if state & PENDING == 0 { PENDING } else { PENDING | missed.min(!PENDING) }
    };
    // ORDER: AcqRel pairs with the swap in `taken`.
    let before = slot.state.fetch_update(AcqRel, Relaxed, |state| Some(more(state)));
    if before.is_ok_and(|state| state & PENDING != 0) {
        return;
    }
    let thread = slot.thread.load(Relaxed);
    let info = sent.of(slot.signal.load(Relaxed)).info();
    if thread == NOBODY || send_info_to(thread, &info) != 0 {
        // ORDER: as in `taken`.
        slot.state.store(0, Release);
    }
}

/// The full thread with this number ends.
pub fn forget(number: u32) {
    if ARE_SOME.load(Relaxed) {
        for slot in &SLOTS {
            // Fails for the slots of others.
            let _ = slot.thread.compare_exchange(number, NOBODY, Relaxed, Relaxed);
        }
    }
}

/// Timers for full threads were made.
static ARE_SOME: AtomicBool = AtomicBool::new(false);

/// Starts the bearer; its number, or `None` where that was refused.
///
/// Not by a channel of std's: who waits for one registers a destructor, for which the C library
/// takes the loader's lock, and a constructor may wait for the caller with that.
fn bearer() -> Option<pid_t> {
    static STARTED: OnceLock<bool> = OnceLock::new();
    let start = || raw::start_kernel_thread("heddle-timers", STACK_BYTES, bear);
    if !STARTED.get_or_init(|| mask::with_all_blocked(start).is_ok()) {
        return None;
    }
    loop {
        match BEARER.load(Relaxed) {
            0 => _ = futex::wait(&BEARER, Flags::PRIVATE, 0, None),
            tid => return Some(tid as pid_t),
        }
    }
}

/// The bearer's number; 0 = it has not begun.
static BEARER: AtomicU32 = AtomicU32::new(0);

fn bear() {
    mask::block_all();
    BEARER.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Relaxed);
    // The kernel takes it for a signed number.
    let all = i32::MAX as u32;
    let _ = futex::wake(&BEARER, Flags::PRIVATE, all);
    loop {
        if let Some(info) = signals::wait(bit(BORNE)) {
            pass_on(&info);
        }
    }
}

/// Makes a timer for the full thread `thread`; an error number, or 0.
///
/// # Safety
/// 1. `event` is valid, `timer` a place.
unsafe fn create(clock: clockid_t, event: &sigevent, thread: pid_t, timer: *mut timer_t) -> c_int {
    if !(1..SIGNALS).contains(&event.sigev_signo)
        || crate::threads::with_number(thread as u32, |_| ()).is_none()
    {
        return libc::EINVAL;
    }
    let Some(tid) = bearer() else { return libc::EAGAIN };
    let _alone = alone();
    let Some(slot) = slot_of(FREE) else { return libc::EAGAIN };
    let mut borne = *event;
    borne.sigev_signo = BORNE;
    borne.sigev_notify_thread_id = tid;
    borne.sigev_value.sival_ptr = ptr::from_ref(slot).cast_mut().cast();
    slot.number.store(TAKEN, Relaxed);
    ARE_SOME.store(true, Relaxed);
    slot.thread.store(thread as u32, Relaxed);
    slot.signal.store(event.sigev_signo, Relaxed);
    slot.value.store(event.sigev_value.sival_ptr.addr() as u64, Relaxed);
    slot.state.store(0, Relaxed);
    // SAFETY: by 1; a timer expires after it was set, which its caller can't do before.
    let failed = errno::kept(|| unsafe { timer_create(clock, &mut borne, timer) } != 0);
    // SAFETY: by 1.
    let number = if failed { FREE } else { unsafe { (*timer).addr() as i32 } };
    // ORDER: Release pairs with the Acquire in `slot_of`.
    slot.number.store(number, Release);
    if failed { libc::EAGAIN } else { 0 }
}

/// Who has it changes whose a slot is, or passes on what that one's timer sends.
static CHANGING: Mutex<()> = Mutex::new(());

/// Nobody else has it, and the caller is not left, nor are its handlers run: who waits for it does
/// so for moments.
fn alone() -> (MutexGuard<'static, ()>, raw::Pin) {
    let pin = raw::pin();
    // Given back in this order.
    (CHANGING.lock().unwrap_or_else(PoisonError::into_inner), pin)
}

/// In a child: it has none of these timers.
///
/// # Safety
/// 1. The process has one thread, which is not in here.
pub unsafe fn in_child() {
    // SAFETY: by 1.
    unsafe { fork::renew(&CHANGING) };
    ARE_SOME.store(false, Relaxed);
    SLOTS.iter().for_each(|slot| slot.number.store(FREE, Relaxed));
}

// SAFETY: the C library's functions, by its headers.
unsafe extern "C" {
    fn timer_create(clock: clockid_t, event: *mut sigevent, timer: *mut timer_t) -> c_int;
    fn timer_delete(timer: timer_t) -> c_int;
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_timer_create(
    clock: clockid_t,
    event: *mut sigevent,
    timer: *mut timer_t,
) -> c_int {
    if cpu_clock::is_of_full(clock) {
        errno::set(libc::ENOTSUP);
        return -1;
    }
    // SAFETY: null or the caller's event.
    let wanted = unsafe { event.as_ref() }.filter(|event| {
        event.sigev_notify == libc::SIGEV_THREAD_ID && is_number(event.sigev_notify_thread_id)
    });
    let Some(wanted) = wanted else {
        // SAFETY: passed on.
        return unsafe { timer_create(clock, event, timer) };
    };
    // SAFETY: the caller's event and place.
    match unsafe { create(clock, wanted, wanted.sigev_notify_thread_id, timer) } {
        0 => 0,
        error => {
            errno::set(error);
            -1
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_timer_delete(timer: timer_t) -> c_int {
    let number = timer.cast::<c_void>().addr() as i32;
    // A number is given anew as soon as the timer is gone. A child of `vfork` has none of these.
    if number >= 0 && ARE_SOME.load(Relaxed) && !is_in_vfork() {
        let _alone = alone();
        if let Some(slot) = slot_of(number) {
            slot.thread.store(NOBODY, Relaxed);
            // ORDER: Release pairs with the Acquire in `slot_of`: what used the slot is done.
            slot.number.store(FREE, Release);
        }
    }
    // SAFETY: the caller's timer.
    unsafe { timer_delete(timer) }
}
