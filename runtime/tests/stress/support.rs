//! What the stress cases share: seeded random numbers, and a crowd of user-level and kernel
//! threads that run one body each.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use heddle::thread;

/// Shared by all tests of a run, so that a failure can be repeated.
pub fn seed() -> u64 {
    let given = std::env::var("HEDDLE_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| {
        std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64 | 1)
    })
}

pub fn rounds(base: usize) -> usize {
    let factor = std::env::var("HEDDLE_STRESS").ok().and_then(|text| text.parse().ok());
    base * factor.unwrap_or(1)
}

/// A small generator of random numbers (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(stream: u64) -> Self {
        let mut random =
            Random(seed().wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (stream + 1) << 17 | 1);
        (0..4).for_each(|_| {
            random.next();
        });
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    /// A timeout around the time that a wake takes, so that both win about as often.
    pub fn timeout(&mut self) -> Duration {
        Duration::from_nanos(self.below(120_000))
    }

    /// Something between two steps: nothing, a yield, a sleep, a bit of work.
    pub fn pause(&mut self) {
        match self.below(16) {
            0..=6 => {}
            7..=12 => thread::yield_now(),
            13 => thread::sleep(Duration::from_nanos(self.below(60_000))),
            _ => (0..self.below(300)).for_each(|_| std::hint::spin_loop()),
        }
    }
}

/// A thread of the runtime or a kernel thread.
pub enum Either<T> {
    User(thread::JoinHandle<T>),
    Kernel(std::thread::JoinHandle<T>),
}

impl<T> Either<T> {
    pub fn join(self) -> T {
        let result = match self {
            Either::User(handle) => handle.join(),
            Either::Kernel(handle) => handle.join(),
        };
        result.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }
}

/// Runs `body(index, random)` on `users` threads and `kernels` kernel threads at once; ends the
/// process with the seed when one panics or they don't end within a minute (`HEDDLE_STRESS` of
/// them).
pub fn crowd<T: Send + Debug + 'static>(
    name: &'static str,
    users: usize,
    kernels: usize,
    body: impl Fn(usize, &mut Random) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let seed = seed();
    let done = Arc::new(AtomicBool::new(false));
    let watch = done.clone();
    std::thread::spawn(move || {
        for _ in 0..rounds(600) {
            std::thread::sleep(Duration::from_millis(100));
            if watch.load(Ordering::SeqCst) {
                return;
            }
        }
        eprintln!("{name}: threads wait for ever; HEDDLE_SEED={seed}");
        std::process::abort();
    });
    let body = Arc::new(body);
    let run = |index: usize| {
        let body = body.clone();
        move || body(index, &mut Random::new(index as u64))
    };
    let threads: Vec<Either<T>> = (0..users + kernels)
        .map(|index| match index < users {
            true => Either::User(thread::spawn(run(index))),
            false => Either::Kernel(std::thread::spawn(run(index))),
        })
        .collect();
    let results = threads
        .into_iter()
        .map(|thread| {
            let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| thread.join()));
            joined.unwrap_or_else(|payload| {
                eprintln!("{name}: HEDDLE_SEED={seed}");
                std::panic::resume_unwind(payload)
            })
        })
        .collect();
    done.store(true, Ordering::SeqCst);
    results
}
