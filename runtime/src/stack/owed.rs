//! Measurements that are owed: threads of one kind may use a stack one after the other, and it is
//! measured once for all of them, so that short threads cost nothing more.
//!
//! What is asked of a layer that keeps an account is how deep threads of a kind went, at most. So a
//! stack that such a thread has left stays as it is, with the number of its kind. The next thread
//! of that kind takes it like that. Before one of another kind begins, before its memory goes back,
//! and at the end of the process, it is measured for the kind that used it, to the word, and wiped.
//!
//! Invariant: what is not zero in a stack with a number was written by threads of that kind since
//! it was wiped; in one without, nothing was. [`UNKNOWN`] stands for what nobody keeps account of.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicPtr, AtomicU16};

use super::{observer, peak};
use crate::control::{Control, SLOTS_MAX};
use crate::sys::memory::{self, PAGE};

/// Used by a thread of no kind.
const UNKNOWN: u16 = u16::MAX;
/// Slots whose numbers come at once.
const CHUNK: usize = 1 << 13;
/// A deeper stack gives its memory back when it is wiped.
const KEPT_BYTES: usize = 16 << 10;

type Chunk = [AtomicU16; CHUNK];

/// By slot; a chunk is made when the first thread with a kind needs it.
static CHUNKS: [AtomicPtr<Chunk>; SLOTS_MAX as usize / CHUNK] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS_MAX as usize / CHUNK];

fn place(slot: u32) -> Option<&'static AtomicU16> {
    let (chunk, index) = (slot as usize / CHUNK, slot as usize % CHUNK);
    // ORDER: Acquire pairs with the exchange in `make`.
    let chunk = CHUNKS.get(chunk)?.load(Acquire);
    // SAFETY: null, or a chunk that stays.
    unsafe { chunk.as_ref() }.map(|chunk| &chunk[index])
}

/// What slots have that were not used since there is an account: nothing was used before it, or it
/// is not known.
static FIRST: AtomicU16 = AtomicU16::new(0);

/// The account begins.
pub(crate) fn begin() {
    FIRST.store(if super::slots_made() == 0 { 0 } else { UNKNOWN }, Relaxed);
}

#[cold]
fn make(slot: u32) -> Option<&'static AtomicU16> {
    let first = FIRST.load(Relaxed);
    let made = Box::into_raw(Box::new([const { AtomicU16::new(0) }; CHUNK]));
    // SAFETY: made above, and seen by nobody.
    unsafe { (*made).iter().for_each(|place| place.store(first, Relaxed)) };
    let chunk = &CHUNKS[slot as usize / CHUNK];
    // ORDER: AcqRel publishes the numbers.
    if chunk.compare_exchange(ptr::null_mut(), made, AcqRel, Acquire).is_err() {
        // SAFETY: nobody has seen it.
        drop(unsafe { Box::from_raw(made) });
    }
    place(slot)
}

/// Whether a thread of this kind can have the stack as it is.
#[inline]
pub(crate) fn fits(slot: u32, kind: u16) -> bool {
    let before = place(slot).map_or(UNKNOWN, |place| place.load(Relaxed));
    before == kind || before == 0
}

/// A new thread of this kind gets the stack; `clean`: whatever kind has used it before.
#[inline]
pub(crate) fn take(thread: &'static Control, kind: u16, clean: bool) {
    let Some(place) = place(thread.slot()).or_else(|| make(thread.slot())) else { return };
    let before = place.load(Relaxed);
    if before != kind || clean {
        begin_anew(thread, place, kind);
    }
}

#[cold]
#[inline(never)]
fn begin_anew(thread: &'static Control, place: &AtomicU16, kind: u16) {
    match place.load(Relaxed) {
        0 => {}
        UNKNOWN => wipe(thread, thread.stack.get() as usize),
        before => match peak::of_pooled(thread) {
            Some(peak) => {
                observer::measured(before, peak);
                wipe(thread, thread.stack_top() as usize - peak);
            }
            None => wipe(thread, thread.stack.get() as usize),
        },
    }
    place.store(kind, Relaxed);
}

/// Makes `[lowest, top)` of a stack zero that nobody uses.
fn wipe(thread: &'static Control, lowest: usize) {
    let (low, top) = (thread.stack.get().wrapping_add(PAGE), thread.stack_top());
    let lowest = lowest.max(low as usize);
    let mut used = top as usize - lowest;
    if used > KEPT_BYTES {
        // The top's own page stays: a block of thread-local storage may be in it.
        let below = (top as usize - low as usize) / PAGE * PAGE;
        // SAFETY: the stack is this new thread's, nothing is on it yet; the guard page stays out.
        unsafe { memory::discard(low, below) };
        used = top as usize - low as usize - below;
    }
    // SAFETY: as above.
    unsafe { top.wrapping_sub(used).write_bytes(0, used) };
}

/// A thread without a kind gets the stack.
#[inline]
pub(crate) fn take_unknown(slot: u32) {
    if observer::is_there()
        && let Some(place) = place(slot).or_else(|| make(slot))
    {
        place.store(UNKNOWN, Relaxed);
    }
}

/// The kind that uses a stack, 0 = none; exact as long as the caller has the slot.
#[inline]
pub(crate) fn kind_of(slot: u32) -> u16 {
    let kind = place(slot).map_or(0, |place| place.load(Relaxed));
    if kind == UNKNOWN { 0 } else { kind }
}

/// The thread in `slot` is of this kind from now on, and so is what it did to its stack.
pub(crate) fn change(slot: u32, kind: u16) {
    if let Some(place) = place(slot) {
        place.store(kind, Relaxed);
    }
}

/// Measures a pooled stack if that is owed. The caller has the slot, or looks while nobody waits
/// for the result: a stack that is taken meanwhile is not counted.
pub(crate) fn tell(thread: &'static Control) {
    let kind = kind_of(thread.slot());
    if kind != 0
        && let Some(peak) = peak::of_pooled(thread)
        && kind_of(thread.slot()) == kind
    {
        observer::measured(kind, peak);
    }
}

/// The memory of a pooled stack is about to go back, for good of what was on it.
pub(crate) fn settle(thread: &'static Control) {
    tell(thread);
    if let Some(place) = place(thread.slot()) {
        place.store(0, Relaxed);
    }
}
