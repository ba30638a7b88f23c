//! Timers of one worker: a 4-ary heap of threads by deadline, re-armed lazily.
//!
//! Nearly every timeout is cancelled before it passes, so cancelling is one store
//! (`Control::deadline = 0`) and the entry stays in the heap. When an entry comes up, the
//! deadline in the control block decides: passed -> fire, later -> sift, none -> drop.
//!
//! Invariants:
//! 1. A light thread has at most one entry; `Control::timer_slot` is its index.
//! 2. An entry's key is never later than the thread's deadline, if it has one.
//! 3. A thread that ends is removed ([`Timers::remove`]), so a slot is not reused under an entry.

use core::cell::RefCell;
use core::sync::atomic::Ordering::Relaxed;
use std::io;

use crate::control::{Control, NO_TIMER};

/// See the file's head.
pub(crate) struct Timers(RefCell<Vec<Entry>>);

/// A thread and when it comes up.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub key: u64,
    pub thread: &'static Control,
}

const ARITY: usize = 4;

impl Timers {
    pub fn new() -> Self {
        Timers(RefCell::new(Vec::new()))
    }

    /// Entries, stale ones included.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Sets `thread`'s deadline (ns, not 0) and sees to it that it comes up by then.
    pub fn arm(&self, thread: &'static Control, deadline: u64) -> io::Result<()> {
        thread.deadline.set(deadline);
        let mut heap = self.0.borrow_mut();
        let slot = thread.timer_slot.load(Relaxed);
        if slot == NO_TIMER {
            if heap.try_reserve(1).is_err() {
                thread.deadline.set(0);
                return Err(crate::error::exhausted("memory for timers", heap.len() as u64));
            }
            insert(&mut heap, Entry { key: deadline, thread });
        } else if heap[slot as usize].key > deadline {
            heap[slot as usize].key = deadline;
            sift_up(&mut heap, slot as usize);
        }
        Ok(())
    }

    /// Removes the thread's entry, if it has one.
    pub fn remove(&self, thread: &Control) {
        thread.deadline.set(0);
        let slot = thread.timer_slot.load(Relaxed);
        if slot != NO_TIMER {
            remove_at(&mut self.0.borrow_mut(), slot as usize);
        }
    }

    /// When the first entry comes up, ns; it may be stale.
    pub fn first(&self) -> Option<u64> {
        self.0.borrow().first().map(|entry| entry.key)
    }

    /// Takes one thread whose deadline has passed at `now`; its deadline is cleared.
    pub fn pop_due(&self, now: u64) -> Option<&'static Control> {
        let mut heap = self.0.borrow_mut();
        while let Some(&Entry { key, thread }) = heap.first() {
            if key > now {
                return None;
            }
            match thread.deadline.get() {
                0 => remove_at(&mut heap, 0),
                later if later > now => {
                    heap[0].key = later;
                    sift_down(&mut heap, 0);
                }
                _ => {
                    thread.deadline.set(0);
                    remove_at(&mut heap, 0);
                    return Some(thread);
                }
            }
        }
        None
    }
}

/// Adds an entry; the caller has made room.
pub(crate) fn insert(heap: &mut Vec<Entry>, entry: Entry) {
    let index = heap.len();
    heap.push(entry);
    sift_up(heap, index);
}

fn place(heap: &mut [Entry], index: usize, entry: Entry) {
    entry.thread.timer_slot.store(index as u32, Relaxed);
    heap[index] = entry;
}

fn sift_up(heap: &mut [Entry], mut index: usize) {
    let entry = heap[index];
    while index > 0 {
        let parent = (index - 1) / ARITY;
        if heap[parent].key <= entry.key {
            break;
        }
        let above = heap[parent];
        place(heap, index, above);
        index = parent;
    }
    place(heap, index, entry);
}

fn sift_down(heap: &mut [Entry], mut index: usize) {
    let entry = heap[index];
    loop {
        let first = index * ARITY + 1;
        let children = first..(first + ARITY).min(heap.len());
        let Some(least) = children.min_by_key(|&child| heap[child].key) else { break };
        if heap[least].key >= entry.key {
            break;
        }
        let below = heap[least];
        place(heap, index, below);
        index = least;
    }
    place(heap, index, entry);
}

/// Takes the entry at `index` out.
pub(crate) fn remove_at(heap: &mut Vec<Entry>, index: usize) {
    let removed = heap.swap_remove(index);
    removed.thread.timer_slot.store(NO_TIMER, Relaxed);
    if index < heap.len() {
        let moved = heap[index];
        place(heap, index, moved);
        sift_down(heap, index);
        sift_up(heap, moved.thread.timer_slot.load(Relaxed) as usize);
    }
}
