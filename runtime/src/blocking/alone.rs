//! Waiting for a disk in place: a full thread that has its worker for itself holds up nobody when
//! it blocks there, and saves the way to a kernel thread of the pool and back, which costs more CPU
//! time than a fast disk does.
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

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::control::Control;
use crate::full;
use crate::sys::{clock, signals};
use crate::worker::Worker;

/// Who has waited for a disk so long ago, or less, does so often.
const OFTEN_NS: u64 = 200_000;

/// Workers of a runtime that wait in place now.
pub(crate) struct InPlace(AtomicU32);

impl InPlace {
    pub const fn new() -> Self {
        InPlace(AtomicU32::new(0))
    }

    /// How many there are; a hint.
    pub fn count(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// A wait in place.
struct Wait(&'static Worker);

impl Wait {
    fn begin(worker: &'static Worker) -> Wait {
        worker.in_place.store(true, Relaxed);
        worker.runtime.in_place.0.fetch_add(1, Relaxed);
        Wait(worker)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.0.runtime.in_place.0.fetch_sub(1, Relaxed);
        self.0.in_place.store(false, Relaxed);
    }
}

/// Makes `call`, which waits for a disk and for nobody else: in place, if the caller is a full
/// thread that has its worker for itself, or gets one; else by `elsewhere`, which has another
/// kernel thread make it.
pub fn alone<F, T>(call: F, elsewhere: impl FnOnce(F) -> T) -> T
where
    F: FnOnce() -> T,
{
    if full::me().is_none() {
        return elsewhere(call);
    }
    let is_often = clock::now_ns().saturating_sub(full::waited_ns()) < OFTEN_NS;
    let result = match begin(is_often) {
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

/// Begins a wait of the caller, a full thread, if it has its worker for itself.
fn begin(may_move: bool) -> Option<Wait> {
    if may_move && !full::here()?.has_one_thread() {
        full::here()?.worker().move_to_own();
    }
    // Pinned until the worker is known to wait.
    let here = full::here()?;
    here.has_one_thread().then(|| Wait::begin(here.worker()))
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
