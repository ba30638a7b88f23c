//! Random programs on the simulated scheduler: everybody must come back and counts must be exact.
//!
//! A seed is a program and its schedule. `HEDDLE_SEED=n` runs that one; `HEDDLE_SIM=n` runs n new
//! ones (otherwise 20000, without optimisation 3000). Seeds that failed once are kept in
//! `sim_seeds.txt` and run first.
//!
//! `cargo test -p heddle --release --features sim --test sim`

#![cfg(feature = "sim")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use heddle::sim::{self, Random, Simulation};
use heddle::sync::channel::{self, Receiver, Sender};
use heddle::sync::{Barrier, Condvar, Mutex, RwLock, Semaphore};
use heddle::thread::{self, JoinHandle};

const WORKERS: usize = 3;
const CORPUS: &str = include_str!("sim_seeds.txt");

/// What the threads of a program share.
struct World {
    mutexes: [Mutex<u64>; 2],
    locked: AtomicU64,
    inside: [AtomicUsize; 2],
    rwlock: RwLock<(u64, u64)>,
    permits: Semaphore,
    holders: AtomicUsize,
    most_holders: usize,
    /// A bounded buffer: what conditions are for.
    buffer: Mutex<Vec<u64>>,
    filled: Condvar,
    emptied: Condvar,
    put: AtomicU64,
    got: AtomicU64,
    barrier: Barrier,
    sent: AtomicU64,
    received: AtomicU64,
    /// Permits that only the driver, a kernel thread, gives.
    given: Semaphore,
    wanted: AtomicUsize,
}

fn nap(random: &Random) -> Duration {
    Duration::from_nanos(random.below(80_000))
}

/// Something between two steps.
fn pause(random: &Random) {
    match random.below(9) {
        0 => heddle::raw::alone(|| (0..9).for_each(|_| sim::point()), |call| call()),
        1..=2 => (0..3).for_each(|_| sim::point()),
        3..=5 => thread::yield_now(),
        6 => thread::sleep(nap(random)),
        _ => drop(sim::operate(random.below(60_000), random.below(2) * 30_000)),
    }
}

fn use_mutex(world: &World, random: &Random) {
    let which = random.below(2) as usize;
    let lock = &world.mutexes[which];
    let guard = match random.below(3) {
        0 => lock.try_lock().ok(),
        1 => lock.lock_timeout(nap(random)).ok(),
        _ => Some(lock.lock().unwrap()),
    };
    let Some(mut guard) = guard else { return };
    assert_eq!(world.inside[which].fetch_add(1, SeqCst), 0, "two owners");
    let seen = *guard;
    pause(random);
    *guard = seen + 1;
    world.locked.fetch_add(1, SeqCst);
    if which == 0 && random.below(3) == 0 {
        // Nested, always in this order.
        if let Ok(mut inner) = world.mutexes[1].lock_timeout(nap(random)) {
            assert_eq!(world.inside[1].fetch_add(1, SeqCst), 0, "two owners");
            *inner += 1;
            world.locked.fetch_add(1, SeqCst);
            pause(random);
            world.inside[1].fetch_sub(1, SeqCst);
        }
    }
    world.inside[which].fetch_sub(1, SeqCst);
}

fn use_rwlock(world: &World, random: &Random) {
    let lock = &world.rwlock;
    if random.below(3) == 0 {
        let guard = match random.below(3) {
            0 => lock.try_write().ok(),
            1 => lock.write_timeout(nap(random)).ok(),
            _ => Some(lock.write().unwrap()),
        };
        if let Some(mut guard) = guard {
            guard.0 += 1;
            pause(random);
            guard.1 += 1;
        }
    } else {
        let guard = match random.below(3) {
            0 => lock.try_read().ok(),
            1 => lock.read_timeout(nap(random)).ok(),
            _ => Some(lock.read().unwrap()),
        };
        if let Some(guard) = guard {
            pause(random);
            assert_eq!(guard.0, guard.1, "a writer beside a reader");
        }
    }
}

