//! The run queues of one worker: Fast by priority, Lazy by group.
//!
//! Only the worker itself touches them; those of its full threads (`offered.rs`) whoever holds
//! their lock. Fast: one linked list per priority, found by a bitmap.
//! Lazy: one ring buffer per group; a ring (rather than a linked list) lets the switch prefetch
//! control blocks and stacks of threads further on, which a list can't name without missing the
//! cache itself. When several groups have threads they share by weight.
//!
//! Invariants:
//! 1. A thread is in at most one queue, once.
//! 2. Fast before Lazy: [`RunQueues::pop`] returns a lazy thread only when no time-critical one
//!    is ready (the lazy bound is the worker's business: it calls [`RunQueues::pop_lazy`]).
//! 3. A push never fails: when a ring can't grow, the thread goes to a linked overflow list.

use core::sync::atomic::Ordering::Relaxed;

use crate::control::Control;
use crate::model::Cell;
use crate::ready::{List, Ring};

/// Scheduling groups of the Lazy region (TEK's four).
pub(crate) const GROUPS: usize = 4;
/// Share of each group in a round, urgent first.
const WEIGHTS: [u32; GROUPS] = [8, 4, 2, 1];

/// See the file's head.
pub(crate) struct RunQueues {
    fast_bits: Cell<u128>,
    fast: [List; 100],
    lazy_bits: Cell<u32>,
    lazy: [Ring; GROUPS],
    credit: [Cell<u32>; GROUPS],
    ready: Cell<u32>,
}

impl RunQueues {
    pub fn new() -> Self {
        Self::with_rings(true)
    }

    /// Whose rings never allocate by themselves: see [`RunQueues::too_small`].
    pub fn of_fixed_size() -> Self {
        Self::with_rings(false)
    }

    fn with_rings(grow: bool) -> Self {
        RunQueues {
            fast_bits: Cell::new(0),
            fast: [const { List::new() }; 100],
            lazy_bits: Cell::new(0),
            lazy: core::array::from_fn(|_| Ring::new(grow)),
            credit: WEIGHTS.map(Cell::new),
            ready: Cell::new(0),
        }
    }

    /// A new round of the groups' shares.
    #[cfg(feature = "sim")]
    pub fn reset_for_simulation(&self) {
        self.credit.iter().zip(WEIGHTS).for_each(|(credit, weight)| credit.set(weight));
    }

    /// Threads in the queues.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.ready.get()
    }

    /// Highest priority that is ready, 0 when none is time-critical.
    #[inline]
    pub fn fast_priority(&self) -> u8 {
        let bits = self.fast_bits.get();
        if bits == 0 { 0 } else { 127 - bits.leading_zeros() as u8 }
    }

    /// Appends a thread to the queue of its priority or group.
    #[inline]
    pub fn push(&self, thread: &'static Control) {
        self.ready.set(self.ready.get() + 1);
        let priority = thread.priority.load(Relaxed);
        if priority == 0 {
            let group = thread.group.load(Relaxed) as usize % GROUPS;
            self.lazy[group].push(thread);
            self.lazy_bits.set(self.lazy_bits.get() | 1 << group);
        } else {
            self.push_fast(thread, priority);
        }
    }

    #[cold]
    fn push_fast(&self, thread: &'static Control, priority: u8) {
        self.fast[priority as usize].push(thread);
        self.fast_bits.set(self.fast_bits.get() | 1 << priority);
    }

    /// The next thread: the most urgent time-critical one, else a lazy one.
    #[inline]
    pub fn pop(&self) -> Option<&'static Control> {
        if self.fast_bits.get() != 0 {
            return self.pop_fast();
        }
        self.pop_lazy()
    }

    /// The next time-critical thread.
    #[cold]
    pub fn pop_fast(&self) -> Option<&'static Control> {
        let priority = self.fast_priority();
        let list = &self.fast[priority as usize];
        let thread = list.pop()?;
        if list.is_empty() {
            self.fast_bits.set(self.fast_bits.get() & !(1 << priority));
        }
        self.ready.set(self.ready.get() - 1);
        Some(thread)
    }

    /// The next lazy thread, whatever the Fast region has.
    #[inline]
    pub fn pop_lazy(&self) -> Option<&'static Control> {
        loop {
            let bits = self.lazy_bits.get();
            if bits == 0 {
                return None;
            }
            let group = if bits & (bits - 1) == 0 {
                bits.trailing_zeros() as usize
            } else {
                self.group_by_weight(bits)
            };
            let ring = &self.lazy[group];
            let thread = ring.pop();
            if ring.is_empty() {
                self.lazy_bits.set(bits & !(1 << group));
            }
            if let Some(thread) = thread {
                self.ready.set(self.ready.get() - 1);
                return Some(thread);
            }
        }
    }

    /// Appends `thread`, which is lazy, and takes the next one out, if that is no choice: all ready
    /// threads are of its group. Else nothing happens.
    ///
    /// What `push` and `pop` do in a third of the instructions.
    #[inline(always)]
    pub fn rotate(&self, thread: &'static Control) -> Option<&'static Control> {
        let group = thread.group.load(Relaxed) as usize % GROUPS;
        if self.fast_bits.get() != 0 || self.lazy_bits.get() != 1 << group {
            return None;
        }
        self.lazy[group].rotate(thread)
    }

    /// A group whose ring had no room for all of its threads, and how large it should be.
    pub fn too_small(&self) -> Option<(usize, usize)> {
        let group = self.lazy.iter().position(Ring::is_too_small)?;
        Some((group, self.lazy[group].larger()))
    }

    /// Gives the ring of `group` the larger `entries`; returns its old ones.
    pub fn give_room(&self, group: usize, entries: Vec<*const Control>) -> Vec<*const Control> {
        self.lazy[group].move_to(entries)
    }

    /// The most urgent ready group that has credit left; a new round when none has.
    #[cold]
    #[inline(never)]
    fn group_by_weight(&self, bits: u32) -> usize {
        loop {
            for group in 0..GROUPS {
                let credit = self.credit[group].get();
                if bits & 1 << group != 0 && credit > 0 {
                    self.credit[group].set(credit - 1);
                    return group;
                }
            }
            for (credit, weight) in self.credit.iter().zip(WEIGHTS) {
                credit.set(weight);
            }
        }
    }

    /// Puts threads whose priority has changed since they were queued (inheritance) where they
    /// belong. O(ready).
    #[cold]
    pub fn resort(&self) {
        for ring in &self.lazy {
            ring.extract_critical(|thread| {
                self.push_fast(thread, thread.priority.load(Relaxed));
            });
        }
        for priority in 1..self.fast.len() {
            let mut each = self.fast[priority].take_all();
            self.fast_bits.set(self.fast_bits.get() & !(1 << priority));
            // SAFETY: null or a slot of the slab that was queued here.
            while let Some(thread) = unsafe { each.as_ref() } {
                each = thread.next.get();
                self.ready.set(self.ready.get() - 1);
                self.push(thread);
            }
        }
    }
}
