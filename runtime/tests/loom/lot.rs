//! The parking lot's buckets, from `src`, with nodes in a table that loom watches.

#[path = "../../src/lot/buckets.rs"]
pub mod buckets;

#[path = "../../src/lot/node.rs"]
pub mod node;

pub mod nodes {
    use super::node::Node;
    use crate::control::COUNT;

    static NODES: [Node; COUNT] = [const { Node::new() }; COUNT];

    pub fn of(slot: u32) -> Option<&'static Node> {
        NODES.get(slot as usize)
    }

    pub fn of_waiter(slot: u32) -> &'static Node {
        &NODES[slot as usize]
    }
}
