//! Where another worker takes the threads of one that is blocked in the kernel, a time-critical one
//! that was preempted goes on before the lazy ones that are ready.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use common::{full, need_preemption};
use heddle::sync::Semaphore;
use heddle::thread::Builder;

#[path = "common/full.rs"]
mod common;

const LAZY: u32 = 64;
/// How long the worker stays blocked where it is not compensated for.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn who_was_preempted_keeps_to_its_priority_elsewhere() {
    let config = heddle::Config::new().workers(1).lazy_bound(None);
    if !need_preemption(config) {
        return;
    }
    let (lazy, most) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (came, ran) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let is_blocked = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..LAZY)
        .map(|_| {
            let (lazy, came, ran) = (lazy.clone(), came.clone(), ran.clone());
            full(move || {
                came.fetch_add(1, SeqCst);
                lazy.acquire();
                ran.fetch_add(1, SeqCst);
            })
        })
        .collect();
    let (mut inside, mut outside) = UnixStream::pair().unwrap();
    inside.set_read_timeout(Some(LIMIT)).unwrap();
    let (asked, comes, blocks) = (most.clone(), came.clone(), is_blocked.clone());
    let blocker = Builder::new().full().priority(30).spawn(move || {
        comes.fetch_add(1, SeqCst);
        asked.acquire();
        blocks.store(true, SeqCst);
        // Not heddle's read: the kernel thread waits.
        inside.read_exact(&mut [0]).is_ok()
    });
    let blocker = blocker.unwrap();
    while came.load(SeqCst) <= LAZY {
        std::thread::sleep(Duration::from_millis(1));
    }
    let counts = ran.clone();
    let preempted = Builder::new().full().priority(10).spawn(move || {
        (0..LAZY).for_each(|_| lazy.release());
        most.release();
        while !is_blocked.load(SeqCst) {}
        counts.load(SeqCst)
    });
    let before = preempted.unwrap().join().unwrap();
    others.into_iter().for_each(|thread| thread.join().unwrap());
    outside.write_all(&[1]).unwrap();
    assert!(blocker.join().unwrap(), "a blocked worker was not compensated for");
    // Half of those that wait are taken at once, and what is left may find another worker.
    assert!(before <= LAZY / 2, "{before} lazy threads went before a time-critical one");
}
