//! Peer: tokio. Tasks are stackless futures, not threads: what a thread keeps on its stack, a task
//! keeps in its future. One worker runs on the current-thread runtime, tokio's fastest; more on
//! the multi-thread runtime. Protocol: see `measure`.

#[path = "../../../../src/measure.rs"]
#[allow(dead_code, reason = "shared with programs that use the rest")]
mod measure;

use std::hint::black_box;
use std::io;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use measure::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, Notify, Semaphore, mpsc};
use tokio::task::yield_now;

fn main() {
    peer_main(|args| {
        let workers = if args.metric == "echo" { args.threads } else { 1 };
        let runtime = runtime(workers)?;
        runtime.block_on(async move { tokio::spawn(run(args)).await? })
    })
}

fn runtime(workers: usize) -> io::Result<Runtime> {
    if workers == 1 {
        Builder::new_current_thread().enable_all().build()
    } else {
        Builder::new_multi_thread().worker_threads(workers).enable_all().build()
    }
}

async fn run(args: Args) -> Result<Option<f64>, Failure> {
    let ops = args.ops;
    let ns = match args.metric.as_str() {
        "yield" => yields(ops, args.threads, false).await,
        "yield_touch" => yields(ops, args.threads, true).await,
        "spawn_join" => spawn_join(ops).await?,
        "sem_round_trip" => sem_round_trip(ops).await?,
        "mutex" => mutex(ops).await,
        "channel_item" => channel_item(ops).await?,
        "parked" => return parked(args.threads, false).await,
        "hibernated" => return parked(args.threads, true).await,
        "wake_normal" => return wakes(ops, args.threads).await,
        "wake_critical" => return Err(Failure::NotOffered("tokio has no classes")),
        "echo" => return echo_server(ops).await,
        _ => return Err(Failure::NotOffered("tokio alone has no such thing")),
    };
    Ok(Some(ns))
}

async fn yields(ops: usize, threads: usize, touch: bool) -> f64 {
    let rounds = (ops / threads).max(1);
    let (lap, done) = (Arc::new(Lap::default()), Arc::new(Notify::new()));
    let gates: Vec<_> = (0..threads).map(|_| Arc::new(Notify::new())).collect();
    for gate in &gates {
        let (lap, done, gate) = (lap.clone(), done.clone(), gate.clone());
        tokio::spawn(async move {
            gate.notified().await;
            for _ in 0..WARM_YIELDS {
                yield_now().await;
            }
            lap.start();
            if touch {
                let mut lines = Lines::default();
                for _ in 0..rounds {
                    lines.touch();
                    yield_now().await;
                }
            } else {
                for _ in 0..rounds {
                    yield_now().await;
                }
            }
            if lap.finish(threads) {
                done.notify_one();
            }
        });
    }
    let order = if touch { shuffled(threads) } else { (0..threads).collect() };
    for i in order {
        gates[i].notify_one();
    }
    done.notified().await;
    lap.ns_per(rounds * threads)
}

async fn spawn_join(ops: usize) -> Result<f64, Failure> {
    let batches = (ops / BATCH).max(1);
    let mut handles = Vec::with_capacity(BATCH);
    let mut begin = 0;
    // The first batch touches memory, uncounted.
    for batch in 0..=batches {
        if batch == 1 {
            begin = cpu_ns();
        }
        handles.extend((0..BATCH).map(|_| tokio::spawn(async {})));
        for handle in handles.drain(..) {
            handle.await?;
        }
    }
    Ok((cpu_ns() - begin) as f64 / (batches * BATCH) as f64)
}

async fn sem_round_trip(ops: usize) -> Result<f64, Failure> {
    let (ping, pong) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (hear, say) = (ping.clone(), pong.clone());
    let other = tokio::spawn(async move {
        for _ in 0..ops {
            hear.acquire().await.expect("never closed").forget();
            say.add_permits(1);
        }
    });
    let begin = cpu_ns();
    for _ in 0..ops {
        ping.add_permits(1);
        pong.acquire().await?.forget();
    }
    let ns = (cpu_ns() - begin) as f64 / ops as f64;
    other.await?;
    Ok(ns)
}

async fn mutex(ops: usize) -> f64 {
    let lock = Mutex::new(0u64);
    let begin = cpu_ns();
    for _ in 0..ops {
        drop(black_box(&lock).lock().await);
    }
    (cpu_ns() - begin) as f64 / ops as f64
}

async fn channel_item(ops: usize) -> Result<f64, Failure> {
    let (sender, mut receiver) = mpsc::channel(CAPACITY);
    let begin = cpu_ns();
    tokio::spawn(async move {
        for i in 0..ops {
            if sender.send(i).await.is_err() {
                return;
            }
        }
    });
    for i in 0..ops {
        if receiver.recv().await != Some(i) {
            return Err(Failure::Failed("an item was lost".into()));
        }
    }
    Ok((cpu_ns() - begin) as f64 / ops as f64)
}

async fn parked(threads: usize, deep: bool) -> Result<Option<f64>, Failure> {
    let (never, waiting) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let mut books = Parking::begin();
    for created in 1..=threads {
        let (never, count) = (never.clone(), waiting.clone());
        if deep {
            tokio::spawn(async move {
                let used = black_box([1u8; USED_BYTES]);
                count.fetch_add(1, Relaxed);
                never.notified().await;
                black_box(&used);
            });
        } else {
            tokio::spawn(async move {
                count.fetch_add(1, Relaxed);
                never.notified().await;
            });
        }
        if books.must_settle(created) {
            while waiting.load(Relaxed) < created {
                yield_now().await;
            }
            books.settled(created);
        }
    }
    books.end(threads);
    exit(0)
}

async fn wakes(ops: usize, busy: usize) -> Result<Option<f64>, Failure> {
    let (wakes, gate) = (Arc::new(Wakes::default()), Arc::new(Notify::new()));
    for _ in 0..busy {
        tokio::spawn(async {
            loop {
                spin(BUSY_NS);
                yield_now().await;
            }
        });
    }
    let opener = gate.clone();
    wakes.start_waker(ops, move || opener.notify_one())?;
    let mut late_us = Vec::with_capacity(ops);
    for _ in 0..ops {
        wakes.arm();
        gate.notified().await;
        late_us.push(wakes.woken_us());
    }
    print_latencies(late_us);
    exit(0)
}

async fn echo_server(port: usize) -> Result<Option<f64>, Failure> {
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(echo(stream));
    }
}

async fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..len]).await.is_err() {
            return;
        }
    }
}
