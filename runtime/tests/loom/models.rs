//! The models. Each is small: two or three threads, a step or two each.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Notify;

use crate::control::{self, Control, Outcome};
use crate::inbox::Inbox;
use crate::model::{AtomicU32, Cell};
use crate::raw_lock::RawLock;
use crate::sched::{become_thread, spawn};
use crate::sleep::Sleep;
use crate::sync::channel::{self, RecvTimeoutError, SendTimeoutError};
use crate::sync::condvar::Condvar;
use crate::sync::mutex::Mutex;
use crate::sync::once::Once;
use crate::sync::raw_mutex::{RawMutex, set_base_priority};
use crate::sync::raw_rwlock::RawRwLock;
use crate::sync::semaphore::Semaphore;
use crate::thread::{join, park};

/// Runs `model` with fresh control blocks; the calling thread is the first of them.
pub fn check(model: impl Fn(&'static [&'static Control; control::COUNT]) + Sync + Send + 'static) {
    check_within(2, model);
}

/// As [`check`] with at most `preemptions` (`LOOM_MAX_PREEMPTIONS` is for the others).
pub fn check_within(
    preemptions: usize,
    model: impl Fn(&'static [&'static Control; control::COUNT]) + Sync + Send + 'static,
) {
    let bound = loom::model::Builder::new().preemption_bound.unwrap_or(2);
    check_with(bound.min(preemptions), model);
}

/// As [`check`] with `preemptions`, whatever `LOOM_MAX_PREEMPTIONS` says.
pub fn check_with(
    preemptions: usize,
    model: impl Fn(&'static [&'static Control; control::COUNT]) + Sync + Send + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 5_000;
    builder.preemption_bound = Some(preemptions);
    check_by(builder, model);
}

/// As [`check`], of a model with one thread that takes many steps.
pub fn check_alone(
    model: impl Fn(&'static [&'static Control; control::COUNT]) + Sync + Send + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    check_by(builder, model);
}

fn check_by(
    builder: loom::model::Builder,
    model: impl Fn(&'static [&'static Control; control::COUNT]) + Sync + Send + 'static,
) {
    // One model at a time: they share the statics of the files under test.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(|poison| poison.into_inner());
    builder.check(move || {
        let controls: &'static _ = Box::leak(Box::new(control::fresh()));
        become_thread(controls[0]);
        model(controls);
    });
}

/// A cell that loom watches, shared between threads by what the model checks.
pub struct Watched(pub Cell<u32>);

// SAFETY: loom fails the model when accesses race.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

impl Watched {
    pub fn new() -> Arc<Self> {
        let cell = Watched(Cell::new(0));
        cell.0.set(0);
        Arc::new(cell)
    }

