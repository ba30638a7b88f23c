//! The switch for aarch64: the same protocol as `x86_64.rs`, with x29 for the frame pointer, x19
//! for the register that the compiler reserves, and `br` (never `ret`) to resume.

use super::Context;
use core::arch::{asm, naked_asm};

/// Saves the caller in `from` and continues `to`; returns when somebody switches back.
///
/// # Safety
/// As for x86-64:
/// 1. `from` and `to` point to live contexts of this kernel thread, `to` one that was saved by
///    this function or made by [`Context::entry`] and was not continued since.
/// 2. The stack that `to` lies on is mapped and nobody else runs on it.
/// 3. No value that lives across the call belongs to the kernel thread unless the thread always
///    runs on that kernel thread (light threads do).
#[inline(always)]
pub(crate) unsafe fn switch(from: *mut Context, to: *const Context) {
    // SAFETY: 1 and 2 make both loads and stores valid. x19, x29 and sp are kept by hand; all
    // others are declared clobbered (`clobber_abi("C")` has x0-x18, x30, v0-v31 with their high
    // halves and the SVE predicates; the callee-saved x20-x28 stand beside it).
    unsafe {
        asm!(
            "adr x9, 2f",
            "mov x10, sp",
            "stp x10, x9, [x0]",
            "stp x29, x19, [x0, #16]",
            "ldp x10, x9, [x1]",
            "ldp x29, x19, [x1, #16]",
            "mov sp, x10",
            "br x9",
            "2:",
            inout("x0") from => _,
            inout("x1") to => _,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
        );
    }
}

/// As [`switch`], and sets the thread pointer to `tls` on the way: whoever continues has it.
///
/// It is one instruction with the switch, so that the compiler can't put a use of thread-local
/// storage between the two.
///
/// The stack pointer of `from` is stored last, when the stack and the thread pointer are left for
/// good, and that of `to` is cleared: so another kernel thread that finds it set
/// ([`Context::is_saved`]) may continue `from` at once.
///
/// Whoever continues finds the floating-point control of who left in x3 and x4, and sets its own if
/// that is another.
///
/// # Safety
/// 1. As for [`switch`].
/// 2. `tls` is the thread pointer of the context that continues.
#[inline(always)]
pub(crate) unsafe fn switch_with_tls(from: *mut Context, to: *mut Context, tls: usize) {
    // SAFETY: as in `switch`; by 2 the value is right.
    unsafe {
        let kept = Float::of_caller();
        let (control, raised);
        asm!(
            "adr x9, 2f",
            "mov x10, sp",
            "str x9, [x0, #8]",
            "stp x29, x19, [x0, #16]",
            "msr tpidr_el0, x2",
            "ldp x11, x9, [x1]",
            "ldp x29, x19, [x1, #16]",
            "mov sp, x11",
            "str xzr, [x1]",
            "stlr x10, [x0]",
            "br x9",
            "2:",
            inout("x0") from => _,
            inout("x1") to => _,
            inout("x2") tls => _,
            inout("x3") kept.control => control,
            inout("x4") kept.raised => raised,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
        );
        if kept != (Float { control, raised }) {
            kept.set();
        }
    }
}

/// The calling thread's thread pointer.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register that user space may read.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
    }
    pointer
}

/// Gives the calling kernel thread another thread pointer.
///
/// # Safety
/// 1. It is one of a thread's blocks, which nobody else uses meanwhile.
#[inline(always)]
pub(crate) unsafe fn set_thread_pointer(pointer: usize) {
    // SAFETY: by 1.
    unsafe { asm!("msr tpidr_el0, {}", in(reg) pointer, options(nostack, preserves_flags)) };
}

/// Floating-point control, and the exceptions that were raised: FPCR and FPSR.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Float {
    control: u64,
    raised: u64,
}

impl Float {
    /// That of the caller.
    #[inline(always)]
    pub fn of_caller() -> Self {
        let (control, raised);
        // SAFETY: reads registers that user space may read.
        unsafe {
            asm!("mrs {}, fpcr", out(reg) control, options(nostack));
            asm!("mrs {}, fpsr", out(reg) raised, options(nostack));
        }
        Float { control, raised }
    }

    /// Becomes that of the caller.
    #[cold]
    pub fn set(&self) {
        // SAFETY: values that the registers had in a thread; compiled code finds what its own
        // thread has set.
        unsafe {
            asm!("msr fpcr, {}", in(reg) self.control, options(nostack));
            asm!("msr fpsr, {}", in(reg) self.raised, options(nostack));
        }
    }
}

