//! Handlers that the kernel calls on a kernel thread of the program's, and what they leave.
//!
//! While one runs the kernel blocks more than the thread is known to block (`kernels.rs`), and when
//! it returns the kernel restores what its context has. That is what was blocked before, unless the
//! handler has changed it there, or the thread's mask by a call: then the thread is known to have
//! what is restored. Of a handler within a handler that is the outer one's.
//!
//! Who leaves a handler by an exception, or ends there, says nothing.
//!
//! Invariant: a handler that changes no mask changes nothing of what is known.

use core::cell::Cell;
use core::ffi::c_void;

use super::faults::blocked_in;
use super::{around, kernels, process};
use crate::calls::mask;
use crate::errno;

thread_local! {
    /// How many handlers the calling thread is in, as far as none was left by a jump.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The state in which a handler is called.
pub struct Entered {
    changes: u32,
    blocked: u64,
}

impl Entered {
    pub fn new(context: *mut c_void) -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Entered { changes: kernels::changes(), blocked: *blocked_in(context) }
    }

    /// The handler returns.
    pub fn end(self, context: *mut c_void) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
        let after = *blocked_in(context);
        if self.changes != kernels::changes() || self.blocked != after {
            errno::kept(|| process::masked(after & !around::put_off_now()));
        }
    }
}

/// The calling kernel thread jumps, and keeps the mask that it has: out of a handler that may be
/// more than it is known to block.
pub fn jumped() {
    if DEPTH.take() != 0 {
        process::masked(mask::of_kernel_thread());
    }
}
