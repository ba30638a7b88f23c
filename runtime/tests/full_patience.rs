//! A thread that was left to a busy worker, for turns there were short, does not wait for one that
//! turns out to be long: a worker that sleeps is woken for it, though nobody is preempted here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::full;
use heddle::sync::Semaphore;
use heddle::thread;

#[path = "common/full.rs"]
mod common;

const ROUNDS: u32 = 20;
const SHORT_TURNS: u32 = 3000;
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn who_is_woken_by_a_thread_that_computes_runs_elsewhere() {
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        return println!("skip: kernel threads run where the kernel says");
    }
    heddle::Config::new().workers(2).slice(None).start().unwrap();
    let Some(first) = common::try_full(|| ()) else { return };
    first.join().unwrap();
    let (asked, served) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let total = ROUNDS * (SHORT_TURNS + 1);
    let server = {
        let (asked, served) = (asked.clone(), served.clone());
        full(move || {
            for _ in 0..total {
                asked.acquire();
                served.fetch_add(1, SeqCst);
            }
        })
    };
    let client = full(move || {
        for _ in 0..ROUNDS {
            for _ in 0..SHORT_TURNS {
                let before = served.load(SeqCst);
                asked.release();
                while served.load(SeqCst) == before {
                    thread::yield_now();
                }
            }
            let (before, start) = (served.load(SeqCst), Instant::now());
            asked.release();
            while served.load(SeqCst) == before {
                assert!(start.elapsed() < LIMIT, "it waits for the end of a long turn");
            }
        }
    });
    client.join().unwrap();
    server.join().unwrap();
}
