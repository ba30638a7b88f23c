//! Preemption as often as can be: what a thread has in its registers, its errno, and what the
//! runtime's primitives promise, hold at whatever instruction it is left.

use std::collections::HashMap;
use std::ffi::c_int;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use common::{full, need_preemption};
use heddle::sync::{Condvar, Mutex, RwLock, Semaphore, mpsc};
use heddle::thread;

#[path = "common/full.rs"]
mod common;

/// Whether threads are preempted here; then every 50 us.
fn often() -> bool {
    let config = heddle::Config::new().workers(2).slice(Some(Duration::from_micros(50)));
    need_preemption(config)
}

#[link(name = "m")]
// SAFETY: functions of the C library with these signatures.
unsafe extern "C" {
    fn fegetround() -> c_int;
    fn fesetround(mode: c_int) -> c_int;
}

/// glibc's `FE_UPWARD`.
const UPWARD: c_int = if cfg!(target_arch = "aarch64") { 0x40_0000 } else { 0x800 };

/// Numbers that depend on all that the loop has in registers, whole ones and floating ones.
fn compute(seed: u64, rounds: u32) -> (u64, [u64; 8]) {
    let mut mixed = seed;
    let mut lanes: [f64; 8] = std::array::from_fn(|lane| (seed + lane as u64) as f64);
    for round in 0..rounds {
        mixed = mixed.rotate_left(7).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(round);
        for lane in &mut lanes {
            *lane = (*lane * 1.000_000_1 + 1.0 / 3.0) % 1e6;
        }
        black_box(&mut mixed);
    }
    (mixed, lanes.map(f64::to_bits))
}

#[test]
fn registers_rounding_and_errno_are_kept() {
    if !often() {
        return;
    }
    let right: Vec<_> = (0..8).map(|seed| compute(seed, 20_000)).collect();
    let right = Arc::new(right);
    let threads: Vec<_> = (0..8u64)
        .map(|seed| {
            let right = right.clone();
            full(move || {
                for round in 0..20 {
                    let number = (seed * 100 + round) as c_int;
                    let upward = seed % 4 == 3;
                    // SAFETY: what it sets is the calling thread's own: it does not wait until
                    // the mode is as before.
                    unsafe {
                        let before = fegetround();
                        *libc::__errno_location() = number;
                        if upward {
                            fesetround(UPWARD);
                        }
                        let computed = compute(seed, 20_000);
                        assert_eq!(*libc::__errno_location(), number);
                        assert_eq!(fegetround(), if upward { UPWARD } else { before });
                        fesetround(before);
                        assert_eq!(before, 0, "the mode of another thread");
                        assert_eq!(upward, computed != right[seed as usize]);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_ne!(heddle::raw::counts().unwrap().preempted, 0);
}

/// All of the primitives, the allocator and the C library's locks, under threads that are left
/// anywhere.
#[test]
fn primitives_hold_under_a_storm() {
    if !often() {
        return;
    }
    let total = Arc::new((Mutex::new(0u64), Condvar::new()));
    let pair = Arc::new(RwLock::new((0u64, 0u64)));
    let permits = Arc::new(Semaphore::new(3));
    let inside = Arc::new(AtomicU64::new(0));
    let (sender, receiver) = mpsc::channel::<Vec<u64>>();
    let threads: Vec<_> = (0..10u64)
        .map(|seed| {
            let (total, pair, permits) = (total.clone(), pair.clone(), permits.clone());
            let (inside, sender) = (inside.clone(), sender.clone());
            full(move || {
                let mut kept = HashMap::new();
                for round in 0..300 {
                    *total.0.lock().unwrap() += 1;
                    total.1.notify_one();
                    {
                        let mut pair = pair.write().unwrap();
                        pair.0 += 1;
                        black_box(compute(seed, 20));
                        pair.1 += 1;
                    }
                    {
                        let pair = pair.read().unwrap();
                        assert_eq!(pair.0, pair.1);
                    }
                    permits.acquire();
                    assert!(inside.fetch_add(1, SeqCst) < 3);
                    kept.insert(round, vec![seed; (round % 50) as usize + 1]);
                    inside.fetch_sub(1, SeqCst);
                    permits.release();
                    sender.send(vec![1; (round % 7) as usize + 1]).unwrap();
                    if round % 32 == 0 {
                        thread::sleep(Duration::from_micros(50));
                        assert!(!format!("{kept:?}").is_empty());
                    }
                }
                assert!(kept.into_values().flatten().all(|value| value == seed));
            })
        })
        .collect();
    drop(sender);
    let received = full(move || receiver.iter().map(|block| block.len()).sum::<usize>());
    let waits = full(move || {
        let mut count = total.0.lock().unwrap();
        while *count < 3000 {
            count = total.1.wait_timeout(count, Duration::from_millis(1)).unwrap().0;
        }
        *count
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(waits.join().unwrap(), 3000);
    let each: usize = (0..300).map(|round| round % 7 + 1).sum();
    assert_eq!(received.join().unwrap(), each * 10);
}

/// Threads that are preempted are cancelled, joined, unparked and timed out beside.
#[test]
fn preempted_threads_start_and_end() {
    if !often() {
        return;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let hogs: Vec<_> = (0..3u64)
        .map(|seed| {
            let stop = stop.clone();
            full(move || {
                while !stop.load(SeqCst) {
                    black_box(compute(seed, 100));
                }
            })
        })
        .collect();
    for round in 0..100u64 {
        let sleeper = full(|| thread::sleep(Duration::from_secs(1000)));
        let parked = full(thread::park);
        let spawns = full(move || {
            let child = full(move || black_box(compute(round, 50)));
            let light = thread::spawn(|| 5);
            let blocking = heddle::blocking(|| 6);
            (child.join().unwrap() == compute(round, 50), light.join().unwrap(), blocking)
        });
        sleeper.thread().cancel();
        parked.thread().unpark();
        assert_eq!(spawns.join().unwrap(), (true, 5, 6));
        sleeper.join().unwrap();
        parked.join().unwrap();
    }
    stop.store(true, SeqCst);
    hogs.into_iter().for_each(|thread| thread.join().unwrap());
}
