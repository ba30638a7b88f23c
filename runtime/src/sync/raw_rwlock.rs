//! The reader-writer lock without its data.
//!
//! Word: bit 0 = `WRITER`, bit 1 = `QUEUED`, above: the number of readers.
//!
//! Protocol:
//! 1. Without `QUEUED` every transition is one compare-exchange.
//! 2. `QUEUED` is set and cleared only under the queue's lock and is set whenever the queue is not
//!    empty; with it set, every transition is made under the queue's lock.
//! 3. New readers queue behind a waiting writer, so readers can't starve writers. Whoever makes
//!    the lock free grants it to the first waiter, and if that is a reader to the readers behind
//!    it as well, past at most `SCAN_MAX` waiters; so writers can't starve readers.
//! 4. A grant changes the word for its receiver before it wakes it: nobody can come in between.
//! 5. A free lock that a slow unlock leaves keeps `QUEUED`, so that the next locker has to wait
//!    for the unlocker to be done with the queue's lock; then the memory may go.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::control::{Control, Outcome, WaitKind};
use crate::model::AtomicU32;
use crate::sched;
use crate::wait::{Batch, Locked, WaitQueue};

const WRITER: u32 = 1;
const QUEUED: u32 = 2;
const READER: u32 = 4;
/// Most readers at once: far above the number of threads, below the overflow.
const READERS_MAX: u32 = (u32::MAX / READER) / 2;
/// Waiters that a grant to readers looks at, under the queue's lock.
const SCAN_MAX: usize = 256;

/// See the file's head. All zero bytes are an unlocked one.
#[repr(C)]
#[derive(Default)]
pub struct RawRwLock {
    queue: WaitQueue,
    word: AtomicU32,
}

impl RawRwLock {
    /// An unlocked lock.
    pub const fn new() -> Self {
        RawRwLock { queue: WaitQueue::new(), word: AtomicU32::new(0) }
    }

    // ---- readers

