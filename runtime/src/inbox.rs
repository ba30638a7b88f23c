//! The inbox of a worker: threads that others have woken for it.
//!
//! A stack of threads linked by `Control::next`: anybody pushes with one compare-exchange, the
//! worker takes everything with one swap and reverses it, so that wakes keep their order.
//!
//! Invariant: a thread is in at most one inbox, once; only its owner drains.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::control::Control;
use crate::model::AtomicPtr;

/// See the file's head.
pub(crate) struct Inbox(AtomicPtr<Control>);

impl Inbox {
    /// An empty inbox.
    pub const fn new() -> Self {
        Inbox(AtomicPtr::new(ptr::null_mut()))
    }

    /// Whether nothing is waiting to be taken.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.load(Relaxed).is_null()
    }

    /// Adds a thread that was woken; it is in no queue.
    pub fn push(&self, thread: &'static Control) {
        let mut head = self.0.load(Relaxed);
        loop {
            thread.next.set(head);
            let new = ptr::from_ref(thread).cast_mut();
            // ORDER: Release publishes `next` and all that the waker wrote; pairs with `drain`.
            match self.0.compare_exchange_weak(head, new, Release, Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Takes all threads, in the order in which they were pushed.
    pub fn drain(&self, mut deliver: impl FnMut(&'static Control)) {
        if self.is_empty() {
            return;
        }
        // ORDER: Acquire pairs with the Release in `push`.
        let mut newest: *const Control = self.0.swap(ptr::null_mut(), Acquire);
        let mut oldest: *const Control = ptr::null();
        // SAFETY: every link is null or a slot of the slab; after the swap they are ours.
        while let Some(thread) = unsafe { newest.as_ref() } {
            newest = thread.next.get();
            thread.next.set(oldest);
            oldest = thread;
        }
        // SAFETY: as above; `next` is read before the thread is delivered and may be relinked.
        while let Some(thread) = unsafe { oldest.as_ref() } {
            oldest = thread.next.get();
            deliver(thread);
        }
    }
}
