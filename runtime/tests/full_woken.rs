//! A full thread that wakes does not wait for the slices of those that compute, and they go on
//! beside any number of such threads. The slice is so long here that it shows, however busy the
//! machine is. On a busy one a thread that wakes may be taken for one that computes, now and then;
//! then it waits for slices.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{full, need_preemption};
use heddle::net::{TcpListener, TcpStream};
use heddle::sync::Semaphore;
use heddle::thread::JoinHandle;

#[path = "common/full.rs"]
mod common;

const SLICE: Duration = Duration::from_secs(2);
/// How often it wakes in each way.
const ROUNDS: usize = 7;

fn can_run() -> bool {
    need_preemption(heddle::Config::new().workers(1).slice(Some(SLICE)))
}

/// Threads that compute until they are told to stop, and how far they have come.
struct Hogs {
    stop: Arc<AtomicBool>,
    rounds: [Arc<AtomicU64>; 2],
    threads: [JoinHandle<()>; 2],
}

impl Hogs {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let threads = rounds.clone().map(|rounds| {
            let stop = stop.clone();
            full(move || {
                while !stop.load(SeqCst) {
                    rounds.fetch_add(1, SeqCst);
                }
            })
        });
        Hogs { stop, rounds, threads }
    }

    fn end(self) {
        self.stop.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Time, an event of a descriptor, and a kernel thread that wakes it.
#[test]
fn a_thread_that_wakes_interrupts_those_that_compute() {
    if !can_run() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (asked, answered) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (theirs, answers) = (asked.clone(), answered.clone());
    let body = move || {
        let mut stream: TcpStream = listener.accept().unwrap().0;
        for _ in 0..ROUNDS {
            heddle::thread::sleep(Duration::from_millis(20));
            answers.release();
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answers.release();
            theirs.acquire();
            answers.release();
        }
    };
    let wakes = full(body);
    let hogs = Hogs::start();
    let mut waits = [(); 3].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        for (how, waits) in ["time", "event", "thread"].into_iter().zip(&mut waits) {
            std::thread::sleep(Duration::from_millis(20));
            let start = Instant::now();
            match how {
                "event" => ours.write_all(b"x").unwrap(),
                "thread" => asked.release(),
                _ => {}
            }
            answered.acquire();
            waits.push(start.elapsed());
        }
    }
    for waits in &mut waits {
        waits.sort();
        assert!(waits[ROUNDS / 2] < SLICE / 2, "{waits:?}");
    }
    wakes.join().unwrap();
    hogs.end();
}

#[test]
fn those_that_compute_go_on_beside_threads_that_wake_all_the_time() {
    if !can_run() {
        return;
    }
    let hogs = Hogs::start();
    let stop = Arc::new(AtomicBool::new(false));
    let (there, back) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(0)));
    // One of the two is always ready.
    let pair = [(there.clone(), back.clone()), (back, there)].map(|(takes, gives)| {
        let stop = stop.clone();
        full(move || {
            while !stop.load(SeqCst) {
                takes.acquire();
                gives.release();
            }
            // The other one may wait for a last time.
            gives.release();
        })
    });
    for rounds in &hogs.rounds {
        for _ in 0..3 {
            let before = rounds.load(SeqCst);
            while rounds.load(SeqCst) == before {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    stop.store(true, SeqCst);
    pair.into_iter().for_each(|thread| thread.join().unwrap());
    hogs.end();
}
