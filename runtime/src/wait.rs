//! The wait queue below every primitive of `sync`: threads in order, links in control blocks.
//!
//! Nothing here points into a stack, so a waiting thread may hibernate. User-level threads and
//! kernel threads wait in the same queue. All zero bytes are an empty queue, so a C object can
//! hold one.
//!
//! Protocol:
//! 1. A waiter takes the lock, decides that it must wait, [`Locked::enqueue`]s itself, and calls
//!    [`Locked::wait`], which unlocks and parks.
//! 2. A waker takes the lock and [`Locked::pop`]s: from then on the waiter is his. He unlocks and
//!    only then calls [`wake`] — once.
//! 3. A deadline (or a cancellation) takes the lock and removes the waiter if it is still linked;
//!    if it is not, a waker owns it and the wake is on its way. So exactly one of them ends the
//!    wait.
//! 4. A woken light thread becomes ready on its worker only, which cannot run it before it has
//!    switched away: the race between wake and switch (uThread, section 2.4) does not exist for it.
//!    A full thread may be taken by another worker, which looks whether it has (`offered.rs`).
//!
//! Order: by priority, then first come first served. Lazy threads are all of one priority.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use crate::control::{Control, Outcome, WaitKind};
use crate::model::{AtomicPtr, Cell};
use crate::raw_lock::{RawGuard, RawLock};
use crate::sched;

/// See the file's head.
#[repr(C)]
pub struct WaitQueue {
    /// Atomic only for [`WaitQueue::seems_empty`].
    head: AtomicPtr<Control>,
    tail: Cell<*const Control>,
    lock: RawLock,
}

// SAFETY: `tail` is touched only under `lock`.
unsafe impl Send for WaitQueue {}
// SAFETY: as above.
unsafe impl Sync for WaitQueue {}

impl Default for WaitQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        WaitQueue {
            head: AtomicPtr::new(ptr::null_mut()),
            tail: Cell::new(ptr::null()),
            lock: RawLock::new(),
        }
    }

    /// Takes the queue's lock. The holder must not block or switch.
    #[inline]
    pub fn lock(&self) -> Locked<'_> {
        Locked { queue: self, guard: self.lock.lock() }
    }

    /// Whether nobody waits, seen without the lock: right for whoever has synchronised with the
    /// waiter otherwise, a hint for others.
    #[inline(always)]
    pub(crate) fn seems_empty(&self) -> bool {
        self.head.load(Relaxed).is_null()
    }

    /// Empty and unlocked, whatever was there: for a forked child, which is alone. What is as it
    /// should be is not written, so that its memory stays shared with the parent.
    pub(crate) fn forget_all(&self) {
        self.lock.forget_holder();
        if !self.seems_empty() || !self.tail.get().is_null() {
            self.head.store(ptr::null_mut(), Relaxed);
            self.tail.set(ptr::null());
        }
    }

    /// Wakes every waiter that is in the queue now.
    pub fn wake_all(&self) -> usize {
        let batch = self.lock().take_all();
        batch.wake()
    }

    /// Wakes the first waiter, if any.
    pub fn wake_one(&self) -> bool {
        let thread = self.lock().pop();
        thread.map(|thread| wake(thread, Outcome::Woken)).is_some()
    }
}

/// Threads that were taken from a queue and not woken yet.
#[must_use]
pub struct Batch {
    first: *const Control,
    last: *const Control,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// No thread.
    pub const fn new() -> Self {
        Batch { first: ptr::null(), last: ptr::null() }
    }

