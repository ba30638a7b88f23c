//! Stacks: size classes, regions, pools, guards.
//!
//! A slot of the slab and a stack of one size class are married when they are made and stay so:
//! creating a thread pops a pair, ending it pushes the pair back. One region of address space per
//! class; its lowest page of each stack is a guard. Nothing is unmapped on the way.

pub(crate) mod executable;
mod low;
pub(crate) mod observer;
pub(crate) mod overflow;
pub(crate) mod owed;
pub(crate) mod peak;
mod pool;
mod region;

pub(crate) use pool::{
    Cache, KERNEL_CLASS, SLOTS_MADE, decay, forget_pools, give, give_all, slots_made, take,
};

pub(crate) use region::readable_bytes;

use crate::sys::libc_tls;

/// Bytes of a stack by size class, its guard page included.
pub(crate) const CLASS_BYTES: [usize; 6] =
    [16 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20];
/// Number of size classes.
pub(crate) const CLASSES: usize = CLASS_BYTES.len();
/// What a thread gets that asks for no size and has no history: address space, not memory.
pub(crate) const DEFAULT_BYTES: usize = 256 << 10;
/// Stack tops are moved by this many different cache lines, so that the tops of many stacks do
/// not fall into the same set of the first-level cache. More would cost a second page: the top
/// kilobyte of a stack is all that an idle connection of Ice leaves to the colours.
pub(crate) const COLOURS: u32 = 16;
pub(crate) const LINE: usize = 64;

/// The smallest class with at least `bytes`, guard page included; `None` above the largest.
pub(crate) fn class_for(bytes: usize) -> Option<u8> {
    CLASS_BYTES.iter().position(|&size| size >= bytes).map(|class| class as u8)
}

/// Where the stack of `slot` that starts at `stack` begins to be used (it grows down from here).
#[inline]
pub(crate) fn top_of(slot: u32, stack: *mut u8, class: u8) -> *mut u8 {
    let colour = (slot % COLOURS) as usize * LINE;
    // SAFETY: the colours are less than a page, the smallest class has four.
    unsafe { stack.add(CLASS_BYTES[class as usize] - colour) }
}

/// The thread pointer of a full thread with this stack: its block ends where a light thread's
/// stack would begin.
#[inline(always)]
pub(crate) fn tls_of(slot: u32, stack: *mut u8, class: u8) -> *mut u8 {
    libc_tls::pointer_below(top_of(slot, stack, class))
}
