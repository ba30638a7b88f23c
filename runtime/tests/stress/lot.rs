//! The parking lot: every kind of waiter against every kind of waker. No wait here has a net: a
//! wake that is lost is a thread that waits for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use heddle::raw::{self, ANY, Ended, Moment, futex_wake};
use heddle::thread;

use crate::futex::{Condition, Lock, after, wait_cancellable, wait_for};
use crate::support::*;

/// Wakes of a part of the first case. Where each thread is a kernel thread, a fiftieth.
fn wakes() -> usize {
    let native = raw::is_native().unwrap_or(true);
    rounds(10_000_000) / PARTS / if native { 50 } else { 1 }
}

/// Each part has a minute.
const PARTS: usize = 5;

/// A moment that comes at about the time of a wake, by one clock or the other.
fn soon(random: &mut Random) -> Moment {
    let timeout = random.timeout();
    match random.below(2) {
        0 => after(timeout),
        _ => {
            let now = UNIX_EPOCH.elapsed().unwrap_or_default();
            Moment::Realtime((now + timeout).as_nanos() as u64)
        }
    }
}

/// Which word a thread of the first case plays for, and for which of the two sides: one word
/// between two kernel threads, four between a thread and a kernel thread, the others between
/// threads.
fn place(index: usize, users: usize) -> (usize, u32) {
    match index {
        _ if index >= users + 4 => (0, (index % 2) as u32),
        _ if index >= users => (1 + index - users, 1),
        0..4 => (1 + index, 0),
        _ => (1 + index / 2 + 2, (index % 2) as u32),
    }
}

/// Words that go from side to side, each with a waiter and a waker at any time; so many that
/// buckets are shared. Now and then a deadline passes beside the wake.
#[test]
fn wakes_by_address_are_never_lost() {
    let woken: u64 = (0..PARTS).map(|_| pass_words()).sum();
    let calls = (wakes() * PARTS) as u64;
    println!("{woken} threads woken by {calls} wakes");
    assert!(woken > calls / 4, "most waits were not waits");
}

/// How many threads were woken.
fn pass_words() -> u64 {
    const USERS: usize = 64;
    const KERNELS: usize = 6;
    const SLOW: usize = 5;
    let words: Arc<Vec<AtomicU32>> =
        Arc::new((0..SLOW + USERS / 2 - 2).map(|_| AtomicU32::new(0)).collect());
    // Kernel threads go a hundred times slower.
    let slow = wakes() / 1000;
    let fast = wakes() / (2 * (words.len() - SLOW));
    let counts = crowd("wakes", USERS, KERNELS, move |index, random| {
        let (which, side) = place(index, USERS);
        let word = &words[which];
        let mut woken = 0;
        for _ in 0..if which < SLOW { slow } else { fast } {
            loop {
                let seen = word.load(Ordering::Relaxed);
                if seen % 2 == side {
                    break;
                }
                let moment = if random.below(50) == 0 { soon(random) } else { Moment::Never };
                let _ = wait_for(word, seen, ANY, moment);
            }
            word.fetch_add(1, Ordering::Relaxed);
            woken += u64::from(futex_wake(word, 1, ANY));
        }
        woken
    });
    counts.into_iter().sum()
}

#[test]
fn locks_on_words_exclude_and_count_exactly() {
    let shared: Arc<[(Lock, AtomicU64, AtomicUsize); 3]> = Arc::default();
    let inside = shared.clone();
    let each = rounds(600);
    let locked: u64 = crowd("word locks", 24, 4, move |_, random| {
        let mut locked = 0;
        for _ in 0..each {
            let (lock, count, owners) = &inside[random.below(3) as usize];
            let moment = if random.below(2) == 0 { soon(random) } else { Moment::Never };
            if lock.lock_until(moment) {
                assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0, "two owners");
                let seen = count.load(Ordering::Relaxed);
                random.pause();
                count.store(seen + 1, Ordering::Relaxed);
                owners.fetch_sub(1, Ordering::SeqCst);
                lock.unlock();
                locked += 1;
            }
            random.pause();
        }
        locked
    })
    .into_iter()
    .sum();
    let counted: u64 = shared.iter().map(|(_, count, _)| count.load(Ordering::SeqCst)).sum();
    assert_eq!(counted, locked);
}

/// A bounded buffer on words: notifications that wake, and those that move waiters to the lock.
#[derive(Default)]
struct Buffer {
    lock: Lock,
    filled: Condition,
    emptied: Condition,
    items: AtomicUsize,
}

