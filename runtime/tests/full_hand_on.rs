//! A worker that is woken for a full thread hands it to one that runs anyway; a time-critical
//! thread it runs itself, or that one would wait there behind whoever runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::{full, need_preemption};
use heddle::thread;

#[path = "common/full.rs"]
mod common;

/// Those that run at a worker, beside the time-critical one.
const OTHERS: usize = 3;
const ROUNDS: u32 = 200;
const ATTEMPTS: u32 = 20;
/// What an attempt may take.
const LIMIT: Duration = Duration::from_secs(3);
const NAP: Duration = Duration::from_micros(500);

/// Threads that take short turns, and one of them that becomes time-critical.
#[derive(Default)]
struct Threads {
    /// Where each one is, by its kernel thread's number.
    places: [AtomicI32; OTHERS + 1],
    /// Which one is time-critical, and one; 0 before.
    urgent: AtomicUsize,
    /// They are to sleep at times, and so to come to one worker.
    gather: AtomicBool,
    stop: AtomicBool,
    /// How often it stayed where it was woken, beside a busy worker, and how often it did not.
    rounds: AtomicU32,
    given_away: AtomicU32,
}

fn kernel_thread() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

impl Threads {
    fn places(&self) -> [i32; OTHERS + 1] {
        self.places.each_ref().map(|place| place.load(SeqCst))
    }

    fn run(&self, which: usize) {
        while self.urgent.load(SeqCst) == 0 {
            self.places[which].store(kernel_thread(), SeqCst);
        }
        if self.urgent.load(SeqCst) == which + 1 {
            self.sleep_often(which);
            self.stop.store(true, SeqCst);
        }
        for turn in 0u64.. {
            if self.stop.load(SeqCst) {
                break;
            }
            thread::yield_now();
            self.places[which].store(kernel_thread(), SeqCst);
            if turn % 50 == 0 && self.gather.load(SeqCst) {
                thread::sleep(NAP / 4);
            }
        }
    }

    /// Where the others are, if that is one worker, which was started before the caller's.
    fn others_at(&self, me: usize) -> Option<i32> {
        let places = self.places();
        let mut others = (0..=OTHERS).filter(|&which| which != me).map(|which| places[which]);
        let first = others.next()?;
        (others.all(|place| place == first) && first < kernel_thread()).then_some(first)
    }

    fn sleep_often(&self, me: usize) {
        thread::current().set_priority(Some(30)).unwrap();
        let start = Instant::now();
        while self.rounds.load(SeqCst) < ROUNDS && start.elapsed() < LIMIT {
            let before = self.others_at(me);
            self.gather.store(before.is_none(), SeqCst);
            thread::sleep(NAP);
            let now = kernel_thread();
            if before == Some(now) {
                self.given_away.fetch_add(1, SeqCst);
            } else if before.is_some() && before == self.others_at(me) {
                self.rounds.fetch_add(1, SeqCst);
            }
        }
    }
}

/// Returns how often the time-critical thread was woken beside a busy worker.
fn attempt() -> u32 {
    let all = Arc::new(Threads::default());
    let threads = [0, 1, 2, 3].map(|which| {
        let all = all.clone();
        full(move || all.run(which))
    });
    let start = Instant::now();
    let last = loop {
        let places = all.places();
        let last = (0..=OTHERS).max_by_key(|&which| places[which]).unwrap();
        let are_apart = places.iter().any(|&place| place != places[last]);
        if are_apart && !places.contains(&0) || start.elapsed() > LIMIT {
            break last;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    all.urgent.store(last + 1, SeqCst);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // Where all others slept when it was woken, their worker may have taken it rightly.
    let (given_away, rounds) = (all.given_away.load(SeqCst), all.rounds.load(SeqCst));
    assert!(
        given_away <= 1 + rounds / 20,
        "time-critical, and given to a busy worker: {given_away} times, {rounds} times not"
    );
    rounds
}

#[test]
fn a_time_critical_thread_runs_where_it_was_woken() {
    if !need_preemption(heddle::Config::new().workers(2)) {
        return;
    }
    let mut rounds = 0;
    for _ in 0..ATTEMPTS {
        rounds += attempt();
        if rounds >= ROUNDS {
            return;
        }
    }
    println!("skip: the threads seldom came to one worker: {rounds} times");
}
