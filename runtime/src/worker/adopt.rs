//! How threads become a worker's: those that have not started, in batches, and single full ones.
//!
//! What a thread that starts touches first was mostly written by another kernel thread just now.
//! So for a whole batch it is asked for before the first of them runs: page by page, as each
//! request that misses the TLB walks through the page tables for itself, and then line by line.
//!
//! Invariant: a thread's worker is known before its priority is read, and before it first looks
//! whether it was cancelled: a fence is between.

use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::fence;

use heddle_record::State;

use super::Worker;
use crate::arch;
use crate::control::{Control, Kind, OWN_TLS};
use crate::fresh::Fresh;
use crate::sys::libc_tls;

/// Threads that are taken over at once.
pub(super) const BATCH: u32 = 32;
/// Lines of its stack that a thread's first frames take.
const FIRST_LINES: usize = 8;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Full threads between the queue that they came from and the one that they go to.
struct Batch {
    /// The first `count` are there.
    threads: [MaybeUninit<&'static Control>; BATCH as usize],
    count: usize,
}

impl Batch {
    /// Costs nothing: light threads alone may come.
    fn new() -> Batch {
        Batch { threads: [MaybeUninit::uninit(); BATCH as usize], count: 0 }
    }

    fn add(&mut self, thread: &'static Control) {
        thread.prefetch_for_end();
        self.threads[self.count].write(thread);
        self.count += 1;
    }

    fn iter(&self) -> impl Iterator<Item = &'static Control> {
        // SAFETY: `add` wrote so many.
        self.threads[..self.count].iter().map(|thread| unsafe { thread.assume_init() })
    }
}

impl Worker {
    /// Takes up to `count` threads that have not started, from its own or another worker's queue;
    /// returns how many it got.
    pub fn adopt_from(&'static self, fresh: &Fresh, count: u32) -> u32 {
        let mut taken = 0;
        while taken < count {
            let mut full = Batch::new();
            let most = (count - taken).min(BATCH);
            let got = fresh.take(most, |thread| match thread.kind.get() {
                Kind::Full => full.add(thread),
                _ => self.adopt_light(thread),
            });
            if full.count != 0 {
                self.adopt_all(&full);
            }
            taken += got;
            if got < most {
                break;
            }
        }
        self.naps.adopted(taken);
        // ORDER: a light thread's worker is known before the thread first looks whether it was
        // cancelled; pairs with the fence in `sched::cancel`.
        fence(SeqCst);
        taken
    }

    fn adopt_light(&'static self, thread: &'static Control) {
        self.own(thread);
        self.live.store(self.live.load(Relaxed) + 1, Relaxed);
        self.queues.push(thread);
    }

    fn adopt_all(&'static self, full: &Batch) {
        for thread in full.iter() {
            self.own(thread);
            ask_for_pages(thread);
        }
        self.live_full.fetch_add(full.count as u32, Relaxed);
        // ORDER: the worker before the priority is read, and before the flag of a cancellation is;
        // pairs with the fences in `sched::priority_was_raised` and `full::cancel`: either sees
        // the other's.
        fence(SeqCst);
        full.iter().for_each(ask_for_lines);
        self.offered.push_all(full.iter());
    }

    /// From now on `thread`, a full one, belongs to this worker.
    pub(super) fn adopt(&'static self, thread: &'static Control) {
        self.own(thread);
        self.live_full.fetch_add(1, Relaxed);
        // ORDER: as in `adopt_all`.
        fence(SeqCst);
        self.offered.push(thread);
    }

    /// The thread's worker is this one from now on.
    pub(super) fn own(&'static self, thread: &Control) {
        thread.worker.store(ptr::from_ref(self).cast_mut(), Relaxed);
        let record = thread.record();
        record.set_worker(self.index as u16);
        record.set_tid(self.tid());
        record.set_state(State::Ready);
    }
}

/// Asks for a line of each page that the thread begins with.
fn ask_for_pages(thread: &Control) {
    if thread.flags.get() & OWN_TLS != 0 {
        arch::prefetch(thread.context.get().sp);
        arch::prefetch(thread.thread_pointer());
    }
}

/// Asks for the lines that the thread begins with.
fn ask_for_lines(thread: &Control) {
    if thread.flags.get() & OWN_TLS != 0 {
        let sp = thread.context.get().sp;
        for line in 1..=FIRST_LINES {
            arch::prefetch_to_write(sp.wrapping_sub(line * LINE));
        }
        libc_tls::prefetch_start(thread.thread_pointer());
    }
}
