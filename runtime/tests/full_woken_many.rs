//! Full threads that wake do not wait for the slices of those that compute, at whichever of many
//! workers. The slice is so long here that it shows, however busy the machine is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{full, need_preemption};

#[path = "common/full.rs"]
mod common;

/// As on a large machine, whatever processors there are.
const WORKERS: usize = 32;
const SLICE: Duration = Duration::from_secs(4);
const NAP: Duration = Duration::from_millis(50);
const ROUNDS: usize = 3;

#[test]
fn a_thread_that_wakes_interrupts_those_that_compute_at_any_worker() {
    if !need_preemption(heddle::Config::new().workers(WORKERS).slice(Some(SLICE))) {
        return;
    }
    let (stop, computing) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let wakes: Vec<_> = (0..WORKERS)
        .map(|_| {
            let computing = computing.clone();
            full(move || {
                // One at each worker, until all workers compute.
                computing.fetch_add(1, SeqCst);
                while computing.load(SeqCst) < WORKERS as u64 {}
                let mut waits = [Duration::ZERO; ROUNDS];
                for wait in &mut waits {
                    let due = Instant::now() + NAP;
                    heddle::thread::sleep(NAP);
                    *wait = due.elapsed();
                }
                waits
            })
        })
        .collect();
    let hogs: Vec<_> = (0..2 * WORKERS)
        .map(|_| {
            let stop = stop.clone();
            full(move || while !stop.load(SeqCst) {})
        })
        .collect();
    let mut waits: Vec<_> = wakes.into_iter().flat_map(|it| it.join().unwrap()).collect();
    stop.store(true, SeqCst);
    hogs.into_iter().for_each(|thread| thread.join().unwrap());
    waits.sort();
    // On a busy machine one that wakes may be taken for one that computes, now and then.
    let most = waits[waits.len() * 9 / 10];
    assert!(most < SLICE / 2, "{waits:?}");
}
