//! The run queues of one worker: Fast by priority, Lazy by group.
//!
//! Only the worker itself touches them; those of its full threads (`offered.rs`) whoever holds
//! their lock. Fast: one linked list per priority, found by a bitmap.
//! Lazy: one ring buffer per group; a ring (rather than a linked list) lets the switch prefetch
//! control blocks and stacks of threads further on, which a list can't name without missing the
//! cache itself. When several groups have threads they share by weight.
//!
//! Threads that a wake of many has made ready (a crowd, `lot/buckets.rs`) are in a list of their
//! group's: after each [`BEFORE_CROWD`] others one of them has its turn. Those that were preempted
//! are in another, behind those that have come since, and so are those that yield
//! while there are such: who computes little and waits often need not wait for those that compute
//! on. While others come all the time a list is served after as many turns as there were others
//! when it began or the last time, and when the monitor says that it is time
//! ([`RunQueues::grant`]).
//!
//! Invariants:
//! 1. A thread is in at most one queue, once.
//! 2. Fast before Lazy: [`RunQueues::pop`] returns a lazy thread only when no time-critical one
//!    is ready (the lazy bound is the worker's business: it calls [`RunQueues::pop_lazy`]).
//! 3. A push never fails: when a ring can't grow, the thread goes to a linked overflow list.

use core::sync::atomic::Ordering::Relaxed;

use crate::control::Control;
use crate::model::{Cell, Hint};
use crate::ready::{List, Ring};

/// Scheduling groups of the Lazy region (TEK's four).
pub(crate) const GROUPS: usize = 4;
/// Where `RunQueues::lazy_bits` has the bits of groups with threads that were preempted, and of
/// those with some of a crowd.
const PREEMPTED: usize = GROUPS;
const CROWD: usize = 2 * GROUPS;
/// Share of each group in a round, urgent first.
const WEIGHTS: [u32; GROUPS] = [8, 4, 2, 1];

/// Turns of others before one of a crowd's.
const BEFORE_CROWD: u32 = 4;

/// Where a group's next thread is.
enum Next {
    Ring,
    Crowd,
    Preempted,
}

