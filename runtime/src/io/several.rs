//! A full thread's wait for several descriptors at once, in an epoll set (`epoll.rs`).
//!
//! It has a node for each of them, which is linked in the list of that descriptor. No set is made
//! for the wait: that would take a number of the program's descriptors, and cost the making and the
//! closing on top of what is armed in either case.
//!
//! Invariants:
//! 1. All of it is touched under the set's lock, but by the thread itself before the wait begins
//!    and after it has ended.
//! 2. Whoever ends the wait takes out all of its nodes first. So nothing points here when the
//!    thread goes on, which may be at once, and what is here may lie on its stack and in its heap:
//!    stacks of full threads stay where they are.

use core::cell::Cell;
use core::ptr;
use std::os::fd::RawFd;

use rustix::event::epoll::EventFlags;

use crate::control::Control;

/// See the file's head.
pub(crate) struct Several {
    pub thread: &'static Control,
    pub nodes: Vec<Node>,
    /// How many of them are in lists: the first ones.
    linked: Cell<usize>,
}

/// One descriptor of a wait.
pub(crate) struct Node {
    pub thread: &'static Control,
    pub fd: RawFd,
    pub events: EventFlags,
    prev: Cell<*const Node>,
    next: Cell<*const Node>,
}

/// The waits for one descriptor among several.
#[derive(Clone, Copy)]
pub(crate) struct List(*const Node);

impl Several {
    /// Of the entries that name a descriptor; allocates.
    pub fn new(thread: &'static Control, entries: &[libc::pollfd]) -> Self {
        let nodes = entries.iter().filter(|entry| entry.fd >= 0).map(|entry| Node {
            thread,
            fd: entry.fd,
            // As `poll` has them.
            events: EventFlags::from_bits_retain(u32::from(entry.events.cast_unsigned())),
            prev: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
        });
        Several { thread, nodes: nodes.collect(), linked: Cell::new(0) }
    }

    /// From now on [`Several::of`] finds it: it stays where it is until the wait has ended.
    pub fn begin(&self) {
        self.thread.prev.set(ptr::from_ref(self).cast());
    }

    /// What a thread waits for that waits for several.
    ///
    /// # Safety
    /// 1. The thread's wait has begun and not ended, and the caller holds the set's lock.
    pub unsafe fn of<'a>(thread: &Control) -> &'a Several {
        // SAFETY: by 1, see `begin` and item 2 of the file's head.
        unsafe { &*thread.prev.get().cast::<Several>() }
    }

    /// Links the next node, which is `node`, into the list of its descriptor.
    pub fn link(&self, node: &Node, list: &mut List) {
        node.prev.set(ptr::null());
        node.next.set(list.0);
        // SAFETY: null or linked in this list.
        if let Some(after) = unsafe { list.0.as_ref() } {
            after.prev.set(node);
        }
        list.0 = node;
        self.linked.set(self.linked.get() + 1);
    }

    /// Takes the nodes out that are in lists; `heads` has them by descriptor, where `list` says.
    pub fn unlink_all<H>(&self, heads: &mut [H], list: impl Fn(&mut H) -> &mut List) {
        for node in &self.nodes[..self.linked.replace(0)] {
            let (prev, next) = (node.prev.get(), node.next.get());
            // SAFETY: null or linked in this list.
            match unsafe { prev.as_ref() } {
                Some(prev) => prev.next.set(next),
                None => list(&mut heads[node.fd as usize]).0 = next,
            }
            // SAFETY: as above.
            if let Some(next) = unsafe { next.as_ref() } {
                next.prev.set(prev);
            }
        }
    }
}

impl List {
    pub const EMPTY: List = List(ptr::null());

    pub fn is_empty(self) -> bool {
        self.0.is_null()
    }

    /// Its nodes, of waits that do not end meanwhile.
    pub fn nodes<'a>(self) -> impl Iterator<Item = &'a Node> {
        let mut each = self.0;
        core::iter::from_fn(move || {
            // SAFETY: null or linked in this list.
            let node = unsafe { each.as_ref() }?;
            each = node.next.get();
            Some(node)
        })
    }

    /// Calls `end` with the thread of each wait of which a node `is_ready`; it ends the wait.
    pub fn end_each(self, is_ready: impl Fn(&Node) -> bool, mut end: impl FnMut(&'static Control)) {
        let mut each = self.0;
        // SAFETY: null or linked in this list.
        while let Some(node) = unsafe { each.as_ref() } {
            each = node.next.get();
            if !is_ready(node) {
                continue;
            }
            let thread = node.thread;
            // The other nodes of this wait go as well, so the one to go on with is of another.
            // SAFETY: as above.
            while let Some(next) = unsafe { each.as_ref() }
                && ptr::eq(next.thread, thread)
            {
                each = next.next.get();
            }
            end(thread);
        }
    }
}
