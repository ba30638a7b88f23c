//! The store of an unbounded channel: a list of blocks.
//!
//! A push that finds the last block full needs a new one, which its caller allocates without
//! holding the channel's lock; an emptied block is kept for the next time or handed out to be
//! freed without the lock.
//!
//! Invariant: values lie in `[head, BLOCK)` of the first block, in all of the middle ones, and in
//! `[0, tail)` of the last (`[head, tail)` when it is the only one).

use core::mem::MaybeUninit;
use core::ptr;

/// Values of a block.
const BLOCK: usize = 62;

/// See the file's head.
pub(super) struct Block<T> {
    values: [MaybeUninit<T>; BLOCK],
    next: *mut Block<T>,
}

impl<T> Block<T> {
    /// An empty block.
    pub fn new() -> Box<Self> {
        Box::new(Block { values: [const { MaybeUninit::uninit() }; BLOCK], next: ptr::null_mut() })
    }
}

/// See the file's head.
pub(super) struct Blocks<T> {
    first: *mut Block<T>,
    last: *mut Block<T>,
    head: usize,
    tail: usize,
    len: usize,
    spare: Option<Box<Block<T>>>,
}

impl<T> Blocks<T> {
    /// An empty list.
    pub const fn new() -> Self {
        let none = ptr::null_mut();
        Blocks { first: none, last: none, head: 0, tail: BLOCK, len: 0, spare: None }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Keeps a block for the next push that needs one; gives it back when there is one.
    pub fn provide(&mut self, block: Box<Block<T>>) -> Option<Box<Block<T>>> {
        if self.spare.is_some() {
            return Some(block);
        }
        self.spare = Some(block);
        None
    }

    /// Appends; gives the value back when it needs a block first.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if self.tail == BLOCK {
            let Some(block) = self.spare.take() else { return Err(value) };
            self.append(block);
        }
        // SAFETY: the last block is there after the first `append`; `tail` is below `BLOCK`.
        unsafe { (&mut (*self.last).values)[self.tail].write(value) };
        self.tail += 1;
        self.len += 1;
        Ok(())
    }

    #[cold]
    fn append(&mut self, mut block: Box<Block<T>>) {
        block.next = ptr::null_mut();
        let block = Box::into_raw(block);
        // SAFETY: null or the last block of the list.
        match unsafe { self.last.as_mut() } {
            Some(last) => last.next = block,
            None => (self.first, self.head) = (block, 0),
        }
        self.last = block;
        self.tail = 0;
    }

    /// The oldest value, and a block to free when there is one too many.
    #[inline]
    pub fn pop(&mut self) -> Option<(T, Option<Box<Block<T>>>)> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: the invariant: the first block holds a value at `head`, which then leaves.
        let value = unsafe { (&(*self.first).values)[self.head].assume_init_read() };
        self.head += 1;
        self.len -= 1;
        let empty = if self.head == BLOCK { self.drop_first() } else { None };
        Some((value, empty))
    }

    #[cold]
    fn drop_first(&mut self) -> Option<Box<Block<T>>> {
        // SAFETY: the first block came from a box and holds no value any more.
        let block = unsafe { Box::from_raw(self.first) };
        self.first = block.next;
        self.head = 0;
        if self.first.is_null() {
            self.last = ptr::null_mut();
            self.tail = BLOCK;
        }
        self.provide(block)
    }
}

impl<T> Drop for Blocks<T> {
    fn drop(&mut self) {
        while let Some(value) = self.pop() {
            drop(value);
        }
        if !self.first.is_null() {
            // SAFETY: one block without values is left; it came from a box.
            drop(unsafe { Box::from_raw(self.first) });
        }
    }
}
