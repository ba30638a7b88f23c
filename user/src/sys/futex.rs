//! The futex system call on words of this process: in the parking lot, for all threads alike.
//!
//! A word that other processes may wait for (no `FUTEX_PRIVATE_FLAG`), and the operations that
//! need the kernel (priority inheritance), stay with the kernel: so a program must use a word in
//! one of the two ways, as Linux asks of it too. A full thread waits there on its worker, and is
//! found there by signals.
//!
//! Who waits for several words at once (`futex_waitv`), or by the newer calls (`futex_wait`), does
//! so in the kernel, on its worker if it is a full thread, and is counted: as long as there are
//! such, a wake looks there, too. The newer wakes look in both places always.
//!
//! Invariants:
//! 1. What a call returns is what the kernel would have.
//! 2. The count is never too low. It stays too high where a wait was left by a jump, and in a child
//!    whose parent had some: that costs a system call for each wake.

use core::ffi::{c_int, c_long};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, fence};

use heddle::raw::{self, Ended, Manner, Moment};
use libc::timespec;

use super::{interruptible, own_memory};
use crate::errno;
use crate::sync::{self, passed_over};
use crate::threads::{self, Pthread, signals};

/// The newer calls, which few headers name.
pub const WAITV: c_long = 449;
pub const WAKE: c_long = 454;
pub const WAIT: c_long = 455;
pub const REQUEUE: c_long = 456;
/// Their flags for a word of 32 bits of this process.
const PRIVATE_WORD: u32 = 2 | libc::FUTEX_PRIVATE_FLAG as u32;

/// See the file's head.
static IN_KERNEL: AtomicU32 = AtomicU32::new(0);

/// The arguments of the system call.
pub struct Call {
    pub word: usize,
    pub operation: c_int,
    pub value: u32,
    /// A timeout, or for a requeue how many to move.
    pub timeout_or_count: usize,
    /// The second word.
    pub other: usize,
    /// A bit set, or a value to compare or to compute with.
    pub bits: u32,
}

type Result = core::result::Result<c_long, c_int>;

/// Makes the call; `None` when it is the kernel's.
pub fn call(call: &Call) -> Option<Result> {
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    let is_private = call.operation & libc::FUTEX_PRIVATE_FLAG != 0;
    if !crate::threads::fork::are_several() {
        return None;
    }
    let any = raw::ANY;
    let result = match call.operation & !flags {
        libc::FUTEX_WAIT if !is_private => call.wait_shared(any, false)?,
        libc::FUTEX_WAIT_BITSET if !is_private => call.wait_shared(call.bits, true)?,
        _ if !is_private => return None,
        libc::FUTEX_WAIT => call.wait(any, false),
        libc::FUTEX_WAIT_BITSET => call.wait(call.bits, true),
        libc::FUTEX_WAKE => call.wake(any),
        libc::FUTEX_WAKE_BITSET => call.wake(call.bits),
        libc::FUTEX_REQUEUE => call.requeue(None),
        libc::FUTEX_CMP_REQUEUE => call.requeue(Some(call.bits)),
        libc::FUTEX_WAKE_OP => call.wake_and_change(),
        _ => return None,
    };
    Some(result)
}

/// Makes a wait in the kernel that wakes are to find there.
pub fn waiting_in_kernel(wait: impl FnOnce() -> c_long) -> c_long {
    // ORDER: SeqCst: the count before the kernel looks at the words; pairs with `are_in_kernel`.
    IN_KERNEL.fetch_add(1, SeqCst);
    let result = wait();
    IN_KERNEL.fetch_sub(1, Relaxed);
    result
}

/// Whether somebody waits in the kernel for a word that was changed before.
fn are_in_kernel() -> bool {
    // ORDER: SeqCst: the caller's change before the look; pairs with `waiting_in_kernel`.
    fence(SeqCst);
    IN_KERNEL.load(Relaxed) != 0
}

/// `operation` of those who wait in the kernel; how many it has found. That it fails tells nothing
/// which the caller does not know.
fn in_kernel(
    word: *const AtomicU32,
    operation: c_int,
    most: u32,
    (more, other): (u32, *const AtomicU32),
    bits: u32,
) -> u32 {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the caller's words; the kernel says if they are none.
    let found = errno::kept(|| unsafe {
        libc::syscall(libc::SYS_futex, word, operation, most, u64::from(more), other, bits)
    });
    found.max(0) as u32
}

/// One of those that `futex_waitv` and `futex_requeue` take.
#[repr(C)]
#[derive(Clone, Copy)]
struct Waiter {
    value: u64,
    word: u64,
    flags: u32,
    reserved: u32,
}

