//! Regions, groups, stacks, hibernation, the monitor: what the scheduler promises, on one worker
//! unless a case says otherwise.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::{Duration, Instant};

use heddle::thread::{self, Builder};
use heddle::{Class, Config, Group};

/// One worker for all cases; false (and a reason) where the backend has no scheduler of ours.
fn one_worker() -> bool {
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        println!("skip: the kernel schedules the native backend's threads");
        return false;
    }
    // Every case after the first finds the runtime started.
    let _ = Config::new().workers(1).start();
    true
}

/// Cases share the one worker: they take turns, so that orders can be asserted.
static TURN: StdMutex<()> = StdMutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poison| poison.into_inner())
}

#[test]
fn critical_threads_run_before_lazy_ones_by_priority() {
    let _turn = turn();
    if !one_worker() {
        return;
    }
    let order = heddle::run(|| {
        let order = Arc::new(StdMutex::new(Vec::new()));
        let note = |name: &'static str, builder: Builder| {
            let order = order.clone();
            builder.spawn(move || order.lock().unwrap().push(name)).unwrap()
        };
        let threads = [
            note("lazy", Builder::new()),
            note("critical 10", Builder::new().priority(10)),
            note("critical 90", Builder::new().priority(90)),
            note("critical 50", Builder::new().class(Class::TimeCritical)),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        Arc::try_unwrap(order).unwrap().into_inner().unwrap()
    });
    assert_eq!(order, ["critical 90", "critical 50", "critical 10", "lazy"]);
}

#[test]
fn yielding_threads_of_a_group_take_turns() {
    const THREADS: usize = 300;
    const ROUNDS: usize = 5;
    let _turn = turn();
    if !one_worker() {
        return;
    }
    let order = heddle::run(|| {
        let order = Arc::new(StdMutex::new(Vec::new()));
        let started = Arc::new(AtomicUsize::new(0));
        let body = |id| {
            let (order, started) = (order.clone(), started.clone());
            move || {
                started.fetch_add(1, SeqCst);
                thread::park();
                for _ in 0..ROUNDS {
                    order.lock().unwrap().push(id);
                    thread::yield_now();
                }
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|id| thread::spawn(body(id))).collect();
        while started.load(SeqCst) < THREADS {
            thread::yield_now();
        }
        threads.iter().for_each(|thread| thread.thread().unpark());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        Arc::try_unwrap(order).unwrap().into_inner().unwrap()
    });
    let expected: Vec<_> = (0..ROUNDS).flat_map(|_| 0..THREADS).collect();
    assert_eq!(order, expected);
}

#[test]
fn groups_share_by_weight() {
    let _turn = turn();
    if !one_worker() {
        return;
    }
    let counts = heddle::run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let groups = [Group::Urgent, Group::Normal, Group::Service, Group::Background];
        let counters: Vec<_> = groups.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
        let mut threads = Vec::new();
        for (group, counter) in groups.into_iter().zip(&counters) {
            for _ in 0..3 {
                let (stop, counter) = (stop.clone(), counter.clone());
                let body = move || {
                    while !stop.load(SeqCst) {
                        counter.fetch_add(1, SeqCst);
                        thread::yield_now();
                    }
                };
                threads.push(Builder::new().group(group).spawn(body).unwrap());
            }
        }
        while counters[3].load(SeqCst) < 10_000 {
            thread::yield_now();
        }
        stop.store(true, SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        counters.iter().map(|counter| counter.load(SeqCst)).collect::<Vec<_>>()
    });
    for (count, weight) in counts.iter().zip([8.0, 4.0, 2.0, 1.0]) {
        let share = *count as f64 / counts[3] as f64;
        // The main thread of this case is a normal one and takes turns of that group.
        assert!((share / weight - 1.0).abs() < 0.3, "{counts:?}: {share} for {weight}");
    }
}

