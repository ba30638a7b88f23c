//! Lists and rings of ready threads, of which the run queues are made (`queue.rs`).
//!
//! Invariant: who has the queues alone touches them, and no reference into a ring's entries is
//! alive while it does.

use core::cell::UnsafeCell;
use core::ptr;

use crate::arch::prefetch;
use crate::control::Control;
use crate::model::Cell;

/// How many places ahead a switch asks for a thread's control block, for the first line of its
/// stack, and for the line [`STACK_LINE`] lines further on.
///
/// The first line goes ahead alone because its request has a page walk before it, and each request
/// that misses the TLB walks for itself. A request is done for the processor when its walk is, not
/// before: how many switches fit into its reorder buffer bounds how many walks are under way, so
/// instructions count here. The line between is left to the processor, which fetches lines in
/// pairs: a request takes one of its 16 fill buffers.
/// With 100 000 ready threads in random order, each of which touches three lines of its stack (ns
/// per switch, Xeon with 2 MiB of L2 cache, a busy machine; tokio at the same time: 105):
///
/// | control block | first line | others | ns |
/// |---|---|---|---|
/// | not asked for | not | not | 70 |
/// | 12 | 6 | five lines from the first on, 6 | 58 |
/// | 24 | 12 | line 1, 12 | 53 |
/// | 32 | 16 | lines 1 to 4, 8 | 48 |
/// | 24 | 12 | line 2, 12 | 47 |
/// | 32 | 16 | line 2, 8 | 41 |
const BLOCK_AHEAD: usize = 32;
const PAGE_AHEAD: usize = 16;
const STACK_AHEAD: usize = 8;
const STACK_LINE: usize = 2;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Threads a ring holds at first.
pub(crate) const RING_MIN: usize = 256;

/// Threads linked by `Control::next`.
pub(crate) struct List {
    head: Cell<*const Control>,
    tail: Cell<*const Control>,
}

impl List {
    pub const fn new() -> Self {
        List { head: Cell::new(ptr::null()), tail: Cell::new(ptr::null()) }
    }

    pub fn is_empty(&self) -> bool {
        self.head.get().is_null()
    }

    pub fn push(&self, thread: &'static Control) {
        thread.next.set(ptr::null());
        // SAFETY: the tail is null or a slot of the slab.
        match unsafe { self.tail.get().as_ref() } {
            Some(tail) => tail.next.set(thread),
            None => self.head.set(thread),
        }
        self.tail.set(thread);
    }

    /// The chain of all threads.
    pub fn take_all(&self) -> *const Control {
        self.tail.set(ptr::null());
        self.head.replace(ptr::null())
    }

    pub fn pop(&self) -> Option<&'static Control> {
        // SAFETY: the head is null or a slot of the slab.
        let thread = unsafe { self.head.get().as_ref() }?;
        self.head.set(thread.next.get());
        if thread.next.get().is_null() {
            self.tail.set(ptr::null());
        }
        Some(thread)
    }
}

/// A growing ring buffer of threads; null entries are threads that left (promotion).
pub(crate) struct Ring {
    entries: UnsafeCell<Vec<*const Control>>,
    /// Capacity - 1; the capacity is a power of two, or zero before the first push.
    mask: Cell<usize>,
    head: Cell<usize>,
    tail: Cell<usize>,
    /// Where threads go that a larger ring would be needed for.
    overflow: List,
    /// Whether it makes itself larger.
    grows: bool,
}

impl Ring {
    pub const fn new(grows: bool) -> Self {
        Ring {
            entries: UnsafeCell::new(Vec::new()),
            mask: Cell::new(0),
            head: Cell::new(0),
            tail: Cell::new(0),
            overflow: List::new(),
            grows,
        }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head.get() == self.tail.get() && self.overflow.is_empty()
    }

    /// Its entries, those of threads that left among them; who is in overflow is not counted.
    pub fn len(&self) -> u32 {
        self.tail.get().wrapping_sub(self.head.get()) as u32
    }

    #[inline(always)]
    fn entry(&self, position: usize) -> *mut *const Control {
        // SAFETY: masked, so inside the vector once it has its capacity; only the owning worker
        // gets here, and no reference to the vector is alive during calls of this method.
        unsafe { (*self.entries.get()).as_mut_ptr().add(position & self.mask.get()) }
    }

    #[inline]
    pub fn push(&self, thread: &'static Control) {
        let tail = self.tail.get();
        if tail.wrapping_sub(self.head.get()) >= self.mask.get() || !self.overflow.is_empty() {
            return self.push_slow(thread);
        }
        // SAFETY: there is room, so the entry is free.
        unsafe { *self.entry(tail) = thread };
        self.tail.set(tail.wrapping_add(1));
    }

