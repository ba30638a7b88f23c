//! The switch for x86-64.
//!
//! ```text
//!   thread A's stack            control block A         control block B      thread B's stack
//!  | frames of A      |          sp ip fp base           sp ip fp base      | frames of B      |
//!  | live registers   |<-- rsp -->|                       |---- rsp ------->| live registers   |
//!  +------------------+                                                     +------------------+
//! ```
//! Nothing is pushed: at the resume label the stack pointer is what the compiler left, so the
//! unwind information of the enclosing function is right there, for a parked thread as well.
//! The switch ends in `jmp`, never `ret`: the return-address predictor would miss at each one
//! (36 ns an activation instead of 5).

use super::Context;
use core::arch::{asm, naked_asm};
use core::mem::MaybeUninit;

/// Saves the caller in `from` and continues `to`; returns when somebody switches back.
///
/// # Safety
/// 1. `from` and `to` point to live contexts of this kernel thread, `to` one that was saved by
///    this function or made by [`Context::entry`] and was not continued since.
/// 2. The stack that `to` lies on is mapped and nobody else runs on it.
/// 3. No value that lives across the call belongs to the kernel thread unless the thread always
///    runs on that kernel thread (light threads do).
#[inline(always)]
pub(crate) unsafe fn switch(from: *mut Context, to: *const Context) {
    // SAFETY: 1 and 2 make both loads and stores valid. Every register except rbx and rbp (kept
    // in the context by hand, the compiler reserves them) and rsp is declared clobbered:
    // `clobber_abi("C")` lists all caller-saved ones with xmm/ymm/zmm0-31, k0-7, mm, st; the
    // callee-saved r12-r15 stand beside it.
    unsafe {
        asm!(
            "lea rcx, [rip + 2f]",
            "mov [rdi], rsp",
            "mov [rdi + 8], rcx",
            "mov [rdi + 16], rbp",
            "mov [rdi + 24], rbx",
            "mov rsp, [rsi]",
            "mov rbp, [rsi + 16]",
            "mov rbx, [rsi + 24]",
            "jmp qword ptr [rsi + 8]",
            "2:",
            inout("rdi") from => _,
            inout("rsi") to => _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
    }
}

/// The switch of full threads: as in [`switch`], and `$set` sets the thread pointer from rdx.
///
/// Whoever continues finds the floating-point control of who left in eax and r8d, and sets its own
/// if that is another. It is stored after `$set`, for which the processor waits: on an EPYC of
/// family 25 that costs 0.4 ns of a switch, and 6 before it. The stack that has it is not left
/// before its stack pointer is stored.
macro_rules! switch_and {
    ($set:literal, $from:ident, $to:ident, $value:ident) => {{
        let mut kept = MaybeUninit::<Float>::uninit();
        let (sse, x87): (u32, *mut Float);
        asm!(
            "lea rcx, [rip + 2f]",
            "mov [rdi + 8], rcx",
            "mov [rdi + 16], rbp",
            "mov [rdi + 24], rbx",
            "mov rcx, rsp",
            $set,
            "stmxcsr [r8]",
            "mov rsp, [rsi]",
            "mov rbp, [rsi + 16]",
            "mov rbx, [rsi + 24]",
            "fnstcw [r8 + 4]",
            "mov qword ptr [rsi], 0",
            "mov eax, [r8]",
            "movzx r8d, word ptr [r8 + 4]",
            "mov [rdi], rcx",
            "jmp qword ptr [rsi + 8]",
            "2:",
            inout("rdi") $from => _,
            inout("rsi") $to => _,
            inout("rdx") $value => _,
            inout("r8") kept.as_mut_ptr() => x87,
            out("rax") sse,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
        let kept = kept.assume_init();
        if kept.sse != sse {
            kept.set_sse();
        }
        if kept.x87 != x87.addr() as u16 {
            kept.set_x87();
        }
    }};
}

/// As [`switch`], and sets the thread pointer to `tls` on the way: whoever continues has it.
///
/// It is one instruction with the switch, so that the compiler can't put a use of thread-local
/// storage between the two.
///
/// The stack pointer of `from` is stored last, when the stack and the thread pointer are left for
/// good, and that of `to` is cleared: so another kernel thread that finds it set
/// ([`Context::is_saved`]) may continue `from` at once. The processor keeps stores in order.
///
/// # Safety
/// 1. As for [`switch`].
/// 2. `tls` is the thread pointer of the context that continues.
/// 3. The processor and the kernel have FSGSBASE.
#[inline(always)]
pub(crate) unsafe fn switch_with_tls(from: *mut Context, to: *mut Context, tls: usize) {
    // SAFETY: as in `switch`; by 2 and 3 the instruction is there and the value right.
    unsafe { switch_and!("wrfsbase rdx", from, to, tls) };
}

/// As [`switch_with_tls`], with a segment instead of its address ([`crate::sys::segments`]).
///
/// # Safety
/// 1. As for [`switch`].
/// 2. `selector` is of a segment that begins at the thread pointer of the context that continues.
#[inline(always)]
pub(crate) unsafe fn switch_with_segment(from: *mut Context, to: *mut Context, selector: u64) {
    // SAFETY: as in `switch`; by 2 the processor finds the segment, and the pointer is right.
    unsafe { switch_and!("mov fs, edx", from, to, selector) };
}

/// Whether AMD, or Hygon under its licence, has made the processor.
pub(crate) fn is_amd() -> bool {
    let it = core::arch::x86_64::__cpuid(0);
    let name = [it.ebx, it.edx, it.ecx].map(u32::to_le_bytes);
    matches!(name.as_flattened(), b"AuthenticAMD" | b"HygonGenuine")
}

/// Whether the processor finds a segment that may be used so.
pub(crate) fn has_segment(selector: u64) -> bool {
    let found: u8;
    // SAFETY: loads a description of the segment, if it can be loaded, and uses nothing.
    unsafe {
        asm!(
            "lar eax, ecx",
            "sete dl",
            in("rcx") selector,
            out("rax") _,
            out("dl") found,
            options(nostack, nomem),
        );
    }
    found != 0
}

/// Turns of the loop in [`cycles_to_set`].
pub(crate) const TURNS_TO_SET: u64 = 64;

/// Cycles of a loop that sets the thread pointer amid instructions that do not wait for that, by
/// `wrfsbase` and by a segment.
///
/// # Safety
/// 1. `selector` is of a segment that [`has_segment`]; nothing is read there.
/// 2. The processor and the kernel have FSGSBASE.
/// 3. No signal comes meanwhile: its handler would be another thread.
#[inline(never)]
pub(crate) unsafe fn cycles_to_set(selector: u64) -> [u64; 2] {
    macro_rules! cycles {
        ($set:literal, $pointer:ident, $value:ident) => {{
            let begin = time_counter();
            asm!(
                "2:",
                ".rept 8",
                "imul rax, rax",
                ".endr",
                $set,
                ".rept 8",
                "imul rax, rax",
                ".endr",
                "dec ecx",
                "jnz 2b",
                "wrfsbase {0}",
                in(reg) $pointer,
                in("rdx") $value,
                inout("rax") 3u64 => _,
                inout("rcx") TURNS_TO_SET => _,
                options(nostack, nomem),
            );
            time_counter().wrapping_sub(begin)
        }};
    }
    let pointer = thread_pointer();
    // SAFETY: by 1 to 3; what the caller has is set again within the same piece of assembly.
    unsafe {
        [cycles!("wrfsbase rdx", pointer, pointer), cycles!("mov fs, edx", pointer, selector)]
    }
}

/// The calling thread's thread pointer: the first word of what it points to is itself.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the ABI of x86-64 has the thread pointer at %fs:0.
    unsafe {
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    pointer
}

/// Gives the calling kernel thread another thread pointer.
///
/// # Safety
/// 1. It is one of a thread's blocks, which nobody else uses meanwhile.
/// 2. The processor and the kernel have FSGSBASE.
#[inline(always)]
pub(crate) unsafe fn set_thread_pointer(pointer: usize) {
    // SAFETY: by 1 and 2.
    unsafe { asm!("wrfsbase {}", in(reg) pointer, options(nostack, preserves_flags)) };
}

/// Floating-point control, with the exceptions that SSE has raised: MXCSR and the x87 control word.
#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Float {
    sse: u32,
    x87: u16,
}

impl Float {
    /// That of the caller.
    #[inline(always)]
    pub fn of_caller() -> Self {
        let mut kept = MaybeUninit::<Self>::uninit();
        // SAFETY: each instruction writes its field.
        unsafe {
            asm!("stmxcsr [{0}]", "fnstcw [{0} + 4]", in(reg) kept.as_mut_ptr(), options(nostack));
            kept.assume_init()
        }
    }

    /// Becomes that of the caller.
    #[cold]
    pub fn set(&self) {
        self.set_sse();
        self.set_x87();
    }

    #[inline(always)]
    fn set_sse(&self) {
        // SAFETY: a value that the register had in a thread; compiled code finds what its own
        // thread has set.
        unsafe { asm!("ldmxcsr [{0}]", in(reg) self, options(nostack)) };
    }

    #[cold]
    fn set_x87(&self) {
        // SAFETY: as above. The unit would raise here what another thread has raised and masked.
        unsafe { asm!("fnclex", "fldcw [{0} + 4]", in(reg) self, options(nostack)) };
    }
}

/// Whether [`time_counter`] goes on evenly, whatever the processor's speed, and while it sleeps.
pub(crate) fn has_time_counter() -> bool {
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let highest = core::arch::x86_64::__cpuid(0x8000_0000).eax;
    highest >= POWER_MANAGEMENT
        && core::arch::x86_64::__cpuid(POWER_MANAGEMENT).edx & INVARIANT != 0
}

/// A number that grows with time.
#[inline(always)]
pub(crate) fn time_counter() -> u64 {
    // SAFETY: reads a counter that user space may read.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// First instruction of a thread: rbx = argument, rbp = entry, rsp = packet.
///
/// Backtraces end here: the return address is declared undefined and the frame pointer is zero.
///
/// # Safety
/// 1. Reached only by [`switch`] with a context that [`Context::entry`] made.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn trampoline() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "mov rdi, rbx",
        "mov rsi, rsp",
        "mov rax, rbp",
        "xor ebp, ebp",
        "call rax",
        "ud2",
        ".cfi_endproc",
    )
}

