//! Hibernation: a parked thread keeps its live stack bytes and gives its pages back.
//!
//! `store` copies `[sp, top)` into a block on the heap and discards the stack's pages; `restore`
//! copies it back to the same addresses, so pointers into the stack stay right. Between the two
//! nobody may look at the stack: wait nodes, timers and I/O state live in the control block, a
//! thread in a scope is pinned, and its operations never hand the kernel a buffer.
//!
//! The block starts with the registers that the context has to give up: its `base` field names
//! the block while the thread hibernates.

use core::alloc::Layout;
use core::ptr;
use std::alloc::{alloc, dealloc};

use crate::control::{Control, HIBERNATED};
use crate::sys::memory::{self, PAGE};

/// Head of a block; the stack's bytes follow.
#[repr(C)]
struct Head {
    bytes: usize,
    base: usize,
}

/// Stacks with more live bytes than this are left alone: copying costs more than a page.
const LIVE_BYTES_MAX: usize = PAGE - 512;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(size_of::<Head>() + bytes, 16).ok()
}

/// Copies the stack of `thread`, which has just parked, out. The worker calls it from its
/// scheduler context; does nothing when memory is short or the stack is deep.
#[cold]
pub(crate) fn store(thread: &'static Control) {
    let top = thread.stack_top();
    let mut context = thread.context.get();
    let bytes = top as usize - context.sp as usize;
    if bytes > LIVE_BYTES_MAX {
        return;
    }
    let Some(layout) = layout(bytes) else { return };
    // SAFETY: the size is not zero.
    let block = unsafe { alloc(layout) };
    if block.is_null() {
        return;
    }
    // SAFETY: the block has room for both; `[sp, top)` are the live bytes of a thread that does
    // not run. The page of `sp` and all below it down to the guard hold nothing else.
    unsafe {
        block.cast::<Head>().write(Head { bytes, base: context.base });
        ptr::copy_nonoverlapping(context.sp, block.add(size_of::<Head>()), bytes);
    }
    let low = context.sp.map_addr(|address| address & !(PAGE - 1));
    let high = (top as usize).next_multiple_of(PAGE);
    // SAFETY: the pages between are this stack's own: committed, above the guard.
    unsafe { memory::discard(low, high - low as usize) };
    context.base = block as usize;
    thread.context.set(context);
    thread.flags.set(thread.flags.get() | HIBERNATED);
}

/// Copies the stack back, right before the thread goes on.
#[cold]
pub(crate) fn restore(thread: &'static Control) {
    let mut context = thread.context.get();
    let block = ptr::with_exposed_provenance_mut::<u8>(context.base);
    // SAFETY: `store` left a block of this form; the stack's pages are ours and readable zeros.
    unsafe {
        let Head { bytes, base } = block.cast::<Head>().read();
        ptr::copy_nonoverlapping(block.add(size_of::<Head>()), context.sp, bytes);
        context.base = base;
        if let Some(layout) = layout(bytes) {
            dealloc(block, layout);
        }
    }
    thread.context.set(context);
    thread.flags.set(thread.flags.get() & !HIBERNATED);
}
