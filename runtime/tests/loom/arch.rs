//! Stacks, as the models have them: a cell that only who is on the stack may touch.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::model::{AtomicPtr, Cell};

/// What the queues look at.
pub struct Context {
    pub sp: *mut u8,
}

/// The context of a full thread and its stack. As in `arch/mod.rs`: null while the thread runs, and
/// written last when it is left.
pub struct Saved {
    sp: AtomicPtr<u8>,
    stack: Cell<u32>,
}

impl Saved {
    pub const fn new() -> Self {
        Saved { sp: AtomicPtr::new(ptr::null_mut()), stack: Cell::new(0) }
    }

    pub fn get(&self) -> Context {
        Context { sp: self.sp.load(Relaxed) }
    }

    /// The caller goes on on this stack: from now on it runs the thread.
    pub fn enter(&self) {
        self.work();
        self.sp.store(ptr::null_mut(), Relaxed);
    }

    /// The thread does something on its stack; loom fails the model if somebody else is on it.
    pub fn work(&self) {
        self.stack.set(self.stack.get() + 1);
    }

    /// The caller leaves the stack.
    pub fn leave(&self) {
        self.work();
        self.sp.store(ptr::dangling_mut(), Release);
    }
}

impl Context {
    pub fn is_saved(context: &Saved) -> bool {
        !context.sp.load(Acquire).is_null()
    }
}

pub fn prefetch(_address: *const u8) {}

pub fn thread_pointer() -> usize {
    0
}
