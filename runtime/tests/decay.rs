//! Stacks of threads that ended give their memory back after a while. Alone in its process: it
//! looks at the memory of all of it.

use std::time::{Duration, Instant};

use heddle::thread::Builder;

/// Threads of the burst, and bytes that each touches.
const THREADS: usize = 20_000;
const TOUCHED: usize = 8 << 10;

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

fn touch() {
    std::hint::black_box(&mut [1u8; TOUCHED]);
    heddle::thread::park();
}

#[test]
fn the_memory_of_a_burst_goes_back() {
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        return println!("skip: the C library keeps the stacks of kernel threads");
    }
    if cfg!(heddle_asan) {
        return println!("skip: the sanitizer's own memory hides the stacks'");
    }
    heddle::Config::new().workers(1).start().unwrap();
    let builder = Builder::new().stack_size(64 << 10);
    let threads: Vec<_> = (0..THREADS).map(|_| builder.clone().spawn(touch).unwrap()).collect();
    threads.iter().for_each(|thread| thread.thread().unpark());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let high = resident_bytes();
    assert!(high > THREADS * TOUCHED, "the burst used {high} bytes only");
    let deadline = Instant::now() + Duration::from_secs(60);
    while resident_bytes() > high / 2 {
        assert!(Instant::now() < deadline, "{} of {high} bytes stay", resident_bytes());
        std::thread::sleep(Duration::from_millis(100));
    }
}