    #[cold]
    #[inline(never)]
    fn push_slow(&self, thread: &'static Control) {
        if !self.overflow.is_empty() || !self.grow() {
            return self.overflow.push(thread);
        }
        self.push(thread);
    }

    /// Whether threads wait for it to become larger.
    pub fn is_too_small(&self) -> bool {
        !self.overflow.is_empty()
    }

    /// The capacity that it should have next.
    pub fn larger(&self) -> usize {
        let old = if self.mask.get() == 0 { 0 } else { self.mask.get() + 1 };
        (old * 2).max(RING_MIN)
    }

    /// Doubles the capacity; false when memory is refused.
    fn grow(&self) -> bool {
        let mut entries = Vec::new();
        if !self.grows || entries.try_reserve_exact(self.larger()).is_err() {
            return false;
        }
        entries.resize(self.larger(), ptr::null());
        self.move_to(entries);
        true
    }

    /// Makes `entries`, which are more, those of the ring; returns the old ones.
    pub fn move_to(&self, mut entries: Vec<*const Control>) -> Vec<*const Control> {
        debug_assert!(entries.len().is_power_of_two() && entries.len() > self.mask.get());
        let (head, tail) = (self.head.get(), self.tail.get());
        for (place, position) in
            entries.iter_mut().zip((0..tail.wrapping_sub(head)).map(|i| head.wrapping_add(i)))
        {
            // SAFETY: between head and tail the entries are written.
            *place = unsafe { *self.entry(position) };
        }
        self.head.set(0);
        self.tail.set(tail.wrapping_sub(head));
        self.mask.set(entries.len() - 1);
        // SAFETY: no reference into the vector is alive.
        let old = unsafe { ptr::replace(self.entries.get(), entries) };
        while self.tail.get() < self.mask.get()
            && let Some(thread) = self.overflow.pop()
        {
            // SAFETY: there is room, so the entry is free.
            unsafe { *self.entry(self.tail.get()) = thread };
            self.tail.set(self.tail.get() + 1);
        }
        old
    }

    #[inline]
    pub fn pop(&self) -> Option<&'static Control> {
        while self.head.get() != self.tail.get() {
            let head = self.head.get();
            self.head.set(head.wrapping_add(1));
            // SAFETY: between head and tail the entries are written.
            let thread = unsafe { (*self.entry(head)).as_ref() };
            self.prefetch_after(head);
            if thread.is_some() {
                return thread;
            }
        }
        self.overflow.pop()
    }

    /// Appends `thread` and takes the next one out, unless one of the two is out of the ordinary.
    #[inline(always)]
    pub fn rotate(&self, thread: &'static Control) -> Option<&'static Control> {
        let (head, tail) = (self.head.get(), self.tail.get());
        if head == tail || !self.overflow.is_empty() {
            return None;
        }
        // SAFETY: between head and tail the entries are written.
        let next = unsafe { (*self.entry(head)).as_ref() }?;
        // SAFETY: a ring keeps one entry free, that at the tail.
        unsafe { *self.entry(tail) = thread };
        self.head.set(head.wrapping_add(1));
        self.tail.set(tail.wrapping_add(1));
        self.prefetch_after(head);
        Some(next)
    }

    /// Asks for what the switches to the next threads will touch: the control block of one far
    /// on, and the stacks of nearer ones, whose control blocks earlier calls asked for.
    ///
    /// Entries past the tail are stale or null: a prefetch of them is harmless.
    #[inline(always)]
    fn prefetch_after(&self, head: usize) {
        if self.tail.get().wrapping_sub(head) <= BLOCK_AHEAD {
            // So few threads are in the caches anyway.
            return;
        }
        let ahead = |places| {
            // SAFETY: masked positions are inside the vector, which is initialised to its
            // capacity.
            unsafe { *self.entry(head.wrapping_add(places)) }
        };
        prefetch(ahead(BLOCK_AHEAD).cast());
        for (places, line) in [(PAGE_AHEAD, 0), (STACK_AHEAD, STACK_LINE)] {
            // SAFETY: what an old entry names is a slot of the slab, which stays mapped and
            // readable.
            if let Some(thread) = unsafe { ahead(places).as_ref() } {
                prefetch(thread.context.get().sp.wrapping_add(line * LINE));
            }
        }
    }

    /// Takes out every thread that is time-critical by now.
    pub fn extract_critical(&self, mut take: impl FnMut(&'static Control)) {
        let (head, tail) = (self.head.get(), self.tail.get());
        for position in (0..tail.wrapping_sub(head)).map(|i| head.wrapping_add(i)) {
            let entry = self.entry(position);
            // SAFETY: between head and tail the entries are written.
            if let Some(thread) = unsafe { (*entry).as_ref() }
                && thread.is_critical()
            {
                // SAFETY: as above.
                unsafe { *entry = ptr::null() };
                take(thread);
            }
        }
    }
}
