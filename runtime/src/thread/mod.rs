//! Threads: spawn, join, park, sleep, scope. The API is std's where std has the thing.
//!
//! What std keeps per kernel thread, the light threads of a worker share: `std::thread_local!`
//! values (use [`crate::thread_local!`]) and the panic count. A destructor that blocks while its
//! thread unwinds lets the worker's other threads run with `std::thread::panicking()` true: a
//! mutex they unlock then is poisoned, and a panic of theirs aborts the process, as a double
//! panic does.

pub(crate) mod builder;
mod handle;
mod join;
pub(crate) mod local;
mod packet;
mod park;
mod scope;

pub use builder::{Builder, spawn};
pub use handle::{JoinHandle, Thread, ThreadId, current};
pub use local::LocalKey;
pub use park::{park, park_timeout};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use std::thread::Result;

#[doc(hidden)]
pub use crate::full::give_way_to_events;
pub(crate) use join::{abandon_join, join_until};
pub(crate) use packet::{begin, destroy_values, end_destroyed, end_raw};
pub(crate) use park::{abandon_park, park_until, unpark};
pub(crate) use scope::Pinned;

use core::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::control::{Outcome, WaitKind};
use crate::sys::clock;
use crate::{full, sched};

/// Lets the other ready threads run. On a kernel thread: `sched_yield`.
#[inline(always)]
pub fn yield_now() {
    match sched::worker() {
        Some(worker) => worker.yield_now(sched::current()),
        None => {
            if !full::yield_now() {
                std::thread::yield_now();
            }
        }
    }
}

/// As [`yield_now`], but full threads that were preempted do not go first: the caller is about to
/// look for something that may not be there yet, and they compute.
#[doc(hidden)]
#[inline(always)]
pub fn give_way() {
    match sched::worker() {
        Some(worker) => worker.yield_now(sched::current()),
        None => {
            if !full::give_way() {
                std::thread::yield_now();
            }
        }
    }
}

/// Yields if the worker's poll word asks for it: what a compiler-placed poll does (CoThreads).
///
/// For long computations between blocking calls; one load and one branch otherwise.
#[inline]
pub fn poll() {
    if full::here().is_some_and(|here| here.poll.load(Relaxed) != 0) {
        yield_now();
    }
}

/// Blocks the calling thread for at least `duration`; returns early when it is cancelled.
pub fn sleep(duration: Duration) {
    let _ = sleep_until_ns(clock::deadline_after(duration));
}

/// Blocks the calling thread until `deadline`; returns early when it is cancelled.
pub fn sleep_until(deadline: Instant) {
    sleep(deadline.saturating_duration_since(Instant::now()));
}

pub(crate) fn sleep_until_ns(deadline: u64) -> Outcome {
    let me = sched::current();
    if sched::is_cancellable(me) {
        // A loop around it must not keep its worker.
        yield_now();
        return Outcome::Cancelled;
    }
    me.wait.set(WaitKind::Sleep);
    me.cancellable.set(true);
    let outcome = sched::wait(me, deadline);
    me.cancellable.set(false);
    outcome
}

/// Whether a cancellation of the calling thread is pending.
pub fn is_cancelled() -> bool {
    sched::is_cancelled(sched::current())
}

/// Whether the calling thread is a user-level thread (and not a kernel thread).
pub fn is_user_level() -> bool {
    // A kernel thread needs no control block for the answer.
    let may_be = sched::worker().is_some() || crate::full::me().is_some();
    may_be && sched::current().kind.get().is_user_level()
}
