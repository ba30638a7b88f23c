//! heddle's side of the suites micro, memory, class and echo; with HEDDLE_BACKEND=native the same
//! source measures kernel threads. Protocol: see `heddle_bench::measure`.

use std::hint::black_box;
use std::io::{Read, Write};
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use heddle::Class;
use heddle::net::{TcpListener, TcpStream};
use heddle::sync::{Mutex, Semaphore, channel};
use heddle::thread::{Builder, JoinHandle, park, yield_now};
use heddle_bench::measure::*;

/// The peers' stacks in the same metrics, guard page included.
const STACK_BYTES: usize = 16 * 1024;

fn main() {
    peer_main(|args| heddle::run(move || run(args)))
}

fn run(args: Args) -> Result<Option<f64>, Failure> {
    let ops = args.ops;
    let ns = match args.metric.as_str() {
        "yield" => yields(&Builder::new(), ops, args.threads, false)?,
        "yield_touch" => yields(&Builder::new(), ops, args.threads, true)?,
        "yield_full" => yields(&Builder::new().full(), ops, args.threads, false)?,
        "spawn_join" => spawn_join(ops)?,
        "sem_round_trip" => sem_round_trip(ops)?,
        "mutex" => mutex(ops),
        "channel_item" => channel_item(ops)?,
        "parked" => return parked(&Builder::new(), args.threads, false),
        "parked_full" => return parked(&Builder::new().full(), args.threads, false),
        "hibernated" => return parked(&Builder::new(), args.threads, true),
        "wake_normal" => return wakes(ops, args.threads, Class::Lazy),
        "wake_critical" => return wakes(ops, args.threads, Class::TimeCritical),
        "echo" => return echo_server(ops),
        _ => return Err(Failure::NotOffered("heddle has no such metric")),
    };
    Ok(Some(ns))
}

fn small<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    Builder::new().stack_size(STACK_BYTES).spawn(body)
}

fn yields(builder: &Builder, ops: usize, threads: usize, touch: bool) -> Result<f64, Failure> {
    let rounds = (ops / threads).max(1);
    let (lap, done) = (Arc::new(Lap::default()), Arc::new(Semaphore::new(0)));
    let mut handles = Vec::with_capacity(threads);
    for _ in 0..threads {
        let (lap, done) = (lap.clone(), done.clone());
        handles.push(builder.clone().stack_size(STACK_BYTES).spawn(move || {
            park();
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
                done.release();
            }
        })?);
    }
    let order = if touch { shuffled(threads) } else { (0..threads).collect() };
    for i in order {
        handles[i].thread().unpark();
    }
    done.acquire();
    Ok(lap.ns_per(rounds * threads))
}

fn spawn_join(ops: usize) -> Result<f64, Failure> {
    let batches = (ops / BATCH).max(1);
    let mut handles = Vec::with_capacity(BATCH);
    let mut begin = 0;
    // The first batch touches memory, uncounted.
    for batch in 0..=batches {
        if batch == 1 {
            begin = cpu_ns();
        }
        for _ in 0..BATCH {
            handles.push(small(|| ())?);
        }
        for handle in handles.drain(..) {
            handle.join().expect("an empty thread cannot panic");
        }
    }
    Ok((cpu_ns() - begin) as f64 / (batches * BATCH) as f64)
}

fn sem_round_trip(ops: usize) -> Result<f64, Failure> {
    let (ping, pong) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (hear, say) = (ping.clone(), pong.clone());
    small(move || {
        for _ in 0..ops {
            hear.acquire();
            say.release();
        }
    })?;
    Ok(timed(ops, || {
        for _ in 0..ops {
            ping.release();
            pong.acquire();
        }
    }))
}

fn mutex(ops: usize) -> f64 {
    let lock = Mutex::new(0u64);
    timed(ops, || {
        for _ in 0..ops {
            drop(black_box(&lock).lock());
        }
    })
}

fn channel_item(ops: usize) -> Result<f64, Failure> {
    let (sender, receiver) = channel::bounded(CAPACITY);
    let begin = cpu_ns();
    small(move || (0..ops).try_for_each(|i| sender.send(i)))?;
    for i in 0..ops {
        if receiver.recv()? != i {
            return Err(Failure::Failed("an item was lost".into()));
        }
    }
    Ok((cpu_ns() - begin) as f64 / ops as f64)
}

fn parked(builder: &Builder, threads: usize, deep: bool) -> Result<Option<f64>, Failure> {
    let waiting = Arc::new(AtomicUsize::new(0));
    let mut books = Parking::begin();
    for created in 1..=threads {
        let count = waiting.clone();
        // SAFETY: nobody borrows from these stacks.
        let builder = unsafe { builder.clone().stack_size(STACK_BYTES).hibernate(deep) };
        let spawned =
            builder.spawn(move || if deep { park_deep(&count) } else { park_flat(&count) });
        if let Err(error) = spawned {
            books.end(created - 1);
            return Err(Failure::Stopped(error.to_string()));
        }
        if books.must_settle(created) {
            while waiting.load(Relaxed) < created {
                yield_now();
            }
            books.settled(created);
        }
    }
    books.end(threads);
    exit(0)
}

fn park_flat(count: &AtomicUsize) {
    count.fetch_add(1, Relaxed);
    park();
}

/// What the frames below and above the buffer take of a hibernating thread's stack: measured as
/// the growth of memory per thread with buffers of 256 and 600 bytes (both give 236 to 240).
const FRAME_BYTES: usize = 240;
/// The rest of the bytes in use is a local buffer.
const BUFFER_BYTES: usize = USED_BYTES - FRAME_BYTES;

fn park_deep(count: &AtomicUsize) {
    let used = black_box([1u8; BUFFER_BYTES]);
    count.fetch_add(1, Relaxed);
    park();
    assert_eq!(black_box(&used)[BUFFER_BYTES - 1], 1, "a hibernated stack came back changed");
}

fn wakes(ops: usize, busy: usize, class: Class) -> Result<Option<f64>, Failure> {
    let (wakes, gate) = (Arc::new(Wakes::default()), Arc::new(Semaphore::new(0)));
    for _ in 0..busy {
        small(|| {
            loop {
                spin(BUSY_NS);
                yield_now();
            }
        })?;
    }
    let opener = gate.clone();
    wakes.start_waker(ops, move || opener.release())?;
    let woken = Builder::new().class(class).role("woken").spawn(move || {
        let mut late_us = Vec::with_capacity(ops);
        for _ in 0..ops {
            wakes.arm();
            gate.acquire();
            late_us.push(wakes.woken_us());
        }
        late_us
    })?;
    let late_us = woken.join().map_err(|_| Failure::Failed("the woken thread panicked".into()))?;
    print_latencies(late_us);
    exit(0)
}

fn echo_server(port: usize) -> Result<Option<f64>, Failure> {
    let listener = TcpListener::bind(("127.0.0.1", port as u16))?;
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        Builder::new().role("echo connection").stack_size(STACK_BYTES).spawn(|| echo(stream))?;
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
