//! Preemption with the slice that programs have: threads that keep the one worker make room.
//! Nothing here has a time limit of its own: without preemption the tests hang.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use common::{full, need_preemption};
use heddle::thread;

#[path = "common/full.rs"]
mod common;

/// Eight threads spin for their turn, as programs do that were written for a processor each.
#[test]
fn threads_that_spin_for_their_turn_get_it() {
    if !need_preemption(heddle::Config::new().workers(1)) {
        return;
    }
    let turn = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..8u32)
        .map(|number| {
            let turn = turn.clone();
            full(move || {
                for _ in 0..20 {
                    while turn.load(SeqCst) != number {
                        spin_loop();
                    }
                    turn.store((number + 1) % 8, SeqCst);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_ne!(heddle::raw::counts().unwrap().preempted, 0);
}

/// Short threads, those that wait for time and light ones go on beside a thread that computes.
#[test]
fn a_hog_lets_others_run() {
    if !need_preemption(heddle::Config::new().workers(1)) {
        return;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = stop.clone();
    let hog = full(move || {
        let mut turns = 0u64;
        while !theirs.load(SeqCst) {
            turns += 1;
        }
        turns
    });
    for round in 0..5u64 {
        full(|| ()).join().unwrap();
        let naps = full(move || thread::sleep(std::time::Duration::from_micros(round * 300)));
        thread::spawn(|| ()).join().unwrap();
        naps.join().unwrap();
    }
    stop.store(true, SeqCst);
    assert_ne!(hog.join().unwrap(), 0);
}
