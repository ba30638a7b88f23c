//! Peer: may, stackful coroutines in Rust. Its own stack size is kept at 16 KiB, as heddle's in
//! the same metrics; its stacks have guard pages set by mprotect. Protocol: see `measure`.

#[path = "../../../../src/measure.rs"]
#[allow(dead_code, reason = "shared with programs that use the rest")]
mod measure;

use std::hint::black_box;
use std::io::{Read, Write};
use std::panic::catch_unwind;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use may::coroutine::{self, yield_now};
use may::go;
use may::net::{TcpListener, TcpStream};
use may::sync::{Mutex, Semphore};
use measure::*;

/// may counts stacks in words.
const STACK_WORDS: usize = 16384 / size_of::<usize>();
/// The coroutine that drives a metric prints and may panic.
const MAIN_STACK_WORDS: usize = 256 * 1024 / size_of::<usize>();

/// may drops the payload of a panic; what it met is nearly always the limit on mappings, so say
/// how near that is.
fn after_panic() -> String {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let maps = vma_count();
    format!("a spawn or a coroutine panicked, {maps} mappings of {} used", limit.trim())
}

fn main() {
    peer_main(|args| {
        let workers = if args.metric == "echo" { args.threads } else { 1 };
        may::config().set_workers(workers).set_stack_size(STACK_WORDS);
        let main = coroutine::Builder::new().stack_size(MAIN_STACK_WORDS);
        match go!(main, move || run(args))?.join() {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::Failed(after_panic())),
        }
    })
}

fn run(args: Args) -> Result<Option<f64>, Failure> {
    let ops = args.ops;
    let ns = match args.metric.as_str() {
        "yield" => yields(ops, args.threads, false),
        "yield_touch" => yields(ops, args.threads, true),
        "spawn_join" => spawn_join(ops),
        "sem_round_trip" => sem_round_trip(ops),
        "mutex" => mutex(ops),
        "channel_item" => return Err(Failure::NotOffered("may has no bounded channel")),
        "parked" => return parked(args.threads, false),
        "hibernated" => return parked(args.threads, true),
        "wake_normal" => return wakes(ops, args.threads),
        "wake_critical" => return Err(Failure::NotOffered("may has no classes")),
        "echo" => return echo_server(ops),
        _ => return Err(Failure::NotOffered("may alone has no such thing")),
    };
    Ok(Some(ns))
}

fn yields(ops: usize, threads: usize, touch: bool) -> f64 {
    let rounds = (ops / threads).max(1);
    let (lap, done) = (Arc::new(Lap::default()), Arc::new(Semphore::new(0)));
    let gates: Vec<_> = (0..threads).map(|_| Arc::new(Semphore::new(0))).collect();
    for gate in &gates {
        let (lap, done, gate) = (lap.clone(), done.clone(), gate.clone());
        go!(move || {
            gate.wait();
            for _ in 0..WARM_YIELDS {
                yield_now();
            }
            lap.start();
            if touch {
                let mut lines = Lines::default();
                for _ in 0..rounds {
                    lines.touch();
                    yield_now();
                }
            } else {
                for _ in 0..rounds {
                    yield_now();
                }
            }
            if lap.finish(threads) {
                done.post();
            }
        });
    }
    let order = if touch { shuffled(threads) } else { (0..threads).collect() };
    for i in order {
        gates[i].post();
    }
    done.wait();
    lap.ns_per(rounds * threads)
}

fn spawn_join(ops: usize) -> f64 {
    let batches = (ops / BATCH).max(1);
    let mut handles = Vec::with_capacity(BATCH);
    let mut begin = 0;
    // The first batch touches memory, uncounted.
    for batch in 0..=batches {
        if batch == 1 {
            begin = cpu_ns();
        }
        handles.extend((0..BATCH).map(|_| go!(|| ())));
        for handle in handles.drain(..) {
            handle.join().expect("an empty coroutine cannot panic");
        }
    }
    (cpu_ns() - begin) as f64 / (batches * BATCH) as f64
}

fn sem_round_trip(ops: usize) -> f64 {
    let (ping, pong) = (Arc::new(Semphore::new(0)), Arc::new(Semphore::new(0)));
    let (hear, say) = (ping.clone(), pong.clone());
    go!(move || {
        for _ in 0..ops {
            hear.wait();
            say.post();
        }
    });
    timed(ops, || {
        for _ in 0..ops {
            ping.post();
            pong.wait();
        }
    })
}

fn mutex(ops: usize) -> f64 {
    let lock = Mutex::new(0u64);
    timed(ops, || {
        for _ in 0..ops {
            drop(black_box(&lock).lock());
        }
    })
}

fn parked(threads: usize, deep: bool) -> Result<Option<f64>, Failure> {
    let waiting = Arc::new(AtomicUsize::new(0));
    let mut books = Parking::begin();
    for created in 1..=threads {
        let count = waiting.clone();
        let spawned = catch_unwind(|| {
            go!(move || {
                if deep {
                    park_deep(&count);
                }
                count.fetch_add(1, Relaxed);
                coroutine::park();
            });
        });
        // may has no way to say that a stack could not be had; it panics.
        if spawned.is_err() {
            books.end(created - 1);
            return Err(Failure::Stopped(after_panic()));
        }
        if books.must_settle(created) {
            // Not yield_now: a yielding coroutine runs again before those just spawned.
            while waiting.load(Relaxed) < created {
                coroutine::sleep(Duration::from_micros(100));
            }
            books.settled(created);
        }
    }
    books.end(threads);
    exit(0)
}

fn park_deep(count: &AtomicUsize) {
    let used = black_box([1u8; USED_BYTES]);
    count.fetch_add(1, Relaxed);
    coroutine::park();
    black_box(&used);
}

fn wakes(ops: usize, busy: usize) -> Result<Option<f64>, Failure> {
    let (wakes, gate) = (Arc::new(Wakes::default()), Arc::new(Semphore::new(0)));
    for _ in 0..busy {
        go!(|| loop {
            spin(BUSY_NS);
            yield_now();
        });
    }
    let opener = gate.clone();
    wakes.start_waker(ops, move || opener.post())?;
    let mut late_us = Vec::with_capacity(ops);
    for _ in 0..ops {
        wakes.arm();
        gate.wait();
        late_us.push(wakes.woken_us());
    }
    print_latencies(late_us);
    exit(0)
}

fn echo_server(port: usize) -> Result<Option<f64>, Failure> {
    let listener = TcpListener::bind(("127.0.0.1", port as u16))?;
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        go!(move || echo(stream));
    }
}

fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..len]).is_err() {
            return;
        }
    }
}
