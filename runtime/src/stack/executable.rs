//! Stacks from which code may run, for programs and libraries that ask for it (`PT_GNU_STACK`): a
//! function within another one, whose address is taken, is called through instructions on the stack
//! (trampolines: Ada, Fortran, GNU C). The C library gives its threads such stacks then.
//!
//! It is looked when the runtime starts, and at the first `dlsym` after a library was loaded: so a
//! constructor of one that is the first to ask has none yet. An object that says neither (no linker
//! of today makes one) asks for none.
//!
//! Invariant: once one has asked all stacks are so, those that are made later included.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::ffi::{c_int, c_void};
use std::{io, slice};

use super::{CLASS_BYTES, CLASSES, pool, region};
use crate::control;
use crate::full::answering_at_locks;
use crate::sys::memory::{self, GuardKind, PAGE};

static ARE_EXECUTABLE: AtomicBool = AtomicBool::new(false);

/// Whether stacks are made so.
pub(super) fn are() -> bool {
    ARE_EXECUTABLE.load(Relaxed)
}

/// Makes all stacks so, if somebody asks for it now who has not before.
pub(crate) fn look() {
    if are() || !is_asked_for() {
        return;
    }
    pool::with_all_made(|made| {
        for slot in 0..made {
            // SAFETY: below the number of slots made.
            let control = unsafe { control::at(slot) };
            let class = control.class.get() as usize;
            if class < CLASSES {
                // SAFETY: the stack of this slot.
                unsafe { let_execute_above_guard(control.stack.get(), class) };
            }
        }
        ARE_EXECUTABLE.store(true, Relaxed);
    });
}

/// Lets code run from a stack of `class`. Where it is refused, code that runs there is a fault.
///
/// # Safety
/// 1. It was made.
unsafe fn let_execute_above_guard(stack: *mut u8, class: usize) {
    // SAFETY: by 1, and a stack is more than its guard.
    unsafe { memory::let_execute(stack.add(PAGE), CLASS_BYTES[class] - PAGE) };
}

/// As above, from `count` stacks of `class` from `first` on: in one mapping, where that may be.
///
/// # Safety
/// 1. They were just made, and guarded.
pub(super) unsafe fn let_execute(first: *mut u8, class: usize, count: usize) {
    let stride = region::stride(class);
    // SAFETY: by 1. Guards that are markers stay; those that are mappings are left out.
    unsafe {
        match region::guard_kind() {
            Some(GuardKind::Marker) => memory::let_execute(first, count * stride),
            _ => (0..count)
                .for_each(|index| let_execute_above_guard(first.add(index * stride), class)),
        }
    }
}

/// Takes back a guard within a stack, as [`memory::remove_guard`] does.
///
/// # Safety
/// As there.
pub(crate) unsafe fn remove_guard(page: *mut u8) -> io::Result<()> {
    // SAFETY: passed on; the page is one of a stack.
    unsafe {
        memory::remove_guard(page)?;
        if are() {
            memory::let_execute(page, PAGE);
        }
    }
    Ok(())
}

fn is_asked_for() -> bool {
    /// # Safety
    /// 1. Called by `dl_iterate_phdr` with a `bool`.
    unsafe extern "C" fn see(info: *mut libc::dl_phdr_info, _: usize, asked: *mut c_void) -> c_int {
        // SAFETY: by 1.
        if unsafe { (*info).dlpi_phdr.is_null() } {
            return 0;
        }
        // SAFETY: by 1; the object's program headers.
        let headers =
            unsafe { slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum.into()) };
        let asks = |header: &libc::Elf64_Phdr| {
            header.p_type == libc::PT_GNU_STACK && header.p_flags & libc::PF_X != 0
        };
        let is_asked = headers.iter().any(asks);
        if is_asked {
            // SAFETY: by 1.
            unsafe { asked.cast::<bool>().write(true) };
        }
        is_asked.into()
    }
    let mut is_asked = false;
    // SAFETY: the callback gets what it expects.
    answering_at_locks(|| unsafe { libc::dl_iterate_phdr(Some(see), (&raw mut is_asked).cast()) });
    is_asked
}