    /// Adds a thread that was taken out, at the end of the batch.
    pub fn push(&mut self, thread: &'static Control) {
        thread.next.set(ptr::null());
        // SAFETY: null or a slot of the slab, ours to link.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(thread),
            None => self.first = thread,
        }
        self.last = thread;
    }

    /// Who is in it, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &'static Control> {
        let mut each = self.first;
        core::iter::from_fn(move || {
            // SAFETY: null or a slot of the slab; the threads are parked and ours.
            let thread = unsafe { each.as_ref() }?;
            each = thread.next.get();
            Some(thread)
        })
    }

    /// Wakes them all, in their order; returns how many there were.
    pub fn wake(mut self) -> usize {
        let mut count = 0;
        while let Some(thread) = self.pop() {
            wake(thread, Outcome::Woken);
            count += 1;
        }
        count
    }

    /// The next of them; the caller wakes it.
    pub fn pop(&mut self) -> Option<&'static Control> {
        // SAFETY: null or a slot of the slab; the threads are parked and ours to wake.
        let thread = unsafe { self.first.as_ref() }?;
        self.first = thread.next.get();
        if self.first.is_null() {
            self.last = ptr::null();
        }
        Some(thread)
    }
}

/// A wait queue whose lock is held.
#[must_use]
pub struct Locked<'a> {
    queue: &'a WaitQueue,
    guard: RawGuard<'a>,
}

