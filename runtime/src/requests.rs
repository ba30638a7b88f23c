//! Cancellations that others ask a worker for.
//!
//! Only the owner of a thread may end its wait (protocol step 3 of `wait.rs`), so a cancellation
//! travels to the thread's worker. Rare; a plain lock and a vector.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::sync::Mutex;

use crate::control::Control;
use crate::full;

/// See the file's head. Each entry owns a reference to its thread.
pub(crate) struct Requests {
    any: AtomicBool,
    list: Mutex<Vec<&'static Control>>,
}

impl Requests {
    pub fn new() -> Self {
        Requests { any: AtomicBool::new(false), list: Mutex::new(Vec::new()) }
    }

    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        !self.any.load(Acquire)
    }

    /// Adds a thread that was cancelled; the caller has taken a reference to it.
    pub fn push(&self, thread: &'static Control) {
        let _pin = full::pin();
        let mut list = self.list.lock().unwrap_or_else(|poison| poison.into_inner());
        list.push(thread);
        self.any.store(true, Release);
    }

    /// Takes all requests, oldest first.
    pub fn take(&self, serve: impl FnMut(&'static Control)) {
        if self.is_empty() {
            return;
        }
        let list = {
            let mut list = self.list.lock().unwrap_or_else(|poison| poison.into_inner());
            self.any.store(false, Release);
            core::mem::take(&mut *list)
        };
        list.into_iter().for_each(serve);
    }
}
