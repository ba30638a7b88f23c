//! The models of forks of which the C library learns nothing (`src/heap_use.rs`): no copy is made
//! while somebody is in the allocator. Time stands still here, so nobody's patience ends.
//!
//! The allocator is a cell: who is in it writes it, and who forks reads it. loom tells of a read
//! that is not ordered after what was written, which is what a child would find locked.
//!
//! Weaker forms pass here that count in without SeqCst: the look that follows is an exchange here
//! (`model.rs`).

use std::sync::Arc;

use crate::heap_use::{within, without};
use crate::model::Cell;
use crate::models::check;
use crate::sched::spawn;

/// Locked, unlocked: odd while somebody is in it.
struct Heap(Cell<u32>);

impl Heap {
    /// The words of the protocol are used once before others do.
    fn new() -> Arc<Heap> {
        within(|| ());
        without(|| ());
        let heap = Heap(Cell::new(0));
        heap.0.set(0);
        Arc::new(heap)
    }

    fn use_it(&self) {
        within(|| {
            self.0.set(self.0.get() + 1);
            loom::thread::yield_now();
            self.0.set(self.0.get() + 1);
        });
    }

    fn fork(&self) {
        without(|| {
            assert_eq!(self.0.get() % 2, 0, "the copy has the allocator locked");
            loom::thread::yield_now();
            assert_eq!(self.0.get() % 2, 0, "somebody went in while the copy was made");
        });
    }
}

/// Two go in one after the other beside a fork.
#[test]
fn nobody_is_in_the_allocator_when_a_copy_is_made() {
    check(|controls| {
        let heap = Heap::new();
        let theirs = heap.clone();
        let forker = spawn(controls[1], move || theirs.fork());
        heap.use_it();
        heap.use_it();
        forker.join().unwrap();
        assert_eq!(heap.0.get(), 4);
    });
}

/// One goes in and waits outside until both who fork have done so.
#[test]
fn two_copies_are_made_beside_each_other() {
    check(|controls| {
        let heap = Heap::new();
        let forkers = [1, 2].map(|each| {
            let theirs = heap.clone();
            spawn(controls[each], move || theirs.fork())
        });
        heap.use_it();
        forkers.into_iter().for_each(|forker| forker.join().unwrap());
        assert_eq!(heap.0.get(), 2);
    });
}
