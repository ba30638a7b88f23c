//! What every Rust program under measurement shares: clocks, memory, arguments, the peer protocol.
//!
//! Protocol: `PEER METRIC OPS THREADS` prints lines `name value`; `PEER echo PORT WORKERS` and
//! `PEER http PORT WORKERS DIR` serve until killed; exit 77 with a line on stderr means that the
//! peer has no such metric. The Rust peers include this file by path, because they must build
//! without heddle. Invariant: nothing here runs between the two clock readings of a measurement.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Yields that each thread makes before the clock starts.
pub const WARM_YIELDS: usize = 2;
/// Threads that `spawn_join` has alive at a time.
pub const BATCH: usize = 1000;
/// Places in the bounded channel.
pub const CAPACITY: usize = 128;
/// How long each busy thread of the wake metrics computes between yields.
pub const BUSY_NS: u64 = 20_000;
/// Bytes of stack that a hibernated thread has in use.
pub const USED_BYTES: usize = 600;

/// What a peer was asked: a metric with its counts, or a server with port and workers.
pub struct Args {
    /// Name of the metric, or `echo`, or `http`.
    pub metric: String,
    /// Operations to measure; for a server, the port.
    pub ops: usize,
    /// Threads that take part; for a server, the workers.
    pub threads: usize,
    /// For `http`: the folder to serve.
    pub folder: Option<String>,
}

/// Why a measurement gave no figure.
pub enum Failure {
    /// The peer has no such thing; the text says what is missing.
    NotOffered(&'static str),
    /// It tried and failed.
    Failed(String),
    /// It measured as far as it could; the figures are out, this is why they end there.
    Stopped(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Failed(error.to_string())
    }
}

/// Runs a peer: reads the arguments, prints `ns VALUE` where `run` returns one, exits.
pub fn peer_main(run: impl FnOnce(Args) -> Result<Option<f64>, Failure>) -> ! {
    let status = match arguments().map(run) {
        Err(usage) => {
            eprintln!("{usage}");
            2
        }
        Ok(Ok(value)) => {
            if let Some(ns) = value {
                println!("ns {ns:.3}");
            }
            0
        }
        Ok(Err(Failure::NotOffered(why))) => {
            eprintln!("{why}");
            77
        }
        Ok(Err(Failure::Failed(why))) => {
            eprintln!("{why}");
            1
        }
        Ok(Err(Failure::Stopped(why))) => {
            eprintln!("{why}");
            0
        }
    };
    std::process::exit(status)
}

fn arguments() -> Result<Args, &'static str> {
    const USAGE: &str = "usage: PEER METRIC OPS THREADS | PEER echo|http PORT WORKERS [DIR]";
    let mut words = std::env::args().skip(1);
    let (Some(metric), Some(ops), Some(threads)) = (words.next(), words.next(), words.next())
    else {
        return Err(USAGE);
    };
    let (Ok(ops), Ok(threads)) = (ops.parse(), threads.parse()) else { return Err(USAGE) };
    if ops == 0 || threads == 0 {
        return Err(USAGE);
    }
    Ok(Args { metric, ops, threads, folder: words.next() })
}

fn clock_ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CPU time of this process so far, all kernel threads.
pub fn cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// Wall clock that never steps.
pub fn monotonic_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// Computes for about `ns`.
pub fn spin(ns: u64) {
    let begin = monotonic_ns();
    while monotonic_ns() - begin < ns {
        std::hint::spin_loop();
    }
}

/// Binds the calling kernel thread, and those it will start, to one CPU.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Two cache lines of the caller's own stack.
#[derive(Default)]
pub struct Lines([u64; 16]);

impl Lines {
    /// Writes one word of each line.
    #[inline(always)]
    pub fn touch(&mut self) {
        let lines = black_box(&mut self.0);
        lines[0] += 1;
        lines[8] += 1;
    }
}

/// The time between the first thread to pass its warm-up and the last thread to end.
#[derive(Default)]
pub struct Lap {
    started: AtomicBool,
    begin_ns: AtomicU64,
    end_ns: AtomicU64,
    finished: AtomicUsize,
}

impl Lap {
    /// Starts the clock if no thread did before.
    pub fn start(&self) {
        if !self.started.swap(true, Relaxed) {
            self.begin_ns.store(cpu_ns(), Relaxed);
        }
    }

    /// Counts a thread as done; true for the last of `threads`, which stops the clock.
    pub fn finish(&self, threads: usize) -> bool {
        let last = self.finished.fetch_add(1, Relaxed) + 1 == threads;
        if last {
            self.end_ns.store(cpu_ns(), Relaxed);
        }
        last
    }

    /// Nanoseconds of CPU time per operation.
    pub fn ns_per(&self, ops: usize) -> f64 {
        (self.end_ns.load(Relaxed) - self.begin_ns.load(Relaxed)) as f64 / ops as f64
    }
}

