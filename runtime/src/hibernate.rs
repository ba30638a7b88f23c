//! Hibernation: a parked thread keeps its live stack bytes and gives its pages back.
//!
//! The threads of a worker that parked last are only [`Drowsy`]: their stacks stay as they are, and
//! one that wakes soon costs nothing more. When there are many of them the oldest hibernate, a
//! batch at a time: `store` copies `[sp, top)` into a block on the heap, and one system call
//! discards the pages of all. `restore` copies back to the same addresses, so pointers into the
//! stack stay right. Between the two nobody may look at the stack: wait nodes, timers and I/O state
//! live in the control block, a thread in a scope is pinned, and its operations never hand the
//! kernel a buffer.
//!
//! The block starts with the registers that the context has to give up: its `base` field names
//! the block while the thread hibernates.
//!
//! Not done: stacks that share one place, of which the one that runs is copied in. It would save
//! the system call and the page fault of every wake. But a thread in a scope can't be moved out,
//! so the others of its place would wait for it, and it perhaps for one of them. Being drowsy saves
//! both for threads that wake soon, and the system call for all.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr;
use std::alloc::{alloc, dealloc};

use crate::control::{Control, DROWSY, HIBERNATED};
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

/// Most drowsy threads of a worker; each keeps a page or two.
pub(crate) const DROWSY_MAX: usize = 64;
/// Of these hibernate at once, at most.
const BATCH: usize = 32;

/// The threads of a worker that parked last and have not woken, oldest first; used by the worker's
/// kernel thread alone.
pub(crate) struct Drowsy {
    threads: [Cell<*const Control>; DROWSY_MAX],
    count: Cell<usize>,
    /// Most of them.
    most: usize,
}

impl Drowsy {
    /// `most`: at most [`DROWSY_MAX`].
    pub fn new(most: usize) -> Self {
        let threads = [const { Cell::new(ptr::null()) }; DROWSY_MAX];
        Drowsy { threads, count: Cell::new(0), most: most.min(DROWSY_MAX) }
    }

    /// Takes in a thread that parks; false when there is no room.
    #[inline]
    pub fn admit(&self, thread: &'static Control) -> bool {
        let count = self.count.get();
        if count >= self.most {
            return false;
        }
        self.threads[count].set(thread);
        self.count.set(count + 1);
        thread.flags.set(thread.flags.get() | DROWSY);
        true
    }

    /// The thread wakes.
    fn leave(&self, thread: &Control) {
        thread.flags.set(thread.flags.get() & !DROWSY);
        let threads = &self.threads[..self.count.get()];
        // The last one in is often the first one out.
        let Some(at) = threads.iter().rposition(|it| ptr::eq(it.get(), thread)) else { return };
        self.remove(at, 1);
    }

    fn remove(&self, at: usize, count: usize) {
        let left = self.count.get() - count;
        for place in at..left {
            self.threads[place].set(self.threads[place + count].get());
        }
        self.count.set(left);
    }

    /// Takes in a thread that has parked and found no room: the oldest hibernate, a batch at once.
    /// The worker calls it from its scheduler context.
    #[cold]
    pub fn hibernate_oldest(&self, newest: &'static Control) {
        if self.most == 0 {
            return hibernate(core::iter::once(newest));
        }
        let count = self.count.get().min(BATCH);
        // SAFETY: `admit` put slots of the slab there.
        hibernate(self.threads[..count].iter().map(|place| unsafe { &*place.get() }));
        self.remove(0, count);
        self.admit(newest);
    }
}

/// Copies stacks of parked threads out, [`BATCH`] at most, and gives their pages back.
fn hibernate(threads: impl Iterator<Item = &'static Control>) {
    let mut pages = [(ptr::null_mut(), 0); BATCH];
    let mut stored = 0;
    for thread in threads.take(BATCH) {
        thread.flags.set(thread.flags.get() & !DROWSY);
        if let Some(range) = store(thread) {
            pages[stored] = range;
            stored += 1;
        }
    }
    // SAFETY: the pages are these stacks' own, committed, above the guard; what was live in them
    // was copied out.
    unsafe { memory::discard_all(&pages[..stored]) };
}

/// Copies the stack of `thread`, which is parked, out; returns the pages that nobody needs then.
/// Does nothing when memory is short or the stack is deep.
fn store(thread: &'static Control) -> Option<(*mut u8, usize)> {
    let top = thread.stack_top();
    let mut context = thread.context.get();
    let bytes = top as usize - context.sp as usize;
    if bytes > LIVE_BYTES_MAX {
        return None;
    }
    let layout = layout(bytes)?;
    // SAFETY: the size is not zero.
    let block = unsafe { alloc(layout) };
    if block.is_null() {
        return None;
    }
    // SAFETY: the block has room for both; `[sp, top)` are the live bytes of a thread that does
    // not run. The page of `sp` and all below it down to the guard hold nothing else.
    unsafe {
        block.cast::<Head>().write(Head { bytes, base: context.base });
        ptr::copy_nonoverlapping(context.sp, block.add(size_of::<Head>()), bytes);
    }
    let low = context.sp.map_addr(|address| address & !(PAGE - 1));
    let high = (top as usize).next_multiple_of(PAGE);
    context.base = block as usize;
    thread.context.set(context);
    thread.flags.set(thread.flags.get() | HIBERNATED);
    Some((low, high - low as usize))
}

/// Gives a drowsy or hibernating thread its stack, right before it goes on.
#[cold]
pub(crate) fn restore(drowsy: &Drowsy, thread: &'static Control) {
    if thread.flags.get() & DROWSY != 0 {
        return drowsy.leave(thread);
    }
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
