//! Wakes one thread of the server itself.
//!
//! Invariant: a ring is never lost: it either wakes the waiter or makes its next wait return.

use std::sync::PoisonError;
use std::time::Duration;

use crate::rt::{Condvar, Mutex, lock};

/// A flag that can be waited for.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<bool>,
    change: Condvar,
}

impl Bell {
    /// Rings.
    pub fn ring(&self) {
        *lock(&self.rung) = true;
        self.change.notify_one();
    }

    /// Waits for a ring, for ever or for so long.
    pub fn wait(&self, at_most: Option<Duration>) {
        let mut rung = lock(&self.rung);
        match at_most {
            None => {
                while !*rung {
                    rung = self.change.wait(rung).unwrap_or_else(PoisonError::into_inner);
                }
            }
            // Early once in a while does no harm: all users look again.
            Some(limit) if !*rung => {
                let woken = self.change.wait_timeout(rung, limit);
                rung = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            Some(_) => {}
        }
        *rung = false;
    }
}
