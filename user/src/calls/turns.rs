//! When a thread lets the others go first.
//!
//! A thread per connection yields before each receive: when it comes to its turn again there is
//! something to receive, and the try is not in vain. An event loop is told before what is ready:
//! it yields before it asks, and finds more ready at once.
//!
//! Invariant: a hint. Whatever it says, a thread that has to wait waits.

use core::sync::atomic::Ordering::Relaxed;

use crate::threads::own;

/// Before a try that may find nothing yet.
pub fn before_receive() {
    if !own::is_told().load(Relaxed) {
        heddle::raw::give_way();
    }
}

/// Before the caller asks what is ready.
pub fn before_ask() {
    if own::is_told().load(Relaxed) {
        heddle::raw::give_way();
    }
}

/// The caller was told what is ready.
pub fn told() {
    own::is_told().store(true, Relaxed);
}

/// A receive of the caller's waits: it was not told.
pub fn waits() {
    if own::is_told().load(Relaxed) {
        own::is_told().store(false, Relaxed);
    }
}
