//! Full threads that block in the kernel where the runtime can't see it: in libc's `read`. One
//! worker, so that without compensation the first of them would stop all others. Nothing here
//! has a time limit of its own: a thread that is lost hangs the test.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use common::full;
use heddle::sync::{Mutex, Semaphore};
use heddle::thread;

#[path = "common/full.rs"]
mod common;

/// Ends a test where there are no full threads; else the runtime has one worker.
macro_rules! need_full {
    () => {
        // The first test starts it.
        let _ = heddle::Config::new().workers(1).start();
        match common::try_full(|| ()) {
            Some(handle) => handle.join().unwrap(),
            None => return,
        }
    };
}

/// A pipe of the kernel's: `read` blocks the kernel thread.
fn pipe() -> (OwnedFd, OwnedFd) {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors, which nobody else has.
    unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]))
    }
}

/// Reads a byte, in the kernel.
fn read_byte(fd: &OwnedFd) -> u8 {
    let mut byte = 0u8;
    // SAFETY: room for one byte.
    let count = unsafe { libc::read(fd.as_raw_fd(), (&raw mut byte).cast(), 1) };
    assert_eq!(count, 1, "{}", std::io::Error::last_os_error());
    byte
}

fn write_byte(fd: &OwnedFd, byte: u8) {
    // SAFETY: one byte.
    let count = unsafe { libc::write(fd.as_raw_fd(), (&raw const byte).cast(), 1) };
    assert_eq!(count, 1);
}

/// Each waits for the next one, and the last one for one that starts last.
fn chain(length: usize) {
    let pipes: Vec<_> = (0..length).map(|_| Arc::new(pipe())).collect();
    let readers: Vec<_> = (0..length)
        .map(|index| {
            let (mine, next) = (pipes[index].clone(), pipes.get(index + 1).cloned());
            full(move || {
                let byte = read_byte(&mine.0);
                if let Some(next) = next {
                    write_byte(&next.1, byte);
                }
                byte
            })
        })
        .collect();
    let first = pipes[0].clone();
    let writer = full(move || write_byte(&first.1, 7));
    writer.join().unwrap();
    readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), 7));
}

#[test]
fn more_block_in_the_kernel_than_there_are_workers() {
    need_full!();
    chain(6);
}

#[test]
fn more_block_than_workers_can_be_configured() {
    need_full!();
    chain(280);
}

/// Threads that wait at a worker which another thread blocks: for time, a lock, a descriptor, an
/// operation, an unpark, an end.
#[test]
fn who_waits_at_a_blocked_worker_goes_on() {
    need_full!();
    for way in 0..8 {
        let (blocked, wakes) = (Arc::new(pipe()), Arc::new(pipe()));
        let semaphore = Arc::new(Semaphore::new(0));
        let (theirs, given) = (blocked.clone(), semaphore.clone());
        let (mut receiver, sender) = heddle::io::pipe().unwrap();
        let other = thread::Builder::new().full();
        let other = other.spawn(|| thread::sleep(Duration::from_millis(30))).unwrap();
        let waiter = full(move || {
            match way {
                0 => thread::sleep(Duration::from_millis(20)),
                1 => given.acquire(),
                2 => drop(given.acquire_timeout(Duration::from_millis(20))),
                3 => drop(receiver.read(&mut [0; 1]).unwrap()),
                4 => thread::park(),
                5 => other.join().unwrap(),
                6 => {
                    let patience = Some(Duration::from_millis(20));
                    // The event may be faster.
                    let _ = heddle::io::wait_readable(&receiver, patience);
                }
                _ => assert_eq!(heddle::blocking(|| 5), 5),
            }
            write_byte(&theirs.1, way);
        });
        // Blocks the one worker once the waiter waits.
        let theirs = (blocked.clone(), wakes.clone());
        let blocks = full(move || {
            write_byte(&theirs.1.1, 0);
            read_byte(&theirs.0.0)
        });
        // A kernel thread ends the waits that somebody has to end, when the worker is blocked.
        read_byte(&wakes.0);
        std::thread::sleep(Duration::from_millis(20));
        semaphore.release();
        (&sender).write_all(b"x").unwrap_or_default();
        waiter.thread().unpark();
        assert_eq!(blocks.join().unwrap(), way);
        waiter.join().unwrap();
    }
}

#[test]
fn who_waits_at_a_blocked_worker_is_cancelled() {
    need_full!();
    let blocked = Arc::new(pipe());
    let theirs = blocked.clone();
    let sleeper = full(move || {
        thread::sleep(Duration::from_secs(1000));
        write_byte(&theirs.1, 3);
    });
    let blocks = full(move || read_byte(&blocked.0));
    std::thread::sleep(Duration::from_millis(20));
    sleeper.thread().cancel();
    assert_eq!(blocks.join().unwrap(), 3);
    sleeper.join().unwrap();
}

/// Workers that come back and workers in their place use the same threads' locks and timers.
#[test]
fn workers_that_come_back_share_with_those_in_their_place() {
    need_full!();
    let total = Arc::new(Mutex::new(0u32));
    let naps = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..24u32)
        .map(|number| {
            let (total, naps) = (total.clone(), naps.clone());
            full(move || {
                for round in 0..60 {
                    *total.lock().unwrap() += 1;
                    match (number + round) % 12 {
                        0 => std::thread::sleep(Duration::from_millis(8)),
                        1 | 2 => thread::sleep(Duration::from_micros(500)),
                        _ => thread::yield_now(),
                    }
                    naps.fetch_add(1, SeqCst);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((*total.lock().unwrap(), naps.load(SeqCst)), (24 * 60, 24 * 60));
}
