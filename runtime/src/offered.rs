//! The ready full threads of one worker: run queues that other workers take from.
//!
//! Protocol:
//! 1. Whoever makes a full thread ready pushes it here, at the worker that it belongs to.
//! 2. That worker pops them; another worker that has nothing to do steals half of them, and so
//!    does a spare one while this worker is blocked in the kernel.
//! 3. A thread may be here before it has left its stack: it was woken between publishing its wait
//!    and switching away, or it yields. Only the kernel thread of its worker can be on that stack,
//!    so the worker itself may continue it at once; a thief looks first ([`Context::is_saved`])
//!    and leaves it here if it has not left.
//!
//! Invariant: the lock's holder allocates nothing: an allocator's lock may belong to a full thread
//! that is not running. So a ring does not grow in here; what it has no room for is in an overflow
//! list until the worker has made it larger ([`Offered::enlarge`]).

use core::ptr;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use heddle_record::Group;

use crate::arch::Context;
use crate::control::{Control, WaitKind};
use crate::model::Hint;
use crate::queue::{GROUPS, RunQueues};
use crate::raw_lock::RawLock;
use crate::ready::RING_MIN;

/// Where `Offered::len` has the groups of which threads have come; the number of threads is below.
const GROUPS_SHIFT: u32 = u32::BITS - GROUPS as u32;

/// See the file's head.
pub(crate) struct Offered {
    lock: RawLock,
    /// How many there are, and [`RunQueues::groups_come`].
    len: Hint,
    top: AtomicU8,
    queues: RunQueues,
}

// SAFETY: `queues` is touched only under `lock`, but for its hints, which are atomic.
unsafe impl Sync for Offered {}

impl Offered {
    pub fn new() -> Self {
        Offered {
            lock: RawLock::new(),
            len: Hint::new(0),
            top: AtomicU8::new(0),
            queues: RunQueues::of_fixed_size(),
        }
    }

    /// With room for the first threads of the usual group, so that a spare worker allocates nothing
    /// on its way to them.
    pub fn with_room() -> Self {
        let offered = Self::new();
        let room = vec![ptr::null(); RING_MIN];
        offered.with(|queues| queues.give_room(Group::Normal as usize, room));
        offered
    }

    /// A new round of the groups' shares.
    #[cfg(feature = "sim")]
    pub fn reset_for_simulation(&self) {
        self.queues.reset_for_simulation();
    }

