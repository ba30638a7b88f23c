//! The region of a size class: one reservation, committed and guarded upwards in steps.
//!
//! Stacks that lie below 4 GiB (`low.rs`) are counted here, too, and made elsewhere.
//!
//! Invariant: the first `made` are committed; they and the `low` ones have their lowest pages
//! guarded.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;
use std::io;

use super::{CLASS_BYTES, low};
use crate::control::SLOTS_MAX;
use crate::error::exhausted;
use crate::sys::memory::{self, GuardKind, PAGE};

/// Address space that a class tries to reserve where there is no limit; halved until the kernel
/// agrees.
const REGION_BYTES_MAX: usize = 256 << 30;
/// Below this a reservation is not worth having.
const REGION_BYTES_MIN: usize = 1 << 20;

/// Stacks from this size on are this much further apart than they are long: the tops of many would
/// otherwise lie at one place in their page tables each, and so the entries for them in few sets of
/// the processor's caches. A thousand threads of 8 MiB, created and joined: 1.24 us each, not 1.34.
const APART_FROM_BYTES: usize = 1 << 20;
const APART_BYTES: usize = 8 * PAGE;

/// From one stack of `class` to the next.
pub(super) const fn stride(class: usize) -> usize {
    let size = CLASS_BYTES[class];
    if size < APART_FROM_BYTES { size } else { size + APART_BYTES }
}

/// Bytes from the lowest usable address of a stack on that can be read and are no other stack's: as
/// many as the class says where stacks are apart.
pub(crate) const fn readable_bytes(class: usize) -> usize {
    let (own, apart) = (CLASS_BYTES[class], stride(class) - CLASS_BYTES[class]);
    if apart < PAGE { own - PAGE } else { own }
}

/// Which guards are in force: 0 unknown, 1 markers, 2 mappings.
static GUARDS: AtomicU8 = AtomicU8::new(0);

/// The kind of guards that stacks have got so far; `None` before the first stack.
pub(super) fn guard_kind() -> Option<GuardKind> {
    match GUARDS.load(Relaxed) {
        1 => Some(GuardKind::Marker),
        2 => Some(GuardKind::Mapping),
        _ => None,
    }
}

/// See the file's head. The pool that owns it holds its lock around every call.
pub(super) struct Region {
    base: Cell<*mut u8>,
    capacity: Cell<usize>,
    made: Cell<usize>,
    low: Cell<usize>,
}

impl Region {
    pub const fn new() -> Self {
        let (base, none) = (Cell::new(ptr::null_mut()), [const { Cell::new(0) }; 3]);
        let [capacity, made, low] = none;
        Region { base, capacity, made, low }
    }

    /// Stacks that can still be made; plenty where none is reserved for.
    pub fn room(&self) -> usize {
        if self.base.get().is_null() { usize::MAX } else { self.capacity.get() - self.made.get() }
    }

    /// Stacks made so far.
    pub fn made(&self) -> usize {
        self.made.get() + self.low.get()
    }

    /// As [`Region::grow`], below 4 GiB, if there is room, and without a reservation.
    pub fn grow_low(&self, class: usize, count: usize) -> io::Result<Option<*mut u8>> {
        limit_mappings(self.made() + count)?;
        let Some(first) = low::take(class, count) else { return Ok(None) };
        if let Err(error) = self.guard(first, class, count) {
            // SAFETY: just made, and nobody has it.
            unsafe { memory::close(first, count * stride(class)) };
            return Err(error);
        }
        self.low.set(self.low.get() + count);
        Ok(Some(first))
    }

    /// Makes `count` more stacks of `class`, for which there is a reservation; returns the lowest
    /// address of the first.
    pub fn grow(&self, class: usize, count: usize) -> io::Result<*mut u8> {
        let size = stride(class);
        let made = self.made.get();
        if made + count > self.capacity.get() {
            let most = memory::address_space_max();
            return Err(exhausted("stack address space (RLIMIT_AS)", most));
        }
        limit_mappings(self.made() + count)?;
        // SAFETY: below the capacity, so inside the reservation.
        let first = unsafe { self.base.get().add(made * size) };
        // SAFETY: inside the reservation, page-aligned as every class is.
        unsafe { memory::commit(first, count * size) }.map_err(|_| {
            exhausted("stack memory (RLIMIT_DATA, vm.overcommit_memory)", (made * size) as u64)
        })?;
        self.guard(first, class, count)?;
        self.made.set(made + count);
        Ok(first)
    }

    /// Guards `count` new stacks of `class` from `first` on, which are there.
    fn guard(&self, first: *mut u8, class: usize, count: usize) -> io::Result<()> {
        let pages: Vec<_> = (0..count).map(|i| first.wrapping_add(i * stride(class))).collect();
        // SAFETY: so they are; the lowest page of a stack is never used.
        let kind = unsafe { memory::install_guards(&pages) }.map_err(|_| {
            exhausted("mappings for stack guards (vm.max_map_count)", self.made() as u64 * 2)
        })?;
        GUARDS.store(if kind == GuardKind::Marker { 1 } else { 2 }, Relaxed);
        Ok(())
    }

    /// Reserves for stacks of `class`, if nothing is reserved yet.
    pub fn reserve(&self, class: usize) -> io::Result<()> {
        if !self.base.get().is_null() {
            return Ok(());
        }
        let size = stride(class);
        let part = memory::address_space_part().map_or(REGION_BYTES_MAX, |part| part.max(size));
        let mut bytes = REGION_BYTES_MAX.min(SLOTS_MAX as usize * size).min(part);
        loop {
            match memory::reserve(bytes) {
                Ok(base) => {
                    self.base.set(base);
                    self.capacity.set(bytes / size);
                    return Ok(());
                }
                Err(_) if bytes / 2 >= REGION_BYTES_MIN.max(size) => bytes /= 2,
                Err(_) => {
                    let most = memory::address_space_max();
                    return Err(exhausted("stack address space (RLIMIT_AS)", most));
                }
            }
        }
    }
}

/// With guards by mapping, refuses before the process has no mapping left for anything else.
fn limit_mappings(stacks: usize) -> io::Result<()> {
    if guard_kind() != Some(GuardKind::Mapping) {
        return Ok(());
    }
    let most = memory::mappings_max();
    // Two mappings a stack; a quarter is left to the program.
    if stacks * 2 > most / 4 * 3 {
        return Err(exhausted("mappings for stack guards (vm.max_map_count)", most as u64));
    }
    Ok(())
}

const _: () = assert!(CLASS_BYTES[0].is_multiple_of(PAGE));
