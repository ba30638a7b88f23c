//! What the primitives of `sync` cost, on one worker, in nanoseconds: median of several rounds.
//!
//! `cargo run --release --example sync_cost`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use heddle::sync::{Condvar, Mutex, RwLock, Semaphore, channel};
use heddle::thread;

const ROUNDS: usize = 9;

/// The median over the rounds of what one of `count` operations takes.
fn measure(name: &str, count: u32, mut operations: impl FnMut()) {
    let mut each_ns: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            operations();
            start.elapsed().as_nanos() as f64 / f64::from(count)
        })
        .collect();
    each_ns.sort_by(f64::total_cmp);
    println!("{name:24} {:8.2} ns (best {:.2})", each_ns[ROUNDS / 2], each_ns[0]);
}

fn mutex() {
    let mutex = Mutex::new(0u64);
    measure("mutex", 1_000_000, || {
        for _ in 0..1_000_000 {
            *black_box(&mutex).lock().unwrap() += 1;
        }
    });
    let theirs = std::sync::Mutex::new(0u64);
    measure("std mutex", 1_000_000, || {
        for _ in 0..1_000_000 {
            *black_box(&theirs).lock().unwrap() += 1;
        }
    });
}

fn semaphore_round_trip() {
    const TRIPS: u32 = 200_000;
    measure("sem_round_trip", TRIPS, || {
        let ping = Arc::new((Semaphore::new(0), Semaphore::new(0)));
        let pong = ping.clone();
        let other = thread::spawn(move || {
            for _ in 0..TRIPS {
                pong.0.acquire();
                pong.1.release();
            }
        });
        for _ in 0..TRIPS {
            ping.0.release();
            ping.1.acquire();
        }
        other.join().unwrap();
    });
}

fn channel_items(name: &str, ends: impl Fn() -> (channel::Sender<u64>, channel::Receiver<u64>)) {
    const ITEMS: u64 = 1_000_000;
    measure(name, ITEMS as u32, || {
        let (sender, receiver) = ends();
        let producer = thread::spawn(move || (0..ITEMS).for_each(|n| sender.send(n).unwrap()));
        let sum: u64 = receiver.iter().sum();
        assert_eq!(sum, ITEMS * (ITEMS - 1) / 2);
        producer.join().unwrap();
    });
}

fn rwlock() {
    let lock = RwLock::new(0u64);
    measure("rwlock read", 1_000_000, || {
        for _ in 0..1_000_000 {
            black_box(*black_box(&lock).read().unwrap());
        }
    });
    measure("rwlock write", 1_000_000, || {
        for _ in 0..1_000_000 {
            *black_box(&lock).write().unwrap() += 1;
        }
    });
}

fn condvar_round_trip() {
    const TRIPS: u32 = 100_000;
    measure("condvar_round_trip", TRIPS, || {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let player = |shared: Arc<(Mutex<bool>, Condvar)>, side: bool| {
            move || {
                let mut turn = shared.0.lock().unwrap();
                for _ in 0..TRIPS {
                    turn = shared.1.wait_while(turn, |turn| *turn != side).unwrap();
                    *turn = !side;
                    shared.1.notify_one();
                }
            }
        };
        let other = thread::spawn(player(shared.clone(), true));
        player(shared, false)();
        other.join().unwrap();
    });
}

fn main() {
    heddle::Config::new().workers(1).start().unwrap();
    heddle::run(|| {
        mutex();
        rwlock();
        semaphore_round_trip();
        condvar_round_trip();
        channel_items("channel 128", || channel::bounded(128));
        channel_items("channel unbounded", channel::unbounded);
        channel_items("channel 1", || channel::bounded(1));
        channel_items("channel rendezvous", || channel::bounded(0));
    });
}
