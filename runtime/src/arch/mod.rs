//! The stack switch, per processor: the only place with inline assembly.
//!
//! Every file here offers the same operations on a [`Context`]: [`switch`] saves the caller and
//! resumes another context, [`Context::entry`] makes one that starts a thread, [`relax`] is the
//! spin-wait hint. Only the stack pointer, the resume address, the frame pointer and the one
//! register that the compiler reserves for itself are kept in the control block; every other
//! register is declared clobbered, so that the compiler saves just what is live at the switch
//! (CoThreads' observation, applied at the call site).
//!
//! The thread pointer is switched only where a full thread is on either side
//! ([`switch_with_tls`]): light threads use their worker's thread-local storage.
//!
//! **Floating-point control** (MXCSR, x87 control word; FPCR and FPSR) is a full thread's own, with
//! the exceptions that it has raised (of the x87 not these): it keeps it where it leaves, and sets
//! it where it goes on if who left had another. A new one has its maker's. Light threads have their
//! worker's: one that changes rounding or exception masks has to put them back before it calls
//! anything that may block.

use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Acquire;

use crate::model::Cell;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(all(test, target_arch = "aarch64"))]
pub(crate) use aarch64::hold_registers;
#[cfg(target_arch = "aarch64")]
use aarch64::valgrind_request;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{
    Float, has_time_counter, set_thread_pointer, switch, switch_with_tls, thread_pointer,
    time_counter, trampoline,
};
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) use x86_64::hold_registers;
#[cfg(target_arch = "x86_64")]
use x86_64::valgrind_request;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    Float, TURNS_TO_SET, cycles_to_set, go_on, has_segment, has_time_counter, is_amd,
    set_thread_pointer, switch, switch_with_segment, switch_with_tls, thread_pointer, time_counter,
    trampoline,
};

/// What becomes of the thread pointer in a switch.
#[derive(Clone, Copy)]
pub(crate) enum Pointer {
    /// It stays: no full thread is on either side.
    Kept,
    Address(usize),
    /// That of a full thread, by the selector of its segment.
    #[cfg(target_arch = "x86_64")]
    Segment(u64),
}

/// Switches, and changes the thread pointer on the way as `pointer` says.
///
/// # Safety
/// 1. As [`switch`].
/// 2. `pointer` is that of `to` if that is not the caller's.
/// 3. If it is changed, the processor and the kernel let user space do so.
#[inline(always)]
pub(crate) unsafe fn switch_to(from: *mut Context, to: *mut Context, pointer: Pointer) {
    // SAFETY: passed on.
    unsafe {
        match pointer {
            Pointer::Kept => switch(from, to),
            Pointer::Address(tls) => switch_with_tls(from, to, tls),
            #[cfg(target_arch = "x86_64")]
            Pointer::Segment(selector) => switch_with_segment(from, to, selector),
        }
    }
}

/// What a thread that is not running is resumed from: 32 bytes at the head of its control block.
///
/// The field order is known to the assembly and to the gdb script.
///
/// While a full thread runs, its `sp` is null.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Context {
    /// Stack pointer.
    pub sp: *mut u8,
    /// Address at which the thread continues.
    pub ip: *const u8,
    /// Frame pointer (rbp, x29).
    pub fp: usize,
    /// The register that inline assembly can't clobber (rbx, x19).
    pub base: usize,
}

/// The function that a new context calls: `(argument, packet)`.
pub(crate) type Entry = unsafe extern "C-unwind" fn(argument: *mut u8, packet: *mut u8) -> !;

impl Context {
    /// A context that resumes nothing.
    pub const fn empty() -> Self {
        Context { sp: core::ptr::null_mut(), ip: core::ptr::null(), fp: 0, base: 0 }
    }

    /// Whether the thread has left its stack, so that any kernel thread may continue it; of a full
    /// thread, by another kernel thread than the one that it ran on.
    pub fn is_saved(context: &Cell<Context>) -> bool {
        // SAFETY: the first field of a valid context; who writes it does so in one store.
        let sp =
            unsafe { AtomicPtr::from_ptr((&raw mut (*context.as_ptr()).sp).cast::<*mut u8>()) };
        // ORDER: pairs with the last store of `switch_with_tls`: what it saved before is seen.
        !sp.load(Acquire).is_null()
    }

    /// A context whose first activation calls `entry(argument, packet)` on the stack that ends
    /// at `packet` (16-byte aligned; the stack grows down from there).
    pub fn entry(packet: *mut u8, entry: Entry, argument: *mut u8) -> Self {
        debug_assert_eq!(packet as usize % 16, 0);
        Context {
            sp: packet,
            ip: trampoline as *const () as *const u8,
            fp: entry as usize,
            base: argument as usize,
        }
    }
}

/// Tells the processor that this is a spin-wait.
#[inline(always)]
pub(crate) fn relax() {
    core::hint::spin_loop();
}

/// Asks for the cache line at `address`; never faults.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address, mapped or not, has no effect that a program can see.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
}

/// As [`prefetch`], of a line that will be written.
#[inline(always)]
pub(crate) fn prefetch_to_write(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_ET0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{0}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
}

/// valgrind's request "am I under valgrind?".
const RUNNING_ON_VALGRIND: usize = 0x1001;
/// valgrind's request that names a stack.
const STACK_REGISTER: usize = 0x1501;

/// Tells valgrind that `[low, high)` is a stack, so that a switch to it is not taken for a huge
/// push or pop. Nothing happens outside valgrind.
pub(crate) fn register_stack(low: *const u8, high: *const u8) {
    valgrind_request(STACK_REGISTER, low as usize, high as usize);
}

/// Whether the process runs under valgrind, which holds its one big lock while a thread waits
/// for io_uring: the runtime takes epoll there.
pub(crate) fn on_valgrind() -> bool {
    valgrind_request(RUNNING_ON_VALGRIND, 0, 0) != 0
}
