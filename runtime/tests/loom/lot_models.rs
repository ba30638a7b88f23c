//! Models of the parking lot: a wake, a requeue, a deadline and a change of the word in every
//! order. What must hold: everybody comes back, and each wake that was counted ended one wait.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::control::Control;
use crate::lot::buckets::{
    BUCKETS, Ended, Manner, Requeued, broadcast, index_of, requeue, wait, wake,
};
use crate::model::{AtomicU32, Cell};
use crate::models::{Watched, check, check_within};
use crate::sched::spawn;

/// Words to choose from: a model needs some that share a bucket and some that don't, at the same
/// addresses in every execution.
static WORDS: [AtomicU32; 4 * BUCKETS] = [const { AtomicU32::new(0) }; 4 * BUCKETS];

const EVERY: u32 = u32::MAX;
/// A deadline; when it passes is loom's choice.
const SOON: u64 = 2;

fn address(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

fn bucket(word: &AtomicU32) -> usize {
    index_of(address(word))
}

/// Two words whose buckets are in this order.
fn pair(order: std::cmp::Ordering) -> (&'static AtomicU32, &'static AtomicU32) {
    let first = &WORDS[0];
    let second = WORDS[1..].iter().find(|word| bucket(first).cmp(&bucket(word)) == order);
    (first, second.expect("a word in such a bucket"))
}

fn wait_for(word: &'static AtomicU32, expected: u32, bits: u32, deadline: u64) -> Ended {
    // SAFETY: a static.
    unsafe { wait(word, expected, Manner { bits, ..Manner::PLAIN }, deadline) }
}

/// Uses a word and its bucket once: see the file's head of `model.rs`.
fn touch(word: &'static AtomicU32) {
    word.store(0, Relaxed);
    assert_eq!(wait_for(word, 0, EVERY, SOON), Ended::TimedOut);
    assert_eq!(wake(address(word), EVERY, EVERY), 0);
}

/// Waits until the word is not 0; how many wakes it took.
fn wait_while_zero(word: &'static AtomicU32, deadline: u64) -> u32 {
    let mut woken = 0;
    while word.load(Relaxed) == 0 {
        match wait_for(word, 0, EVERY, deadline) {
            Ended::Woken => woken += 1,
            Ended::TimedOut => return woken,
            Ended::Changed | Ended::Cancelled => {}
        }
    }
    woken
}

#[test]
fn a_change_and_its_wake_reach_every_waiter() {
    check(|controls| {
        let word = &WORDS[0];
        touch(word);
        let waiters = [(1, 0), (2, SOON)]
            .map(|(slot, deadline)| spawn(controls[slot], move || wait_while_zero(word, deadline)));
        word.store(1, Relaxed);
        let counted = wake(address(word), EVERY, EVERY);
        let woken: u32 = waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum();
        assert_eq!(woken, counted);
    });
}

#[test]
fn a_waker_without_the_lock_misses_nobody() {
    check(|controls| {
        let word = &WORDS[0];
        touch(word);
        let before = Watched::new();
        let theirs = before.clone();
        let waker = spawn(controls[1], move || {
            theirs.increment();
            word.store(1, std::sync::atomic::Ordering::Release);
            wake(address(word), 1, EVERY)
        });
        let mut woken = 0;
        // No look at the word but the lot's own.
        loop {
            match wait_for(word, 0, EVERY, 0) {
                Ended::Woken => woken += 1,
                _ => break,
            }
        }
        assert_eq!(before.0.get(), 1, "a change is seen with what came before it");
        assert_eq!(waker.join().unwrap(), woken);
    });
}

#[test]
fn bits_and_the_number_limit_a_wake() {
    check_within(1, |controls| {
        let word = &WORDS[0];
        touch(word);
        let waiters = [(1, 1), (2, 2)]
            .map(|(slot, bits)| spawn(controls[slot], move || wait_for(word, 0, bits, 0)));
        // Nobody's bit; then each by its own, as often as it takes.
        assert_eq!(wake(address(word), EVERY, 4), 0);
        for bits in [2, 1] {
            while wake(address(word), 1, bits) == 0 {
                loom::thread::yield_now();
            }
        }
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Ended::Woken);
        }
    });
}

