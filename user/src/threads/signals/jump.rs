//! `sigsetjmp` and `siglongjmp` of full threads: the mask that they keep is the thread's own.
//!
//! The C library's functions do the rest, as for any thread. They keep the kernel's mask, which is
//! every worker's and does no harm; the thread's lies behind it in the same buffer, in the last two
//! words of the set, of which the kernel uses the first and the C library the next three.
//!
//! Invariant: only a buffer that was given a mask is written to; the C library uses shorter ones,
//! without one.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::ptr;

use heddle::raw;

use super::{entered, process, stray};
use crate::calls::{mask, shells};
use crate::threads::cleanup::stack_pointer;
use crate::threads::{is_running, this};

/// `struct __jmp_buf_tag`.
#[repr(C)]
pub struct Buffer {
    registers: [usize; 8],
    mask_was_saved: c_int,
    mask: u64,
    unused: [u64; 13],
    /// What says that `own_mask` is one: differs between buffers.
    mark: u64,
    own_mask: u64,
}

const _: () = assert!(size_of::<Buffer>() == 200);

const MARK: u64 = 0x6865_6464_6c65_6a62;

impl Buffer {
    fn own_mark(&self) -> u64 {
        MARK ^ ptr::from_ref(self).addr() as u64
    }
}

/// Before the C library's `sigsetjmp` of a full thread.
///
/// # Safety
/// 1. `buffer` is one, with a mask if `savemask` is not zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_before_sigsetjmp(buffer: *mut Buffer, savemask: c_int) {
    if savemask == 0 {
        return;
    }
    // SAFETY: by 1.
    let buffer = unsafe { &mut *buffer };
    buffer.own_mask = mask::own();
    buffer.mark = buffer.own_mark();
}

/// Before a jump: shells of calls that it leaves are ended, and the thread gets the mask that the
/// buffer has, and what it lets through. A kernel thread gets it from the C library.
///
/// # Safety
/// 1. `sigsetjmp` or `setjmp` has filled the buffer.
unsafe fn restore(buffer: *mut Buffer) {
    // SAFETY: by 1; a short one has these, too.
    let target = stack_pointer(unsafe { &(*buffer).registers });
    raw::jumped(target);
    if let Some(me) = this() {
        shells::leave_below(me, target);
    } else {
        stray::jumped();
    }
    // SAFETY: by 1; of a short one no more than this is read.
    if unsafe { (*buffer).mask_was_saved } == 0 {
        if !is_running() {
            entered::jumped();
        }
        return;
    }
    // SAFETY: by 1.
    let buffer = unsafe { &mut *buffer };
    let is_own = buffer.mark == buffer.own_mark();
    if is_running() && this().is_some() {
        if is_own {
            mask::set_own(buffer.own_mask);
        }
        return;
    }
    if is_own {
        // A child that a full thread has forked: it is a kernel thread by now.
        buffer.mask = buffer.own_mask;
    }
    // The C library sets it without a word to anybody.
    process::masked(buffer.mask);
}

// SAFETY: the C library's functions, by its headers.
unsafe extern "C-unwind" {
    fn siglongjmp(buffer: *mut Buffer, value: c_int) -> !;
    fn __longjmp_chk(buffer: *mut Buffer, value: c_int) -> !;
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_siglongjmp(buffer: *mut Buffer, value: c_int) -> ! {
    // SAFETY: the caller's buffer.
    unsafe {
        restore(buffer);
        siglongjmp(buffer, value)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_longjmp(buffer: *mut Buffer, value: c_int) -> ! {
    // SAFETY: passed on.
    unsafe { heddle_user_siglongjmp(buffer, value) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user__longjmp(buffer: *mut Buffer, value: c_int) -> ! {
    // SAFETY: passed on.
    unsafe { heddle_user_siglongjmp(buffer, value) }
}

/// The C library looks whether the jump goes up the stack, and asks the kernel about alternate
/// ones; of those of full threads only this library knows.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user___longjmp_chk(buffer: *mut Buffer, value: c_int) -> ! {
    let here = 0_u8;
    let is_on_alternate =
        this().is_some_and(|me| me.signals.alternate.has((&raw const here).addr()));
    // SAFETY: the caller's buffer.
    unsafe {
        restore(buffer);
        if is_on_alternate {
            siglongjmp(buffer, value)
        }
        __longjmp_chk(buffer, value)
    }
}
