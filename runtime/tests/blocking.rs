//! `heddle::blocking`: the worker goes on, borrows are sound, panics come back.

use heddle::thread;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[test]
fn the_result_comes_back_and_f_may_borrow() {
    let text = String::from("woven");
    let len =
        thread::scope(|scope| scope.spawn(|| heddle::blocking(|| text.len())).join().unwrap());
    assert_eq!(len, 5);
    assert_eq!(heddle::blocking(|| text.len()), 5);
}

#[test]
fn many_jobs_sleep_at_the_same_time() {
    let start = Instant::now();
    let threads: Vec<_> = (0..40)
        .map(|_| {
            thread::spawn(|| heddle::blocking(|| std::thread::sleep(Duration::from_millis(500))))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(start.elapsed() < Duration::from_secs(15), "the jobs ran one after the other");
}

#[test]
fn others_run_meanwhile() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let blocker =
        thread::spawn(|| heddle::blocking(|| std::thread::sleep(Duration::from_millis(100))));
    let counter = thread::spawn(|| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50) {
            COUNT.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        }
    });
    counter.join().unwrap();
    assert!(!blocker.is_finished() || COUNT.load(Ordering::Relaxed) > 0);
    blocker.join().unwrap();
}

#[test]
fn more_jobs_than_kernel_threads() {
    let threads: Vec<_> = (0..2_000u32)
        .map(|number| thread::spawn(move || heddle::blocking(move || number)))
        .collect();
    let sum: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(sum, (0..2_000).sum());
}

#[test]
fn a_panic_comes_back() {
    let thread = thread::spawn(|| heddle::blocking(|| panic!("as expected")));
    let payload: Box<dyn std::any::Any + Send> = thread.join().unwrap_err();
    assert_eq!(*payload.downcast_ref::<&str>().unwrap(), "as expected");
}

#[test]
fn a_hibernating_thread_is_kept_in_place() {
    // SAFETY: nobody borrows from its stack but heddle's own calls.
    let thread = unsafe { thread::Builder::new().hibernate(true) }
        .spawn(|| {
            let mut on_stack = [0u8; 64];
            heddle::blocking(|| {
                std::thread::sleep(Duration::from_millis(20));
                on_stack.fill(7);
            });
            on_stack
        })
        .unwrap();
    assert_eq!(thread.join().unwrap(), [7; 64]);
}

#[test]
fn heddles_locks_work_inside() {
    let permits = heddle::sync::Semaphore::new(0);
    thread::scope(|scope| {
        scope.spawn(|| heddle::blocking(|| permits.acquire()));
        scope.spawn(|| permits.release());
    });
    assert_eq!(permits.available(), 0);
}
