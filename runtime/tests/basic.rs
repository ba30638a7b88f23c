//! The first things a user tries: spawn, join, yield, park, sleep, locks, panics.

use heddle::sync::{Mutex, Semaphore};
use heddle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[test]
fn join_returns_the_result() {
    let handle = thread::spawn(|| 6 * 7);
    assert_eq!(handle.join().unwrap(), 42);
}

#[test]
fn many_threads_run() {
    let count = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..10_000)
        .map(|_| {
            let count = count.clone();
            thread::spawn(move || {
                thread::yield_now();
                count.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), 10_000);
}

#[test]
fn a_panic_is_the_result() {
    let error = thread::spawn(|| panic!("as expected")).join().unwrap_err();
    assert_eq!(*error.downcast_ref::<&str>().unwrap(), "as expected");
}

#[test]
fn park_and_unpark() {
    let handle = thread::spawn(|| {
        for _ in 0..100 {
            thread::park();
        }
    });
    while !handle.is_finished() {
        handle.thread().unpark();
        std::thread::yield_now();
    }
    handle.join().unwrap();
}

#[test]
fn sleep_takes_its_time() {
    let handle = thread::spawn(|| {
        let start = Instant::now();
        thread::sleep(Duration::from_millis(20));
        start.elapsed()
    });
    assert!(handle.join().unwrap() >= Duration::from_millis(20));
}

#[test]
fn semaphores_pass_permits() {
    let (ping, pong) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (ping2, pong2) = (ping.clone(), pong.clone());
    let other = thread::spawn(move || {
        for _ in 0..10_000 {
            ping2.acquire();
            pong2.release();
        }
    });
    let this = thread::spawn(move || {
        for _ in 0..10_000 {
            ping.release();
            pong.acquire();
        }
    });
    this.join().unwrap();
    other.join().unwrap();
}

#[test]
fn a_semaphore_times_out() {
    let waited = thread::spawn(|| {
        let permits = Semaphore::new(0);
        let start = Instant::now();
        assert!(!permits.acquire_timeout(Duration::from_millis(10)));
        start.elapsed()
    });
    assert!(waited.join().unwrap() >= Duration::from_millis(10));
}

#[test]
fn a_mutex_excludes_threads_and_kernel_threads() {
    let counter = Arc::new(Mutex::new(0u64));
    let work = |counter: Arc<Mutex<u64>>| {
        move || {
            for i in 0..2_000 {
                let mut guard = counter.lock().unwrap();
                *guard += 1;
                if i % 7 == 0 {
                    thread::yield_now();
                }
            }
        }
    };
    let users: Vec<_> = (0..20).map(|_| thread::spawn(work(counter.clone()))).collect();
    let kernels: Vec<_> = (0..3).map(|_| std::thread::spawn(work(counter.clone()))).collect();
    users.into_iter().for_each(|t| t.join().unwrap());
    kernels.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*counter.lock().unwrap(), 46_000);
}

#[test]
fn scopes_borrow() {
    let mut numbers = [1, 2, 3, 4];
    thread::scope(|scope| {
        for number in &mut numbers {
            scope.spawn(move || *number *= 10);
        }
    });
    assert_eq!(numbers, [10, 20, 30, 40]);
}

#[test]
fn a_dropped_handle_detaches() {
    struct Flag(Arc<AtomicUsize>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let flag = Flag(dropped.clone());
        drop(thread::spawn(move || flag));
    }
    let start = Instant::now();
    while dropped.load(Ordering::SeqCst) != 100 {
        assert!(start.elapsed() < Duration::from_secs(60), "results of detached threads stay");
        std::thread::sleep(Duration::from_millis(1));
    }
}