impl Locked<'_> {
    /// Whether nobody waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.head.load(Relaxed).is_null()
    }

    /// The first waiter, which stays in the queue.
    #[inline]
    pub fn first(&self) -> Option<&'static Control> {
        // SAFETY: null or a slot of the slab.
        unsafe { self.queue.head.load(Relaxed).as_ref() }
    }

    /// The waiter after `thread`, which is in this queue.
    #[inline]
    pub fn after(&self, thread: &Control) -> Option<&'static Control> {
        // SAFETY: null or a slot of the slab, linked in this locked queue.
        unsafe { thread.next.get().as_ref() }
    }

    #[inline(always)]
    fn set_head(&self, head: *const Control) {
        self.queue.head.store(head.cast_mut(), Relaxed);
    }

    /// Appends the calling thread; it has to call [`Locked::wait`] next.
    #[inline]
    pub fn enqueue(&self, me: &'static Control) {
        debug_assert!(me.queue.get().is_null());
        self.attach(me);
    }

    /// Links `me` behind those that go before it.
    #[inline]
    fn attach(&self, me: &'static Control) {
        let before = self.place_for(me);
        // SAFETY: null or a slot of the slab.
        let after = match unsafe { before.as_ref() } {
            Some(before) => before.next.replace(me),
            None => {
                let head = self.queue.head.load(Relaxed);
                self.set_head(me);
                head.cast_const()
            }
        };
        me.prev.set(before);
        me.next.set(after);
        me.queue.set(self.queue);
        // SAFETY: null or a slot of the slab.
        match unsafe { after.as_ref() } {
            Some(after) => after.prev.set(me),
            None => self.queue.tail.set(me),
        }
    }

    /// The last waiter that goes before `me`.
    fn place_for(&self, me: &Control) -> *const Control {
        let priority = me.priority.load(Relaxed);
        let mut before = self.queue.tail.get();
        // SAFETY: null or a slot of the slab, linked in this locked queue.
        while let Some(other) = unsafe { before.as_ref() } {
            if other.priority.load(Relaxed) >= priority {
                break;
            }
            before = other.prev.get();
        }
        before
    }

    /// Takes `thread`, which is in this queue, out; the caller must [`wake`] it after unlocking.
    #[inline]
    pub fn take(&self, thread: &Control) {
        debug_assert!(ptr::eq(thread.queue.get(), self.queue));
        self.unlink(thread);
    }

    /// Takes the first waiter out; the caller must [`wake`] it after unlocking.
    #[inline]
    pub fn pop(&self) -> Option<&'static Control> {
        let first = self.first()?;
        self.unlink(first);
        Some(first)
    }

    /// Takes all waiters out; the caller must wake each after unlocking.
    pub fn take_all(&self) -> Batch {
        let first: *const Control = self.queue.head.load(Relaxed);
        self.set_head(ptr::null());
        let last = self.queue.tail.replace(ptr::null());
        let mut each = first;
        // SAFETY: null or a slot of the slab, linked in this locked queue.
        while let Some(thread) = unsafe { each.as_ref() } {
            thread.queue.set(ptr::null());
            each = thread.next.get();
        }
        Batch { first, last }
    }

    /// Takes `thread` out if it is in this queue.
    pub fn remove(&self, thread: &Control) -> bool {
        if !ptr::eq(thread.queue.get(), self.queue) {
            return false;
        }
        self.unlink(thread);
        true
    }

    /// Moves `thread`, which is in this queue, to `target`, behind its equals. It is never in no
    /// queue: who looks without a lock would take it for one that is being woken.
    pub fn transfer(&self, thread: &'static Control, target: &Locked<'_>) {
        debug_assert!(ptr::eq(thread.queue.get(), self.queue));
        self.detach(thread);
        target.attach(thread);
    }

    #[inline]
    fn unlink(&self, thread: &Control) {
        self.detach(thread);
        thread.queue.set(ptr::null());
    }

    /// Closes the list over `thread`.
    #[inline]
    fn detach(&self, thread: &Control) {
        let (prev, next) = (thread.prev.get(), thread.next.get());
        // SAFETY: null or slots of the slab, linked in this locked queue.
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.set(next),
            None => self.set_head(next),
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.set(prev),
            None => self.queue.tail.set(prev),
        }
    }

    /// Unlocks and parks the calling thread, which has enqueued itself, until it is woken or
    /// `deadline` (ns, 0 = never) passes.
    #[inline]
    pub fn wait(self, me: &'static Control, deadline: u64) -> Outcome {
        self.wait_after(me, deadline, || {})
    }

    /// As [`Locked::wait`]; between unlocking and parking calls `before`, which must not switch.
    /// By then a waker may have the thread already.
    #[inline]
    pub fn wait_after(self, me: &'static Control, deadline: u64, before: impl FnOnce()) -> Outcome {
        me.wait.set(WaitKind::Queue);
        drop(self.guard);
        before();
        sched::wait(me, deadline)
    }

    /// As [`Locked::wait_published`]; between unlocking and parking calls `before`, as
    /// [`Locked::wait_after`] does. `None`: that has said that there is nothing to wait for, and
    /// has taken the thread out.
    pub fn wait_unless(
        self,
        me: &'static Control,
        deadline: u64,
        before: impl FnOnce() -> bool,
    ) -> Option<Outcome> {
        drop(self.guard);
        before().then(|| sched::wait(me, deadline))
    }

    /// As [`Locked::wait`] for a thread that has set its [`WaitKind`] itself.
    #[inline]
    pub fn wait_published(self, me: &'static Control, deadline: u64) -> Outcome {
        debug_assert!(matches!(
            me.wait.get(),
            WaitKind::Queue | WaitKind::Shared | WaitKind::Address
        ));
        drop(self.guard);
        sched::wait(me, deadline)
    }
}

/// Ends the wait of a thread that was taken out of its queue.
#[inline]
pub fn wake(thread: &'static Control, outcome: Outcome) {
    thread.outcome.set(outcome);
    sched::ready(thread);
}

/// Ends `thread`'s wait in whatever queue it is in, unless a waker has taken it already.
///
/// Only the kernel thread that owns `thread` calls this: so the queue is alive, because the
/// waiter that keeps it alive can't return meanwhile. (A queue that it is moved from is one of the
/// parking lot's, and those live for ever.)
pub(crate) fn abandon(thread: &'static Control) -> bool {
    loop {
        // The pointer may be cleared by a waker at any moment, or changed by a requeue, but only
        // under the queue's lock.
        let queue = thread.queue.get();
        // SAFETY: by the function's contract the queue is alive.
        let Some(locked) = (unsafe { queue.as_ref() }).map(WaitQueue::lock) else { return false };
        if locked.remove(thread) {
            return true;
        }
        // Woken or moved since: the next turn tells.
    }
}
