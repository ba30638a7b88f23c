//! Calls that hardly ever wait, made by the worker itself, which is blocked when one does.
//!
//! The monitor finds another worker for the others then, some milliseconds later. So it would be
//! with each of many that wait at the same time: while one waits, and for a while after, all of its
//! kind go another way, which costs the others more.
//!
//! Protocol: [`Kind`] has the moment at which a call began that is not over yet, or that took long.
//! Who finds none, or one so long ago that it tells nothing any more, leaves his own there, and
//! takes it away if he is back soon. Who finds one from just now takes that call for one that does
//! not wait.
//!
//! Invariant: a hint. One that is lost, or left behind by a thread that never came back, costs a
//! worker for some milliseconds, or the other way for a second.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;

use super::{Result, Stop, checked, resumed};
use crate::threads::signals::{self, Then};

/// A call that takes longer than this may wait.
const SOON_NS: u64 = 200_000;
/// One that has taken longer than this has waited: the kernel may run others meanwhile for less.
const LONG_NS: u64 = 10_000_000;
/// How long after one of its kind has waited, or begun to, another is made in place.
const LATER_NS: u64 = 1_000_000_000;

/// What is known of the calls of a kind; see the file's head.
pub struct Kind(AtomicU64);

impl Kind {
    pub const fn new() -> Self {
        Kind(AtomicU64::new(0))
    }

    /// Repeats `call`, one of [`crate::sys::interruptible`]'s, until the kernel has ended it for
    /// another reason than the caller's signals, or a handler is to end it. `always`: every
    /// handler does. `None`: it would wait, as others do; nothing was done.
    ///
    /// A signal that comes just before the kernel is there ends it as well. So does one that came
    /// to what would not have waited: where `is_undone`, the call is made whatever the handler asks
    /// for.
    pub fn make(
        &self,
        always: impl Fn() -> bool,
        is_undone: impl Fn() -> bool,
        call: impl Fn() -> isize,
    ) -> Option<Result<isize>> {
        if raw::is_called() && signals::interrupted() == Then::End {
            return Some(Err(Stop::Cancelled));
        }
        loop {
            // Once more after each handler: one that goes on waiting is to be seen by others.
            let began = raw::now_ns();
            if !self.may_begin(began) {
                return None;
            }
            let done = checked(call());
            self.is_over(began);
            let Err(Stop::Error(libc::EINTR)) = done else { return Some(done) };
            match resumed(Stop::Cancelled, always()) {
                Err(Stop::Error(_)) if is_undone() => {}
                Err(stop) => return Some(Err(stop)),
                Ok(()) => {}
            }
        }
    }

    /// Whether one that begins now is made in place; it has begun then.
    fn may_begin(&self, now: u64) -> bool {
        let before = self.0.load(Relaxed);
        let age = now.saturating_sub(before);
        if before == 0 || age > LATER_NS {
            self.0.store(now, Relaxed);
        }
        before == 0 || !(SOON_NS..=LATER_NS).contains(&age)
    }

    /// One that began then has ended.
    fn is_over(&self, began: u64) {
        let now = raw::now_ns();
        if now - began >= LONG_NS {
            self.0.store(now, Relaxed);
        } else if self.0.load(Relaxed) == began {
            self.0.store(0, Relaxed);
        }
    }
}