fn use_semaphore(world: &World, random: &Random) {
    let taken = match random.below(3) {
        0 => world.permits.try_acquire(),
        1 => world.permits.acquire_timeout(nap(random)),
        _ => {
            world.permits.acquire();
            true
        }
    };
    if taken {
        let holders = world.holders.fetch_add(1, SeqCst);
        assert!(holders < world.most_holders, "more holders than permits");
        pause(random);
        world.holders.fetch_sub(1, SeqCst);
        world.permits.release();
    }
}

/// Puts a number into the buffer or takes one out, whichever keeps the two in balance.
fn use_buffer(world: &World, random: &Random) {
    let mut items = world.buffer.lock().unwrap();
    while items.len() >= 2 {
        items = match random.below(2) {
            0 => world.emptied.wait(items).unwrap(),
            _ => world.emptied.wait_timeout(items, nap(random)).unwrap().0,
        };
    }
    let value = random.below(1000);
    items.push(value);
    world.put.fetch_add(value, SeqCst);
    drop(items);
    world.filled.notify_one();
}

/// Parks until a child has set a flag and unparked us.
fn use_park(random: &Random) {
    let flag = Arc::new(AtomicBool::new(false));
    let (theirs, me, delay) = (flag.clone(), thread::current(), nap(random));
    let child = thread::spawn(move || {
        thread::sleep(delay);
        theirs.store(true, SeqCst);
        me.unpark();
    });
    while !flag.load(SeqCst) {
        match random.below(2) {
            0 => thread::park(),
            _ => thread::park_timeout(nap(random)),
        }
    }
    if random.below(2) == 0 {
        child.join().unwrap();
    }
}

fn use_join(random: &Random) {
    let (delay, value) = (nap(random), random.next());
    let mut child = thread::spawn(move || {
        if delay.as_nanos() % 2 == 0 {
            thread::sleep(delay);
        }
        value
    });
    let result = loop {
        match random.below(4) {
            0 => return,
            1 => break child.join(),
            _ => match child.join_timeout(nap(random)) {
                Ok(result) => break result,
                Err(handle) => child = handle,
            },
        }
    };
    assert_eq!(result.unwrap(), value);
}

/// Cancels a child in a wait that only that, or a deadline, ends.
fn use_cancel(random: &Random) {
    let (mode, deadline) = (random.below(5), nap(random));
    let child = thread::spawn(move || {
        let ns = deadline.as_nanos() as u64;
        while !thread::is_cancelled() {
            match mode {
                0 => thread::sleep(Duration::from_secs(1000)),
                1 => thread::sleep(deadline),
                2 => thread::park(),
                3 => drop(sim::operate(1_000_000_000_000, 0)),
                _ => drop(sim::operate(ns, ns)),
            }
        }
    });
    pause(random);
    child.thread().cancel();
    if random.below(2) == 0 {
        child.thread().unpark();
    }
    child.join().unwrap();
}

fn use_scope(world: &World, random: &Random) {
    let delay = nap(random);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                thread::sleep(delay);
                *world.mutexes[1].lock().unwrap() += 1;
                world.locked.fetch_add(1, SeqCst);
            });
        }
    });
}

fn use_channel(world: &World, sender: &Sender<u64>, random: &Random) {
    let value = random.below(1000);
    let sent = match random.below(3) {
        0 => sender.try_send(value).is_ok(),
        1 => sender.send_timeout(value, nap(random)).is_ok(),
        _ => sender.send(value).is_ok(),
    };
    if sent {
        world.sent.fetch_add(value, SeqCst);
    }
}

