//! The sleep of one kernel thread, and the news that end it.
//!
//! Protocol: who has news counts them, and wakes if somebody sleeps. The sleeper has looked for
//! what there is to do, says that it sleeps, and has the kernel compare the count with the one from
//! before its look. So either the kernel sees the news, or who has them sees the sleeper.
//! `tests/loom.rs` tries every order of these steps.

use core::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::model::{AtomicBool, AtomicU32, futex_wait, futex_wake};

/// See the file's head.
pub struct News {
    count: AtomicU32,
    sleeps: AtomicBool,
}

impl News {
    pub const fn new() -> Self {
        News { count: AtomicU32::new(0), sleeps: AtomicBool::new(false) }
    }

    /// Before the look for what there is to do.
    pub fn seen(&self) -> u32 {
        self.count.load(SeqCst)
    }

    /// Has the sleeper look again.
    pub fn tell(&self) {
        // ORDER: SeqCst: the news before the look at who sleeps; pairs with `sleep`.
        self.count.fetch_add(1, SeqCst);
        if self.sleeps.load(SeqCst) {
            futex_wake(&self.count);
        }
    }

    /// Sleeps while the news are those that were `seen`, for so long at most. Whether there are
    /// others.
    pub fn sleep(&self, seen: u32, limit: Option<Duration>) -> bool {
        // ORDER: SeqCst: the flag before the kernel's look at the news; pairs with `tell`.
        self.sleeps.store(true, SeqCst);
        futex_wait(&self.count, seen, limit);
        self.sleeps.store(false, SeqCst);
        self.count.load(SeqCst) != seen
    }
}