/// CPU time of `body` per operation.
pub fn timed(ops: usize, body: impl FnOnce()) -> f64 {
    let begin = cpu_ns();
    body();
    (cpu_ns() - begin) as f64 / ops as f64
}

/// 0..count in random order, the same in every run.
pub fn shuffled(count: usize) -> Vec<usize> {
    let mut random = Random(88_172_645_463_325_252);
    let mut order: Vec<usize> = (0..count).collect();
    for i in (1..count).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

/// Xorshift: enough to break a pattern, and repeatable.
pub struct Random(pub u64);

impl Random {
    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Memory that this process holds: resident pages, the page tables that map them, and what of its
/// shared memory is not mapped at the moment.
pub fn memory_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |key: &str| -> f64 {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("0");
        line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
    };
    let shared = shared_table_bytes() - kib("RssShmem:") * 1024.0;
    (kib("VmRSS:") + kib("VmPTE:")) * 1024.0 + shared.max(0.0)
}

fn shared_table_bytes() -> f64 {
    use std::os::unix::fs::MetadataExt;
    let table = format!("/dev/shm/heddle.{}", std::process::id());
    std::fs::metadata(table).map_or(0.0, |data| data.blocks() as f64 * 512.0)
}

/// Lines of /proc/self/maps.
pub fn vma_count() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap_or_default().lines().count()
}

/// Books what `parked` and `hibernated` report: accumulated CPU time at 1, 2, 5, 10, ... threads,
/// then memory. Threads count themselves in by `waiting`.
pub struct Parking {
    begin_ns: u64,
    begin_bytes: f64,
    checkpoint: usize,
}

impl Parking {
    /// Starts the books.
    pub fn begin() -> Self {
        Parking { begin_bytes: memory_bytes(), begin_ns: cpu_ns(), checkpoint: 1 }
    }

    /// True when the creator must wait until all `created` threads are parked: every batch, and
    /// before each checkpoint, so that the time of a checkpoint is the time of parked threads.
    pub fn must_settle(&self, created: usize) -> bool {
        created.is_multiple_of(BATCH) || created == self.checkpoint
    }

    /// After settling: prints the time used so far if this is a checkpoint.
    pub fn settled(&mut self, created: usize) {
        if created == self.checkpoint {
            println!("at_{created} {}", cpu_ns() - self.begin_ns);
            self.checkpoint = next_checkpoint(created);
        }
    }

    /// Prints the totals for `created` parked threads.
    pub fn end(self, created: usize) {
        let cpu_ns = (cpu_ns() - self.begin_ns) as f64;
        let threads = created.max(1) as f64;
        println!("reached {created}");
        println!("create_ns {:.1}", cpu_ns / threads);
        println!("bytes {:.1}", (memory_bytes() - self.begin_bytes) / threads);
        println!("vmas {}", vma_count());
    }
}

fn next_checkpoint(at: usize) -> usize {
    let decade = 10usize.pow(at.ilog10());
    match at / decade {
        1 => 2 * decade,
        2..5 => 5 * decade,
        _ => 10 * decade,
    }
}

/// One thread is woken from outside again and again, at random distances, and notes how late it
/// runs. At most one wake is under way.
#[derive(Default)]
pub struct Wakes {
    armed: AtomicBool,
    stamp_ns: AtomicU64,
}

impl Wakes {
    /// Starts the waker: a kernel thread on the CPU that the harness names.
    pub fn start_waker(
        self: &std::sync::Arc<Self>,
        wakes: usize,
        wake: impl Fn() + Send + 'static,
    ) -> Result<(), Failure> {
        let cpu = std::env::var("BENCH_WAKER_CPU")?.parse()?;
        let shared = self.clone();
        std::thread::Builder::new().name("waker".into()).spawn(move || {
            // Staying beside the worker would measure the kernel's choice, so a failure is fatal.
            pin_to(cpu).expect("bind the waker to its CPU");
            let mut random = Random(1);
            for _ in 0..wakes {
                while !shared.armed.swap(false, Relaxed) {
                    std::thread::sleep(Duration::from_micros(200));
                }
                std::thread::sleep(Duration::from_micros(1000 + random.below(4000)));
                shared.stamp_ns.store(monotonic_ns(), Relaxed);
                wake();
            }
        })?;
        Ok(())
    }

    /// The woken thread calls this just before it waits.
    pub fn arm(&self) {
        self.armed.store(true, Relaxed);
    }

    /// The woken thread calls this first thing when it runs again: its latency in us.
    pub fn woken_us(&self) -> f64 {
        (monotonic_ns() - self.stamp_ns.load(Relaxed)) as f64 / 1e3
    }
}

/// Prints median and 99th percentile.
pub fn print_latencies(mut late_us: Vec<f64>) {
    late_us.sort_by(f64::total_cmp);
    println!("p50_us {:.3}", late_us[late_us.len() / 2]);
    println!("p99_us {:.3}", late_us[late_us.len() * 99 / 100]);
}