/// One of the newer calls that wake; the kernel, whose answer `told` is, has looked for its own.
pub fn woken_in_kernel(number: c_long, [a, b, c, d, ..]: [usize; 6], told: c_long) -> c_long {
    let in_lot = match number {
        _ if told < 0 => return told,
        WAKE if d as u32 == PRIVATE_WORD => {
            let left = i64::from(c as c_int) - told;
            if left > 0 {
                word(a).map_or(0, |it| wake_in_lot(it, left as u32, b as u32))
            } else {
                0
            }
        }
        REQUEUE => match own_memory::read(a as *const [Waiter; 2]) {
            Ok([from, to]) => requeued_in_lot(from, to, (c as c_int, d as c_int), told),
            Err(_) => 0,
        },
        _ => 0,
    };
    told + c_long::from(in_lot)
}

fn requeued_in_lot(from: Waiter, to: Waiter, (wake, most): (c_int, c_int), told: c_long) -> u32 {
    let (Ok(first), Ok(second)) = (word(from.word as usize), word(to.word as usize)) else {
        return 0;
    };
    if from.flags != PRIVATE_WORD || to.flags != PRIVATE_WORD {
        return 0;
    }
    // Of what the kernel has found it woke as many as it was to.
    let woken = c_long::from(wake).min(told);
    let (wake, most) = (c_long::from(wake) - woken, c_long::from(most) - (told - woken));
    requeue_in_lot(first, None, second, wake as u32, most as u32).unwrap_or(0)
}

/// A word in memory, if the address can be one.
fn word(address: usize) -> core::result::Result<*const AtomicU32, c_int> {
    match address {
        0 => Err(libc::EFAULT),
        _ if !address.is_multiple_of(align_of::<AtomicU32>()) => Err(libc::EINVAL),
        _ => Ok(core::ptr::with_exposed_provenance(address)),
    }
}

/// Wakes at most `most` of those who wait for `word`, wherever; how many.
fn wake(word: *const AtomicU32, most: u32, bits: u32) -> u32 {
    let woken = wake_in_lot(word, most, bits);
    if woken >= most || !are_in_kernel() {
        return woken;
    }
    let none = (0, core::ptr::null());
    woken + in_kernel(word, libc::FUTEX_WAKE_BITSET, most - woken, none, bits)
}

/// As [`wake`], of those in the lot.
///
/// A signal handler may have come in the middle of the lot. Then it is done a moment later and the
/// number is not known; who is woken for nothing finds that out, as with the kernel's.
fn wake_in_lot(word: *const AtomicU32, most: u32, bits: u32) -> u32 {
    if !raw::is_pinned() {
        return raw::futex_wake(word, most, bits);
    }
    let action = if most == 1 { wake_so_many } else { wake_all };
    raw::when_unpinned(action, word.expose_provenance());
    0
}

fn wake_so_many(address: usize, times: u32) {
    raw::futex_wake(core::ptr::with_exposed_provenance(address), times, raw::ANY);
}

fn wake_all(address: usize, _times: u32) {
    wake_so_many(address, u32::MAX);
}

/// Wakes and moves of those in the lot; how many. `None`: the word is not as expected.
fn requeue_in_lot(
    from: *const AtomicU32,
    expected: Option<u32>,
    to: *const AtomicU32,
    wake: u32,
    most: u32,
) -> Option<u32> {
    if raw::is_pinned() {
        // They find their word as it is, and wait for it or for the other.
        return Some(wake_in_lot(from, u32::MAX, raw::ANY));
    }
    // SAFETY: the caller's word.
    let done = unsafe { raw::futex_requeue(from, expected, to, wake, most) }?;
    Some(done.woken + done.moved)
}

/// What the kernel returns of a wait that has ended so.
fn told(ended: Ended) -> Result {
    match ended {
        Ended::Woken => Ok(0),
        Ended::Changed => Err(libc::EAGAIN),
        Ended::TimedOut => Err(libc::ETIMEDOUT),
        Ended::Cancelled => Err(libc::EINTR),
    }
}

impl Call {
    /// When a wait ends by itself.
    fn moment(&self, is_absolute: bool) -> core::result::Result<Moment, c_int> {
        let timeout: *const timespec = core::ptr::with_exposed_provenance(self.timeout_or_count);
        // SAFETY: null or the caller's timeout.
        let Some(timeout) = (unsafe { timeout.as_ref() }) else { return Ok(Moment::Never) };
        if timeout.tv_sec < 0 || !(0..1_000_000_000).contains(&timeout.tv_nsec) {
            return Err(libc::EINVAL);
        }
        let seconds = timeout.tv_sec as u64;
        let ns = seconds.saturating_mul(1_000_000_000).saturating_add(timeout.tv_nsec as u64);
        Ok(match (is_absolute, self.operation & libc::FUTEX_CLOCK_REALTIME != 0) {
            (true, true) => Moment::Realtime(ns),
            (true, false) => Moment::Monotonic(ns),
            (false, _) => Moment::Monotonic(raw::now_ns().saturating_add(ns)),
        })
    }