/// Whether [`time_counter`] goes on evenly: the architecture says so.
pub(crate) fn has_time_counter() -> bool {
    true
}

/// A number that grows with time.
#[inline(always)]
pub(crate) fn time_counter() -> u64 {
    let count;
    // SAFETY: reads a counter that user space may read.
    unsafe {
        asm!("mrs {}, cntvct_el0", out(reg) count, options(nostack, preserves_flags, nomem));
    }
    count
}

/// First instruction of a thread: x19 = argument, x29 = entry, sp = packet.
///
/// # Safety
/// 1. Reached only by [`switch`] with a context that [`Context::entry`] made.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn trampoline() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30",
        "mov x0, x19",
        "mov x1, sp",
        "mov x9, x29",
        "mov x29, xzr",
        "mov x30, xzr",
        "blr x9",
        "brk #1",
        ".cfi_endproc",
    )
}

/// A client request to valgrind; the answer is 0 outside of it.
pub(super) fn valgrind_request(number: usize, first: usize, second: usize) -> usize {
    let request = [number, first, second, 0, 0, 0];
    let mut answer = 0usize;
    // SAFETY: as for x86-64: rotations that add up to nothing, and a register or'ed with itself.
    unsafe {
        asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            inout("x3") answer,
            in("x4") request.as_ptr(),
            options(nostack),
        );
    }
    answer
}

/// Holds a number in each register for as many turns of a loop, all integer and vector ones but
/// the two that count and the stack pointer, and compares them: 0 if none has changed.
///
/// # Safety
/// 1. None: it touches nothing but registers and its own frame.
#[cfg(test)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn hold_registers(turns: u64, seed: u64) -> u64 {
    naked_asm!(
        "sub sp, sp, #240",
        "stp x19, x20, [sp]",
        "stp x21, x22, [sp, #16]",
        "stp x23, x24, [sp, #32]",
        "stp x25, x26, [sp, #48]",
        "stp x27, x28, [sp, #64]",
        "stp x29, x30, [sp, #80]",
        "stp q8, q9, [sp, #96]; stp q10, q11, [sp, #128]",
        "stp q12, q13, [sp, #160]; stp q14, q15, [sp, #192]",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22",
        "add x30, x1, #\\i",
        "dup v\\i\\().2d, x30",
        ".endr",
        ".irp i, 23, 24, 25, 26, 27, 28, 29, 30, 31",
        "add x30, x1, #\\i",
        "dup v\\i\\().2d, x30",
        ".endr",
        ".irp i, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23",
        "add x\\i, x1, #\\i",
        ".endr",
        ".irp i, 24, 25, 26, 27, 28, 29, 30",
        "add x\\i, x1, #\\i",
        ".endr",
        "2:",
        "subs x0, x0, #1",
        "b.ne 2b",
        ".irp i, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23",
        "sub x\\i, x\\i, x1",
        "sub x\\i, x\\i, #\\i",
        "orr x0, x0, x\\i",
        ".endr",
        ".irp i, 24, 25, 26, 27, 28, 29, 30",
        "sub x\\i, x\\i, x1",
        "sub x\\i, x\\i, #\\i",
        "orr x0, x0, x\\i",
        ".endr",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22",
        "add x30, x1, #\\i",
        "umov x2, v\\i\\().d[0]",
        "umov x3, v\\i\\().d[1]",
        "eor x2, x2, x30",
        "eor x3, x3, x30",
        "orr x0, x0, x2",
        "orr x0, x0, x3",
        ".endr",
        ".irp i, 23, 24, 25, 26, 27, 28, 29, 30, 31",
        "add x30, x1, #\\i",
        "umov x2, v\\i\\().d[0]",
        "umov x3, v\\i\\().d[1]",
        "eor x2, x2, x30",
        "eor x3, x3, x30",
        "orr x0, x0, x2",
        "orr x0, x0, x3",
        ".endr",
        "ldp q14, q15, [sp, #192]; ldp q12, q13, [sp, #160]",
        "ldp q10, q11, [sp, #128]; ldp q8, q9, [sp, #96]",
        "ldp x29, x30, [sp, #80]",
        "ldp x27, x28, [sp, #64]",
        "ldp x25, x26, [sp, #48]",
        "ldp x23, x24, [sp, #32]",
        "ldp x21, x22, [sp, #16]",
        "ldp x19, x20, [sp]",
        "add sp, sp, #240",
        "ret",
    )
}