    pub fn increment(&self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_raw_lock_excludes() {
    check(|controls| {
        let shared = Arc::new((RawLock::new(), Watched(Cell::new(0))));
        let _ = shared.0.lock();
        shared.1.0.set(0);
        let threads: Vec<_> = (1..3)
            .map(|i| {
                let shared = shared.clone();
                spawn(controls[i], move || {
                    for _ in 0..i {
                        let _guard = shared.0.lock();
                        shared.1.increment();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.1.0.get(), 3);
    });
}

#[test]
fn no_wake_of_a_sleeping_worker_is_lost() {
    check(|controls| {
        let shared = Arc::new((Inbox::new(), Sleep::new(), Notify::new()));
        assert!(shared.0.is_empty() && !shared.1.is_asleep());
        let wakers: Vec<_> = (1..3)
            .map(|i| {
                let shared = shared.clone();
                spawn(controls[i], move || {
                    shared.0.push(controls[i]);
                    if shared.1.claim() {
                        shared.2.notify();
                    }
                })
            })
            .collect();
        let mut taken = 0;
        loop {
            shared.0.drain(|_| taken += 1);
            if taken == 2 {
                break;
            }
            shared.1.announce(false);
            if shared.0.is_empty() {
                // Blocks for ever, and so fails the model, if the wake is lost.
                shared.2.wait();
            }
            shared.1.end();
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}

#[test]
fn what_is_given_patiently_to_a_napping_worker_is_found() {
    check(|controls| {
        let shared = Arc::new((Inbox::new(), Sleep::new(), Notify::new()));
        assert!(shared.0.is_empty() && !shared.1.is_asleep());
        let waker = {
            let shared = shared.clone();
            spawn(controls[1], move || {
                shared.0.push(controls[1]);
                if shared.1.claim_patiently() {
                    shared.2.notify();
                }
            })
        };
        let (mut taken, mut naps) = (0, true);
        loop {
            shared.0.drain(|_| taken += 1);
            if taken == 1 {
                break;
            }
            shared.1.announce(naps);
            // A nap ends by itself.
            if shared.0.is_empty() && !naps {
                shared.2.wait();
            }
            shared.1.end();
            naps = false;
        }
        waker.join().unwrap();
    });
}

#[test]
fn a_semaphore_keeps_its_permits() {
    check(|controls| {
        let shared = Arc::new((Semaphore::new(1), Watched(Cell::new(0))));
        assert!(shared.0.try_acquire());
        shared.1.0.set(0);
        shared.0.release();
        let threads: Vec<_> = (1..4)
            .map(|i| {
                let shared = shared.clone();
                spawn(controls[i], move || {
                    let deadline = if i == 3 { 2 } else { 0 };
                    if shared.0.acquire_until(deadline) == Outcome::Woken {
                        shared.1.increment();
                        shared.0.release();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.0.available(), 1);
        assert!(shared.1.0.get() >= 2);
    });
}

/// `threads` threads that lock besides the main thread, the second of them with a deadline.
fn mutex_model(preemptions: usize, threads: usize, priority: u8) {
    check_within(preemptions, move |controls| {
        let shared = Arc::new((RawMutex::new(), Watched(Cell::new(0))));
        set_base_priority(controls[1], priority);
        shared.0.lock();
        // Uses all of it once: see the file's head of `model.rs`.
        assert_eq!(shared.0.lock_until(2), Outcome::TimedOut);
        shared.1.0.set(0);
        let threads: Vec<_> = (1..=threads)
            .map(|i| {
                let shared = shared.clone();
                spawn(controls[i], move || {
                    let deadline = if i == 2 { 2 } else { 0 };
                    if shared.0.lock_until(deadline) != Outcome::Woken {
                        return 0;
                    }
                    shared.1.increment();
                    // SAFETY: locked above.
                    unsafe { shared.0.unlock() };
                    1
                })
            })
            .collect();
        shared.1.increment();
        // SAFETY: locked above.
        unsafe { shared.0.unlock() };
        let locked: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(shared.0.try_lock(), "free when everybody is gone");
        assert_eq!(shared.1.0.get(), 1 + locked);
        for (i, control) in controls.iter().enumerate() {
            assert_eq!(control.priority.load(Relaxed), if i == 1 { priority } else { 0 });
        }
        // SAFETY: locked above.
        unsafe { shared.0.unlock() };
    });
}

#[test]
fn a_mutex_excludes() {
    mutex_model(2, 1, 0);
    mutex_model(1, 2, 0);
}

#[test]
fn a_mutex_lends_priority_and_takes_it_back() {
    mutex_model(2, 1, 50);
    mutex_model(1, 2, 50);
}

#[test]
fn a_chain_of_owners_is_raised_and_drops_back() {
    check_within(1, |controls| {
        let shared = Arc::new((RawMutex::new(), RawMutex::new()));
        set_base_priority(controls[0], 50);
        for mutex in [&shared.0, &shared.1] {
            mutex.lock();
            assert_eq!(mutex.lock_until(2), Outcome::TimedOut);
            // SAFETY: locked above.
            unsafe { mutex.unlock() };
        }
        let first = shared.clone();
        let second = shared.clone();
        let threads = [
            spawn(controls[1], move || {
                first.0.lock();
                // SAFETY: locked above.
                unsafe { first.0.unlock() };
            }),
            spawn(controls[2], move || {
                second.1.lock();
                second.0.lock();
                // SAFETY: locked above.
                unsafe { second.0.unlock() };
                // SAFETY: locked above.
                unsafe { second.1.unlock() };
            }),
        ];
        shared.1.lock();
        // SAFETY: locked above.
        unsafe { shared.1.unlock() };
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for control in &controls[1..] {
            assert_eq!(control.priority.load(Relaxed), 0);
        }
    });
}

#[test]
fn a_reader_writer_lock_excludes() {
    check(|controls| {
        let shared = Arc::new((RawRwLock::new(), Watched(Cell::new(0))));
        shared.0.write();
        assert_eq!(shared.0.write_until(2), Outcome::TimedOut);
        shared.1.0.set(0);
        // SAFETY: locked above.
        unsafe { shared.0.unlock_write() };
        let threads: Vec<_> = (1..4)
            .map(|i| {
                let shared = shared.clone();
                spawn(controls[i], move || {
                    if i == 1 {
                        shared.0.read();
                        let _ = shared.1.0.get();
                        // SAFETY: locked above.
                        unsafe { shared.0.unlock_read() };
                    } else if shared.0.write_until(if i == 2 { 0 } else { 2 }) == Outcome::Woken {
                        shared.1.increment();
                        // SAFETY: locked above.
                        unsafe { shared.0.unlock_write() };
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(shared.0.try_write());
    });
}

#[test]
fn a_condition_is_not_missed() {
    check(|controls| {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        drop(shared.0.lock().unwrap());
        shared.1.notify_all();
        let waiter = shared.clone();
        let waiter = spawn(controls[1], move || {
            let mut ready = waiter.0.lock().unwrap();
            while !*ready {
                ready = waiter.1.wait(ready).unwrap();
            }
        });
        *shared.0.lock().unwrap() = true;
        shared.1.notify_one();
        waiter.join().unwrap();
    });
}

#[test]
fn a_once_runs_once() {
    check(|controls| {
        let shared = Arc::new((Once::new(), Watched(Cell::new(0))));
        shared.1.0.set(0);
        let threads: Vec<_> = (1..3)
            .map(|i| {
                let shared = shared.clone();
                spawn(controls[i], move || shared.0.call_once(|| shared.1.increment()))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.1.0.get(), 1);
    });
}

/// Uses all of a channel once: see the file's head of `model.rs`.
fn touch(sender: &channel::Sender<usize>, receiver: &channel::Receiver<usize>) {
    let capacity = sender.capacity();
    (0..capacity.unwrap_or(1)).for_each(|_| sender.send(9).unwrap());
    if capacity.is_some() {
        let sent = sender.send_timeout(9, core::time::Duration::ZERO);
        assert_eq!(sent, Err(SendTimeoutError::Timeout(9)));
    }
    while receiver.try_recv().is_ok() {}
}

#[test]
fn channels_lose_no_value() {
    for capacity in [Some(0), Some(1), None] {
        check(move |controls| {
            let (sender, receiver) = capacity.map_or_else(channel::unbounded, channel::bounded);
            touch(&sender, &receiver);
            let senders: Vec<_> = (1..3)
                .map(|i| {
                    let sender = sender.clone();
                    spawn(controls[i], move || sender.send(i).unwrap())
                })
                .collect();
            drop(sender);
            let sum: usize = receiver.iter().sum();
            assert_eq!(sum, 3);
            senders.into_iter().for_each(|sender| sender.join().unwrap());
        });
    }
}

#[test]
fn a_send_that_times_out_is_received_or_comes_back() {
    for capacity in [0, 1] {
        check(move |controls| {
            let (sender, receiver) = channel::bounded(capacity);
            touch(&sender, &receiver);
            if capacity == 1 {
                sender.send(7usize).unwrap();
            }
            let one = spawn(controls[1], move || {
                let sent = sender.send_timeout(1, core::time::Duration::ZERO);
                matches!(sent, Ok(()))
            });
            let second = spawn(controls[2], move || {
                let mut got = Vec::new();
                loop {
                    match receiver.recv_timeout(core::time::Duration::ZERO) {
                        Ok(value) => got.push(value),
                        Err(RecvTimeoutError::Timeout) => loom::thread::yield_now(),
                        Err(RecvTimeoutError::Disconnected) => return got,
                    }
                }
            });
            let sent = one.join().unwrap();
            let got = second.join().unwrap();
            assert_eq!(got.contains(&1), sent, "{got:?}");
        });
    }
}

#[test]
fn an_unpark_is_seen_with_what_came_before_it() {
    check(|controls| {
        let flags = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        flags.iter().for_each(|flag| flag.store(0, Relaxed));
        let wakers: Vec<_> = (1..3)
            .map(|i| {
                let flags = flags.clone();
                spawn(controls[i], move || {
                    flags[i - 1].store(1, Relaxed);
                    park::unpark(controls[0]);
                })
            })
            .collect();
        while flags.iter().any(|flag| flag.load(Relaxed) == 0) {
            park::park_until(0, false);
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}

#[test]
fn a_park_that_times_out_takes_no_wake_with_it() {
    check(|controls| {
        let flag = Arc::new(AtomicU32::new(0));
        flag.store(0, Relaxed);
        let theirs = flag.clone();
        let waker = spawn(controls[1], move || {
            theirs.store(1, Relaxed);
            park::unpark(controls[0]);
        });
        park::park_until(2, false);
        while flag.load(Relaxed) == 0 {
            park::park_until(0, false);
        }
        waker.join().unwrap();
    });
}

#[test]
fn an_end_and_a_join_meet() {
    check(|controls| {
        let result = Watched::new();
        let theirs = result.clone();
        let thread = spawn(controls[1], move || {
            theirs.increment();
            assert!(join::hand_over(controls[1]));
        });
        let first = join::join_until(controls[1], 2);
        if first != Outcome::Woken {
            let outcome = join::join_until(controls[1], 0);
            assert_eq!(outcome, Outcome::Woken);
        }
        assert!(join::is_done(controls[1]));
        assert_eq!(result.0.get(), 1);
        thread.join().unwrap();
    });
}

#[test]
fn a_result_has_one_owner() {
    check(|controls| {
        let result = Watched::new();
        let theirs = result.clone();
        let thread = spawn(controls[1], move || {
            theirs.increment();
            if !join::hand_over(controls[1]) {
                theirs.increment();
            }
        });
        if !join::detach(controls[1]) {
            result.increment();
        }
        thread.join().unwrap();
        assert_eq!(result.0.get(), 2);
    });
}