#[test]
fn the_lazy_region_gets_its_bound() {
    let _turn = turn();
    if !one_worker() {
        return;
    }
    let start = Instant::now();
    let stop = Arc::new(AtomicBool::new(false));
    let stop2 = stop.clone();
    let body = move || {
        while !stop2.load(SeqCst) {
            thread::yield_now();
        }
    };
    let hog = Builder::new().priority(99).spawn(body).unwrap();
    let lazy = thread::spawn(move || stop.store(true, SeqCst));
    lazy.join().unwrap();
    hog.join().unwrap();
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(90), "the lazy thread ran after {waited:?} already");
    assert!(waited < Duration::from_secs(20), "the lazy thread starved for {waited:?}");
}

#[inline(never)]
fn deep(bytes: &mut [u8]) -> usize {
    let mut more = [1u8; 8192];
    std::hint::black_box(&mut more);
    bytes.len() + more[7] as usize
}

#[test]
fn a_peak_is_measured_and_sizes_are_learned() {
    let _turn = turn();
    if !one_worker() {
        return;
    }
    for _ in 0..20 {
        let body = || {
            deep(&mut [0; 100]);
            thread::current().stack_peak_bytes()
        };
        let thread = Builder::new().role("learner").spawn(body).unwrap();
        let size = thread.thread().record().unwrap().stack_size;
        let Some(peak) = thread.join().unwrap() else {
            return println!("skip: the kernel does not show page maps");
        };
        assert!((8192..24_000).contains(&peak), "a peak of {peak} bytes for 8 KiB and frames");
        // 1.5 x peak + 40 KiB, in the classes of stack sizes.
        assert!(size == 256 << 10 || size == 64 << 10, "{size}");
    }
    let body = || thread::current().record().unwrap().stack_size;
    let learned = Builder::new().role("learner").spawn(body).unwrap().join().unwrap();
    if std::env::var("HEDDLE_THREADS").as_deref() == Ok("full") {
        // With room for its block and a signal's frame, which some processors make large.
        return assert!(learned <= 256 << 10, "{learned}");
    }
    assert_eq!(learned, 64 << 10, "20 small threads of a role should have taught a small size");
}

#[inline(never)]
fn hibernating_body(seed: u64) -> bool {
    let numbers: [u64; 64] = std::array::from_fn(|i| seed.wrapping_mul(i as u64 + 1));
    let pointer = std::hint::black_box(&numbers[63]);
    for _ in 0..3 {
        thread::park();
    }
    *pointer == seed.wrapping_mul(64)
        && numbers.iter().enumerate().all(|(i, n)| *n == seed.wrapping_mul(i as u64 + 1))
}

#[test]
fn hibernated_stacks_come_back_as_they_were() {
    let _turn = turn();
    if !one_worker() {
        return;
    }
    let threads: Vec<_> = (1..500u64)
        .map(|seed| {
            // SAFETY: nobody borrows from these stacks.
            let builder = unsafe { Builder::new().stack_size(16 << 10).hibernate(true) };
            builder.spawn(move || hibernating_body(seed * 0x9E37)).unwrap()
        })
        .collect();
    let deadline = Instant::now() + Duration::from_secs(20);
    while threads.iter().any(|thread| !thread.is_finished()) {
        assert!(Instant::now() < deadline, "hibernated threads do not end");
        threads.iter().for_each(|thread| thread.thread().unpark());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
}

/// Page faults of this process that needed no disk.
fn faults() -> i64 {
    // SAFETY: a zeroed structure that the call fills.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage.ru_minflt
    }
}

#[test]
fn only_threads_that_wait_long_hibernate() {
    const WAKES: i64 = 2000;
    let _turn = turn();
    if !one_worker() {
        return;
    }
    let wakes = Arc::new(AtomicUsize::new(0));
    let wakes2 = wakes.clone();
    let body = move || {
        while wakes2.load(SeqCst) < WAKES as usize {
            thread::park();
            wakes2.fetch_add(1, SeqCst);
        }
    };
    // SAFETY: nobody borrows from its stack.
    let sleeper = unsafe { Builder::new().hibernate(true) }.spawn(body).unwrap();
    let waker = sleeper.thread().clone();
    let rounds = thread::spawn(move || {
        let before = faults();
        while wakes.load(SeqCst) < WAKES as usize {
            waker.unpark();
            thread::yield_now();
        }
        faults() - before
    });
    let faults = rounds.join().unwrap();
    sleeper.join().unwrap();
    if std::env::var("HEDDLE_DROWSY").as_deref() == Ok("0") {
        assert!(faults >= WAKES / 2, "{faults} faults: its pages were not given back");
    } else {
        assert!(faults < WAKES / 4, "{faults} faults: its pages were given back at once");
    }
}

