//! The futex system call on words of this process: in the parking lot, for all threads alike.
//!
//! A word that other processes may wait for (no `FUTEX_PRIVATE_FLAG`), and the operations that
//! need the kernel (priority inheritance), stay with the kernel: so a program must use a word in
//! one of the two ways, as Linux asks of it too. A full thread waits there on its worker, and is
//! found there by signals.
//!
//! Invariant: what a call returns is what the kernel would have.

use core::ffi::{c_int, c_long};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use heddle::raw::{self, Ended, Manner, Moment};
use libc::timespec;

use super::interruptible;
use crate::threads::signals;
use crate::{errno, sync};

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

/// A word in memory, if the address can be one.
fn word(address: usize) -> core::result::Result<*const AtomicU32, c_int> {
    match address {
        0 => Err(libc::EFAULT),
        _ if !address.is_multiple_of(align_of::<AtomicU32>()) => Err(libc::EINVAL),
        _ => Ok(core::ptr::with_exposed_provenance(address)),
    }
}

/// Wakes at most `most` of those who wait for `word`; how many.
///
/// A signal handler may have come in the middle of the lot. Then it is done a moment later and the
/// number is not known; who is woken for nothing finds that out, as with the kernel's.
fn wake(word: *const AtomicU32, most: u32, bits: u32) -> u32 {
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
        let ended =
            errno::kept(|| unsafe { sync::wait_called(word, self.value, until, manner, false) });
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
        Ok(c_long::from(wake(word(self.word)?, self.most(), bits)))
    }

    fn requeue(&self, expected: Option<u32>) -> Result {
        let (from, to) = (word(self.word)?, word(self.other)?);
        let (wake, most) = (self.value as i32, self.timeout_or_count as i32);
        if wake < 0 || most < 0 {
            return Err(libc::EINVAL);
        }
        if raw::is_pinned() {
            // They find their word as it is, and wait for it or for the other.
            return Ok(c_long::from(self::wake(from, u32::MAX, raw::ANY)));
        }
        // SAFETY: the caller's word.
        match unsafe { raw::futex_requeue(from, expected, to, wake as u32, most as u32) } {
            None => Err(libc::EAGAIN),
            Some(done) => Ok(c_long::from(done.woken) + c_long::from(done.moved)),
        }
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
