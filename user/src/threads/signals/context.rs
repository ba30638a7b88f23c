//! The masks of contexts: `getcontext`, `setcontext`, `swapcontext` (the rest of them is in arch/).
//!
//! What a context has for a mask is the thread's own, in the word where the kernel would have put
//! the kernel thread's. So a coroutine that changes its mask has it again when it goes on, on
//! whatever worker, and a program may read and change it in between.
//!
//! # Safety
//! For all functions of this file: contexts are the caller's, or null where that is said.

use heddle::raw;
use libc::ucontext_t;

use super::{answer_if_called, process};
use crate::calls::mask;
use crate::threads::this;

/// The mask's word; the C library's type has more, which the kernel leaves alone.
unsafe fn mask_in(context: *mut ucontext_t) -> *mut u64 {
    // SAFETY: a set begins with the word, and is aligned for it.
    unsafe { (&raw mut (*context).uc_sigmask).cast() }
}

/// A context of the calling full thread gets its mask.
#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_keep_mask(context: *mut ucontext_t) {
    // SAFETY: see the file's head.
    unsafe { mask_in(context).write(mask::own()) };
}

/// The calling full thread goes on with `new`: it has that one's mask from now on, and what it lets
/// through. `old`, if it isn't null, gets the mask of before.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_switch_mask(old: *mut ucontext_t, new: *mut ucontext_t) {
    let Some(me) = this() else { return };
    let before = me.signals.blocked();
    // SAFETY: see the file's head.
    let after = unsafe { mask_in(new).read() } & !mask::NEVER;
    if !old.is_null() {
        // SAFETY: as above.
        unsafe { mask_in(old).write(before) };
    }
    raw::jumped(usize::MAX);
    if after != before {
        mask::set_own(after);
    }
    // On a coroutine's stack nothing interrupts it, and here it may spend all of its time.
    answer_if_called();
}

/// The C library is about to give the calling kernel thread the mask of this context, without a
/// word to anybody.
#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_before_kernels_mask(context: *mut ucontext_t) {
    // SAFETY: see the file's head.
    process::masked(unsafe { mask_in(context).read() } & !mask::NEVER);
}
