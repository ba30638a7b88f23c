//! Kernel threads of spare workers: as many as there are blocked threads while they are needed, few
//! afterwards, and again as many when they are needed again. Alone in its process, because it
//! counts its kernel threads.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::full;
use heddle::sync::Semaphore;
use heddle::thread::JoinHandle;

#[path = "common/full.rs"]
mod common;

/// Threads that block at once.
const BLOCKED: usize = 120;
/// Kernel threads that a process at rest may keep beyond those it has started with: ready ones.
const KEPT: usize = 2;
/// A bound for machines with much else to do; it takes some seconds.
const PATIENCE: Duration = Duration::from_secs(50);

fn kernel_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Waits until there are as few, or as many, as `is_right` says.
fn wait_until(is_right: impl Fn(usize) -> bool) {
    let begun = Instant::now();
    while !is_right(kernel_threads()) {
        assert!(begun.elapsed() < PATIENCE, "{} kernel threads", kernel_threads());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors, which nobody else has.
    unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]))
    }
}

/// How often the monitor has slept.
fn monitors_sleeps() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let text = |path: &Path, name| std::fs::read_to_string(path.join(name)).unwrap_or_default();
    let monitor = tasks.into_iter().find(|path| text(path, "comm").trim() == "heddle-monitor");
    let status = text(&monitor.unwrap(), "status");
    status.lines().find(|line| line.starts_with("voluntary")).unwrap().to_owned()
}

/// Waits until the monitor does not look any more.
fn wait_for_quiet() {
    let begun = Instant::now();
    loop {
        let before = monitors_sleeps();
        std::thread::sleep(Duration::from_millis(400));
        if before == monitors_sleeps() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the monitor looks on");
    }
}

/// All read from one pipe, in the kernel, until it is closed, then wait for `end`.
fn burst(before: usize, end: &'static Semaphore) -> Vec<JoinHandle<()>> {
    let (read, write) = pipe();
    let read = Arc::new(read);
    let blocked: Vec<_> = (0..BLOCKED)
        .map(|_| {
            let read = read.clone();
            full(move || {
                let mut byte = 0u8;
                // SAFETY: room for one byte.
                let count = unsafe { libc::read(read.as_raw_fd(), (&raw mut byte).cast(), 1) };
                assert_eq!(count, 0);
                end.acquire();
            })
        })
        .collect();
    wait_until(|count| count >= before + BLOCKED);
    drop(write);
    blocked
}

fn end_burst(blocked: Vec<JoinHandle<()>>, end: &'static Semaphore) {
    (0..BLOCKED).for_each(|_| end.release());
    blocked.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn kernel_threads_of_spare_workers_leave_when_they_are_not_needed() {
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        return println!("skip: kernel threads block nobody else");
    }
    let _ = heddle::Config::new().workers(1).start();
    match common::try_full(|| ()) {
        Some(handle) => handle.join().unwrap(),
        None => return,
    }
    let before = kernel_threads();
    static END: Semaphore = Semaphore::new(0);
    for _ in 0..2 {
        end_burst(burst(before, &END), &END);
        wait_until(|count| count <= before + KEPT);
    }
    // Spare workers keep their kernel threads while threads belong to them. That is rest, too.
    let blocked = burst(before, &END);
    wait_for_quiet();
    end_burst(blocked, &END);
    wait_until(|count| count <= before + KEPT);
    // One with a thread of its own stays, and the thread goes on there.
    let (read, write) = pipe();
    let sleeper = full(move || {
        let mut byte = 0u8;
        // SAFETY: room for one byte.
        let count = unsafe { libc::read(read.as_raw_fd(), (&raw mut byte).cast(), 1) };
        heddle::thread::sleep(Duration::from_millis(1500));
        count
    });
    end_burst(burst(before, &END), &END);
    drop(write);
    assert_eq!(sleeper.join().unwrap(), 0);
    wait_until(|count| count <= before + KEPT);
}
