//! Those whom a wake of many makes ready do not hold up others, and are not held up by them for
//! ever. The crowd is that of a lock which spins: whoever looks in vain wakes all who wait before
//! it waits again, so that as many as there are threads are always ready.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use common::{full, try_full};
use futex::wait_for;
use heddle::raw::{ANY, Moment, futex_wake};
use heddle::sync::Semaphore;
use heddle::thread::JoinHandle;

#[path = "common/full.rs"]
mod common;
#[path = "common/futex.rs"]
#[allow(dead_code)]
mod futex;

/// Threads of the crowd: many more than the turns that others leave to it.
const CROWD: usize = 1000;
/// How often another thread is woken beside it.
const ROUNDS: usize = 50;

/// One worker, so that all have their turns one after the other.
fn can_run() -> bool {
    let _ = heddle::Config::new().workers(1).start();
    let Some(handle) = try_full(|| ()) else { return false };
    handle.join().unwrap();
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        println!("skip: the kernel gives kernel threads their turns");
        return false;
    }
    true
}

struct Crowd {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    word: AtomicU32,
    is_over: AtomicBool,
    turns: AtomicU64,
}

impl Shared {
    fn look_in_vain(&self) {
        while !self.is_over.load(SeqCst) {
            self.turns.fetch_add(1, SeqCst);
            futex_wake(&self.word, u32::MAX, ANY);
            let _ = wait_for(&self.word, 0, ANY, Moment::Never);
        }
        futex_wake(&self.word, u32::MAX, ANY);
    }

    fn turns(&self) -> u64 {
        self.turns.load(SeqCst)
    }

    /// Returns when the crowd has had so many more turns.
    fn go_on(&self, turns: u64) {
        let before = self.turns();
        while self.turns() < before + turns {
            std::thread::yield_now();
        }
    }
}

impl Crowd {
    /// All of them have had a turn when it returns.
    fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let one = || {
            let shared = shared.clone();
            full(move || shared.look_in_vain())
        };
        let threads = (0..CROWD).map(|_| one()).collect();
        shared.go_on(2 * CROWD as u64);
        Crowd { shared, threads }
    }

    fn end(self) {
        self.shared.is_over.store(true, SeqCst);
        self.shared.word.store(1, SeqCst);
        futex_wake(&self.shared.word, u32::MAX, ANY);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn who_is_woken_alone_does_not_wait_for_a_crowd() {
    if !can_run() {
        return;
    }
    let crowd = Crowd::start();
    let (asked, answered) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let ran_at = Arc::new(AtomicU64::new(0));
    let body = {
        let (shared, asked, answered, ran_at) =
            (crowd.shared.clone(), asked.clone(), answered.clone(), ran_at.clone());
        move || {
            for _ in 0..ROUNDS {
                asked.acquire();
                ran_at.store(shared.turns(), Relaxed);
                answered.release();
            }
        }
    };
    let thread = full(body);
    let mut waited = Vec::new();
    for _ in 0..ROUNDS {
        crowd.shared.go_on(1);
        let before = crowd.shared.turns();
        asked.release();
        answered.acquire();
        waited.push(ran_at.load(Relaxed) - before);
    }
    waited.sort();
    // On a busy machine this thread may sleep before it asks, now and then.
    assert!(waited[ROUNDS / 2] < CROWD as u64 / 4, "turns before its own: {waited:?}");
    thread.join().unwrap();
    crowd.end();
}

#[test]
fn a_crowd_goes_on_beside_threads_that_are_always_ready() {
    if !can_run() {
        return;
    }
    let crowd = Crowd::start();
    let is_over = Arc::new(AtomicBool::new(false));
    let pair = [(); 2].map(|()| {
        let is_over = is_over.clone();
        full(move || {
            let mut turns = 0_u64;
            while !is_over.load(SeqCst) {
                turns += 1;
                heddle::thread::yield_now();
            }
            turns
        })
    });
    crowd.shared.go_on(2 * CROWD as u64);
    is_over.store(true, SeqCst);
    let turns = pair.map(|thread| thread.join().unwrap());
    assert!(turns.iter().all(|&turns| turns > 0), "{turns:?}");
    crowd.end();
}
