//! The store of a bounded channel: a ring of fixed size, made with the channel.
//!
//! Invariant: the entries from `head` on, `len` of them, hold values.

use core::mem::MaybeUninit;
use std::io;

/// See the file's head.
pub(super) struct Ring<T> {
    entries: Box<[MaybeUninit<T>]>,
    head: usize,
    len: usize,
}

impl<T> Ring<T> {
    /// An empty ring for `capacity` values.
    pub fn new(capacity: usize) -> io::Result<Self> {
        let mut entries = Vec::new();
        if entries.try_reserve_exact(capacity).is_err() {
            return Err(crate::error::exhausted("memory for a channel", capacity as u64));
        }
        entries.resize_with(capacity, MaybeUninit::uninit);
        Ok(Ring { entries: entries.into_boxed_slice(), head: 0, len: 0 })
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Appends; gives the value back when there is no room.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        let capacity = self.entries.len();
        if self.len == capacity {
            return Err(value);
        }
        // `head + len` is below twice the capacity; a division would cost more than the rest.
        let mut tail = self.head + self.len;
        if tail >= capacity {
            tail -= capacity;
        }
        self.entries[tail].write(value);
        self.len += 1;
        Ok(())
    }

    /// The oldest value.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: the invariant; the entry leaves the range with the next two statements.
        let value = unsafe { self.entries[self.head].assume_init_read() };
        self.head = if self.head + 1 == self.entries.len() { 0 } else { self.head + 1 };
        self.len -= 1;
        Some(value)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while let Some(value) = self.pop() {
            drop(value);
        }
    }
}