    /// How many there are; a hint for others than the lock's holder.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.len.load(Relaxed) & ((1 << GROUPS_SHIFT) - 1)
    }

    /// How many of them were preempted; a hint.
    pub fn behind(&self) -> u32 {
        self.queues.behind()
    }

    /// How many have come since those were; a hint.
    pub fn come(&self) -> u32 {
        self.len().saturating_sub(self.behind())
    }

    /// Whether threads of `group` or a more urgent one have come since; a hint.
    pub fn has_come(&self, group: u8) -> bool {
        let more_urgent = (2 << (group as usize % GROUPS)) - 1;
        self.len.load(Relaxed) >> GROUPS_SHIFT & more_urgent != 0
    }

    /// See [`RunQueues::grant`]; anybody may call it.
    pub fn grant(&self) {
        self.queues.grant();
    }

    /// See [`RunQueues::is_granted`]; a hint.
    pub fn is_granted(&self) -> bool {
        self.queues.is_granted()
    }

    /// Highest priority of a time-critical one, 0 when none is; a hint.
    #[inline]
    pub fn fast_priority(&self) -> u8 {
        self.top.load(Relaxed)
    }

    /// Runs `change` under the lock.
    #[inline]
    fn with<T>(&self, change: impl FnOnce(&RunQueues) -> T) -> T {
        let _guard = self.lock.lock();
        let result = change(&self.queues);
        let groups = self.queues.groups_come() << GROUPS_SHIFT;
        self.len.store(self.queues.len() | groups, Relaxed);
        self.top.store(self.queues.fast_priority(), Relaxed);
        result
    }

    /// Appends a thread to the queue of its priority or group.
    #[inline]
    pub fn push(&self, thread: &'static Control) {
        self.with(|queues| queue(queues, thread));
    }

    /// As [`Offered::push`], of one that yields.
    pub fn push_yielded(&self, thread: &'static Control) {
        self.with(|queues| queues.push_yielded(thread));
    }

    /// As [`Offered::push`], of one that was preempted.
    pub fn push_preempted(&self, thread: &'static Control) {
        self.with(|queues| queues.push_preempted(thread));
    }

    /// As [`Offered::push`], of several.
    pub fn push_all(&self, threads: impl Iterator<Item = &'static Control>) {
        self.with(|queues| threads.for_each(|thread| queue(queues, thread)));
    }

    /// The next thread: the most urgent time-critical one, else a lazy one.
    #[inline]
    pub fn pop(&self) -> Option<&'static Control> {
        if self.len() == 0 {
            return None;
        }
        self.with(RunQueues::pop)
    }

    /// The next lazy thread, whatever is time-critical.
    pub fn pop_lazy(&self) -> Option<&'static Control> {
        if self.len() == 0 {
            return None;
        }
        self.with(RunQueues::pop_lazy)
    }

    /// Appends `me`, which yields, is pinned and runs, and takes out the one that goes before it;
    /// without one nothing happens. A time-critical thread yields only to its equals and betters.
    #[inline]
    pub fn exchange(&self, me: &'static Control) -> Option<&'static Control> {
        if self.len() == 0 {
            return None;
        }
        self.exchange_with(me, RunQueues::push_yielded)
    }

    /// As [`Offered::exchange`], but those that were preempted do not go before it.
    #[inline]
    pub fn exchange_with_come(&self, me: &'static Control) -> Option<&'static Control> {
        if self.come() == 0 {
            return None;
        }
        self.exchange_with(me, RunQueues::push)
    }

    #[inline(always)]
    fn exchange_with(
        &self,
        me: &'static Control,
        push: fn(&RunQueues, &'static Control),
    ) -> Option<&'static Control> {
        let priority = me.priority.load(Relaxed);
        if priority == 0 {
            let _guard = self.lock.lock_pinned();
            // One comes, one goes: what others are told of the queues stays right.
            if let Some(next) = self.queues.rotate(me) {
                return Some(next);
            }
        }
        self.exchange_by_rank(me, priority, push)
    }

    /// As [`Offered::exchange`], of one that waits in the kernel.
    pub fn exchange_waiting(&self, me: &'static Control) -> Option<&'static Control> {
        self.exchange_by_rank(me, me.priority.load(Relaxed), RunQueues::push)
    }

    /// As [`Offered::exchange`], of one that is preempted.
    pub fn exchange_preempted(&self, me: &'static Control) -> Option<&'static Control> {
        self.exchange_by_rank(me, me.priority.load(Relaxed), RunQueues::push_preempted)
    }

    #[cold]
    fn exchange_by_rank(
        &self,
        me: &'static Control,
        priority: u8,
        push: fn(&RunQueues, &'static Control),
    ) -> Option<&'static Control> {
        self.with(|queues| {
            if priority != 0 && priority > queues.fast_priority() {
                return None;
            }
            let next = queues.pop()?;
            push(queues, me);
            Some(next)
        })
    }

    /// Takes up to `count` of those that have left their stack, for another worker. `deliver` runs
    /// after the lock is released.
    pub fn steal(&self, count: u32, mut deliver: impl FnMut(&'static Control)) -> u32 {
        let mut first: *const Control = ptr::null();
        let mut last: Option<&'static Control> = None;
        let taken = self.with(|queues| {
            let mut taken = 0;
            for _ in 0..queues.len() {
                if taken == count {
                    break;
                }
                let Some(thread) = queues.pop() else { break };
                if !Context::is_saved(&thread.context) {
                    queues.push(thread);
                    continue;
                }
                thread.next.set(ptr::null());
                match last.replace(thread) {
                    Some(last) => last.next.set(thread),
                    None => first = thread,
                }
                taken += 1;
            }
            taken
        });
        // SAFETY: null or a slot of the slab; the chain is ours.
        while let Some(thread) = unsafe { first.as_ref() } {
            first = thread.next.get();
            deliver(thread);
        }
        taken
    }

    /// Puts threads whose priority has changed since they were queued where they belong.
    pub fn resort(&self) {
        if self.len() != 0 {
            self.with(RunQueues::resort);
        }
    }

    /// Makes room for those that found none. The worker's business, between threads.
    pub fn enlarge(&self) {
        if self.len() == 0 {
            return;
        }
        while let Some((group, capacity)) = self.with(RunQueues::too_small) {
            let mut room = Vec::new();
            if room.try_reserve_exact(capacity).is_err() {
                // The overflow list serves until there is memory again.
                return;
            }
            room.resize(capacity, ptr::null());
            // What it replaces is freed here, without the lock.
            drop(self.with(|queues| queues.give_room(group, room)));
        }
    }
}

/// Appends a thread that waits no more.
#[inline(always)]
fn queue(queues: &RunQueues, thread: &'static Control) {
    match thread.wait.get() {
        WaitKind::Crowd => queues.push_crowd(thread),
        _ => queues.push(thread),
    }
}