/// One of the threads of a program.
fn player(world: &World, sender: &Sender<u64>, random: &Random, steps: u64) {
    for _ in 0..steps {
        match random.below(14) {
            0..=2 => use_mutex(world, random),
            3..=4 => use_rwlock(world, random),
            5 => use_semaphore(world, random),
            6 => use_buffer(world, random),
            7..=8 => use_channel(world, sender, random),
            9 => use_park(random),
            10 => use_join(random),
            11 => use_cancel(random),
            12 => use_scope(world, random),
            _ => {
                world.wanted.fetch_add(1, SeqCst);
                world.given.acquire();
            }
        }
        pause(random);
    }
    world.barrier.wait();
}

fn drain_channel(world: &World, receiver: &Receiver<u64>, random: &Random) {
    loop {
        let value = match random.below(2) {
            0 => receiver.recv().map_err(|_| channel::RecvTimeoutError::Disconnected),
            _ => receiver.recv_timeout(nap(random)),
        };
        match value {
            Ok(value) => drop(world.received.fetch_add(value, SeqCst)),
            Err(channel::RecvTimeoutError::Timeout) => {}
            Err(channel::RecvTimeoutError::Disconnected) => return,
        }
        pause(random);
    }
}

/// Takes from the buffer until nobody puts any more.
fn drain_buffer(world: &World, closed: &AtomicBool, random: &Random) {
    loop {
        let mut items = world.buffer.lock().unwrap();
        while items.is_empty() {
            if closed.load(SeqCst) {
                return;
            }
            items = world.filled.wait_timeout(items, Duration::from_micros(500)).unwrap().0;
        }
        world.got.fetch_add(items.remove(0), SeqCst);
        drop(items);
        world.emptied.notify_one();
        pause(random);
    }
}

struct Program {
    world: Arc<World>,
    players: Vec<JoinHandle<()>>,
    servers: Vec<JoinHandle<()>>,
    closed: Arc<AtomicBool>,
}

/// Starts the threads of the program of `seed`.
fn start(seed: u64) -> Program {
    let random = Random::new(seed ^ 0xABCD);
    let players = 2 + random.below(5);
    let most_holders = 1 + random.below(3) as usize;
    let world = Arc::new(World {
        mutexes: [const { Mutex::new(0) }; 2],
        locked: AtomicU64::new(0),
        inside: [const { AtomicUsize::new(0) }; 2],
        rwlock: RwLock::new((0, 0)),
        permits: Semaphore::new(most_holders as u32),
        holders: AtomicUsize::new(0),
        most_holders,
        buffer: Mutex::new(Vec::new()),
        filled: Condvar::new(),
        emptied: Condvar::new(),
        put: AtomicU64::new(0),
        got: AtomicU64::new(0),
        barrier: Barrier::new(players as usize),
        sent: AtomicU64::new(0),
        received: AtomicU64::new(0),
        given: Semaphore::new(0),
        wanted: AtomicUsize::new(0),
    });
    let (sender, receiver) = match random.below(4) {
        0 => channel::unbounded(),
        capacity => channel::bounded(capacity as usize - 1),
    };
    let closed = Arc::new(AtomicBool::new(false));
    type Body = Box<dyn FnOnce(&World, &Random) + Send>;
    let spawn = |stream: u64, body: Body| {
        let world = world.clone();
        let mut builder = thread::Builder::new();
        if random.below(4) == 0 {
            builder = builder.priority(1 + random.below(99) as u8);
        }
        if random.below(2) == 0 {
            // It may move, and whoever finds its deadline passed ends its wait.
            builder = builder.full();
        }
        let seed = seed.wrapping_mul(31).wrapping_add(stream + 1);
        builder.spawn(move || body(&world, &Random::new(seed))).unwrap()
    };
    let mut servers = Vec::new();
    for stream in 0..1 + random.below(2) {
        let receiver = receiver.clone();
        let body = move |world: &World, random: &Random| drain_channel(world, &receiver, random);
        servers.push(spawn(100 + stream, Box::new(body)));
    }
    let theirs = closed.clone();
    let body = move |world: &World, random: &Random| drain_buffer(world, &theirs, random);
    servers.push(spawn(200, Box::new(body)));
    let steps = 3 + random.below(8);
    let players = (0..players)
        .map(|stream| {
            let sender = sender.clone();
            let body = move |world: &World, random: &Random| player(world, &sender, random, steps);
            spawn(stream, Box::new(body))
        })
        .collect();
    Program { world, players, servers, closed }
}

