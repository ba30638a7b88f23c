//! Many workers keep no more memory of detached threads that ended than a few do: what lies in
//! their caches does not go back with time. Alone in its process: it looks at the memory of all of
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// As on a large machine; each has its share of the threads, whatever processors there are.
const WORKERS: usize = 32;
const THREADS: usize = 30_000;
const AT_ONCE: usize = 64;
/// Bytes that each touches, at least.
const TOUCHED: usize = 8 << 10;
/// What stays of fewer threads than this is no cause for complaint.
const KEPT: usize = THREADS / 3;

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn many_workers_keep_little_of_detached_threads() {
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        return println!("skip: the C library keeps the stacks of kernel threads");
    }
    if cfg!(heddle_asan) {
        return println!("skip: the sanitizer's own memory hides the stacks'");
    }
    heddle::Config::new().workers(WORKERS).start().unwrap();
    let before = resident_bytes();
    let alive = Arc::new(AtomicUsize::new(0));
    let await_others = |most: usize| {
        while alive.load(SeqCst) > most {
            std::thread::yield_now();
        }
    };
    for _ in 0..THREADS {
        await_others(AT_ONCE);
        alive.fetch_add(1, SeqCst);
        let counted = alive.clone();
        drop(heddle::thread::spawn(move || {
            std::hint::black_box(&mut [1u8; TOUCHED]);
            counted.fetch_sub(1, SeqCst);
        }));
    }
    await_others(0);
    let grown = || resident_bytes().saturating_sub(before);
    let deadline = Instant::now() + Duration::from_secs(30);
    while grown() > KEPT * TOUCHED {
        assert!(Instant::now() < deadline, "{} bytes stay of {THREADS} threads", grown());
        std::thread::sleep(Duration::from_millis(100));
    }
}
