//! What each primitive of `heddle::sync` promises, one promise per test. Races are in `stress.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use heddle::sync::channel::{self, RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use heddle::sync::{Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, RwLockWriteGuard};
use heddle::thread;

const SHORT: Duration = Duration::from_millis(10);

/// Runs `body` as a thread of the runtime and as a kernel thread.
fn on_both(body: impl Fn() + Send + Sync + Copy + 'static) {
    thread::spawn(body).join().unwrap();
    std::thread::spawn(body).join().unwrap();
}

/// Waits until `condition` holds; fails after a minute.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

// ---- mutex

#[test]
fn a_mutex_is_poisoned_by_a_panic() {
    on_both(|| {
        let mutex = Mutex::new(1);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = mutex.lock().unwrap();
            *guard = 2;
            panic!("as expected");
        }));
        assert!(caught.is_err());
        assert!(mutex.is_poisoned());
        assert_eq!(*mutex.lock().unwrap_err().into_inner(), 2);
        mutex.clear_poison();
        assert_eq!(*mutex.lock().unwrap(), 2);
    });
}

#[test]
fn a_mutex_times_out_and_recovers() {
    on_both(|| {
        let mutex = Mutex::new(());
        thread::scope(|scope| {
            let guard = mutex.lock().unwrap();
            let waiter = scope.spawn(|| {
                let start = Instant::now();
                assert!(mutex.lock_timeout(SHORT).is_err());
                start.elapsed()
            });
            assert!(waiter.join().unwrap() >= SHORT);
            drop(guard);
            drop(mutex.try_lock().expect("the waiter has left"));
            drop(mutex.lock().unwrap());
        });
    });
}

// ---- condition variable

#[test]
fn notify_one_wakes_one() {
    on_both(|| {
        let shared = (Mutex::new(0), Condvar::new());
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let guard = shared.0.lock().unwrap();
                    let mut guard = shared.1.wait(guard).unwrap();
                    *guard += 100;
                });
                let before = *shared.0.lock().unwrap();
                assert_eq!(before, 0);
            }
            // All three wait once a notification has been answered three times.
            for woken in 1..=3 {
                eventually("a waiter answers", || {
                    shared.1.notify_one();
                    thread::sleep(Duration::from_millis(2));
                    *shared.0.lock().unwrap() >= woken * 100
                });
            }
        });
        assert_eq!(*shared.0.lock().unwrap(), 300);
    });
}

#[test]
fn notify_all_wakes_all() {
    on_both(|| {
        let shared = (Mutex::new((0, false)), Condvar::new());
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let mut guard = shared.0.lock().unwrap();
                    guard.0 += 1;
                    let mut guard = shared.1.wait_while(guard, |state| !state.1).unwrap();
                    guard.0 -= 1;
                });
            }
            eventually("all wait", || shared.0.lock().unwrap().0 == 20);
            shared.0.lock().unwrap().1 = true;
            shared.1.notify_all();
        });
        assert_eq!(shared.0.lock().unwrap().0, 0);
    });
}

#[test]
fn a_condition_times_out() {
    on_both(|| {
        let (mutex, changed) = (Mutex::new(()), Condvar::new());
        let start = Instant::now();
        let (guard, result) = changed.wait_timeout(mutex.lock().unwrap(), SHORT).unwrap();
        assert!(result.timed_out());
        assert!(start.elapsed() >= SHORT);
        let (_guard, result) = changed.wait_timeout_while(guard, SHORT, |()| true).unwrap();
        assert!(result.timed_out());
        assert!(mutex.try_lock().is_err(), "the wait locks again");
    });
}

// ---- reader-writer lock

#[test]
fn readers_share_and_writers_exclude() {
    on_both(|| {
        let lock = RwLock::new(1);
        let one = lock.read().unwrap();
        let two = lock.read().unwrap();
        assert!(lock.try_write().is_err());
        assert!(lock.write_timeout(SHORT).is_err());
        assert_eq!(*one + *two, 2);
        drop((one, two));
        let mut writer = lock.write().unwrap();
        *writer = 5;
        assert!(lock.try_read().is_err());
        assert!(lock.try_write().is_err());
        assert!(lock.read_timeout(SHORT).is_err());
        let reader = RwLockWriteGuard::downgrade(writer);
        assert_eq!(*lock.try_read().unwrap(), 5);
        assert!(lock.try_write().is_err());
        drop(reader);
        drop(lock.try_write().expect("all guards are gone"));
    });
}

#[test]
fn a_waiting_writer_goes_before_new_readers() {
    on_both(|| {
        let lock = RwLock::new(Vec::new());
        thread::scope(|scope| {
            let reader = lock.read().unwrap();
            let writer = scope.spawn(|| lock.write().unwrap().push("writer"));
            eventually("the writer waits", || lock.try_read().is_err());
            let late = scope.spawn(|| lock.read().unwrap().clone());
            thread::sleep(SHORT);
            assert!(!writer.is_finished() && !late.is_finished());
            drop(reader);
            assert_eq!(late.join().unwrap(), ["writer"]);
        });
    });
}

#[test]
fn a_writer_that_gives_up_lets_readers_join() {
    /// Whether the writer was seen to wait: on a busy machine it may have given up before.
    fn is_seen(patience: Duration) -> bool {
        let lock = RwLock::new(());
        thread::scope(|scope| {
            let reader = lock.read().unwrap();
            let writer = scope.spawn(|| lock.write_timeout(patience).is_err());
            let mut waits = false;
            while !waits && !writer.is_finished() {
                thread::sleep(Duration::from_millis(1));
                waits = lock.try_read().is_err();
            }
            let late = scope.spawn(|| drop(lock.read().unwrap()));
            assert!(writer.join().unwrap());
            late.join().unwrap();
            drop(reader);
            waits
        })
    }
    on_both(|| {
        let mut patiences = (2..12).map(|power| SHORT * (1 << power));
        assert!(patiences.any(is_seen), "never: the writer waits");
    });
}

