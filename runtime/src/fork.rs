//! What a forked child finds of the runtime: the memory of it as it was, and one thread.
//!
//! Whatever another thread of the parent had locked stays locked in the child, and what it was
//! changing stays half changed. So before anything else of the child runs, what it may come to is
//! made as if nobody had ever used it:
//!
//! - The lot's buckets, which who waits and who wakes come to, are empty and unlocked: who waits
//!   there is a thread of the parent's.
//! - The lock under which nodes of the lot are made is unlocked: a chunk is published when it is
//!   whole.
//! - The pools of slots and stacks, which a kernel thread comes to when it first waits and when it
//!   ends, are empty and unlocked: slots are made anew, and their number is written last.
//! - The table and its locks, which the same come to, and who sets a name, are the parent's: the
//!   child has records that nobody else sees, and no texts.
//! - Nobody is in the allocator (`heap_use.rs`).
//! - Nobody makes descriptors in the gate that `dup2` waits before.
//!
//! No child comes to the other locks: those of workers, of the monitor, of the reactors, of the
//! blocking pool, of timers and of descriptors (`hold.rs`), for there is no worker and no full
//! thread is made; those of the start, which has been or is refused; and what is made once was made
//! before the second thread.
//!
//! Invariant: the child has one thread while this runs, and none of the parent's locks is waited
//! for.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Once;

use crate::sys::{descriptor, task};
use crate::{heap_use, lot, runtime, stack, table};

/// Whoever embeds the runtime calls [`in_child`] itself.
static IS_EMBEDDED: AtomicBool = AtomicBool::new(false);

/// The caller sees to it that [`in_child`] is called, before any other code of a child: a handler
/// of the program's that was registered earlier than the runtime's may wake who waits. Before the
/// first thread waits.
pub fn embed() {
    IS_EMBEDDED.store(true, Relaxed);
}

/// Sees to it that children are told, once; before any lock of the table is taken.
pub(crate) fn arrange() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !IS_EMBEDDED.load(Relaxed) {
            task::at_fork_in_child(in_child);
        }
    });
}

/// The calling process is a child that was forked.
pub extern "C" fn in_child() {
    heap_use::in_child();
    lot::forget_waiters();
    stack::forget_pools();
    #[cfg(target_arch = "x86_64")]
    crate::sys::segments::in_child();
    table::leave();
    runtime::forget_workers();
    descriptor::in_child();
}
