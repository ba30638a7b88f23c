//! Threads that have not started: the only ones that another worker may take.
//!
//! Those that the worker's own threads spawn lie in a ring: the worker appends with two plain
//! stores, and whoever takes, the worker or a thief, moves the head by one compare-exchange for a
//! whole batch. Those of others, and those for which the ring has no room, lie in a locked list.
//!
//! Invariant: a thread is in one place of the ring or of the list, and is taken once: what was
//! read from the ring counts only if the head has not moved meanwhile, and a place is written
//! again only when the head has passed it.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::control::Control;
use crate::model::{AtomicPtr, AtomicU32, FRESH_RING};
use crate::raw_lock::RawLock;

/// Threads that are taken from the ring by one step.
const STEP: usize = 32;

/// See the file's head.
pub(crate) struct Fresh {
    /// Position of the first thread in the ring. Positions count on for ever, modulo 2^32.
    head: AtomicU32,
    /// Position behind the last; written by the worker alone.
    tail: AtomicU32,
    ring: [AtomicPtr<Control>; FRESH_RING],
    lock: RawLock,
    /// Threads in the list.
    listed: AtomicU32,
    first: Cell<*const Control>,
    last: Cell<*const Control>,
}

// SAFETY: `first` and `last` are touched only under `lock`.
unsafe impl Sync for Fresh {}

impl Fresh {
    pub fn new() -> Self {
        Fresh {
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            ring: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            lock: RawLock::new(),
            listed: AtomicU32::new(0),
            first: Cell::new(ptr::null()),
            last: Cell::new(ptr::null()),
        }
    }

    /// How many there are; a hint for all but the worker, who sees its own at least.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        let head = self.head.load(Relaxed);
        self.tail.load(Relaxed).wrapping_sub(head) + self.listed.load(Relaxed)
    }

    /// Appends a thread that the worker's own kernel thread places; returns how many there are now.
    #[inline]
    pub fn push_own(&self, thread: &'static Control) -> u32 {
        let tail = self.tail.load(Relaxed);
        // ORDER: Acquire pairs with the Release of whoever moved the head: it has read the places
        // before.
        let used = tail.wrapping_sub(self.head.load(Acquire));
        if used as usize >= FRESH_RING {
            return self.push(thread);
        }
        self.place(tail).store(ptr::from_ref(thread).cast_mut(), Relaxed);
        // ORDER: Release publishes the thread and its place; pairs with the load in `take_step`.
        self.tail.store(tail.wrapping_add(1), Release);
        used + 1 + self.listed.load(Relaxed)
    }

    fn place(&self, position: u32) -> &AtomicPtr<Control> {
        &self.ring[position as usize % FRESH_RING]
    }

    /// Appends a thread, from anywhere; returns how many there are now.
    pub fn push(&self, thread: &'static Control) -> u32 {
        thread.next.set(ptr::null());
        let _guard = self.lock.lock();
        // SAFETY: null or a slot of the slab.
        match unsafe { self.last.get().as_ref() } {
            Some(last) => last.next.set(thread),
            None => self.first.set(thread),
        }
        self.last.set(thread);
        self.listed.store(self.listed.load(Relaxed) + 1, Relaxed);
        self.len()
    }

    /// Takes up to `count` threads, the oldest of the ring and of the list. `deliver` runs without
    /// the lock.
    pub fn take(&self, count: u32, mut deliver: impl FnMut(&'static Control)) -> u32 {
        // Neither the list nor the ring may keep the other waiting.
        let mut taken = self.take_listed(count.div_ceil(2), &mut deliver);
        while taken < count {
            let step = self.take_step(count - taken, &mut deliver);
            if step == 0 {
                break;
            }
            taken += step;
        }
        taken + self.take_listed(count - taken, &mut deliver)
    }

    /// Takes up to `count` threads of the ring, [`STEP`] at most; none if there are none.
    #[inline]
    fn take_step(&self, count: u32, deliver: &mut impl FnMut(&'static Control)) -> u32 {
        let mut threads = [ptr::null_mut(); STEP];
        // ORDER: Acquire as below: the tail must not be older than the head.
        let mut head = self.head.load(Acquire);
        let step = loop {
            // ORDER: Acquire pairs with the Release in `push_own`: the places up to here are seen.
            let there = self.tail.load(Acquire).wrapping_sub(head);
            // More than there are places: the head was moved meanwhile.
            let step = there.min(count).min(STEP as u32).min(FRESH_RING as u32);
            if step == 0 {
                return 0;
            }
            for (offset, thread) in threads[..step as usize].iter_mut().enumerate() {
                *thread = self.place(head.wrapping_add(offset as u32)).load(Relaxed);
            }
            let next = head.wrapping_add(step);
            // ORDER: Release: the places were read; pairs with `push_own`, which writes them again.
            match self.head.compare_exchange(head, next, AcqRel, Acquire) {
                Ok(_) => break step,
                Err(seen) => head = seen,
            }
        };
        for thread in &threads[..step as usize] {
            // SAFETY: `push_own` put a slot of the slab there, and since the exchange it is ours.
            deliver(unsafe { &**thread });
        }
        step
    }

    /// Takes up to `count` threads of the list.
    #[inline]
    fn take_listed(&self, count: u32, deliver: &mut impl FnMut(&'static Control)) -> u32 {
        if count == 0 || self.listed.load(Relaxed) == 0 {
            return 0;
        }
        let (mut each, taken) = self.detach(count);
        // SAFETY: null or a slot of the slab; the chain is ours.
        while let Some(thread) = unsafe { each.as_ref() } {
            each = thread.next.get();
            deliver(thread);
        }
        taken
    }

    /// Cuts the first `count` threads of the list off; their chain ends in null.
    fn detach(&self, count: u32) -> (*const Control, u32) {
        let _guard = self.lock.lock();
        let first = self.first.get();
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
        self.first.set(rest);
        if rest.is_null() {
            self.last.set(ptr::null());
        }
        self.listed.store(self.listed.load(Relaxed) - taken, Relaxed);
        (first, taken)
    }
}