#[test]
fn a_scope_keeps_its_thread_from_hibernating() {
    let _turn = turn();
    if !one_worker() {
        return;
    }
    let body = || {
        let mut numbers = [0u32; 16];
        thread::scope(|scope| {
            for (index, number) in numbers.iter_mut().enumerate() {
                scope.spawn(move || {
                    // The parent is parked by now: its stack has to be there all the same.
                    thread::sleep(Duration::from_millis(5));
                    *number = index as u32 + 1;
                });
            }
        });
        numbers.iter().sum::<u32>()
    };
    // SAFETY: the scope is heddle's own.
    let thread = unsafe { Builder::new().hibernate(true) }.spawn(body).unwrap();
    assert_eq!(thread.join().unwrap(), 136);
}

#[test]
fn a_poll_yields_when_the_monitor_asks() {
    let _turn = turn();
    if !one_worker() {
        return;
    }
    let done = Arc::new(AtomicUsize::new(0));
    let done2 = done.clone();
    let long = thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_secs(20);
        while done2.load(SeqCst) == 0 && Instant::now() < deadline {
            thread::poll();
        }
        done2.load(SeqCst)
    });
    std::thread::sleep(Duration::from_millis(20));
    let short = thread::spawn(move || done.store(1, SeqCst));
    short.join().unwrap();
    assert_eq!(long.join().unwrap(), 1, "a computation that polls kept its worker");
}

#[test]
fn cancellation_ends_sleep_and_park() {
    let _turn = turn();
    if !one_worker() {
        return;
    }
    let start = Instant::now();
    let sleeper = thread::spawn(|| {
        thread::sleep(Duration::from_secs(60));
        thread::is_cancelled()
    });
    let parker = thread::spawn(|| {
        while !thread::is_cancelled() {
            thread::park();
        }
    });
    std::thread::sleep(Duration::from_millis(20));
    sleeper.thread().cancel();
    parker.thread().cancel();
    assert!(sleeper.join().unwrap());
    parker.join().unwrap();
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_second_mutex_keeps_its_owner_raised() {
    use heddle::sync::Mutex;
    /// By then a lazy thread runs whatever is time-critical; shorter than it is.
    const LAZY_BOUND: Duration = Duration::from_millis(90);
    let _turn = turn();
    if !one_worker() {
        return;
    }
    let body = || {
        let (first, second) = (Mutex::new(()), Mutex::new(()));
        let lazy_ran = AtomicBool::new(false);
        thread::scope(|scope| {
            let start = Instant::now();
            let (first_guard, second_guard) = (first.lock().unwrap(), second.lock().unwrap());
            for mutex in [&first, &second] {
                let waits = move || drop(mutex.lock().unwrap());
                scope.spawn_with(Builder::new().priority(50), waits).unwrap();
            }
            thread::sleep(Duration::from_millis(10));
            scope.spawn(|| lazy_ran.store(true, SeqCst));
            drop(first_guard);
            // Each may last until other processes have had the CPU.
            for _ in (0..200).take_while(|_| start.elapsed() < LAZY_BOUND / 2) {
                thread::yield_now();
            }
            let ran = lazy_ran.load(SeqCst);
            if start.elapsed() < LAZY_BOUND {
                assert!(!ran, "a lazy thread ran before who is waited for");
            } else {
                println!("skip: so much time has passed that a lazy thread had its turn");
            }
            drop(second_guard);
        });
    };
    thread::spawn(body).join().unwrap();
}
