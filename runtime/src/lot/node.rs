//! The wait nodes of the parking lot: for each slot the address that its thread waits for.
//!
//! A table beside the control blocks, at the same index: these words don't fit into a control
//! block of two cache lines, and most threads never need them. It comes in chunks that are mapped
//! when the first thread of a chunk's slots waits, never on the heap: an allocator may wait for an
//! address itself.
//!
//! Invariant: a chunk, once there, stays; a node is written and read under the lock of the bucket
//! that its thread is linked in, or is about to be.

use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::control::SLOTS_MAX;
use crate::model::Cell;
use crate::raw_lock::RawLock;
use crate::sys::memory;

/// Nodes that are mapped at once: 128 KiB.
pub(crate) const CHUNK: usize = 4096;

/// See the file's head. All zero bytes are a node of nobody.
pub(crate) struct Node {
    /// What the thread waits for.
    pub address: Cell<usize>,
    /// Which wakes it wants; 0 = none (no wait has it).
    pub bits: Cell<u32>,
    /// See `Manner::what`.
    pub what: Cell<u32>,
    /// See `Manner::then`.
    pub then: Cell<usize>,
    /// Waits that have begun here: tells one from the next.
    pub waits: Cell<u32>,
    /// Whether this one ends by itself.
    pub has_deadline: Cell<bool>,
}

pub(crate) static CHUNKS: [AtomicPtr<Node>; SLOTS_MAX as usize / CHUNK] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS_MAX as usize / CHUNK];

// SAFETY: the invariant of the file's head: a lock orders all accesses.
unsafe impl Sync for Node {}

/// The node of the thread in `slot`; `None` when there is no memory for it.
#[inline]
pub(crate) fn of(slot: u32) -> Option<&'static Node> {
    let chunk = &CHUNKS[slot as usize / CHUNK];
    // ORDER: pairs with the Release in `make`.
    let mut start = chunk.load(Acquire);
    if start.is_null() {
        start = make(chunk)?;
    }
    // SAFETY: a chunk of `CHUNK` nodes that is never unmapped.
    Some(unsafe { &*start.add(slot as usize % CHUNK) })
}

/// The node of a thread that is linked in a bucket.
#[inline]
pub(crate) fn of_waiter(slot: u32) -> &'static Node {
    let start = CHUNKS[slot as usize / CHUNK].load(Acquire);
    debug_assert!(!start.is_null());
    // SAFETY: the thread asked for its node before it was linked, so the chunk is there.
    unsafe { &*start.add(slot as usize % CHUNK) }
}

/// Held while a chunk is made.
static MAKING: RawLock = RawLock::new();

/// In a forked child: nobody makes a chunk.
pub(super) fn forget_maker() {
    MAKING.forget_holder();
}

/// Maps a chunk.
#[cold]
fn make(chunk: &AtomicPtr<Node>) -> Option<*mut Node> {
    let _one = MAKING.lock();
    let made = chunk.load(Acquire);
    if !made.is_null() {
        return Some(made);
    }
    let bytes = CHUNK * size_of::<Node>();
    let start = memory::reserve(bytes).ok()?;
    // SAFETY: the whole of a reservation, in whole pages.
    unsafe { memory::commit(start, bytes) }.ok()?;
    // ORDER: Release, so that who sees the chunk may use it.
    chunk.store(start.cast(), Release);
    Some(start.cast())
}
