//! Threads that have not started: the only ones that another worker may take.
//!
//! A locked list; the worker takes batches, so that the lock costs little per thread.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::control::Control;
use crate::raw_lock::RawLock;

/// See the file's head.
pub(crate) struct Fresh {
    lock: RawLock,
    len: AtomicU32,
    head: Cell<*const Control>,
    tail: Cell<*const Control>,
}

// SAFETY: `head` and `tail` are touched only under `lock`.
unsafe impl Sync for Fresh {}

impl Fresh {
    pub fn new() -> Self {
        Fresh {
            lock: RawLock::new(),
            len: AtomicU32::new(0),
            head: Cell::new(ptr::null()),
            tail: Cell::new(ptr::null()),
        }
    }

    /// How many there are; a hint for others than the lock's holder.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// Appends a thread; returns how many there are now.
    #[inline]
    pub fn push(&self, thread: &'static Control) -> u32 {
        thread.next.set(ptr::null());
        let _guard = self.lock.lock();
        // SAFETY: null or a slot of the slab.
        match unsafe { self.tail.get().as_ref() } {
            Some(tail) => tail.next.set(thread),
            None => self.head.set(thread),
        }
        self.tail.set(thread);
        let len = self.len.load(Relaxed) + 1;
        self.len.store(len, Relaxed);
        len
    }

    /// Takes up to `count` threads, oldest first. `deliver` runs after the lock is released.
    pub fn take(&self, count: u32, mut deliver: impl FnMut(&'static Control)) -> u32 {
        let (mut each, taken) = self.detach(count);
        // SAFETY: null or a slot of the slab; the chain is ours.
        while let Some(thread) = unsafe { each.as_ref() } {
            each = thread.next.get();
            deliver(thread);
        }
        taken
    }

    /// Cuts the first `count` threads off; their chain ends in null.
    fn detach(&self, count: u32) -> (*const Control, u32) {
        let _guard = self.lock.lock();
        let first = self.head.get();
        let mut last: *const Control = ptr::null();
        let mut rest = first;
        let mut taken = 0;
        while taken < count {
            // SAFETY: null or a slot of the slab, linked in this locked list.
            let Some(thread) = (unsafe { rest.as_ref() }) else { break };
            last = rest;
            rest = thread.next.get();
            taken += 1;
        }
        // SAFETY: as above.
        if let Some(last) = unsafe { last.as_ref() } {
            last.next.set(ptr::null());
        }
        self.head.set(rest);
        if rest.is_null() {
            self.tail.set(ptr::null());
        }
        self.len.store(self.len.load(Relaxed) - taken, Relaxed);
        (first, taken)
    }
}
