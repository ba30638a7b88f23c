//! The table of the wait nodes (`node.rs`), beside the control blocks, at the same index.
//!
//! It comes in chunks that are mapped when the first thread of a chunk's slots waits, never on the
//! heap: an allocator may wait for an address itself.
//!
//! Invariant: a chunk, once there, stays.

use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};

use super::node::Node;
use crate::control::SLOTS_MAX;
use crate::raw_lock::RawLock;
use crate::sys::memory;

/// Nodes that are mapped at once: 160 KiB.
pub(crate) const CHUNK: usize = 4096;

pub(crate) static CHUNKS: [AtomicPtr<Node>; SLOTS_MAX as usize / CHUNK] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS_MAX as usize / CHUNK];

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
