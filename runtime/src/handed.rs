//! One value, handed from one kernel thread to another that waits for it.
//!
//! Invariant: the value is behind the word that tells of it, by Release and Acquire: whoever has
//! seen the word finds the lock free. (A channel of std would do, but keeps memory for each thread
//! that has waited for one; here these are the program's.)

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError};

use crate::sys::futex;

struct Shared<T> {
    is_told: AtomicU32,
    value: Mutex<Option<T>>,
}

/// The end that gives the value, or goes without.
pub(crate) struct Giver<T>(Arc<Shared<T>>);

/// The end that waits for it.
pub(crate) struct Taker<T>(Arc<Shared<T>>);

pub(crate) fn pair<T>() -> (Giver<T>, Taker<T>) {
    let shared = Arc::new(Shared { is_told: AtomicU32::new(0), value: Mutex::new(None) });
    (Giver(Arc::clone(&shared)), Taker(shared))
}

impl<T> Giver<T> {
    pub fn give(self, value: T) {
        *self.0.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        // ORDER: Release publishes the value, and all that came before; pairs with `take`.
        self.0.is_told.store(1, Release);
        futex::wake(&self.0.is_told, 1);
    }
}

impl<T> Taker<T> {
    /// Waits for the value; `None` if the other end went without giving one.
    pub fn take(self) -> Option<T> {
        // ORDER: pairs with `drop` above.
        while self.0.is_told.load(Acquire) == 0 {
            futex::wait(&self.0.is_told, 0, None);
        }
        self.0.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_to_who_waits_for_it() {
        let (giver, taker) = pair();
        let giving = std::thread::spawn(move || giver.give(7));
        assert_eq!(taker.take(), Some(7));
        giving.join().unwrap();
    }

    #[test]
    fn a_giver_that_goes_leaves_nobody_waiting() {
        let (giver, taker) = pair::<u32>();
        let going = std::thread::spawn(move || drop(giver));
        assert_eq!(taker.take(), None);
        going.join().unwrap();
    }
}
