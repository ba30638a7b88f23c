//! Races of threads themselves: unpark, join, cancellation, scopes, priorities.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use heddle::sync::{Mutex, Semaphore};
use heddle::thread;

use crate::support::*;

/// Parks until `flag` is set; counts how often in vain.
fn park_until_set(flag: &AtomicBool, random: &mut Random) {
    while !flag.swap(false, Ordering::Relaxed) {
        match random.below(3) {
            0 => thread::park_timeout(random.timeout()),
            _ => thread::park(),
        }
    }
}

#[test]
fn an_unpark_is_never_lost() {
    // Two wakers per parked thread: each sets its own flag, so a swallowed token would hang.
    const GROUPS: usize = 6;
    struct Slot {
        thread: Mutex<Option<thread::Thread>>,
        flags: [AtomicBool; 2],
        acknowledged: [Semaphore; 2],
    }
    let slots: Arc<Vec<Slot>> = Arc::new(
        (0..GROUPS)
            .map(|_| Slot {
                thread: Mutex::new(None),
                flags: [const { AtomicBool::new(false) }; 2],
                acknowledged: [const { Semaphore::new(0) }; 2],
            })
            .collect(),
    );
    let each = rounds(300);
    crowd("unpark", 3 * GROUPS - 3, 3, move |index, random| {
        let slot = &slots[index % GROUPS];
        let role = index / GROUPS;
        if role == 0 {
            *slot.thread.lock().unwrap() = Some(thread::current());
            let mut left = [each; 2];
            while left != [0; 2] {
                let mut any = false;
                for (side, left) in left.iter_mut().enumerate() {
                    if *left != 0 && slot.flags[side].swap(false, Ordering::Relaxed) {
                        *left -= 1;
                        slot.acknowledged[side].release();
                        any = true;
                    }
                }
                if !any && left != [0; 2] {
                    match random.below(3) {
                        0 => thread::park_timeout(random.timeout()),
                        _ => thread::park(),
                    }
                }
            }
        } else {
            let parked = loop {
                if let Some(thread) = slot.thread.lock().unwrap().clone() {
                    break thread;
                }
                thread::yield_now();
            };
            for _ in 0..each {
                slot.flags[role - 1].store(true, Ordering::Relaxed);
                parked.unpark();
                slot.acknowledged[role - 1].acquire();
                random.pause();
            }
        }
    });
    // The flag with one waker, for the compiler's sake used once more.
    park_until_set(&AtomicBool::new(true), &mut Random::new(0));
}

#[test]
fn joins_time_out_and_succeed() {
    let each = rounds(120);
    crowd("join", 10, 2, move |_, random| {
        for step in 0..each as u64 {
            let (nap, delay) = (random.timeout(), random.below(4));
            let mut child = thread::spawn(move || {
                if delay == 0 {
                    thread::sleep(nap);
                } else {
                    (0..delay).for_each(|_| thread::yield_now());
                }
                step
            });
            random.pause();
            if random.below(8) == 0 {
                continue;
            }
            let result = loop {
                match random.below(2) {
                    0 => break child.join(),
                    _ => match child.join_timeout(random.timeout()) {
                        Ok(result) => break result,
                        Err(handle) => child = handle,
                    },
                }
            };
            assert_eq!(result.unwrap(), step);
        }
    });
}