#[test]
fn a_reader_writer_lock_is_poisoned_by_writers_only() {
    let lock = RwLock::new(0);
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.read().unwrap();
        panic!("as expected");
    }));
    assert!(!lock.is_poisoned());
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.write().unwrap();
        panic!("as expected");
    }));
    assert!(lock.is_poisoned());
    assert!(lock.read().is_err());
    assert_eq!(lock.into_inner().unwrap_err().into_inner(), 0);
}

// ---- barrier, once

#[test]
fn a_barrier_has_one_leader_a_round() {
    on_both(|| {
        const THREADS: usize = 7;
        let (barrier, leaders) = (Barrier::new(THREADS), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for round in 0..50 {
                        if barrier.wait().is_leader() {
                            leaders.fetch_add(1, Ordering::SeqCst);
                        }
                        barrier.wait();
                        assert_eq!(leaders.load(Ordering::SeqCst), round + 1);
                        barrier.wait();
                    }
                });
            }
        });
    });
}

#[test]
fn once_runs_once_and_can_be_poisoned() {
    on_both(|| {
        let (once, runs) = (Once::new(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    once.call_once(|| {
                        thread::yield_now();
                        runs.fetch_add(1, Ordering::SeqCst);
                    });
                    assert_eq!(runs.load(Ordering::SeqCst), 1);
                });
            }
            scope.spawn(|| once.wait());
        });
        let once = Once::new();
        assert!(
            catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!("as expected")))).is_err()
        );
        assert!(catch_unwind(AssertUnwindSafe(|| once.call_once(|| ()))).is_err());
        once.call_once_force(|state| assert!(state.is_poisoned()));
        assert!(once.is_completed());
    });
}

#[test]
fn once_lock_and_lazy_lock_make_one_value() {
    static LAZY: LazyLock<String> = LazyLock::new(|| "made".to_owned());
    on_both(|| {
        let (cell, made) = (OnceLock::new(), AtomicUsize::new(0));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| *cell.wait());
            for n in 0..10 {
                let (cell, made) = (&cell, &made);
                scope.spawn(move || {
                    cell.get_or_init(|| {
                        thread::yield_now();
                        made.fetch_add(1, Ordering::SeqCst);
                        n
                    });
                });
            }
            let value = waiter.join().unwrap();
            assert_eq!(cell.set(99), Err(99));
            assert_eq!(cell.get(), Some(&value));
        });
        assert_eq!(made.load(Ordering::SeqCst), 1);
        assert_eq!(*LAZY, "made");
    });
    let mut cell = OnceLock::from(Arc::new(()));
    let alive = Arc::downgrade(cell.get().unwrap());
    assert_eq!(cell.take().map(|value| Arc::strong_count(&value)), Some(1));
    assert!(alive.upgrade().is_none() && cell.get().is_none());
}

// ---- channels

#[test]
fn values_come_in_order_and_the_end_is_seen() {
    on_both(|| {
        for ends in
            [channel::bounded(0), channel::bounded(1), channel::bounded(3), channel::unbounded()]
        {
            let (sender, receiver) = ends;
            let producer = thread::spawn(move || (0..1000).for_each(|n| sender.send(n).unwrap()));
            assert!(receiver.iter().eq(0..1000));
            producer.join().unwrap();
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
        }
    });
}

#[test]
fn tries_and_timeouts_say_why() {
    on_both(|| {
        let (sender, receiver) = channel::bounded(1);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(receiver.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
        sender.try_send(1).unwrap();
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(sender.send_timeout(3, SHORT), Err(SendTimeoutError::Timeout(3)));
        assert_eq!((sender.len(), sender.capacity()), (1, Some(1)));
        drop(receiver);
        assert_eq!(sender.try_send(4), Err(TrySendError::Disconnected(4)));
        assert_eq!(sender.send(5).unwrap_err().0, 5);
    });
}

#[test]
fn a_rendezvous_waits_for_its_receiver() {
    on_both(|| {
        let (sender, receiver) = channel::bounded(0);
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
        assert_eq!(sender.send_timeout(2, SHORT), Err(SendTimeoutError::Timeout(2)));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        let waiting = thread::spawn(move || (sender.send(3), sender));
        thread::sleep(SHORT);
        assert!(!waiting.is_finished());
        assert_eq!(receiver.recv(), Ok(3));
        let (sent, sender) = waiting.join().unwrap();
        sent.unwrap();
        let waiting = thread::spawn(move || sender.send(4));
        thread::sleep(SHORT);
        drop(receiver);
        assert_eq!(waiting.join().unwrap().unwrap_err().0, 4);
    });
}

#[test]
fn values_that_nobody_received_are_dropped() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    for capacity in [None, Some(200)] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = capacity.map_or_else(channel::unbounded, channel::bounded);
        for _ in 0..200 {
            sender.send(Counted(dropped.clone())).unwrap();
        }
        drop(receiver.recv());
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
        drop(receiver);
        assert_eq!(dropped.load(Ordering::SeqCst), 200);
        drop(sender.send(Counted(dropped.clone())));
        assert_eq!(dropped.load(Ordering::SeqCst), 201);
    }
}
