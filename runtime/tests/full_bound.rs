//! The Lazy region's slice by its bound is a whole one, whatever time-critical threads wait.
//!
//! Slices are long here, for they are of the clock, and what a turn got is taken from the worker's
//! CPU time, so that it shows however busy the machine is: a turn that is cut short ends with the
//! monitor's next look.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{full, need_preemption};
use heddle::thread::Builder;

#[path = "common/full.rs"]
mod common;

const TURN: Duration = Duration::from_millis(20);
/// No thread does without the processor for so short a time if another one ran meanwhile.
const GAP: Duration = Duration::from_millis(1);

/// CPU time of the kernel thread below.
fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[test]
fn a_turn_by_the_bound_is_a_whole_slice() {
    let config = heddle::Config::new().workers(1).lazy_bound(Some(Duration::from_millis(50)));
    if !need_preemption(config.slice(Some(Duration::from_secs(2)))) {
        return;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let hog = |stop: Arc<AtomicBool>| {
        Builder::new().full().priority(30).spawn(move || while !stop.load(SeqCst) {}).unwrap()
    };
    let hogs = [hog(stop.clone()), hog(stop.clone())];
    let lazy = full(|| {
        let (end, mut longest) = (Instant::now() + Duration::from_secs(60), Duration::ZERO);
        let mut last = cpu();
        let mut begin = last;
        while longest < TURN && Instant::now() < end {
            let now = cpu();
            if now - last > GAP {
                begin = now;
            }
            last = now;
            longest = longest.max(now - begin);
        }
        longest
    });
    let longest = lazy.join().unwrap();
    stop.store(true, SeqCst);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
    assert!(longest >= TURN, "{longest:?}");
}