/// See the file's head.
pub(crate) struct RunQueues {
    fast_bits: Cell<u128>,
    fast: [List; 100],
    /// A bit for each group that has threads in its ring, [`GROUPS`] further up for each that has
    /// preempted ones, and as far up again for each that has some of a crowd.
    lazy_bits: Cell<u32>,
    lazy: [Ring; GROUPS],
    crowd: [List; GROUPS],
    /// Turns of its ring before the next one of the group's crowd.
    before_crowd: [Cell<u32>; GROUPS],
    preempted: [List; GROUPS],
    /// How many there are in all; others may look.
    behind: Hint,
    /// Turns of its ring and its crowd before the next one of the group's preempted threads, which
    /// waits for `granted`, too: 1 = it is time. Others may say so.
    turns: [Cell<u32>; GROUPS],
    granted: Hint,
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
            crowd: [const { List::new() }; GROUPS],
            before_crowd: [const { Cell::new(BEFORE_CROWD) }; GROUPS],
            preempted: [const { List::new() }; GROUPS],
            behind: Hint::new(0),
            turns: [const { Cell::new(0) }; GROUPS],
            granted: Hint::new(0),
            credit: WEIGHTS.map(Cell::new),
            ready: Cell::new(0),
        }
    }

    /// A new round of the groups' shares.
    #[cfg(feature = "sim")]
    pub fn reset_for_simulation(&self) {
        self.turns.iter().for_each(|turns| turns.set(0));
        self.before_crowd.iter().for_each(|turns| turns.set(BEFORE_CROWD));
        self.credit.iter().zip(WEIGHTS).for_each(|(credit, weight)| credit.set(weight));
    }

    /// Threads in the queues.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.ready.get()
    }

    /// Those that were preempted; a hint for others than the owner.
    pub fn behind(&self) -> u32 {
        self.behind.load(Relaxed)
    }

    /// A bit for each group of which threads have come that were not preempted.
    #[inline(always)]
    pub fn groups_come(&self) -> u32 {
        let bits = self.lazy_bits.get();
        (bits | bits >> CROWD) & ((1 << GROUPS) - 1)
    }

    /// From now on one of those may go before others that have come since.
    pub fn grant(&self) {
        self.granted.store(1, Relaxed);
    }

    /// Whether none has gone since [`RunQueues::grant`].
    pub fn is_granted(&self) -> bool {
        self.granted.load(Relaxed) != 0
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

    /// As [`RunQueues::push`], of one of a crowd.
    #[cold]
    pub fn push_crowd(&self, thread: &'static Control) {
        if thread.is_critical() {
            return self.push(thread);
        }
        let group = thread.group.load(Relaxed) as usize % GROUPS;
        self.crowd[group].push(thread);
        self.lazy_bits.set(self.lazy_bits.get() | 1 << (CROWD + group));
        self.ready.set(self.ready.get() + 1);
    }

    /// As [`RunQueues::push`], of a thread that was preempted.
    pub fn push_preempted(&self, thread: &'static Control) {
        if thread.is_critical() {
            return self.push(thread);
        }
        let group = thread.group.load(Relaxed) as usize % GROUPS;
        if self.preempted[group].is_empty() {
            self.turns[group].set(self.before_preempted(group));
        }
        self.preempted[group].push(thread);
        self.lazy_bits.set(self.lazy_bits.get() | 1 << (PREEMPTED + group));
        self.behind.store(self.behind() + 1, Relaxed);
        self.ready.set(self.ready.get() + 1);
    }

    /// As [`RunQueues::push`], of a thread that yields.
    pub fn push_yielded(&self, thread: &'static Control) {
        match self.behind() {
            0 => self.push(thread),
            _ => self.push_preempted(thread),
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
            let group = if bits & (bits - 1) == 0 && bits >> GROUPS == 0 {
                bits.trailing_zeros() as usize
            } else {
                match self.group_by_weight(bits) {
                    (group, Next::Ring) => group,
                    (group, Next::Crowd) => return self.pop_crowd(group),
                    (group, Next::Preempted) => return self.pop_preempted(group),
                }
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

    #[cold]
    fn pop_crowd(&self, group: usize) -> Option<&'static Control> {
        self.before_crowd[group].set(BEFORE_CROWD);
        self.pop_list(&self.crowd[group], CROWD + group)
    }

    #[cold]
    fn pop_preempted(&self, group: usize) -> Option<&'static Control> {
        let thread = self.pop_list(&self.preempted[group], PREEMPTED + group)?;
        self.turns[group].set(self.before_preempted(group));
        self.behind.store(self.behind() - 1, Relaxed);
        Some(thread)
    }

    /// The first of `list`, whose bit is `bit`.
    fn pop_list(&self, list: &List, bit: usize) -> Option<&'static Control> {
        let thread = list.pop()?;
        if list.is_empty() {
            self.lazy_bits.set(self.lazy_bits.get() & !(1 << bit));
        }
        self.ready.set(self.ready.get() - 1);
        Some(thread)
    }

    /// Appends `thread`, which is lazy, and takes the next one out, if that is no choice: all ready
    /// threads are of its group, none was preempted, and none is of a crowd. Else nothing happens.
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

    /// The most urgent ready group that has credit left, a new round when none has; and where its
    /// next thread is.
    #[cold]
    #[inline(never)]
    fn group_by_weight(&self, bits: u32) -> (usize, Next) {
        loop {
            for group in 0..GROUPS {
                let is_in = |bit: usize| bits & 1 << (bit + group) != 0;
                let (ring, crowd, preempted) = (is_in(0), is_in(CROWD), is_in(PREEMPTED));
                let credit = self.credit[group].get();
                if (ring || crowd || preempted) && credit > 0 {
                    self.credit[group].set(credit - 1);
                    let next = if preempted && (!(ring || crowd) || self.is_their_turn(group)) {
                        Next::Preempted
                    } else if crowd && (!ring || self.is_turn_of_crowd(group)) {
                        Next::Crowd
                    } else {
                        Next::Ring
                    };
                    return (group, next);
                }
            }
            for (credit, weight) in self.credit.iter().zip(WEIGHTS) {
                credit.set(weight);
            }
        }
    }

    /// Turns of others before the next one of the preempted threads of `group`. One is for the
    /// crowd, which would have none where all others are preempted and it is always their time.
    fn before_preempted(&self, group: usize) -> u32 {
        self.lazy[group].len() + u32::from(!self.crowd[group].is_empty())
    }

    /// Whether the preempted threads of `group` have waited for as long as they should, while
    /// others come.
    fn is_their_turn(&self, group: usize) -> bool {
        let turns = self.turns[group].get();
        self.turns[group].set(turns.saturating_sub(1));
        // In a simulation there is no monitor, and no time.
        let is_turn = turns == 0 && (self.is_granted() || cfg!(feature = "sim"));
        if is_turn {
            self.granted.store(0, Relaxed);
        }
        is_turn
    }

    /// Whether enough others had their turn before the next one of the crowd in `group`.
    fn is_turn_of_crowd(&self, group: usize) -> bool {
        let turns = self.before_crowd[group].get();
        self.before_crowd[group].set(turns.saturating_sub(1));
        turns == 0
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
        self.lazy_bits.set(self.lazy_bits.get() & ((1 << GROUPS) - 1));
        for list in &self.crowd {
            self.push_again(list.take_all(), Self::push_crowd);
        }
        self.behind.store(0, Relaxed);
        for (list, turns) in self.preempted.iter().zip(&self.turns) {
            let left = (!list.is_empty()).then(|| turns.get());
            self.push_again(list.take_all(), Self::push_preempted);
            // Else who is preempted would wait for ever where priorities are inherited often.
            if let Some(left) = left {
                turns.set(left);
            }
        }
        for priority in 1..self.fast.len() {
            self.fast_bits.set(self.fast_bits.get() & !(1 << priority));
            self.push_again(self.fast[priority].take_all(), Self::push);
        }
    }

    /// Queues a chain of threads anew that were taken out of their list.
    fn push_again(&self, mut each: *const Control, push: impl Fn(&Self, &'static Control)) {
        // SAFETY: null or a slot of the slab that was queued here.
        while let Some(thread) = unsafe { each.as_ref() } {
            each = thread.next.get();
            self.ready.set(self.ready.get() - 1);
            push(self, thread);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::ptr;

    use super::*;

    #[test]
    fn who_was_preempted_has_a_turn_however_often_priorities_are_inherited() {
        let threads: Vec<_> = (0..3).map(|_| crate::thread::spawn(|| ())).collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            std::thread::yield_now();
        }
        // Ended ones, which nobody else queues while there are handles.
        let [first, second, preempted] = [0, 1, 2].map(|index| threads[index].thread().control());
        let queues = RunQueues::new();
        queues.push(first);
        queues.push(second);
        queues.push_preempted(preempted);
        queues.grant();
        let others = (0..10).take_while(|_| {
            let next = queues.pop().expect("three are ready");
            queues.push(next);
            queues.resort();
            !ptr::eq(next, preempted)
        });
        assert_eq!(others.count(), 2);
    }
}
