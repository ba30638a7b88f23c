//! The wait node of a slot: the address that its thread waits for, and how.
//!
//! Beside the control block, for these words don't fit into its two cache lines, and most threads
//! never need them (`nodes.rs`).
//!
//! Invariant: a node is written and read under the lock of the bucket that its thread is linked in,
//! or is about to be.

use crate::model::Cell;

/// See the file's head. All zero bytes are a node of nobody.
pub struct Node {
    /// What the thread waits for.
    pub address: Cell<usize>,
    /// Which wakes it wants; 0 = none (no wait has it).
    pub bits: Cell<u32>,
    /// See `Manner::what`.
    pub what: Cell<u32>,
    /// See `Manner::then`.
    pub then: Cell<usize>,
    /// The value that its word had when this wait began.
    expected: Cell<u32>,
    /// How often the thread had run by then.
    runs: Cell<u32>,
    /// Waits that have begun here: tells one from the next.
    pub waits: Cell<u32>,
    /// The wait before was for the same word with the same value, and the thread has waited for
    /// nothing else in between: it was woken in vain.
    pub is_vain: Cell<bool>,
    /// Whether this wait ends by itself.
    pub has_deadline: Cell<bool>,
}

// SAFETY: the invariant of the file's head: a lock orders all accesses.
unsafe impl Sync for Node {}

impl Node {
    /// Of nobody.
    #[cfg(test)]
    pub const fn new() -> Self {
        Node {
            address: Cell::new(0),
            bits: Cell::new(0),
            what: Cell::new(0),
            then: Cell::new(0),
            expected: Cell::new(0),
            runs: Cell::new(0),
            waits: Cell::new(0),
            is_vain: Cell::new(false),
            has_deadline: Cell::new(false),
        }
    }

    /// A wait for `address`, where `expected` was found, begins; the thread has run so often.
    #[inline]
    pub fn begin(&self, address: usize, expected: u32, runs: u32) {
        let is_same = self.address.get() == address && self.expected.get() == expected;
        self.is_vain.set(is_same && self.runs.get().wrapping_add(1) == runs);
        self.address.set(address);
        self.expected.set(expected);
        self.runs.set(runs);
        self.waits.set(self.waits.get().wrapping_add(1));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wake_was_in_vain_if_the_same_wait_follows_at_once() {
        let node = Node::new();
        let begin = |address, expected, runs| {
            node.begin(address, expected, runs);
            node.is_vain.get()
        };
        assert!(!begin(64, 2, 7), "the first");
        assert!(begin(64, 2, 8));
        assert!(!begin(64, 2, 10), "it waited for something else in between");
        assert!(!begin(64, 3, 11), "its word has changed");
        assert!(!begin(68, 3, 12), "it is another word");
        assert_eq!(node.waits.get(), 5);
    }
}
