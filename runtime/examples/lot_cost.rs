//! What the parking lot costs, on one worker, in nanoseconds: median of several rounds; and the
//! kernel's futex beside it.
//!
//! `cargo run --release --example lot_cost`

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Instant;

use heddle::raw::{ANY, Manner, Moment, futex_requeue, futex_wait, futex_wake};
use heddle::thread;
use rustix::thread::futex;

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

fn wakes_of_nobody() {
    const WAKES: u32 = 1_000_000;
    let word = AtomicU32::new(0);
    measure("wake of nobody", WAKES, || {
        for _ in 0..WAKES {
            futex_wake(black_box(&word), 1, ANY);
        }
    });
    measure("  kernel's", WAKES / 10, || {
        for _ in 0..WAKES / 10 {
            let _ = futex::wake(black_box(&word), futex::Flags::PRIVATE, 1);
        }
    });
    measure("wait that has changed", WAKES, || {
        for _ in 0..WAKES {
            // SAFETY: the word outlives the call.
            let _ = unsafe { futex_wait(black_box(&word), 1, Moment::Never, Manner::PLAIN) };
        }
    });
    measure("requeue of nobody", WAKES, || {
        for _ in 0..WAKES {
            // SAFETY: the word outlives the call.
            let done = unsafe { futex_requeue(black_box(&word), Some(0), &word, 1, 1) };
            black_box(done);
        }
    });
}

/// Goes on when the word is `side`, and gives it to the other side; `wait` and `wake` are whose
/// cost is asked for.
fn play<T, U>(
    word: &AtomicU32,
    side: u32,
    trips: u32,
    wait: impl Fn(u32) -> T,
    wake: impl Fn() -> U,
) {
    for _ in 0..trips {
        loop {
            let seen = word.load(Relaxed);
            if seen == side {
                break;
            }
            let _ = wait(seen);
        }
        word.store(1 - side, Release);
        let _ = wake();
    }
}

fn round_trips() {
    const TRIPS: u32 = 100_000;
    let side = |word: Arc<AtomicU32>, side: u32| {
        move || {
            // SAFETY: the word outlives the call.
            let wait = |seen| unsafe { futex_wait(&*word, seen, Moment::Never, Manner::PLAIN) };
            play(&word, side, TRIPS, wait, || futex_wake(&*word, 1, ANY));
        }
    };
    measure("round trip", TRIPS, || {
        let word = Arc::new(AtomicU32::new(0));
        let other = thread::spawn(side(word.clone(), 1));
        side(word, 0)();
        other.join().unwrap();
    });
}

/// With kernel threads, as a measure of what is saved.
fn kernel_round_trips() {
    const TRIPS: u32 = 20_000;
    let side = |word: Arc<AtomicU32>, side: u32| {
        move || {
            let wait = |seen| futex::wait(&word, futex::Flags::PRIVATE, seen, None);
            play(&word, side, TRIPS, wait, || futex::wake(&word, futex::Flags::PRIVATE, 1));
        }
    };
    measure("  kernel's", TRIPS, || {
        let word = Arc::new(AtomicU32::new(0));
        let other = std::thread::spawn(side(word.clone(), 1));
        side(word, 0)();
        other.join().unwrap();
    });
}

fn main() {
    heddle::Config::new().workers(1).start().unwrap();
    heddle::run(|| {
        wakes_of_nobody();
        round_trips();
    });
    kernel_round_trips();
}
