//! `Barrier`: std's API on a wait queue.
//!
//! Invariant: `arrived` is the number of threads in the queue; the last of a round takes them all
//! out under the same lock, so rounds don't mix and a thread that comes again waits in the next.

use core::cell::Cell;
use core::fmt;

use crate::sched;
use crate::wait::WaitQueue;

/// Lets threads wait for each other; std's `Barrier`.
///
/// ```
/// let barrier = heddle::sync::Barrier::new(3);
/// let leaders: usize = heddle::thread::scope(|scope| {
///     let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| barrier.wait().is_leader())).collect();
///     threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
/// });
/// assert_eq!(leaders, 1);
/// ```
pub struct Barrier {
    queue: WaitQueue,
    arrived: Cell<usize>,
    threads: usize,
}

// SAFETY: `arrived` is touched only under the queue's lock.
unsafe impl Send for Barrier {}
// SAFETY: as above.
unsafe impl Sync for Barrier {}

/// What [`Barrier::wait`] returns; std's `BarrierWaitResult`.
#[derive(Debug)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// True for one thread of each round: the last that arrived.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// A barrier for rounds of `threads` threads; 0 is as 1.
    pub const fn new(threads: usize) -> Self {
        Barrier { queue: WaitQueue::new(), arrived: Cell::new(0), threads }
    }

    /// Waits until the round is complete.
    pub fn wait(&self) -> BarrierWaitResult {
        let queue = self.queue.lock();
        let arrived = self.arrived.get() + 1;
        if arrived < self.threads {
            self.arrived.set(arrived);
            let me = sched::current();
            queue.enqueue(me);
            let _ = queue.wait(me, 0);
            return BarrierWaitResult(false);
        }
        self.arrived.set(0);
        let round = queue.take_all();
        drop(queue);
        round.wake();
        BarrierWaitResult(true)
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("threads", &self.threads).finish_non_exhaustive()
    }
}
