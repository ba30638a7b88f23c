//! Waiting for a disk in place: a full thread that has its worker for itself holds up nobody when
//! it blocks there, and saves the way to a kernel thread of the pool and back, which costs more CPU
//! time than a fast disk does.
//!
//! One that waits for disks often ([`OFTEN_NS`]) and shares its worker moves to one that sleeps and
//! to which nothing belongs, and goes on there. So such threads come to have kernel threads of
//! their own, and cost what kernel threads do. Where more workers run than should, who comes back
//! is left to the others, and for [`BUSY_NS`] nobody moves: those that compute between two waits
//! would run beside each other.
//!
//! How it moves: it claims a place at the other worker (`worker/given.rs`) and leaves its stack;
//! then its old worker, whose thread it has been until then, gives it to the new one.
//!
//! Invariant: a worker counts as blocked in the kernel while it waits in place, and no longer: who
//! is ready meanwhile finds another.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::control::Control;
use crate::full;
use crate::runtime::Runtime;
use crate::sys::{clock, signals};
use crate::worker::Worker;

/// Who has waited for a disk so long ago, or less, does so often.
const OFTEN_NS: u64 = 1_000_000;
/// How long nobody moves after one has come back to workers enough.
const BUSY_NS: u64 = 1_000_000;

/// What a runtime knows of waits in place.
pub(crate) struct InPlace {
    /// Workers that wait in place now.
    count: AtomicU32,
    /// When last one came back to workers enough.
    busy: AtomicU64,
}

impl InPlace {
    pub const fn new() -> Self {
        InPlace { count: AtomicU32::new(0), busy: AtomicU64::new(0) }
    }

    /// Workers that wait in place now; a hint.
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }
}

/// A wait in place.
struct Wait(&'static Worker);

impl Wait {
    fn begin(worker: &'static Worker) -> Wait {
        worker.in_place.store(true, Relaxed);
        worker.runtime.in_place.count.fetch_add(1, Relaxed);
        Wait(worker)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.0.runtime.in_place.count.fetch_sub(1, Relaxed);
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
    let result = match own_worker(is_often) {
        None => elsewhere(call),
        Some(worker) => {
            let wait = Wait::begin(worker);
            let result = call();
            drop(wait);
            result
        }
    };
    full::has_waited(clock::now_ns());
    let errno = signals::errno();
    full::leave_to_others(!is_often);
    signals::set_errno(errno);
    result
}

/// The worker that the caller, a full thread, has for itself.
fn own_worker(may_move: bool) -> Option<&'static Worker> {
    let has_own = |worker: &'static Worker| worker.has_one_thread().then_some(worker);
    if may_move
        && let Some(here) = full::here()
        && has_own(here.worker()).is_none()
    {
        here.worker().move_to_own();
    }
    has_own(full::here()?.worker())
}

impl Runtime {
    /// Whether a thread that moves now would soon be one too many.
    fn is_too_busy_to_move(&self) -> bool {
        let busy = self.in_place.busy.load(Relaxed);
        self.has_surplus() || busy != 0 && clock::now_ns().saturating_sub(busy) < BUSY_NS
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
        if runtime.is_too_busy_to_move() {
            return;
        }
        let is_free = |worker: &&'static Worker| worker.sleeping.is_asleep() && !worker.is_needed();
        if let Some(own) = runtime.workers().find(is_free)
            && own.claim_place()
        {
            self.move_to(me, own);
        }
    }

    /// The thread that it runs, which is pinned, is for others, if others run: it is one too many
    /// on a worker that stands in for others, or has no need of one of its own (`always`).
    pub fn leave_to_others(&'static self, me: &'static Control, always: bool) {
        if !self.is_spare() {
            return;
        }
        if self.runtime.has_surplus() {
            self.runtime.in_place.busy.store(clock::now_ns(), Relaxed);
        } else if !always {
            return;
        }
        self.rest.store(true, Relaxed);
        self.poll.store(1, Relaxed);
        self.yield_full(me);
    }
}
