//! Peak stack use, and the sizes that are learned from it per role.
//!
//! A stack's peak is found from its pages: the lowest page that was ever touched, and in it the
//! first word that is not zero. That is exact to the word when the stack was clean at the start,
//! so threads that are measured get a stack whose pages were given back first. Only some threads
//! of a role are measured: the first few, then one in 64. Threads of which a layer above keeps
//! account get a stack that none of another kind has used since it was wiped (`owed.rs`).

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use heddle_record::Zone;

use super::{CLASS_BYTES, CLASSES, observer, owed};
use crate::control::{self, Control, HIBERNATED, MEASURED};
use crate::sys::memory::{self, PAGE};
use crate::sys::pages;
use crate::{cpu, full};

/// Threads of a role that are measured before its sizes are trusted.
const MEASURED_FIRST: u32 = 8;
/// After that one thread in this many is.
const MEASURED_THEN: u32 = 64;
/// The learned size: one and a half peaks, and this much for what was not seen yet.
const RESERVE_BYTES: usize = 40 << 10;
/// No stack is tuned below this.
const TUNED_BYTES_MIN: usize = 64 << 10;

/// Peak and number of measured threads, by role.
struct Role {
    started: AtomicU32,
    measured: AtomicU32,
    peak_bytes: AtomicU32,
}

static ROLES: [Role; 1 << 12] = [const {
    Role { started: AtomicU32::new(0), measured: AtomicU32::new(0), peak_bytes: AtomicU32::new(0) }
}; 1 << 12];

fn role(number: u16) -> Option<&'static Role> {
    if number == 0 { None } else { ROLES.get(number as usize) }
}

/// The size that history asks for, with `extra` bytes that are not the thread's to use; `None`
/// without enough of it.
pub(crate) fn learned_bytes(number: u16, extra: usize) -> Option<usize> {
    let role = role(number)?;
    if role.measured.load(Relaxed) < MEASURED_FIRST {
        return None;
    }
    let peak = role.peak_bytes.load(Relaxed) as usize;
    let bytes = (peak + peak / 2 + RESERVE_BYTES + extra).max(TUNED_BYTES_MIN);
    // History never asks for more than the largest class.
    Some(bytes.min(CLASS_BYTES[CLASSES - 1]))
}

/// Decides whether `thread`, which is being made, is measured; cleans its stack if so.
#[inline]
pub(crate) fn begin(thread: &'static Control, number: u16) {
    if number != 0 {
        begin_role(thread, number);
    }
}

fn begin_role(thread: &'static Control, number: u16) {
    let Some(role) = role(number) else { return };
    let started = role.started.fetch_add(1, Relaxed);
    if started >= MEASURED_FIRST * 2 && !started.is_multiple_of(MEASURED_THEN) {
        return;
    }
    clean(thread);
}

/// Makes `thread`, which has a clean stack, one that is measured at its end.
pub(crate) fn choose(thread: &'static Control) {
    thread.flags.set(thread.flags.get() | MEASURED);
}

fn clean(thread: &'static Control) {
    // The top's own page stays: a block of thread-local storage may be in it.
    let low = thread.stack.get().wrapping_add(PAGE);
    let used = thread.stack_top() as usize - low as usize;
    let below = used / PAGE * PAGE;
    // SAFETY: the stack is this new thread's, nothing is on it yet; the guard page stays out.
    unsafe {
        memory::discard(low, below);
        low.add(below).write_bytes(0, used - below);
    }
    choose(thread);
}

/// Measures a thread that ends, if it was chosen; called after it left its stack.
#[inline]
pub(crate) fn finish(thread: &'static Control) {
    if thread.flags.get() & MEASURED != 0 {
        finish_measured(thread);
    }
}

#[inline(never)]
fn finish_measured(thread: &'static Control) {
    let Some(peak) = of(thread) else { return };
    let Some(fields) = thread.record().read() else { return };
    if let Some(role) = role(fields.role) {
        role.peak_bytes.fetch_max(peak as u32, Relaxed);
        role.measured.fetch_add(1, Relaxed);
    }
    let kind = owed::kind_of(thread.slot());
    if kind != 0 {
        observer::measured(kind, peak);
    }
}

/// Tells the observer what stacks were used for of which that was not told yet, those of threads
/// that live among them, and what CPU time living threads have used. It may be called while they
/// run.
pub(crate) fn tell_living() {
    let (me, own_cpu_ns) = (full::me(), cpu::own_ns());
    for slot in 0..super::slots_made() {
        // SAFETY: below the number of slots made.
        let thread = unsafe { control::at(slot) };
        let Some(fields) = thread.record().read() else { continue };
        owed::tell(thread);
        if fields.kind != heddle_record::Kind::Full {
            continue;
        }
        let is_own = me.is_some_and(|me| core::ptr::eq(me, thread));
        observer::lives(thread, if is_own { own_cpu_ns } else { fields.cpu_ns });
    }
}

/// The deepest use of the thread's stack in bytes; also written to its record.
pub(crate) fn of(thread: &'static Control) -> Option<usize> {
    if !thread.kind.get().is_user_level() || thread.flags.get() & HIBERNATED != 0 {
        return None;
    }
    let peak = of_pooled(thread)?;
    let record = thread.record();
    record.set_stack_peak(peak as u32);
    record.set_zone(zone(peak, thread.stack_usable()));
    Some(peak)
}

/// As [`of`], whoever has the slot: its record is left alone.
pub(crate) fn of_pooled(thread: &'static Control) -> Option<usize> {
    let stack = thread.stack.get();
    if stack.is_null() {
        return None;
    }
    let (top, low) = (thread.stack_top() as usize, stack.wrapping_add(PAGE));
    let bytes = (top - low as usize).next_multiple_of(PAGE);
    // SAFETY: the stack of a slot that was made is committed memory, whoever uses it.
    let lowest = unsafe { pages::lowest_used(low, bytes) }?;
    Some(top.saturating_sub(lowest))
}

/// TEK's zones (section IV-B): below a quarter is Low, from three quarters on High.
fn zone(peak: usize, usable: usize) -> Zone {
    if peak * 4 < usable {
        Zone::Low
    } else if peak * 4 >= usable * 3 {
        Zone::High
    } else {
        Zone::Normal
    }
}