    /// Takes a share if no writer holds or awaits the lock.
    #[inline]
    pub fn try_read(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & (WRITER | QUEUED) == 0 && word < READERS_MAX * READER {
            // ORDER: Acquire pairs with the Release of a writer's unlock.
            match self.word.compare_exchange_weak(word, word + READER, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        word & QUEUED != 0 && self.try_slow(false)
    }

    /// Takes a share, waiting for it.
    #[inline]
    pub fn read(&self) {
        if !self.try_read() {
            let outcome = self.lock_slow(false, 0);
            debug_assert_eq!(outcome, Outcome::Woken);
        }
    }

    /// Takes a share, waiting until `deadline` (ns, 0 = never) at most.
    pub(crate) fn read_until(&self, deadline: u64) -> Outcome {
        if self.try_read() { Outcome::Woken } else { self.lock_slow(false, deadline) }
    }

    /// Gives a share back.
    ///
    /// # Safety
    /// 1. The caller has one.
    #[inline]
    pub unsafe fn unlock_read(&self) {
        let mut word = self.word.load(Relaxed);
        while word & QUEUED == 0 {
            // ORDER: Release: what the reader read stays before what the next writer writes.
            match self.word.compare_exchange_weak(word, word - READER, Release, Relaxed) {
                Ok(_) => return,
                Err(seen) => word = seen,
            }
        }
        self.unlock_slow(READER);
    }

    // ---- writers

    /// Takes the lock if nobody holds it.
    #[inline]
    pub fn try_write(&self) -> bool {
        // ORDER: Acquire pairs with the Release of every unlock.
        match self.word.compare_exchange(0, WRITER, Acquire, Relaxed) {
            Ok(_) => true,
            Err(word) => word & QUEUED != 0 && self.try_slow(true),
        }
    }

    /// Takes the lock, waiting for it.
    #[inline]
    pub fn write(&self) {
        if !self.try_write() {
            let outcome = self.lock_slow(true, 0);
            debug_assert_eq!(outcome, Outcome::Woken);
        }
    }

    /// Takes the lock, waiting until `deadline` (ns, 0 = never) at most.
    pub(crate) fn write_until(&self, deadline: u64) -> Outcome {
        if self.try_write() { Outcome::Woken } else { self.lock_slow(true, deadline) }
    }

    /// Frees the lock.
    ///
    /// # Safety
    /// 1. The caller is its writer.
    #[inline]
    pub unsafe fn unlock_write(&self) {
        // ORDER: Release publishes what the writer wrote.
        if self.word.compare_exchange(WRITER, 0, Release, Relaxed).is_err() {
            self.unlock_slow(WRITER);
        }
    }

    /// Makes the writer a reader, without letting another writer in between.
    ///
    /// # Safety
    /// 1. The caller is its writer.
    pub unsafe fn downgrade(&self) {
        // ORDER: Release publishes what the writer wrote to the readers that join.
        if self.word.compare_exchange(WRITER, READER, Release, Relaxed).is_ok() {
            return;
        }
        let queue = self.queue.lock();
        self.word.store(READER | QUEUED, Release);
        let granted = self.grant(&queue);
        drop(queue);
        granted.wake();
    }

    // ---- under the queue's lock

    /// The lock may be free with a stale `QUEUED`: a try has to look under the queue's lock.
    #[cold]
    fn try_slow(&self, writer: bool) -> bool {
        let queue = self.queue.lock();
        self.take(&queue, writer)
    }

    #[cold]
    fn lock_slow(&self, writer: bool, deadline: u64) -> Outcome {
        let me = sched::current();
        let queue = self.queue.lock();
        if self.take(&queue, writer) {
            return Outcome::Woken;
        }
        queue.enqueue(me);
        me.wait.set(if writer { WaitKind::Queue } else { WaitKind::Shared });
        let outcome = queue.wait_published(me, deadline);
        if outcome != Outcome::Woken {
            self.leave();
        }
        outcome
    }

    /// Takes the lock if that is possible now and fair; else sees to it that `QUEUED` is set.
    fn take(&self, queue: &Locked<'_>, writer: bool) -> bool {
        let (blocked, mine) = if writer { (!QUEUED, WRITER) } else { (WRITER, READER) };
        let mut word = self.word.load(Relaxed);
        loop {
            let free = word & blocked == 0 && queue.is_empty() && word < READERS_MAX * READER;
            let new = if free { (word & !QUEUED) + mine } else { word | QUEUED };
            // ORDER: Acquire for the case that it was free.
            match self.word.compare_exchange_weak(word, new, Acquire, Relaxed) {
                Ok(_) => return free,
                Err(seen) => word = seen,
            }
        }
    }

    /// A waiter has given up: a writer that leaves may have kept the readers behind it waiting.
    fn leave(&self) {
        let queue = self.queue.lock();
        if queue.is_empty() {
            return;
        }
        let granted = self.grant(&queue);
        drop(queue);
        granted.wake();
    }

    #[cold]
    fn unlock_slow(&self, mine: u32) {
        let queue = self.queue.lock();
        // `QUEUED` may have been cleared since the caller looked; then others still use
        // compare-exchange, so this has to be one atomic step that sets it again.
        let mut word = self.word.load(Relaxed);
        // ORDER: Release publishes the critical section.
        while let Err(seen) =
            self.word.compare_exchange_weak(word, (word - mine) | QUEUED, Release, Relaxed)
        {
            word = seen;
        }
        let granted = self.grant(&queue);
        drop(queue);
        granted.wake();
    }

    /// Grants the lock to those of the first waiters that may have it now. `QUEUED` is set, so
    /// nobody else changes the word.
    fn grant(&self, queue: &Locked<'_>) -> Batch {
        let mut granted = Batch::new();
        let mut word = self.word.load(Relaxed);
        let Some(first) = queue.first() else { return granted };
        if !is_reader(first) {
            if word & !QUEUED == 0 {
                queue.take(first);
                granted.push(first);
                word |= WRITER;
            }
        } else if word & WRITER == 0 {
            let mut each = Some(first);
            for _ in 0..SCAN_MAX {
                let Some(thread) = each else { break };
                each = queue.after(thread);
                if is_reader(thread) && word < READERS_MAX * READER {
                    queue.take(thread);
                    granted.push(thread);
                    word += READER;
                }
            }
        }
        // ORDER: Acquire on behalf of the receivers, Release on behalf of the former holders,
        // goes by the queue's lock and the wake.
        self.word.store(word, Relaxed);
        granted
    }
}

/// Whether a thread in the queue waits for a share.
fn is_reader(thread: &Control) -> bool {
    thread.wait.get() == WaitKind::Shared
}
