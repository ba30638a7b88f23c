//! Races: every primitive that waits, against every way in which a wait ends — a waker on the
//! same worker, on another, on a kernel thread, a deadline, a cancellation. Counts must come out
//! exactly, and everybody must come back.
//!
//! Random choices come from one seed per test run, printed on failure: `HEDDLE_SEED=n` repeats the
//! choices (not the schedule; the simulation does that). `HEDDLE_STRESS=k` multiplies the rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use heddle::sync::channel::{self, RecvTimeoutError, SendTimeoutError};
use heddle::sync::{Barrier, Condvar, Mutex, Once, RwLock, Semaphore};
use heddle::thread;

#[path = "../common/futex.rs"]
mod futex;
mod lot;
mod support;
mod threads;

use support::*;

#[test]
fn a_mutex_counts_exactly() {
    let shared = Arc::new((Mutex::new(0u64), AtomicUsize::new(0)));
    let inside = shared.clone();
    let each = rounds(400);
    let locked: u64 = crowd("mutex", 24, 3, move |_, random| {
        let mut locked = 0;
        for _ in 0..each {
            let guard = match random.below(3) {
                0 => Some(inside.0.lock().unwrap()),
                1 => inside.0.try_lock().ok(),
                _ => inside.0.lock_timeout(random.timeout()).ok(),
            };
            if let Some(mut guard) = guard {
                assert_eq!(inside.1.fetch_add(1, Ordering::SeqCst), 0, "two owners");
                let seen = *guard;
                random.pause();
                *guard = seen + 1;
                locked += 1;
                inside.1.fetch_sub(1, Ordering::SeqCst);
            }
            random.pause();
        }
        locked
    })
    .into_iter()
    .sum();
    assert_eq!(*shared.0.lock().unwrap(), locked);
}

#[test]
fn a_reader_writer_lock_counts_exactly() {
    let shared = Arc::new((RwLock::new((0u64, 0u64)), AtomicUsize::new(0), AtomicUsize::new(0)));
    let inside = shared.clone();
    let each = rounds(400);
    let written: u64 = crowd("rwlock", 24, 3, move |_, random| {
        let (lock, readers, writers) = &*inside;
        let mut written = 0;
        for _ in 0..each {
            if random.below(3) != 0 {
                let guard = match random.below(3) {
                    0 => Some(lock.read().unwrap()),
                    1 => lock.try_read().ok(),
                    _ => lock.read_timeout(random.timeout()).ok(),
                };
                if let Some(guard) = guard {
                    readers.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(writers.load(Ordering::SeqCst), 0, "a writer beside a reader");
                    random.pause();
                    assert_eq!(guard.0, guard.1);
                    readers.fetch_sub(1, Ordering::SeqCst);
                }
            } else {
                let guard = match random.below(3) {
                    0 => Some(lock.write().unwrap()),
                    1 => lock.try_write().ok(),
                    _ => lock.write_timeout(random.timeout()).ok(),
                };
                if let Some(mut guard) = guard {
                    assert_eq!(writers.fetch_add(1, Ordering::SeqCst), 0, "two writers");
                    assert_eq!(readers.load(Ordering::SeqCst), 0, "a reader beside a writer");
                    guard.0 += 1;
                    random.pause();
                    guard.1 += 1;
                    written += 1;
                    writers.fetch_sub(1, Ordering::SeqCst);
                    if random.below(4) == 0 {
                        let guard = heddle::sync::RwLockWriteGuard::downgrade(guard);
                        random.pause();
                        assert_eq!(guard.0, guard.1);
                    }
                }
            }
            random.pause();
        }
        written
    })
    .into_iter()
    .sum();
    assert_eq!(*shared.0.read().unwrap(), (written, written));
}

#[test]
fn a_semaphore_loses_no_permit() {
    const PERMITS: u32 = 3;
    let shared = Arc::new((Semaphore::new(PERMITS), AtomicUsize::new(0)));
    let inside = shared.clone();
    let each = rounds(400);
    crowd("semaphore", 24, 3, move |_, random| {
        for _ in 0..each {
            let taken = match random.below(3) {
                0 => {
                    inside.0.acquire();
                    true
                }
                1 => inside.0.try_acquire(),
                _ => inside.0.acquire_timeout(random.timeout()),
            };
            if taken {
                let holders = inside.1.fetch_add(1, Ordering::SeqCst);
                assert!(holders < PERMITS as usize, "more holders than permits");
                random.pause();
                inside.1.fetch_sub(1, Ordering::SeqCst);
                inside.0.release();
            }
            random.pause();
        }
    });
    assert_eq!(shared.0.available(), PERMITS);
}

/// A queue of numbers under a mutex with two conditions: what condition variables are for.
struct Buffer {
    items: Mutex<Vec<u64>>,
    filled: Condvar,
    emptied: Condvar,
}

