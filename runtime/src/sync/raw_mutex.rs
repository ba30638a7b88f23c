//! The mutex without its data: an owner word, a queue, and priority inheritance.
//!
//! Word: 0 = free; slot + 1 of the owner; bit 31 = `CONTENDED`.
//!
//! Protocol:
//! 1. Free to owned and back is one compare-exchange while nobody waits.
//! 2. `CONTENDED` is set and cleared only under the queue's lock, and is set whenever the queue is
//!    not empty; with it set, every lock and unlock goes through the queue's lock.
//! 3. A slow unlock never leaves the word 0: the next locker has to go through the queue's lock,
//!    so the unlock's last access to the mutex comes before the next owner, who may free it.
//! 4. Unlocking hands the mutex over to the first waiter if that one is time-critical, and at
//!    every `FAIR_EVERY`th time; otherwise it frees the mutex and wakes the waiter, who competes
//!    again (a handover costs a switch per critical section).
//! 5. Inheritance: a time-critical waiter raises the owner, and whoever the owner waits for, to
//!    its own priority; under the one inheritance lock, taken before any queue's lock. A raise
//!    through a mutex also holds its queue's lock, so an owner that unlocks without the
//!    inheritance lock sees it (`inherits`). The owner drops back when it unlocks. Lazy threads
//!    among themselves never take the inheritance lock.
//! 6. A waiter that gives up (timeout) takes back what the owner inherits from it. So a mutex
//!    without waiters is in no list: it may be moved then, if its guard was forgotten.

use core::cell::Cell;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU16};

use crate::control::{self, Control, Outcome};
use crate::extension::Extension;
use crate::model::{self, AtomicU32, fence};
use crate::raw_lock::RawLock;
use crate::sched;
use crate::wait::{self, Locked, WaitQueue};

const CONTENDED: u32 = 1 << 31;
/// Every this many contended unlocks one hands over, so that no waiter starves.
const FAIR_EVERY: u8 = 16;
/// Turns of the spin-wait before a waiter parks, if the owner may be running elsewhere.
const SPINS: u32 = 40;
/// Owners of owners that a waiter raises.
const CHAIN_MAX: usize = 32;

/// Guards `Extension::inherited`, the life of other threads' extensions, and
/// `RawMutex::next_inherited`.
static INHERITANCE: RawLock = RawLock::new();

/// See the file's head. All zero bytes are an unlocked mutex.
#[repr(C)]
pub struct RawMutex {
    word: AtomicU32,
    unlocks: AtomicU8,
    /// For the C API: the type of the mutex.
    pub kind: AtomicU8,
    /// For the C API: how often the owner of a recursive mutex has locked it again.
    pub count: AtomicU16,
    queue: WaitQueue,
    next_inherited: Cell<*const RawMutex>,
}

// SAFETY: `next_inherited` is touched only under `INHERITANCE`.
unsafe impl Send for RawMutex {}
// SAFETY: as above.
unsafe impl Sync for RawMutex {}

impl Default for RawMutex {
    fn default() -> Self {
        Self::new()
    }
}

#[inline(always)]
fn mark(thread: &Control) -> u32 {
    thread.slot() + 1
}

impl RawMutex {
    /// An unlocked mutex.
    pub const fn new() -> Self {
        RawMutex {
            word: AtomicU32::new(0),
            unlocks: AtomicU8::new(0),
            kind: AtomicU8::new(0),
            count: AtomicU16::new(0),
            queue: WaitQueue::new(),
            next_inherited: Cell::new(ptr::null()),
        }
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        let me = mark(sched::current());
        // ORDER: Acquire pairs with the Release in `unlock`.
        self.word.compare_exchange(0, me, Acquire, Relaxed).is_ok() || self.try_lock_freed(me)
    }

    /// A mutex can be free and marked as contended: its woken waiter has not come back yet.
    #[cold]
    fn try_lock_freed(&self, me: u32) -> bool {
        if self.word.load(Relaxed) & !CONTENDED != 0 {
            return false;
        }
        let queue = self.queue.lock();
        self.take_if_free(&queue, me)
    }

    /// Takes the mutex, waiting for it.
    #[inline]
    pub fn lock(&self) {
        let me = mark(sched::current());
        // ORDER: as in `try_lock`.
        if self.word.compare_exchange(0, me, Acquire, Relaxed).is_err() {
            let outcome = self.lock_slow(0);
            debug_assert_eq!(outcome, Outcome::Woken);
        }
    }