/// Two waiters on one word, the second with a deadline; one is woken, the other moved to another
/// word and woken there, or its deadline passes at any time meanwhile.
fn requeue_model(order: std::cmp::Ordering, preemptions: usize) {
    check_within(preemptions, move |controls: &'static [&'static Control; 4]| {
        let (from, to) = pair(order);
        touch(from);
        touch(to);
        let waiters = [(1, 0), (2, SOON)].map(|(slot, deadline)| {
            spawn(controls[slot], move || wait_for(from, 0, EVERY, deadline))
        });
        // Who comes later than this finds a changed word.
        from.store(1, SeqCst);
        // SAFETY: a static.
        let stale = unsafe { requeue(from, Some(0), address(to), EVERY, EVERY) };
        assert_eq!(stale, None, "the word was compared");
        // SAFETY: a static.
        let done = unsafe { requeue(from, Some(1), address(to), 1, EVERY) };
        let Requeued { woken, moved } = done.expect("the word is as expected");
        assert!(woken <= 1 && woken + moved <= 2 && (moved == 0 || woken == 1));
        let later = wake(address(to), EVERY, EVERY);
        assert!(later <= moved, "only who was moved waits there");
        assert_eq!(wake(address(from), EVERY, EVERY), 0, "nobody stayed behind");
        let ends = waiters.map(|waiter| waiter.join().unwrap());
        assert_ne!(ends[0], Ended::TimedOut);
        let by_wake = ends.iter().filter(|end| **end == Ended::Woken).count();
        assert_eq!(by_wake as u32, woken + later);
    });
}

#[test]
fn a_requeue_to_a_higher_bucket_loses_nobody() {
    requeue_model(std::cmp::Ordering::Less, 2);
}

#[test]
fn a_requeue_to_a_lower_bucket_loses_nobody() {
    requeue_model(std::cmp::Ordering::Greater, 2);
}

#[test]
fn a_requeue_within_a_bucket_loses_nobody() {
    requeue_model(std::cmp::Ordering::Equal, 2);
}

#[test]
fn requeues_in_both_directions_end() {
    check_within(2, |controls| {
        let (one, other) = pair(std::cmp::Ordering::Less);
        touch(one);
        touch(other);
        let waiter = spawn(controls[1], move || wait_for(one, 0, EVERY, SOON));
        let back = spawn(controls[2], move || {
            // SAFETY: a static.
            unsafe { requeue(other, None, address(one), 0, EVERY) }.expect("nothing to compare")
        });
        // SAFETY: a static.
        let there = unsafe { requeue(one, None, address(other), 0, EVERY) };
        assert!(there.expect("nothing to compare").moved <= 1);
        assert!(back.join().unwrap().moved <= 1);
        assert_eq!(waiter.join().unwrap(), Ended::TimedOut);
    });
}

/// Two waiters on a condition, the second with a deadline, and a broadcast by somebody who holds
/// their lock: each takes the lock afterwards, whoever woke or moved it, and none stays behind.
fn broadcast_model(order: std::cmp::Ordering) {
    check_within(2, move |controls: &'static [&'static Control; 4]| {
        let (condition, lock) = pair(order);
        touch(condition);
        touch(lock);
        lock.store(1, Relaxed);
        let waiters = [(1, 0), (2, SOON)].map(|(slot, deadline)| {
            spawn(controls[slot], move || {
                let manner = Manner { then: address(lock), ..Manner::PLAIN };
                // SAFETY: a static.
                let _ = unsafe { wait(condition, 0, manner, deadline) };
                while lock.swap(CONTENDED, SeqCst) != 0 {
                    let _ = wait_for(lock, CONTENDED, EVERY, 0);
                }
                if lock.swap(0, SeqCst) == CONTENDED {
                    wake(address(lock), 1, EVERY);
                }
            })
        });
        condition.store(1, SeqCst);
        let done = broadcast(address(condition));
        assert!(done.woken <= 1 && (done.moved == 0 || done.woken == 1));
        if lock.swap(0, SeqCst) == CONTENDED {
            wake(address(lock), 1, EVERY);
        }
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(wake(address(condition), EVERY, EVERY), 0, "nobody stayed behind");
        assert_eq!(wake(address(lock), EVERY, EVERY), 0, "nobody was forgotten at the lock");
    });
}

#[test]
fn a_broadcast_to_a_higher_bucket_loses_nobody() {
    broadcast_model(std::cmp::Ordering::Less);
}

#[test]
fn a_broadcast_to_a_lower_bucket_loses_nobody() {
    broadcast_model(std::cmp::Ordering::Greater);
}

#[test]
fn a_broadcast_within_a_bucket_loses_nobody() {
    broadcast_model(std::cmp::Ordering::Equal);
}

const CONTENDED: u32 = 2;

/// The lock that C libraries build: no waiter is forgotten by an unlock.
#[test]
fn a_lock_on_a_word_excludes() {
    check(|controls| {
        let shared = Arc::new(Watched(Cell::new(0)));
        shared.0.set(0);
        let word = &WORDS[0];
        touch(word);
        let body = move |shared: &Watched| {
            if word.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
                while word.swap(CONTENDED, SeqCst) != 0 {
                    let _ = wait_for(word, CONTENDED, EVERY, 0);
                }
            }
            shared.increment();
            if word.swap(0, SeqCst) == CONTENDED {
                wake(address(word), 1, EVERY);
            }
        };
        let threads = [1, 2].map(|slot| {
            let shared = shared.clone();
            spawn(controls[slot], move || body(&shared))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.0.get(), 2);
    });
}