#[test]
fn moved_waiters_are_woken_by_whom_they_were_moved_to() {
    const MOST: usize = 4;
    let buffer: Arc<Buffer> = Arc::default();
    let inside = buffer.clone();
    let each = rounds(800);
    crowd("requeue", 20, 4, move |index, random| {
        for _ in 0..each {
            let Buffer { lock, filled, emptied, items } = &*inside;
            lock.lock();
            let (waits_in, notifies, full, step) = match index % 2 {
                0 => (emptied, filled, MOST, 1),
                _ => (filled, emptied, 0, usize::MAX),
            };
            while items.load(Ordering::Relaxed) == full {
                let moment = if random.below(3) == 0 { soon(random) } else { Moment::Never };
                waits_in.wait_until(lock, moment);
            }
            let now = items.load(Ordering::Relaxed).wrapping_add(step);
            assert!(now <= MOST);
            items.store(now, Ordering::Relaxed);
            match random.below(5) {
                0 => {
                    lock.unlock();
                    notifies.notify_one();
                }
                3 => {
                    lock.unlock();
                    notifies.broadcast();
                }
                4 => {
                    notifies.broadcast();
                    lock.unlock();
                }
                1 => {
                    notifies.notify_one();
                    lock.unlock();
                }
                _ => {
                    notifies.notify_all(lock);
                    lock.unlock();
                }
            }
            random.pause();
        }
    });
    assert_eq!(buffer.items.load(Ordering::SeqCst), 0);
}

#[test]
fn bits_choose_who_is_woken() {
    // Each waiter has a bit and a count of what it is owed; wakers pay one of them.
    const WAITERS: usize = 12;
    const WAKERS: usize = 6;
    #[derive(Default)]
    struct Shared {
        word: AtomicU32,
        owed: [AtomicU64; WAITERS],
        paid: AtomicUsize,
    }
    let shared: Arc<Shared> = Arc::default();
    let each = rounds(1500) as u64;
    // Ten waiters are threads, the last two kernel threads; of the wakers one is.
    crowd("bits", WAITERS + WAKERS - 3, 3, move |index, random| {
        let waiter = match index {
            0..10 => Some(index),
            15..17 => Some(index - 5),
            _ => None,
        };
        if let Some(waiter) = waiter {
            let mut left = each;
            while left != 0 {
                let seen = shared.word.load(Ordering::SeqCst);
                let got = shared.owed[waiter].swap(0, Ordering::SeqCst);
                left -= got;
                if got == 0 {
                    let _ = wait_for(&shared.word, seen, 1 << waiter, Moment::Never);
                }
            }
            return;
        }
        loop {
            let paid = shared.paid.fetch_add(1, Ordering::SeqCst);
            if paid >= WAITERS * each as usize {
                return;
            }
            // Each waiter is paid the same in the end, in an order of its own.
            let waiter = paid % WAITERS;
            shared.owed[waiter].fetch_add(1, Ordering::SeqCst);
            shared.word.fetch_add(1, Ordering::SeqCst);
            futex_wake(&shared.word, u32::MAX, 1 << waiter);
            random.pause();
        }
    });
}

#[test]
fn a_cancellation_ends_a_wait_by_address_once() {
    let each = rounds(200);
    crowd("cancelled words", 10, 2, move |_, random| {
        for _ in 0..each {
            let word = Arc::new(AtomicU32::new(0));
            let (theirs, moment) = (word.clone(), soon(random));
            let with_deadline = random.below(2) == 0;
            let victim = thread::spawn(move || {
                loop {
                    let moment = if with_deadline { moment } else { Moment::Never };
                    match wait_cancellable(&theirs, 0, moment) {
                        Ended::Cancelled => return true,
                        Ended::Changed => return false,
                        Ended::Woken | Ended::TimedOut => thread::yield_now(),
                    }
                }
            });
            random.pause();
            futex_wake(&*word, 1, ANY);
            random.pause();
            if random.below(2) == 0 {
                victim.thread().cancel();
                random.pause();
                futex_wake(&*word, 1, ANY);
                assert!(victim.join().unwrap());
            } else {
                word.store(1, Ordering::SeqCst);
                futex_wake(&*word, u32::MAX, ANY);
                assert!(!victim.join().unwrap());
            }
        }
    });
}
