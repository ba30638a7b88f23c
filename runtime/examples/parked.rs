//! Parks many threads and prints what each costs: `parked COUNT [hibernate]`.

use heddle::thread::{self, Builder};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

static PARKED: AtomicUsize = AtomicUsize::new(0);

/// Resident memory, page tables and shared memory of this process, in bytes.
fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or("x 0 kB");
        line.split_whitespace().nth(1).unwrap_or("0").parse::<u64>().unwrap_or(0) * 1024
    };
    field("VmRSS:") + field("VmPTE:")
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[inline(never)]
fn body(live_bytes: usize) {
    let mut buffer = [0u8; 256];
    if live_bytes > 0 {
        buffer.fill(live_bytes as u8);
    }
    black_box(&mut buffer);
    PARKED.fetch_add(1, Relaxed);
    thread::park();
    black_box(&mut buffer);
}

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let hibernate = std::env::args().nth(2).is_some();
    heddle::Config::new().workers(1).start().unwrap();
    heddle::run(move || {
        thread::spawn(|| ()).join().unwrap();
        let mut handles = Vec::with_capacity(count);
        handles.resize_with(0, || unreachable!());
        let before = memory_bytes();
        let start = Instant::now();
        for index in 0..count {
            let builder = Builder::new().stack_size(16 << 10);
            // SAFETY: nobody borrows from these stacks.
            let builder = unsafe { builder.hibernate(hibernate) };
            handles.push(builder.spawn(|| body(1)).unwrap().thread().clone());
            if index % 1000 == 999 {
                (0..64).for_each(|_| thread::yield_now());
            }
        }
        let create = start.elapsed().as_nanos() as usize / count;
        (0..100).for_each(|_| thread::yield_now());
        assert_eq!(PARKED.load(Relaxed), count);
        let each = (memory_bytes() - before) / count as u64;
        if std::env::var("PAUSE").is_ok() {
            std::thread::sleep(std::time::Duration::from_secs(2));
        }
        println!("{count} parked: {each} bytes each, {create} ns each, {} mappings", mappings());
        let start = Instant::now();
        handles.iter().for_each(|handle| handle.unpark());
        drop(handles);
        thread::yield_now();
        println!("unparked: {} ns each", start.elapsed().as_nanos() as usize / count);
    });
}