#[test]
fn cancellation_ends_sleeps_and_parks_once() {
    // A victim sleeps, parks, or waits in a lock (which cancellation must not end) until it sees
    // that it was cancelled; meanwhile its deadline passes and others unpark it.
    let each = rounds(150);
    crowd("cancel", 8, 2, move |_, random| {
        for _ in 0..each {
            let shared = Arc::new((Mutex::new(0u32), Semaphore::new(0)));
            let theirs = shared.clone();
            let (mode, nap, stream) = (random.below(4), random.timeout(), random.next());
            let victim = thread::spawn(move || {
                let mut random = Random::new(stream);
                let mut turns = 0u32;
                while !thread::is_cancelled() {
                    match mode {
                        0 => thread::sleep(nap),
                        1 => thread::park_timeout(nap),
                        2 => thread::sleep(Duration::from_secs(1000)),
                        _ => thread::park(),
                    }
                    turns += 1;
                    if random.below(4) == 0 {
                        *theirs.0.lock().unwrap() += 1;
                    }
                }
                // Cancelled, it still can lock and take permits.
                *theirs.0.lock().unwrap() += 1;
                theirs.1.acquire();
                turns
            });
            random.pause();
            victim.thread().unpark();
            drop(shared.0.lock_timeout(random.timeout()));
            random.pause();
            victim.thread().cancel();
            random.pause();
            shared.1.release();
            victim.join().unwrap();
            assert!(*shared.0.lock().unwrap() >= 1);
            assert_eq!(shared.1.available(), 0);
        }
    });
}

#[test]
fn cancelled_scopes_wait_for_their_children() {
    let each = rounds(60);
    crowd("scope", 6, 1, move |_, random| {
        for _ in 0..each {
            let nap = random.timeout();
            let parent = thread::spawn(move || {
                let done = AtomicUsize::new(0);
                thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| {
                            thread::sleep(nap);
                            done.fetch_add(1, Ordering::SeqCst);
                        });
                    }
                });
                done.into_inner()
            });
            random.pause();
            parent.thread().cancel();
            assert_eq!(parent.join().unwrap(), 3);
        }
    });
}

#[test]
fn time_critical_threads_share_locks_with_lazy_ones() {
    // Priorities, inheritance and timeouts at once; the counts only show that nothing is lost.
    let shared = Arc::new([const { Mutex::new(0u64) }; 3]);
    let inside = shared.clone();
    let each = rounds(200);
    let total: u64 = crowd("inheritance", 4, 1, move |index, random| {
        let mut total = 0;
        for round in 0..each {
            let locks = inside.clone();
            let stream = (index * each + round) as u64;
            let mut builder = thread::Builder::new();
            if random.below(2) == 0 {
                builder = builder.priority(1 + random.below(99) as u8);
            }
            let child = builder.spawn(move || {
                let mut random = Random::new(stream);
                let mut locked = 0u64;
                let first = random.below(3) as usize;
                if let Ok(mut outer) = locks[first].lock_timeout(Duration::from_millis(50)) {
                    *outer += 1;
                    locked += 1;
                    random.pause();
                    // In ascending order only, or they would wait for each other.
                    for inner in &locks[first + 1..] {
                        if let Ok(mut inner) = inner.lock_timeout(random.timeout()) {
                            *inner += 1;
                            locked += 1;
                            random.pause();
                        }
                    }
                }
                locked
            });
            total += child.unwrap().join().unwrap();
        }
        total
    })
    .into_iter()
    .sum();
    let counted: u64 = shared.iter().map(|lock| *lock.lock().unwrap()).sum();
    assert_eq!(counted, total);
}

#[test]
fn forgotten_guards_harm_nobody_else() {
    // A guard that is forgotten leaves its mutex locked for ever. Its owner's slot is used again,
    // waiters raise whoever has it, the mutex is freed: nobody may notice.
    let each = rounds(40);
    crowd("forgotten", 4, 0, move |_, random| {
        for _ in 0..each {
            let lost = Arc::new(Mutex::new(0));
            let theirs = lost.clone();
            let owner = thread::spawn(move || {
                std::mem::forget(theirs.lock().unwrap());
                if Arc::strong_count(&theirs) > 2 {
                    thread::yield_now();
                }
            });
            let theirs = lost.clone();
            let timeout = random.timeout();
            let waiter = thread::Builder::new()
                .priority(10 + random.below(80) as u8)
                .spawn(move || drop(theirs.lock_timeout(timeout)))
                .unwrap();
            random.pause();
            owner.join().unwrap();
            waiter.join().unwrap();
            drop(lost);
            let other = Mutex::new(());
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let _guard = other.lock().unwrap();
                        thread::yield_now();
                    });
                }
            });
        }
    });
}
