//! Priority inheritance: a critical waiter is not kept waiting by threads of middling priority.
//!
//! Each case runs in a process of its own with `HEDDLE_LAZY_BOUND=off`: while the hogs run, a lazy
//! thread runs only if it inherits. So without inheritance a case does not end.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use heddle::sync::Mutex;
use heddle::thread::{self, Builder, JoinHandle};

/// Set in the child: the case to run.
const CASE: &str = "HEDDLE_TEST_CASE";
const PATIENCE: Duration = Duration::from_secs(40);

/// Threads of priority 10 that keep every worker busy until they are stopped.
struct Hogs {
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    fn start() -> Self {
        let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..40)
            .map(|_| {
                let (stop, turns) = (stop.clone(), turns.clone());
                let hog = move || {
                    while !stop.load(SeqCst) {
                        turns.fetch_add(1, SeqCst);
                        thread::yield_now();
                    }
                };
                Builder::new().priority(10).spawn(hog).unwrap()
            })
            .collect();
        let hogs = Hogs { stop, turns, threads };
        let before = hogs.turns.load(SeqCst);
        wait_for(|| hogs.turns.load(SeqCst) > before + 10_000);
        hogs
    }

    fn stop(self) {
        self.stop.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn wait_for(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A lazy thread that holds `held` from before the hogs start; it goes on to `body` once `go`.
fn lazy_holder(
    held: Vec<Arc<Mutex<u64>>>,
    go: Arc<AtomicBool>,
    body: impl FnOnce(Vec<heddle::sync::MutexGuard<'_, u64>>) + Send + 'static,
) -> JoinHandle<()> {
    let ready = Arc::new(AtomicBool::new(false));
    let told = ready.clone();
    let holder = thread::spawn(move || {
        let guards: Vec<_> = held.iter().map(|mutex| mutex.lock().unwrap()).collect();
        told.store(true, SeqCst);
        while !go.load(SeqCst) {
            thread::sleep(Duration::from_micros(200));
        }
        body(guards);
    });
    wait_for(|| ready.load(SeqCst));
    holder
}

/// A critical thread that says it is there, locks, and returns the value.
fn critical(priority: u8, mutex: &Arc<Mutex<u64>>, here: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let (mutex, here) = (mutex.clone(), here.clone());
    let body = move || {
        here.store(true, SeqCst);
        *mutex.lock().unwrap()
    };
    Builder::new().priority(priority).spawn(body).unwrap()
}

fn work(guard: &mut u64) {
    for _ in 0..200 {
        *guard += 1;
        thread::yield_now();
    }
}

fn classic_inversion() {
    let (mutex, go) = (Arc::new(Mutex::new(0)), Arc::new(AtomicBool::new(false)));
    let holder = lazy_holder(vec![mutex.clone()], go.clone(), |mut guards| work(&mut guards[0]));
    let hogs = Hogs::start();
    assert_eq!(critical(90, &mutex, &go).join().unwrap(), 200);
    hogs.stop();
    holder.join().unwrap();
}

fn transitive_chain() {
    let (first, second) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let go = Arc::new(AtomicBool::new(false));
    let one = lazy_holder(vec![first.clone()], go.clone(), |mut guards| work(&mut guards[0]));
    let always = Arc::new(AtomicBool::new(true));
    let inner = first.clone();
    let two = lazy_holder(vec![second.clone()], always, move |mut guards| {
        *guards[0] = *inner.lock().unwrap();
    });
    // The second holder waits for the first mutex before the hogs start.
    std::thread::sleep(Duration::from_millis(20));
    let hogs = Hogs::start();
    assert_eq!(critical(90, &second, &go).join().unwrap(), 200);
    hogs.stop();
    one.join().unwrap();
    two.join().unwrap();
}

fn nested_locks_drop_back_step_by_step() {
    let (outer, inner) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let go = Arc::new(AtomicBool::new(false));
    let after = Arc::new(AtomicU64::new(0));
    let counted = after.clone();
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = stopped.clone();
    let holder = lazy_holder(vec![outer.clone(), inner.clone()], go.clone(), move |mut guards| {
        let mut inner = guards.pop().unwrap();
        work(&mut inner);
        drop(inner);
        // Still lent the priority of the other waiter.
        let mut outer = guards.pop().unwrap();
        work(&mut outer);
        drop(outer);
        // Lazy again: the hogs keep it from here.
        while !stop.load(SeqCst) {
            counted.fetch_add(1, SeqCst);
            thread::yield_now();
        }
    });
    let hogs = Hogs::start();
    let there = Arc::new(AtomicBool::new(false));
    let low = critical(50, &outer, &there);
    wait_for(|| there.load(SeqCst));
    let high = critical(90, &inner, &go);
    assert_eq!(high.join().unwrap(), 200);
    assert_eq!(low.join().unwrap(), 200);
    // Its worker may not have got the processor since: then it counts once more, and not again.
    let counts_on = || {
        let before = (after.load(SeqCst), hogs.turns.load(SeqCst));
        wait_for(|| hogs.turns.load(SeqCst) > before.1 + 10_000);
        after.load(SeqCst) != before.0
    };
    assert!((0..10).any(|_| !counts_on()), "the holder is still raised");
    hogs.stop();
    stopped.store(true, SeqCst);
    holder.join().unwrap();
}

/// In which order waiters are served that had `pause` each to begin their wait.
fn served(pause: Duration) -> Vec<u8> {
    let (mutex, go) = (Arc::new(Mutex::new(0)), Arc::new(AtomicBool::new(false)));
    let holder = lazy_holder(vec![mutex.clone()], go.clone(), |mut guards| work(&mut guards[0]));
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let waiters: Vec<_> = [20, 60, 40, 80]
        .map(|priority| {
            let (mutex, order) = (mutex.clone(), order.clone());
            let here = Arc::new(AtomicBool::new(false));
            let told = here.clone();
            let body = move || {
                told.store(true, SeqCst);
                let _guard = mutex.lock().unwrap();
                order.lock().unwrap().push(priority);
            };
            let waiter = Builder::new().priority(priority).spawn(body).unwrap();
            wait_for(|| here.load(SeqCst));
            std::thread::sleep(pause);
            waiter
        })
        .into();
    go.store(true, SeqCst);
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    holder.join().unwrap();
    std::mem::take(&mut order.lock().unwrap())
}

fn waiters_are_served_by_priority() {
    // On a busy machine one may not have begun: nobody knows.
    let pauses = [20, 200, 2000].map(Duration::from_millis);
    let orders = pauses.into_iter().map(served);
    let first_right = orders.take_while(|order| order != &[80, 60, 40, 20]).count();
    assert!(first_right < pauses.len(), "never in this order");
}

/// Runs `test`'s case in a process of its own, on one worker and on two.
fn in_child(test: &str, case: fn()) {
    if std::env::var(CASE).is_ok() {
        return case();
    }
    if std::env::var("HEDDLE_BACKEND").is_ok_and(|backend| backend == "native") {
        println!("skip: the kernel schedules the native backend, without inheritance");
        return;
    }
    for workers in ["1", "2"] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CASE, test)
            .env("HEDDLE_WORKERS", workers)
            .env("HEDDLE_LAZY_BOUND", "off")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > 2 * PATIENCE {
                child.kill().unwrap();
                panic!("{test} on {workers} workers: the critical thread waits for ever");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{test} on {workers} workers: {status}");
    }
}

#[test]
fn a_critical_waiter_is_not_kept_by_hogs() {
    in_child("a_critical_waiter_is_not_kept_by_hogs", classic_inversion);
}

#[test]
fn inheritance_goes_through_a_chain() {
    in_child("inheritance_goes_through_a_chain", transitive_chain);
}

#[test]
fn nested_locks_give_priority_back_step_by_step() {
    in_child("nested_locks_give_priority_back_step_by_step", nested_locks_drop_back_step_by_step);
}

#[test]
fn the_most_urgent_waiter_is_first() {
    in_child("the_most_urgent_waiter_is_first", waiters_are_served_by_priority);
}