    /// Takes the mutex, waiting until `deadline` (ns, 0 = never) at most.
    pub fn lock_until(&self, deadline: u64) -> Outcome {
        if self.try_lock() { Outcome::Woken } else { self.lock_slow(deadline) }
    }

    /// Takes the mutex, waiting for it; gives up when the calling thread is cancelled or called.
    pub fn lock_cancellable(&self) -> Outcome {
        if self.try_lock() {
            return Outcome::Woken;
        }
        let me = sched::current();
        me.cancellable.set(true);
        let outcome = self.lock_slow(0);
        me.cancellable.set(false);
        outcome
    }

    /// Whether somebody holds it.
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & !CONTENDED != 0
    }

    /// Whether the calling thread holds it.
    pub fn is_mine(&self) -> bool {
        self.word.load(Relaxed) & !CONTENDED == mark(sched::current())
    }

    #[cold]
    fn lock_slow(&self, deadline: u64) -> Outcome {
        let thread = sched::current();
        let me = mark(thread);
        if self.spin(thread, me) || self.try_lock_freed(me) {
            return Outcome::Woken;
        }
        // An owner that has to be prepared before it can be raised.
        let mut unprepared: Option<&'static Control> = None;
        loop {
            if let Some(owner) = unprepared {
                // Allocates, so it can't be done under the locks.
                owner.make_extension();
            }
            // A lazy waiter has nothing to lend.
            let inheritance = thread.is_critical().then(|| INHERITANCE.lock());
            let queue = self.queue.lock();
            if self.take_if_free(&queue, me) {
                return Outcome::Woken;
            }
            queue.enqueue(thread);
            thread.queue.mark_as_mutex();
            // ORDER: pairs with the fence in `raise_owners`: either it finds us in this queue and
            // goes on to the owner, or we see that we were raised.
            fence(SeqCst);
            if inheritance.is_none() && thread.is_critical() {
                queue.remove(thread);
                continue;
            }
            if inheritance.is_some()
                && let Err(owner) = self.raise_owners(thread, unprepared.is_some())
            {
                queue.remove(thread);
                unprepared = Some(owner);
                continue;
            }
            drop(inheritance);
            let outcome = queue.wait(thread, deadline);
            // ORDER: pairs with the same fence: whoever found us in this queue has raised us
            // before, and may be using this mutex until it gives the lock back.
            fence(SeqCst);
            if thread.is_critical() {
                drop(INHERITANCE.lock());
            }
            if outcome != Outcome::Woken {
                self.give_up();
                return outcome;
            }
            // ORDER: Acquire pairs with the Release of the handover.
            if self.word.load(Acquire) & !CONTENDED == me {
                return outcome;
            }
        }
    }

    /// A waiter has left without the mutex: the owner inherits from those that still wait only.
    #[cold]
    fn give_up(&self) {
        let _guard = INHERITANCE.lock();
        let queue = self.queue.lock();
        let Some(owner) = self.owner().filter(|owner| inherits(owner)) else { return };
        self.drop_back(owner);
        if let Some(first) = queue.first() {
            // It inherited through this mutex, so it has an extension.
            let _ = self.raise_owner(first.priority.load(Relaxed), false);
        }
    }

    /// Under the queue's lock: takes the mutex if it is free, else marks it as contended.
    fn take_if_free(&self, queue: &Locked<'_>, me: u32) -> bool {
        loop {
            let word = self.word.load(Relaxed);
            let new = match word & !CONTENDED {
                0 if queue.is_empty() => me,
                0 => me | CONTENDED,
                owner => owner | CONTENDED,
            };
            // ORDER: Acquire for the case that it was free.
            if self.word.compare_exchange(word, new, Acquire, Relaxed).is_ok() {
                return new & !CONTENDED == me && word & !CONTENDED == 0;
            }
        }
    }

    /// A short wait for an owner that may be running on another worker.
    fn spin(&self, thread: &Control, me: u32) -> bool {
        let owner = self.word.load(Relaxed) & !CONTENDED;
        if owner == 0 || owner == me {
            return false;
        }
        // SAFETY: an owner's mark names a slot that was handed out.
        let owner = unsafe { control::at(owner - 1) };
        let (mine, theirs) = (thread.worker.load(Relaxed), owner.worker.load(Relaxed));
        if !mine.is_null() && mine == theirs {
            return false;
        }
        for _ in 0..SPINS {
            model::spin();
            match self.word.load(Relaxed) {
                0 if self.word.compare_exchange(0, me, Acquire, Relaxed).is_ok() => return true,
                CONTENDED => return false,
                _ => {}
            }
        }
        false
    }

    /// Frees the mutex.
    ///
    /// # Safety
    /// 1. The calling thread holds it.
    #[inline]
    pub unsafe fn unlock(&self) {
        let word = self.word.load(Relaxed);
        // ORDER: Release publishes the critical section to the next owner.
        if word & CONTENDED != 0 || self.word.compare_exchange(word, 0, Release, Relaxed).is_err() {
            self.unlock_slow();
        }
    }

    #[cold]
    fn unlock_slow(&self) {
        let me = sched::current();
        let mut inheritance = inherits(me).then(|| INHERITANCE.lock());
        let mut queue = self.queue.lock();
        if inheritance.is_none() && inherits(me) {
            // Raised since the test: once more, in the right order.
            drop(queue);
            inheritance = Some(INHERITANCE.lock());
            queue = self.queue.lock();
        }
        if inheritance.is_some() && inherits(me) {
            self.drop_back(me);
        }
        let next = queue.pop();
        let word = match next {
            Some(next) if self.hands_over(next) => {
                mark(next) | if queue.is_empty() { 0 } else { CONTENDED }
            }
            _ => CONTENDED,
        };
        // ORDER: Release publishes the critical section.
        self.word.store(word, Release);
        drop(queue);
        drop(inheritance);
        if let Some(next) = next {
            wait::wake(next, Outcome::Woken);
        }
    }

    fn hands_over(&self, next: &Control) -> bool {
        let count = self.unlocks.load(Relaxed).wrapping_add(1);
        self.unlocks.store(count, Relaxed);
        next.is_critical() || count.is_multiple_of(FAIR_EVERY)
    }

    // ---- inheritance; the lock is held, except where it is said

    /// Raises the owner, and those it waits for, to the priority of `waiter`, which is in the
    /// queue. `again`: goes on to the owners behind one that is raised already.
    ///
    /// The caller holds this mutex's queue's lock.
    ///
    /// # Errors
    /// An owner that has no extension; those before it are raised.
    fn raise_owners(&self, waiter: &'static Control, again: bool) -> Result<(), &'static Control> {
        let priority = waiter.priority.load(Relaxed);
        let mut raised = self.raise_owner(priority, again)?;
        for _ in 0..CHAIN_MAX {
            let Some(owner) = raised else { break };
            // ORDER: pairs with the fences in `lock_slow`.
            fence(SeqCst);
            let link = owner.queue.get_of_mutex();
            if link.is_null() || ptr::eq(link, &self.queue) {
                // It waits in no mutex, or the threads wait for each other: that queue is locked
                // by us.
                break;
            }
            // SAFETY: a marked link names the queue inside a mutex. The mutex is alive: an owner
            // that leaves it after our fence sees that it was raised, and waits for the lock that
            // we hold; one that left it before is not linked there any more.
            let next = unsafe { &*link.byte_sub(offset_of!(RawMutex, queue)).cast::<RawMutex>() };
            let queue = next.queue.lock();
            if !queue.remove(owner) {
                // Woken meanwhile: it goes on by itself.
                break;
            }
            queue.enqueue(owner);
            owner.queue.mark_as_mutex();
            raised = next.raise_owner(priority, again)?;
        }
        Ok(())
    }

    fn owner(&self) -> Option<&'static Control> {
        let owner = self.word.load(Relaxed) & !CONTENDED;
        // SAFETY: an owner's mark names a slot that was handed out.
        (owner != 0).then(|| unsafe { control::at(owner - 1) })
    }

    /// Raises the owner to `priority`. Returns it when it was lower before, or `again`.
    ///
    /// The caller holds this mutex's queue's lock, and the mutex is contended; so the owner can't
    /// free it meanwhile.
    ///
    /// # Errors
    /// The owner, if it has no extension to note the mutex in; nothing is done.
    fn raise_owner(
        &self,
        priority: u8,
        again: bool,
    ) -> Result<Option<&'static Control>, &'static Control> {
        let Some(owner) = self.owner() else { return Ok(None) };
        if owner.base_priority.load(Relaxed) >= priority {
            return Ok(None);
        }
        // Also where another mutex has raised it as high: that one may be unlocked first.
        self.link_to(owner.extension_if_made().ok_or(owner)?);
        if owner.priority.load(Relaxed) < priority {
            owner.priority.store(priority, Relaxed);
            sched::priority_was_raised(owner);
            return Ok(Some(owner));
        }
        Ok(again.then_some(owner))
    }

    /// Notes that the thread of `extension` inherits through this mutex.
    fn link_to(&self, extension: &Extension) {
        let list = &extension.inherited;
        let mut each: *const RawMutex = list.load(Relaxed);
        // SAFETY: linked mutexes are alive: their owner has not unlocked them (`drop_back`), and
        // nobody has dropped them (`Drop`).
        while let Some(mutex) = unsafe { each.as_ref() } {
            if ptr::eq(mutex, self) {
                return;
            }
            each = mutex.next_inherited.get();
        }
        self.next_inherited.set(list.load(Relaxed));
        list.store(ptr::from_ref(self).cast_mut(), Relaxed);
    }

    /// The owner unlocks: what it inherited through this mutex goes.
    fn drop_back(&self, owner: &Control) {
        let Some(extension) = owner.extension_if_made() else { return };
        self.unlink_from(extension);
        let mut priority = owner.base_priority.load(Relaxed);
        let mut each: *const RawMutex = extension.inherited.load(Relaxed);
        // SAFETY: as in `link_to`.
        while let Some(mutex) = unsafe { each.as_ref() } {
            if let Some(first) = mutex.queue.lock().first() {
                priority = priority.max(first.priority.load(Relaxed));
            }
            each = mutex.next_inherited.get();
        }
        owner.priority.store(priority, Relaxed);
    }

    /// Takes this mutex out of the list of those through which a thread inherits.
    fn unlink_from(&self, extension: &Extension) {
        let mut kept: *const RawMutex = ptr::null();
        let mut each: *const RawMutex = extension.inherited.load(Relaxed);
        // SAFETY: as in `link_to`.
        while let Some(mutex) = unsafe { each.as_ref() } {
            each = mutex.next_inherited.get();
            if !ptr::eq(mutex, self) {
                mutex.next_inherited.set(kept);
                kept = mutex;
            }
        }
        extension.inherited.store(kept.cast_mut(), Relaxed);
        self.next_inherited.set(ptr::null());
    }
}