/// Goes on with a handler's frame that lies elsewhere. It begins with where `next` returns to, the
/// C library's `rt_sigreturn`, which takes all registers from there.
///
/// # Safety
/// 1. `frame` is the lowest byte of one that the kernel made, or of a copy, with nothing below it
///    that anybody uses; `info` and `context` are in it.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn go_on(
    frame: usize,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut core::ffi::c_void,
    next: crate::sys::signals::Next,
) -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "mov rsp, rdi",
        "mov edi, esi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "jmp r8",
        ".cfi_endproc",
    )
}

/// A client request to valgrind; the answer is 0 outside of it.
pub(super) fn valgrind_request(number: usize, first: usize, second: usize) -> usize {
    let request = [number, first, second, 0, 0, 0];
    let mut answer = 0usize;
    // SAFETY: the four rotations add up to nothing (128 bits) and the exchange is with itself:
    // valgrind knows the sequence and reads the request, which is initialised, through rax.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    }
    answer
}

/// Holds a number in each register for as many turns of a loop, all integer and SSE ones but the
/// two that count and the stack pointer, and compares them: 0 if none has changed.
///
/// # Safety
/// 1. None: it touches nothing but registers and its own frame.
#[cfg(test)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn hold_registers(turns: u64, seed: u64) -> u64 {
    naked_asm!(
        ".irp r, rbx, rbp, r12, r13, r14, r15",
        "push \\r",
        ".endr",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "lea rax, [rsi + 16 + \\i]",
        "movq xmm\\i, rax",
        "punpcklqdq xmm\\i, xmm\\i",
        ".endr",
        ".irp r, rax, rbx, rcx, rdx, rbp, r8, r9, r10, r11, r12, r13, r14, r15",
        "mov \\r, rsi",
        ".endr",
        "2:",
        "dec rdi",
        "jnz 2b",
        ".irp r, rax, rbx, rcx, rdx, rbp, r8, r9, r10, r11, r12, r13, r14, r15",
        "sub \\r, rsi",
        "or rdi, \\r",
        ".endr",
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "lea rax, [rsi + 16 + \\i]",
        "movq rcx, xmm\\i",
        "psrldq xmm\\i, 8",
        "movq rdx, xmm\\i",
        "xor rcx, rax",
        "xor rdx, rax",
        "or rdi, rcx",
        "or rdi, rdx",
        ".endr",
        ".irp r, r15, r14, r13, r12, rbp, rbx",
        "pop \\r",
        ".endr",
        "mov rax, rdi",
        "ret",
    )
}
