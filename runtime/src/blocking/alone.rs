//! Waiting for a disk in place: a full thread that has its worker for itself holds up nobody when
//! it blocks there, and saves the way to a kernel thread of the pool and back, which costs more CPU
//! time than a fast disk does.
//!
//! So does one for which nobody waits there that is ready, while fewer workers run than should: a
//! CPU has nothing to do, and each of the two wakes on the way to the pool and back would wait for
//! it. Who becomes ready meanwhile goes to another worker; whose event or time comes waits for the
//! disk as well, or for the monitor's tick. So nobody does this for a while after a call that took
//! long ([`SLOW_NS`]).
//!
//! One that waits for disks often ([`OFTEN_NS`]) and shares its worker moves to one that sleeps and
//! to which nothing belongs, and goes on there. So such threads come to have kernel threads of
//! their own, and cost what kernel threads do. Where more workers run than should nobody moves; and
//! who waits less often is left to the others when he comes back.
//!
//! How it moves: it takes a place at the other worker ([`Worker::live_full`]), so that others see
//! that that is taken, and leaves its stack; then its old worker, whose thread it has been until
//! then, gives it to the new one as anything is given (`worker/given.rs`).
//!
//! Invariant: a worker counts as blocked in the kernel while it waits in place, and no longer: who
//! is ready meanwhile finds another.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::control::Control;
use crate::full;
use crate::model::fence;
use crate::sys::{clock, signals};
use crate::worker::Worker;

/// Who has waited for a disk so long ago, or less, does so often.
const OFTEN_NS: u64 = 200_000;
/// A call at a worker with other threads that takes longer has held these up.
const SLOW_NS: u64 = 1_000_000;
/// For so many times as long as it took nobody makes another one.
const PART: u64 = 16;

/// Workers of a runtime that wait in place now.
pub(crate) struct InPlace {
    count: AtomicU32,
    /// Until when nobody does so at a worker with other threads.
    slow_until: AtomicU64,
}

impl InPlace {
    pub const fn new() -> Self {
        InPlace { count: AtomicU32::new(0), slow_until: AtomicU64::new(0) }
    }

    /// How many there are; a hint.
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// A call at a worker with other threads has taken so long.
    fn note(&self, elapsed: u64, now: u64) {
        if elapsed >= SLOW_NS {
            self.slow_until.store(now.saturating_add(PART * elapsed), Relaxed);
        }
    }

    /// Whether the next one is to be made there.
    fn is_fast(&self, now: u64) -> bool {
        now >= self.slow_until.load(Relaxed)
    }
}

/// A wait in place.
struct Wait {
    worker: &'static Worker,
    /// When it began, at a worker with other threads.
    shared_since: Option<u64>,
}

impl Wait {
    fn begin(worker: &'static Worker, shared_since: Option<u64>) -> Wait {
        worker.in_place.store(true, Relaxed);
        worker.runtime.in_place.count.fetch_add(1, Relaxed);
        Wait { worker, shared_since }
    }

    /// As [`Wait::begin`] at a worker with other threads, if none of them is ready, and another
    /// worker has nothing to do.
    fn begin_beside_others(worker: &'static Worker, now: u64) -> Option<Wait> {
        let runtime = worker.runtime;
        let may_begin = runtime.in_place.is_fast(now) && runtime.lacks_workers();
        if !may_begin || !worker.has_only_full_that_wait() {
            return None;
        }
        let wait = Wait::begin(worker, Some(now));
        // ORDER: who gives the worker something sees it wait, or is seen here; pairs with the fence
        // in `Sleep::claim`.
        fence(SeqCst);
        worker.has_only_full_that_wait().then_some(wait)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let in_place = &self.worker.runtime.in_place;
        in_place.count.fetch_sub(1, Relaxed);
        self.worker.in_place.store(false, Relaxed);
        if let Some(since) = self.shared_since {
            let now = clock::now_ns();
            in_place.note(now.saturating_sub(since), now);
        }
    }
}

/// Makes `call`, which waits for a disk and for nobody else: in place, if the caller is a full
/// thread that has its worker for itself, or gets one, or holds up nobody there; else by
/// `elsewhere`, which has another kernel thread make it.
pub fn alone<F, T>(call: F, elsewhere: impl FnOnce(F) -> T) -> T
where
    F: FnOnce() -> T,
{
    if full::me().is_none() {
        return elsewhere(call);
    }
    let now = clock::now_ns();
    let is_often = now.saturating_sub(full::waited_ns()) < OFTEN_NS;
    let result = match begin(is_often, now) {
        None => elsewhere(call),
        Some(wait) => {
            let result = call();
            drop(wait);
            result
        }
    };
    full::has_waited(clock::now_ns());
    if !is_often {
        let errno = signals::errno();
        full::leave_to_others();
        signals::set_errno(errno);
    }
    result
}

/// Begins a wait of the caller, a full thread, in place.
fn begin(may_move: bool, now: u64) -> Option<Wait> {
    if may_move && !full::here()?.has_one_thread() {
        full::here()?.worker().move_to_own();
    }
    // Pinned until the worker is known to wait.
    let here = full::here()?;
    match here.has_one_thread() {
        true => Some(Wait::begin(here.worker(), None)),
        false => Wait::begin_beside_others(here.worker(), now),
    }
}

impl Worker {
    /// Whether the thread that it runs is blocked in the kernel, as far as is known.
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Relaxed) || self.in_place.load(Relaxed)
    }

    /// Moves the calling full thread, which is pinned, to a worker that it has for itself, if there
    /// is one.
    fn move_to_own(&'static self) {
        let (runtime, Some(me)) = (self.runtime, full::me()) else { return };
        if runtime.has_surplus() {
            return;
        }
        let is_free = |worker: &&'static Worker| worker.sleeping.is_asleep() && !worker.is_needed();
        if let Some(own) = runtime.workers().find(is_free) {
            own.live_full.fetch_add(1, Relaxed);
            self.move_to(me, own);
        }
    }

    /// The thread that it runs, which is pinned, is for others, if it stands in for others and any
    /// run.
    pub fn leave_to_others(&'static self, me: &'static Control) {
        if self.is_spare() {
            self.rest.store(true, Relaxed);
            self.poll.store(1, Relaxed);
            self.yield_full(me);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_call_has_the_next_ones_go_elsewhere_for_a_while() {
        let in_place = InPlace::new();
        in_place.note(SLOW_NS - 1, 1);
        assert!(in_place.is_fast(1));
        in_place.note(SLOW_NS, SLOW_NS);
        assert!(!in_place.is_fast(PART * SLOW_NS));
        assert!(in_place.is_fast((PART + 1) * SLOW_NS));
    }
}
