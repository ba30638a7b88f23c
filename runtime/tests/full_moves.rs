//! Full threads move to idle workers while they are ready, and stay themselves.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use common::full;
use heddle::sync::Semaphore;
use heddle::thread;

#[path = "common/full.rs"]
mod common;

std::thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(5) };
}

fn set_errno(number: c_int) {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = number };
}

fn errno() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// Light and full, lazy and time-critical threads that a kernel thread makes at once start, each
/// once: workers take them over in batches of whatever is there.
#[test]
fn threads_of_all_kinds_that_are_made_together_start_once() {
    const COUNT: usize = 500;
    let Some(first) = common::try_full(|| ()) else { return };
    first.join().unwrap();
    let started: Arc<Vec<_>> = Arc::new((0..COUNT).map(|_| AtomicU32::new(0)).collect());
    let threads: Vec<_> = (0..COUNT)
        .map(|number| {
            let started = started.clone();
            let builder = thread::Builder::new();
            let builder = if number % 3 != 0 { builder.full() } else { builder };
            let builder = if number % 7 == 0 { builder.priority(9) } else { builder };
            builder.spawn(move || started[number].fetch_add(1, SeqCst)).unwrap()
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 0);
    }
    assert!(started.iter().all(|count| count.load(SeqCst) == 1));
}

/// Threads that were ready on a busy worker are run by an idle one; each stays itself.
#[test]
fn ready_threads_move_to_idle_workers_and_keep_what_is_theirs() {
    let Some(first) = common::try_full(|| ()) else { return };
    first.join().unwrap();
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        return println!("skip: kernel threads move as the kernel says");
    }
    let moved = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..16u32)
        .map(|number| {
            let moved = moved.clone();
            full(move || {
                // SAFETY: no arguments; a kernel thread's number.
                let kernel_thread = || unsafe { libc::syscall(libc::SYS_gettid) };
                let me = thread::current().id();
                let mut before = kernel_thread();
                NUMBER.set(number);
                for round in 0..3000u32 {
                    set_errno((number * 10_000 + round) as c_int);
                    match round % 50 {
                        0 => thread::sleep(Duration::from_micros(u64::from(number) * 10)),
                        1 => drop(heddle::blocking(|| 1)),
                        _ => {
                            thread::yield_now();
                            assert_eq!(errno(), (number * 10_000 + round) as c_int);
                        }
                    }
                    assert_eq!(NUMBER.get(), number);
                    assert_eq!(thread::current().id(), me);
                    let now = kernel_thread();
                    moved.fetch_add(u32::from(now != before), SeqCst);
                    before = now;
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("moved {} times", moved.load(SeqCst));
}

/// Wakes, timeouts, cancellations and moves at once: nobody is lost.
#[test]
fn moving_threads_are_woken_timed_out_and_cancelled_once() {
    let Some(first) = common::try_full(|| ()) else { return };
    first.join().unwrap();
    let semaphore = Arc::new(Semaphore::new(0));
    let given = 4000;
    let takers: Vec<_> = (0..8)
        .map(|number: u64| {
            let semaphore = semaphore.clone();
            full(move || {
                let mut taken = 0;
                while taken < given / 8 {
                    let patience = Duration::from_micros(50 + number * 37);
                    if semaphore.acquire_timeout(patience) {
                        taken += 1;
                    }
                    thread::yield_now();
                }
            })
        })
        .collect();
    let givers: Vec<_> = (0..4)
        .map(|_| {
            let semaphore = semaphore.clone();
            full(move || {
                for turn in 0..given / 4 {
                    semaphore.release();
                    if turn % 8 == 0 {
                        thread::sleep(Duration::from_micros(20));
                    }
                    thread::yield_now();
                }
            })
        })
        .collect();
    for round in 0..50u64 {
        let sleeper = full(|| thread::sleep(Duration::from_secs(60)));
        let yields = full(|| {
            while !thread::is_cancelled() {
                thread::yield_now();
            }
        });
        std::thread::sleep(Duration::from_micros(round * 10));
        sleeper.thread().cancel();
        yields.thread().cancel();
        sleeper.join().unwrap();
        yields.join().unwrap();
    }
    givers.into_iter().chain(takers).for_each(|thread| thread.join().unwrap());
}
