//! A time-critical full thread does not wait for the slice of one that computes. The slice is so
//! long here that it shows, however busy the machine is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{full, need_preemption};
use heddle::sync::Semaphore;
use heddle::thread::Builder;

#[path = "common/full.rs"]
mod common;

const SLICE: Duration = Duration::from_secs(40);

#[test]
fn a_time_critical_thread_interrupts_one_that_computes() {
    if !need_preemption(heddle::Config::new().workers(1).slice(Some(SLICE))) {
        return;
    }
    let (asked, answered) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (theirs, answers) = (asked.clone(), answered.clone());
    let body = move || {
        for _ in 0..5 {
            theirs.acquire();
            answers.release();
        }
        // By its own time, too.
        let start = Instant::now();
        heddle::thread::sleep(Duration::from_millis(50));
        start.elapsed()
    };
    let urgent = Builder::new().full().priority(30).spawn(body).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = stop.clone();
    let hog = full(move || while !theirs.load(SeqCst) {});
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        asked.release();
        answered.acquire();
        let waited = start.elapsed();
        assert!(waited < SLICE / 2, "{waited:?}");
    }
    let slept = urgent.join().unwrap();
    assert!(slept < SLICE / 2, "{slept:?}");
    stop.store(true, SeqCst);
    hog.join().unwrap();
}