/// The driver's part after each step: it gives, wakes without reason, and looks whether all ended.
fn drive(program: &mut Program, random: &Random) -> bool {
    let world = &program.world;
    if random.below(8) == 0 && world.wanted.load(SeqCst) != 0 {
        world.wanted.fetch_sub(1, SeqCst);
        world.given.release();
    }
    if random.below(200) == 0 && !program.players.is_empty() {
        let which = random.below(program.players.len() as u64) as usize;
        program.players[which].thread().unpark();
    }
    if program.players.iter().all(JoinHandle::is_finished) {
        program.closed.store(true, SeqCst);
        return program.servers.iter().all(JoinHandle::is_finished);
    }
    false
}

/// Runs one seed; the text says what went wrong.
fn run(simulation: &'static Simulation, seed: u64) -> Result<(), String> {
    let program = simulation
        .run(seed, || start(seed), drive)
        .map_err(|stuck| format!("{stuck:?}: threads wait for ever"))?;
    for handle in program.players.into_iter().chain(program.servers) {
        if let Err(payload) = handle.join() {
            let text = payload.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
            return Err(format!("a thread panicked: {}", text.unwrap_or_default()));
        }
    }
    let world = program.world;
    let total: u64 = world.mutexes.iter().map(|mutex| *mutex.lock().unwrap()).sum();
    let counts = [
        ("mutex", total, world.locked.load(SeqCst)),
        ("permits", world.permits.available().into(), world.most_holders as u64),
        ("buffer", world.put.load(SeqCst), world.got.load(SeqCst)),
        ("channel", world.sent.load(SeqCst), world.received.load(SeqCst)),
    ];
    match counts.iter().find(|(_, have, want)| have != want) {
        Some((what, have, want)) => Err(format!("{what}: {have} instead of {want}")),
        None => Ok(()),
    }
}

#[test]
fn random_programs_end_with_the_right_counts() {
    let simulation = Simulation::start(WORKERS).unwrap();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    // A crash inside the scheduler says which seed it was, too.
    static SEED: AtomicU64 = AtomicU64::new(0);
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        eprintln!("HEDDLE_SEED={}:", SEED.load(SeqCst));
        default(info);
    }));
    let check = |seed: u64| {
        SEED.store(seed, SeqCst);
        if let Err(what) = run(simulation, seed) {
            // The schedule's other threads can't be unwound: the process ends here.
            eprintln!("HEDDLE_SEED={seed}: {what}");
            std::process::exit(101);
        }
    };
    if let Some(seed) = number("HEDDLE_SEED") {
        return check(seed);
    }
    let kept = CORPUS.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    kept.for_each(check);
    let first = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros() as u64);
    let count = number("HEDDLE_SIM").unwrap_or(if cfg!(debug_assertions) { 3000 } else { 20_000 });
    println!("seeds {first} to {}", first + count);
    let start = Instant::now();
    (first..first + count).for_each(check);
    // The same seeds are the same schedules: else one could not be replayed. The first may take
    // another way for what those before it have left in pools, whose order is not reset.
    let schedules = || -> Vec<u64> {
        let each = |seed| {
            check(seed);
            simulation.fingerprint()
        };
        (1..50).map(each).collect()
    };
    let _first = schedules();
    assert_eq!(schedules(), schedules());
    assert!(simulation.preempted() > 1000, "no full thread was left where it was");
    println!("{count} seeds in {:?}", start.elapsed());
}
