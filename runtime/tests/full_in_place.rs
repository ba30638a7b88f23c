//! A full thread that waits for a disk in place, at a worker to which others belong. Alone in its
//! process: nobody else is to be ready there.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use heddle::net::UnixStream;
use heddle::raw;
use heddle::sync::Semaphore;
use heddle::thread;

#[path = "common/full.rs"]
mod common;

/// Threads that wait in each way; they are spread over both workers.
const WAITERS: usize = 8;
const TRIES: usize = 1000;
const LIMIT: Duration = Duration::from_secs(20);
/// What all come to rest in.
const REST: Duration = Duration::from_millis(50);

type Threads = Vec<thread::JoinHandle<()>>;

/// `WAITERS` threads that do `wait`, then count.
fn waiters(
    count: &Arc<AtomicUsize>,
    mut wait: impl FnMut() -> Box<dyn FnOnce() + Send>,
) -> Threads {
    let one = |_| {
        let (wait, count) = (wait(), count.clone());
        common::full(move || {
            wait();
            count.fetch_add(1, SeqCst);
        })
    };
    (0..WAITERS).map(one).collect()
}

fn join(threads: Threads) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Begins in place, waits there until all of `wanted` have counted, and says whether they have;
/// `None`: the caller was not to wait in place.
fn wait_in_place(begun: &AtomicBool, count: &AtomicUsize, wanted: usize) -> Option<bool> {
    let call = || {
        begun.store(true, SeqCst);
        let since = Instant::now();
        while count.load(SeqCst) < wanted && since.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(count.load(SeqCst) == wanted)
    };
    raw::alone(call, |_elsewhere| None)
}

#[test]
fn who_becomes_ready_meanwhile_runs() {
    let _ = heddle::Config::new().workers(2).start();
    let Some(handle) = common::try_full(|| ()) else { return };
    handle.join().unwrap();
    if raw::is_native().unwrap() {
        return println!("skip: all wait in place on kernel threads");
    }
    let (count, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let semaphore = Arc::new(Semaphore::new(0));
    let by_post = waiters(&count, || {
        let semaphore = semaphore.clone();
        Box::new(move || semaphore.acquire())
    });
    let mut ends = Vec::new();
    let by_event = waiters(&count, || {
        let (mut one, other) = UnixStream::pair().unwrap();
        ends.push(other);
        Box::new(move || one.read_exact(&mut [0]).unwrap())
    });
    let has_begun = begun.clone();
    let waker = std::thread::spawn(move || {
        while !has_begun.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        (0..WAITERS).for_each(|_| semaphore.release());
        ends.into_iter().for_each(|mut end| end.write_all(&[1]).unwrap());
    });
    let done = common::full(move || {
        let try_once = |_| {
            let before = count.load(SeqCst);
            let by_time = waiters(&count, || Box::new(|| thread::sleep(REST)));
            // Others may be in the middle of something for a moment.
            thread::sleep(REST / 10);
            let done = wait_in_place(&begun, &count, before + 3 * WAITERS);
            join(by_time);
            done
        };
        (0..TRIES).find_map(try_once)
    });
    assert_eq!(done.join().unwrap(), Some(true));
    waker.join().unwrap();
    join(by_post);
    join(by_event);
}