#[test]
fn conditions_lose_no_notification() {
    const PAIRS: usize = 8;
    let buffer = Arc::new(Buffer {
        items: Mutex::new(Vec::new()),
        filled: Condvar::new(),
        emptied: Condvar::new(),
    });
    let inside = buffer.clone();
    let each = rounds(500) as u64;
    let sums = crowd("condvar", 2 * PAIRS, 2, move |index, random| {
        let mut sum = 0u64;
        for step in 0..each {
            let mut items = inside.items.lock().unwrap();
            if index % 2 == 0 {
                while items.len() >= 4 {
                    items = match random.below(2) {
                        0 => inside.emptied.wait(items).unwrap(),
                        _ => inside.emptied.wait_timeout(items, random.timeout()).unwrap().0,
                    };
                }
                items.push(step);
                sum = sum.wrapping_add(step);
                drop(items);
                inside.filled.notify_one();
            } else {
                while items.is_empty() {
                    items = match random.below(2) {
                        0 => inside.filled.wait(items).unwrap(),
                        _ => inside.filled.wait_timeout(items, random.timeout()).unwrap().0,
                    };
                }
                sum = sum.wrapping_sub(items.pop().unwrap());
                drop(items);
                // A timed-out waiter may have swallowed nothing, so one is always enough.
                inside.emptied.notify_one();
            }
            random.pause();
        }
        sum
    });
    assert_eq!(sums.into_iter().fold(0, u64::wrapping_add), 0);
    assert!(buffer.items.lock().unwrap().is_empty());
}

#[test]
fn barriers_and_onces_let_everybody_through() {
    const THREADS: usize = 12;
    let each = rounds(60);
    let onces: Vec<Once> = (0..each).map(|_| Once::new()).collect();
    let shared = Arc::new((Barrier::new(THREADS), onces, AtomicUsize::new(0)));
    let inside = shared.clone();
    let leaders: usize = crowd("barrier", THREADS - 2, 2, move |_, random| {
        let mut leaders = 0;
        for once in &inside.1 {
            leaders += usize::from(inside.0.wait().is_leader());
            random.pause();
            once.call_once(|| {
                random.pause();
                inside.2.fetch_add(1, Ordering::SeqCst);
            });
            assert!(once.is_completed());
        }
        leaders
    })
    .into_iter()
    .sum();
    assert_eq!(leaders, each);
    assert_eq!(shared.2.load(Ordering::SeqCst), each);
}

#[test]
fn channels_deliver_each_value_once() {
    for capacity in [Some(0), Some(1), Some(5), None] {
        let (sender, receiver) = capacity.map_or_else(channel::unbounded, channel::bounded);
        let each = rounds(300) as u64;
        let sums = crowd("channel", 14, 2, move |index, random| {
            let mut sum = 0u64;
            if index % 2 == 0 {
                for step in 0..each {
                    let mut value = step + 1;
                    sum += value;
                    loop {
                        let timeout = random.timeout();
                        match random.below(2) {
                            0 => break sender.send(value).unwrap(),
                            _ => match sender.send_timeout(value, timeout) {
                                Ok(()) => break,
                                Err(SendTimeoutError::Timeout(back)) => value = back,
                                Err(error) => panic!("{error}"),
                            },
                        }
                    }
                    random.pause();
                }
                return sum;
            }
            // As many receives as sends, so nobody waits for a value that will not come.
            for _ in 0..each {
                sum = sum.wrapping_sub(loop {
                    match random.below(3) {
                        0 => break receiver.recv().unwrap(),
                        1 => match receiver.recv_timeout(random.timeout()) {
                            Ok(value) => break value,
                            Err(RecvTimeoutError::Timeout) => {}
                            Err(error) => panic!("{error}"),
                        },
                        _ => match receiver.try_recv() {
                            Ok(value) => break value,
                            Err(_) => thread::yield_now(),
                        },
                    }
                });
                random.pause();
            }
            sum
        });
        assert_eq!(sums.into_iter().fold(0, u64::wrapping_add), 0, "capacity {capacity:?}");
    }
}

#[test]
fn disconnection_reaches_everybody() {
    for _ in 0..rounds(60) {
        let (sender, receiver) = channel::bounded::<u64>(1);
        let received = Arc::new(AtomicU64::new(0));
        let (counted, senders) = (received.clone(), Mutex::new(vec![sender]));
        let receivers = receiver.clone();
        drop(receiver);
        let sent: u64 = crowd("disconnection", 8, 1, move |index, random| {
            if index == 0 {
                let sender = senders.lock().unwrap().pop().unwrap();
                for n in 0..10 {
                    sender.send(n).unwrap();
                    random.pause();
                }
                return 10;
            }
            for _ in receivers.iter() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            0
        })
        .into_iter()
        .sum();
        assert_eq!(received.load(Ordering::SeqCst), sent);
    }
}