    fn wait(&self, bits: u32, is_absolute: bool) -> Result {
        let (word, until) = (word(self.word)?, self.moment(is_absolute)?);
        if bits == 0 {
            return Err(libc::EINVAL);
        }
        let manner = Manner { bits, ..Manner::PLAIN };
        // SAFETY: the caller's word.
        let wait = || unsafe { sync::wait_called(word, self.value, until, manner, false) };
        let waits = threads::this().map(Pthread::waits);
        if let Some(waits) = waits {
            waits.begin(self.word);
        }
        let ended = errno::kept(|| match crate::me() {
            Some(_) => wait(),
            None => raw::interruptibly(wait),
        });
        if let Some(waits) = waits.filter(|_| ended != Ended::TimedOut) {
            waits.woken();
        }
        told(ended)
    }

    /// A wait for a word that another process may wake; `None` when it is the kernel's as it is.
    fn wait_shared(&self, bits: u32, is_absolute: bool) -> Option<Result> {
        if crate::me().is_none() || !signals::are_answered() {
            return None;
        }
        let until = match self.moment(is_absolute) {
            Ok(until) => until,
            Err(number) => return Some(Err(number)),
        };
        let word = core::ptr::with_exposed_provenance(self.word);
        loop {
            // It is no point of cancellation.
            let was_enabled = raw::set_cancellable(false);
            // SAFETY: the caller's word; the kernel says if it is none.
            let ended = unsafe { interruptible::futex_wait(word, self.value, bits, until) };
            raw::set_cancellable(was_enabled);
            match ended {
                Ok(Ended::Cancelled) if !errno::kept(signals::called).ends(until) => {}
                Ok(ended) => return Some(told(ended)),
                Err(number) => return Some(Err(number)),
            }
        }
    }

    /// How many to wake; the kernel wakes one when it is told none.
    fn most(&self) -> u32 {
        match self.value as i32 {
            most @ 1.. => most as u32,
            _ => 1,
        }
    }

    fn wake(&self, bits: u32) -> Result {
        if bits == 0 {
            return Err(libc::EINVAL);
        }
        let count = wake(word(self.word)?, self.most(), bits);
        if count != 0 {
            passed_over::give_way(self.word);
        }
        Ok(c_long::from(count))
    }

    fn requeue(&self, expected: Option<u32>) -> Result {
        let (from, to) = (word(self.word)?, word(self.other)?);
        let (wake, most) = (self.value as i32, self.timeout_or_count as i32);
        if wake < 0 || most < 0 {
            return Err(libc::EINVAL);
        }
        let (wake, most) = (wake as u32, most as u32);
        let Some(found) = requeue_in_lot(from, expected, to, wake, most) else {
            return Err(libc::EAGAIN);
        };
        let (left, operation) = (wake.saturating_sub(found), libc::FUTEX_REQUEUE);
        let moved = found.saturating_sub(wake);
        if moved >= most || !are_in_kernel() {
            return Ok(c_long::from(found));
        }
        let others = in_kernel(from, operation, left, (most - moved, to), 0);
        Ok(c_long::from(found) + c_long::from(others))
    }

    /// `FUTEX_WAKE_OP`: changes the second word, wakes waiters for the first, and if the second had
    /// a certain value before, waiters for it too.
    fn wake_and_change(&self) -> Result {
        let (first, second) = (word(self.word)?, word(self.other)?);
        let code = self.bits;
        let (operation, comparison) = (code >> 28 & 7, code >> 24 & 15);
        let mut argument = ((code as i32) << 8 >> 20) as u32;
        let expected = (code as i32) << 20 >> 20;
        if code >> 31 != 0 {
            argument = 1u32.wrapping_shl(argument);
        }
        // SAFETY: the caller's word.
        let target = unsafe { &*second };
        let change = |old: u32| match operation {
            0 => Some(argument),
            1 => Some(old.wrapping_add(argument)),
            2 => Some(old | argument),
            3 => Some(old & !argument),
            4 => Some(old ^ argument),
            _ => None,
        };
        let Ok(old) = target.fetch_update(SeqCst, Relaxed, change) else {
            return Err(libc::ENOSYS);
        };
        let old = old as i32;
        let holds = match comparison {
            0 => old == expected,
            1 => old != expected,
            2 => old < expected,
            3 => old <= expected,
            4 => old > expected,
            5 => old >= expected,
            _ => return Err(libc::ENOSYS),
        };
        let mut woken = wake(first, self.most(), raw::ANY);
        if holds {
            let most = (self.timeout_or_count as i32).max(1) as u32;
            woken += wake(second, most, raw::ANY);
        }
        Ok(c_long::from(woken))
    }
}
