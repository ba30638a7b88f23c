//! Prints what the basic operations cost on one worker: ns of process CPU time, best of 5.

use heddle::sync::{Mutex, Semaphore};
use heddle::thread;
use std::sync::Arc;

fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn best(name: &str, per: u64, mut run: impl FnMut()) {
    let best = (0..5)
        .map(|_| {
            let start = cpu_ns();
            run();
            cpu_ns() - start
        })
        .min()
        .unwrap_or(0);
    println!("{name:<16} {:8.2} ns", best as f64 / per as f64);
}

fn yields(builder: &thread::Builder, threads: u64, each: u64) {
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let body = move || (0..each).for_each(|_| thread::yield_now());
            builder.clone().stack_size(16 << 10).spawn(body).unwrap()
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

fn spawns(builder: &thread::Builder) {
    for _ in 0..500 {
        let spawn = |_| builder.clone().spawn(|| ()).unwrap();
        let handles: Vec<_> = (0..1000).map(spawn).collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    }
}

fn ping_pong(rounds: u64) {
    let (ping, pong) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (ping2, pong2) = (ping.clone(), pong.clone());
    let other = thread::spawn(move || {
        for _ in 0..rounds {
            ping2.acquire();
            pong2.release();
        }
    });
    for _ in 0..rounds {
        ping.release();
        pong.acquire();
    }
    other.join().unwrap();
}

fn main() {
    heddle::Config::new().workers(1).start().unwrap();
    heddle::run(|| {
        let light = thread::Builder::new();
        best("yield_2", 20_000_000, || yields(&light, 2, 10_000_000));
        best("yield_1000", 10_000_000, || yields(&light, 1000, 10_000));
        best("yield_100k", 2_000_000, || yields(&light, 100_000, 20));
        best("spawn_join", 500_000, || spawns(&light));
        let full = thread::Builder::new().full();
        match full.clone().spawn(|| ()) {
            Ok(first) => {
                first.join().unwrap();
                best("full_yield_2", 20_000_000, || yields(&full, 2, 10_000_000));
                best("full_yield_1000", 10_000_000, || yields(&full, 1000, 10_000));
                best("full_spawn_join", 500_000, || spawns(&full));
            }
            Err(error) => println!("full             {error}"),
        }
        best("sem_round_trip", 2_000_000, || ping_pong(2_000_000));
        let mutex = Mutex::new(0u64);
        best("mutex", 20_000_000, || {
            for _ in 0..20_000_000 {
                *mutex.lock().unwrap() += 1;
            }
        });
    });
}
