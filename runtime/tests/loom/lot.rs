//! The parking lot's buckets, from `src`, with nodes in a table that loom watches.

#[path = "../../src/lot/buckets.rs"]
pub mod buckets;

pub mod node {
    use crate::control::COUNT;
    use crate::model::Cell;

    pub struct Node {
        pub address: Cell<usize>,
        pub bits: Cell<u32>,
        pub then: Cell<usize>,
        pub what: Cell<u32>,
        pub waits: Cell<u32>,
        pub has_deadline: Cell<bool>,
    }

    // SAFETY: loom runs its threads on one kernel thread, and watches the cells.
    unsafe impl Sync for Node {}

    static NODES: [Node; COUNT] = [const {
        Node {
            address: Cell::new(0),
            bits: Cell::new(0),
            then: Cell::new(0),
            what: Cell::new(0),
            waits: Cell::new(0),
            has_deadline: Cell::new(false),
        }
    }; COUNT];

    pub fn of(slot: u32) -> Option<&'static Node> {
        NODES.get(slot as usize)
    }

    pub fn of_waiter(slot: u32) -> &'static Node {
        &NODES[slot as usize]
    }
}