impl Drop for RawMutex {
    /// A mutex can be dropped locked (its guard was forgotten), and be what its owner inherits
    /// through: it must not stay in that list.
    fn drop(&mut self) {
        if self.is_locked() {
            let _guard = INHERITANCE.lock();
            if let Some(extension) = self.owner().and_then(Control::extension_if_made) {
                self.unlink_from(extension);
            }
        }
    }
}

/// Changes the priority that `thread` has without inheritance.
pub(crate) fn set_base_priority(thread: &'static Control, priority: u8) {
    let _guard = INHERITANCE.lock();
    let was_raised = inherits(thread);
    thread.base_priority.store(priority, Relaxed);
    let effective = thread.priority.load(Relaxed);
    if !was_raised || priority > effective {
        thread.priority.store(priority, Relaxed);
        if priority > effective {
            sched::priority_was_raised(thread);
        }
    }
}

/// Frees what the thread's slot keeps beside it; the last reference is gone.
///
/// Under the inheritance lock: a mutex whose guard was forgotten still names the slot as its
/// owner's, and a waiter may be reading the extension.
pub(crate) fn free_extension(thread: &Control) {
    let extension = {
        let _guard = INHERITANCE.lock();
        thread.extension.swap(ptr::null_mut(), Relaxed)
    };
    if !extension.is_null() {
        // SAFETY: made by `Control::make_extension` from a box, and nobody finds it any more.
        let extension = unsafe { Box::from_raw(extension) };
        // Locals that were made in the last round of destructors: they need not be Send, and this
        // may be another thread.
        core::mem::forget(extension.locals.take());
    }
}

/// Whether the thread inherits through a mutex. Exact for one mutex under its queue's lock.
fn inherits(thread: &Control) -> bool {
    thread.extension_if_made().is_some_and(|e| !e.inherited.load(Relaxed).is_null())
}
