//! The frame that the kernel puts on a stack for a signal handler, and how to go on with a copy of
//! it elsewhere.
//!
//! A handler that asks for it is called on the alternate stack of its kernel thread. There a full
//! thread must not wait, nor be left: it may go on on another kernel thread. So what may do that
//! goes on with a copy of the frame on the thread's own stack, as if the kernel had put it there.
//! When the handler returns, wherever that is, the kernel takes all registers from the copy.
//!
//! Invariant: nothing of a frame on the alternate stack is used once its copy is.

use core::ffi::c_void;
use core::ptr;

use libc::{siginfo_t, ucontext_t};

use super::signals::{self, Next};
use crate::arch;

/// What the kernel puts on a stack: where the handler returns to, and this much behind it.
const FRAME_BYTES: usize = 8 + CONTEXT_BYTES + size_of::<siginfo_t>();
/// `ucontext_t` as the kernel has it.
const CONTEXT_BYTES: usize = 304;
/// The registers of SSE and what is before them; others follow if the frame says so.
const FXSAVE_BYTES: usize = 512;
/// Where in these the kernel says how much there is, and the word that says that it says so.
const EXTENDED_MARK_AT: usize = 464;
const EXTENDED_MARK: u32 = 0x4650_5853;
/// Below the stack pointer a function may have put something.
const RED_ZONE_BYTES: usize = 128;
/// What is lost where a copy is aligned: to 64 for the registers, to 16 and 8 itself.
const ALIGNING_BYTES: usize = 128;

/// A frame, which the kernel or [`Frame::go_on_below`] made, and whose handler has not returned.
#[derive(Clone, Copy)]
pub struct Frame(*mut c_void);

impl Frame {
    /// # Safety
    /// 1. `context` is what the kernel, or [`Frame::go_on_below`], passed to a handler, which does
    ///    not return while this is used.
    pub unsafe fn of(context: *mut c_void) -> Self {
        Frame(context)
    }

    fn context(&self) -> &ucontext_t {
        // SAFETY: by what `of` was promised.
        unsafe { &*self.0.cast() }
    }

    /// The interrupted code's stack pointer.
    pub fn stack_pointer(&self) -> usize {
        self.context().uc_mcontext.gregs[libc::REG_RSP as usize] as usize
    }

    /// Where nothing of the interrupted function's is. It may have lost its stack: any number.
    pub fn below(&self) -> usize {
        self.stack_pointer().wrapping_sub(RED_ZONE_BYTES)
    }

    /// What the signal came with, as the handler was told it.
    pub fn info(&self) -> *mut siginfo_t {
        self.0.cast::<u8>().wrapping_add(CONTEXT_BYTES).cast()
    }

    /// Whether the runtime has sent its signal, to preempt or to call a thread.
    pub fn is_of_runtime(&self) -> bool {
        // SAFETY: it has what the kernel passed.
        signals::is_marked(unsafe { &*self.info() })
    }

    /// Bytes of the floating-point registers in it.
    fn float_bytes(&self) -> usize {
        let begin = self.context().uc_mcontext.fpregs.cast::<u8>();
        if begin.is_null() {
            return 0;
        }
        let place = begin.wrapping_add(EXTENDED_MARK_AT).cast::<[u32; 2]>();
        // SAFETY: the kernel wrote the first part.
        let [mark, bytes] = unsafe { place.read_unaligned() };
        if mark == EXTENDED_MARK { bytes as usize } else { FXSAVE_BYTES }
    }

    /// Bytes that a copy takes at most.
    pub fn bytes(&self) -> usize {
        self.float_bytes() + FRAME_BYTES + ALIGNING_BYTES
    }

    /// Whether it is on the alternate stack of the kernel thread, and not right below the stack
    /// pointer, where the kernel would have put it for a handler that does not ask for that.
    pub fn was_moved(&self) -> bool {
        let alternate = self.context().uc_stack;
        let low = alternate.ss_sp.addr();
        let is_on_it = |address: usize| {
            let is_used = alternate.ss_flags & libc::SS_DISABLE == 0;
            is_used && address.wrapping_sub(low) < alternate.ss_size
        };
        is_on_it(self.0.addr()) && !is_on_it(self.below())
    }

    /// Goes on in `next` with a copy of it below `top`.
    ///
    /// # Safety
    /// 1. Nobody uses the [`Frame::bytes`] below `top`, nor what is below them, which `next` uses.
    /// 2. What is left behind, the caller's stack, has nothing that is to be dropped.
    pub unsafe fn go_on_below(self, top: usize, next: Next) -> ! {
        let float_bytes = self.float_bytes();
        let float = (top - float_bytes) & !63;
        let frame = ((float - FRAME_BYTES) & !15) - 8;
        let copied = ptr::with_exposed_provenance_mut::<u8>(frame);
        let registers = self.context().uc_mcontext.fpregs.cast::<u8>();
        // SAFETY: the kernel's layout; there is room by 1.
        unsafe {
            copied.copy_from_nonoverlapping(self.0.cast::<u8>().sub(8), FRAME_BYTES);
            let copy = Frame(copied.add(8).cast());
            if !registers.is_null() {
                let place = ptr::with_exposed_provenance_mut::<u8>(float);
                place.copy_from_nonoverlapping(registers, float_bytes);
                (*copy.0.cast::<ucontext_t>()).uc_mcontext.fpregs = place.cast();
            }
            let info = copy.info();
            arch::go_on(frame, (*info).si_signo, info, copy.0, next)
        }
    }
}
