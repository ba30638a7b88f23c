//! Models of waits for a condition: `wait_after` of the lot. Whoever takes the lock that the
//! waiters have given up finds them all, whenever that is, and they touch the variable no more.
//!
//! Weaker forms that fail: the lock is given up before the waiter is in the lot; a waiter that does
//! not begin stays there; the wake that came before that is left to nobody.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::lot::buckets::{Ended, Manner, broadcast, wait, wait_after, wake};
use crate::model::{AtomicU32, Cell};
use crate::models::{Watched, check_within};
use crate::sched::spawn;

const EVERY: u32 = u32::MAX;
/// A deadline; when it passes is loom's choice.
const SOON: u64 = 2;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

static CONDITION: AtomicU32 = AtomicU32::new(0);
static LOCK: AtomicU32 = AtomicU32::new(0);

fn address(word: &'static AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

/// Uses words and buckets once: see the file's head of `model.rs`.
fn touch() {
    for word in [&CONDITION, &LOCK] {
        word.store(0, Relaxed);
        // SAFETY: a static.
        assert_eq!(unsafe { wait(word, 0, Manner::PLAIN, SOON) }, Ended::TimedOut);
    }
}

fn lock() {
    if LOCK.compare_exchange(0, HELD, SeqCst, SeqCst).is_ok() {
        return;
    }
    lock_awaited();
}

fn lock_awaited() {
    while LOCK.swap(CONTENDED, SeqCst) != 0 {
        // SAFETY: a static.
        let _ = unsafe { wait(&LOCK, CONTENDED, Manner::PLAIN, 0) };
    }
}

fn unlock() {
    if LOCK.swap(0, SeqCst) == CONTENDED {
        wake(address(&LOCK), 1, EVERY);
    }
}

fn wait_for_condition(deadline: u64) -> Ended {
    let manner = Manner { then: address(&LOCK), ..Manner::PLAIN };
    let ended = wait_after(address(&CONDITION), 0, manner, deadline, || {
        unlock();
        true
    });
    lock_awaited();
    ended
}

/// What the lock guards: whether the condition is true, and the variable's memory.
struct Guarded {
    is_true: Cell<bool>,
    memory: Watched,
}

// SAFETY: guarded by `LOCK`.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

fn guarded() -> Arc<Guarded> {
    let guarded = Guarded { is_true: Cell::new(false), memory: Watched(Cell::new(0)) };
    guarded.is_true.set(false);
    guarded.memory.0.set(0);
    Arc::new(guarded)
}

#[test]
fn who_is_woken_under_the_lock_has_left_the_variable() {
    check_within(2, |controls| {
        touch();
        let guarded = guarded();
        let waiters = [(1, 0), (2, SOON)].map(|(slot, deadline)| {
            let theirs = guarded.clone();
            spawn(controls[slot], move || {
                lock();
                while !theirs.is_true.get() {
                    theirs.memory.increment();
                    let _ = wait_for_condition(deadline);
                }
                unlock();
            })
        });
        lock();
        guarded.is_true.set(true);
        let done = broadcast(address(&CONDITION));
        assert!(done.woken <= 1 && (done.moved == 0 || done.woken == 1));
        unlock();
        // The variable is destroyed; its memory is somebody else's.
        guarded.memory.increment();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(wake(address(&CONDITION), EVERY, EVERY), 0, "nobody stayed behind");
        assert_eq!(wake(address(&LOCK), EVERY, EVERY), 0, "nobody was forgotten at the lock");
    });
}

/// The lock turns out not to be the caller's: the wait does not begin, unless a wake came first.
#[test]
fn a_wait_that_does_not_begin_leaves_nothing() {
    check_within(2, |controls| {
        touch();
        let waiter =
            spawn(controls[1], || wait_after(address(&CONDITION), 0, Manner::PLAIN, 0, || false));
        let woken = wake(address(&CONDITION), 1, EVERY);
        let expected = if woken == 0 { Ended::Changed } else { Ended::Woken };
        assert_eq!(waiter.join().unwrap(), expected);
        assert_eq!(wake(address(&CONDITION), EVERY, EVERY), 0, "it has gone");
    });
}
