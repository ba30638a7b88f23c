//! What is shown of a worker's CPU time is what it used: one that is blocked in the kernel, where
//! heddle does not see it, uses none.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use heddle_record::Reader;

use common::{full, need_preemption};

#[path = "common/full.rs"]
mod common;

/// How long the worker stays blocked.
const BLOCKED: Duration = Duration::from_millis(600);
/// What is to be shown of a full thread that computes, and when at the latest.
const COMPUTES: Duration = Duration::from_millis(50);
const LIMIT: Duration = Duration::from_secs(60);

/// The CPU time that is shown of the worker which has used the most.
fn shown() -> Duration {
    let reader = Reader::open(std::process::id() as i32).expect("our own table");
    let snapshot = reader.snapshot().expect("it can be read");
    Duration::from_nanos(
        snapshot.workers.iter().map(|it| it.fields.cpu_ns).max().expect("a worker"),
    )
}

#[test]
fn a_blocked_worker_is_shown_to_use_nothing() {
    if !need_preemption(heddle::Config::new().workers(1)) {
        return;
    }
    let (mut inside, mut outside) = UnixStream::pair().unwrap();
    let is_about_to = Arc::new(AtomicBool::new(false));
    let says = is_about_to.clone();
    let blocked = full(move || {
        let begin = Instant::now();
        says.store(true, SeqCst);
        // Not heddle's read: the kernel thread waits.
        inside.read_exact(&mut [0]).unwrap();
        begin.elapsed()
    });
    while !is_about_to.load(SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = shown();
    std::thread::sleep(BLOCKED);
    let while_blocked = shown() - before;
    outside.write_all(&[1]).unwrap();
    assert!(blocked.join().unwrap() > BLOCKED / 2);
    assert!(while_blocked < BLOCKED / 2, "{while_blocked:?} of {BLOCKED:?} blocked");

    let is_over = Arc::new(AtomicBool::new(false));
    let seen = is_over.clone();
    let computes = full(move || while !seen.load(SeqCst) {});
    let (before, begin) = (shown(), Instant::now());
    while shown() < before + COMPUTES {
        assert!(begin.elapsed() < LIMIT, "of {:?} {:?} are shown", begin.elapsed(), shown());
        std::thread::sleep(Duration::from_millis(2));
    }
    is_over.store(true, SeqCst);
    computes.join().unwrap();
}
