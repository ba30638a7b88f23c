//! The waits of full threads that something besides their waker may end: a deadline, a
//! cancellation.
//!
//! A light thread's wait is ended by its worker alone, in between two threads. A full thread's
//! worker may be blocked in the kernel; so whoever finds the deadline passed (the worker, or the
//! monitor for it) or cancels the thread ends the wait itself, under the lock of this heap.
//!
//! Protocol:
//! 1. The thread enters before it parks, and leaves, in the same heap, as the first thing after
//!    it was made ready, whichever worker it is on by then.
//! 2. Who would end the wait holds the lock, finds the thread in the heap, takes it out and calls
//!    `expire`. So the thread can't return from its wait meanwhile: what it waits in stays alive.
//! 3. `expire` decides between him and the waker (`sched.rs`); if the waker was faster, nothing
//!    happens. Else the thread is made ready after the lock is released.
//! 4. A thread that enters looks for its cancellation afterwards, a canceller sets the flag before
//!    he looks for the thread: one of them sees the other.
//!
//! Invariant: the lock's holder allocates nothing (see `offered.rs`).

use core::cell::UnsafeCell;
use core::mem;
use core::ptr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::io;

use crate::control::Control;
use crate::raw_lock::RawLock;
use crate::timer::{self, Entry};

/// Key of a wait without a deadline.
const NEVER: u64 = u64::MAX;
/// Waits that a heap has room for at first.
const ROOM_MIN: usize = 64;

/// See the file's head.
pub(crate) struct Waits {
    lock: RawLock,
    /// The first deadline; a hint, exact for the worker while it is between threads.
    first: AtomicU64,
    heap: UnsafeCell<Vec<Entry>>,
}

// SAFETY: `heap` is touched only under `lock`.
unsafe impl Sync for Waits {}

impl Waits {
    pub const fn new() -> Self {
        Waits {
            lock: RawLock::new(),
            first: AtomicU64::new(NEVER),
            heap: UnsafeCell::new(Vec::new()),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<Entry>) -> T) -> T {
        let _guard = self.lock.lock();
        // SAFETY: the lock is held, and no closure here calls another method.
        let heap = unsafe { &mut *self.heap.get() };
        let result = change(heap);
        self.first.store(heap.first().map_or(NEVER, |entry| entry.key), Relaxed);
        result
    }

    /// When the first deadline passes, ns.
    pub fn first(&self) -> Option<u64> {
        Some(self.first.load(Relaxed)).filter(|&first| first != NEVER)
    }

    /// The calling thread is about to park until `deadline` (ns, 0 = never) at most.
    ///
    /// # Errors
    /// Without memory for a larger heap.
    pub fn enter(&self, me: &'static Control, deadline: u64) -> io::Result<()> {
        let key = if deadline == 0 { NEVER } else { deadline };
        let mut room: Vec<Entry> = Vec::new();
        loop {
            let full = self.with(|heap| {
                if heap.len() == heap.capacity() {
                    if room.capacity() <= heap.len() {
                        return Some(heap.len());
                    }
                    room.append(heap);
                    mem::swap(&mut room, heap);
                }
                timer::insert(heap, Entry { key, thread: me });
                None
            });
            let Some(len) = full else { return Ok(()) };
            let wanted = (len * 2).max(ROOM_MIN);
            if room.try_reserve_exact(wanted).is_err() {
                return Err(crate::error::exhausted("memory for timers", len as u64));
            }
        }
    }

    /// The calling thread was made ready.
    pub fn leave(&self, me: &'static Control) {
        self.with(|heap| {
            if let Some(index) = index_of(heap, me) {
                timer::remove_at(heap, index);
            }
        });
    }

    /// Ends the wait of `thread` by `expire` if it is in one here; true: the caller makes it ready.
    pub fn end(&self, thread: &'static Control, expire: impl FnOnce() -> bool) -> bool {
        self.with(|heap| match index_of(heap, thread) {
            Some(index) if expire() => {
                timer::remove_at(heap, index);
                true
            }
            _ => false,
        })
    }

    /// Ends the waits whose deadline has passed at `now` by `expire`, and makes those `ready` that
    /// it ended.
    pub fn fire(
        &self,
        now: u64,
        expire: impl Fn(&'static Control) -> bool,
        ready: impl Fn(&'static Control),
    ) {
        while self.first.load(Relaxed) <= now {
            let ended = self.with(|heap| {
                let thread = heap.first().filter(|entry| entry.key <= now)?.thread;
                timer::remove_at(heap, 0);
                Some((thread, expire(thread)))
            });
            match ended {
                Some((thread, true)) => ready(thread),
                Some((_, false)) => {}
                None => return,
            }
        }
    }
}

/// Where `thread` is in the heap, if it is in this one.
fn index_of(heap: &[Entry], thread: &Control) -> Option<usize> {
    let index = thread.timer_slot.load(Relaxed) as usize;
    heap.get(index).is_some_and(|entry| ptr::eq(entry.thread, thread)).then_some(index)
}
