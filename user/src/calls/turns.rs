//! When a thread lets the others go first.
//!
//! A thread per connection yields before each receive: when it comes to its turn again there is
//! something to receive, and the try is not in vain. An event loop is told before what is ready:
//! it yields before it asks, and finds more ready at once.
//!
//! Of two threads that send each other something, one at a time, the one's message is an event
//! that the worker has not looked for when the other tries to receive. So a try that was in vain is
//! made again when those have run whose events have come; then both are always ready, and neither
//! waits in the kernel again. A ping-pong by two pipes takes 2.6 us of CPU time that way, and 8.8
//! where each receive waits. A worker that mostly waits does not look for such events.
//!
//! An event loop with little to do asks in vain each time before it waits. After [`ASKS`] such asks
//! in a row about one descriptor it waits at once: a wait for what is ready ends as well, only
//! later than an ask would have told; so does one about a number that is no epoll set's any more.
//! Now and then it asks all the same, and goes on to as soon as there was something.
//!
//! Invariant: a hint. Whatever it says, a thread that has to wait waits.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use super::Result;
use crate::threads::own;

/// After a second try in vain so many receives of that thread make none.
const IN_VAIN: u8 = 15;

/// After so many asks in vain in a row the next one is left out.
const ASKS: u8 = 4;
/// So many are left out before one is made again.
const LEFT_OUT: u8 = 15;

/// Before a try that may find nothing yet.
pub fn before_receive() {
    if !own::is_told().load(Relaxed) {
        heddle::raw::give_way();
    }
}

/// A receive has found nothing: has those go first whose events have come, after `before`, which
/// says whether the caller has let go of something. True, once for each receive at most: it is to
/// be tried again, as `again` says from then on.
pub fn events_first(again: &mut bool, before: impl FnOnce() -> bool) -> bool {
    if *again || own::is_told().load(Relaxed) {
        return false;
    }
    let in_vain = own::in_vain();
    let left = in_vain.load(Relaxed);
    if left != 0 {
        in_vain.store(left - 1, Relaxed);
        return false;
    }
    let has_let_go = before();
    let has_given_way = heddle::raw::give_way_to_events();
    if has_given_way {
        in_vain.store(IN_VAIN, Relaxed);
    }
    *again = has_given_way || has_let_go;
    *again
}

/// A receive has found something, at once or when it was tried `again`.
pub fn found(again: bool) {
    if again {
        own::in_vain().store(0, Relaxed);
    }
}

/// Before the caller asks what is ready.
pub fn before_ask() {
    if own::is_told().load(Relaxed) {
        heddle::raw::give_way();
    }
}

/// Has a caller that waits next `ask` what of `fd` is ready, unless that would be in vain: then
/// nothing is, as far as is known.
pub fn first_ask(fd: c_int, ask: impl FnOnce() -> Result<isize>) -> Result<isize> {
    let (asks, asked) = own::asks();
    let same = asked.load(Relaxed) == fd;
    let count = if same { asks.load(Relaxed) } else { 0 };
    if (ASKS..ASKS + LEFT_OUT).contains(&count) {
        asks.store(count + 1, Relaxed);
        return Ok(0);
    }
    let ready = ask();
    asks.store(if ready == Ok(0) { (count + 1).min(ASKS) } else { 0 }, Relaxed);
    if !same {
        asked.store(fd, Relaxed);
    }
    ready
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
