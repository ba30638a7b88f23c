//! The models of how two part from a job (`src/blocking/parting.rs`): it is freed once, by who does
//! not see the other in it, and a caller that waited has the result.
//!
//! Two weaker forms pass here: `done` without Acquire, and `leave` without Release. They order the
//! caller's looks at the word before the memory is given back, which loom does not see.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use loom::cell::UnsafeCell;
use loom::sync::Notify;

use crate::models::check;
use crate::parting::Parting;
use crate::sched::spawn;

/// A job; loom tells of a use of its result that is not ordered after the one before.
struct Job {
    result: UnsafeCell<u32>,
    parting: Parting,
    wake: Notify,
    /// How often it was freed; not a part of the model.
    freed: AtomicU32,
}

impl Job {
    fn new() -> Arc<Job> {
        let parting = Parting::new();
        assert!(!parting.is_done());
        let (result, freed) = (UnsafeCell::new(0), AtomicU32::new(0));
        Arc::new(Job { result, parting, wake: Notify::new(), freed })
    }

    /// The pool's part.
    fn run(&self) {
        self.result.with_mut(|result| {
            // SAFETY: loom sees whether somebody else uses it.
            unsafe { *result = 7 };
        });
        if self.parting.done() {
            self.free();
        } else {
            self.wake.notify();
        }
    }

    fn take(&self) -> u32 {
        // SAFETY: as above.
        self.result.with_mut(|result| unsafe { result.replace(0) })
    }

    /// What a drop does: it looks at all of the job.
    fn free(&self) {
        self.take();
        self.freed.fetch_add(1, Relaxed);
    }
}

/// The caller waits until it is done, takes the result, and frees the job.
#[test]
fn a_caller_that_waits_has_the_result() {
    check(|controls| {
        let job = Job::new();
        let theirs = job.clone();
        let pool = spawn(controls[1], move || theirs.run());
        while !job.parting.is_done() {
            job.wake.wait();
        }
        assert_eq!(job.take(), 7);
        assert!(job.parting.leave());
        job.free();
        pool.join().unwrap();
        assert_eq!(job.freed.load(Relaxed), 1);
    });
}

/// The caller looks once and leaves, with the result or without.
#[test]
fn a_job_that_is_left_is_freed_once() {
    check(|controls| {
        let job = Job::new();
        let theirs = job.clone();
        let pool = spawn(controls[1], move || theirs.run());
        if job.parting.is_done() {
            assert_eq!(job.take(), 7);
        }
        if job.parting.leave() {
            job.free();
        }
        pool.join().unwrap();
        assert_eq!(job.freed.load(Relaxed), 1);
    });
}
