//! How a run among many is: one to four workers, either way of waiting for the world outside, short
//! and long slices, and others that want the processors, at times.
//!
//! [`many`] runs a test so: `HEDDLE_NIGHTLY=N` N times, `HEDDLE_NIGHTLY=programs` [`TIMES`] times,
//! the first time as it is without.
//!
//! Invariant: what a run was like follows from the seed, which `HEDDLE_SEED` gives, and its place.

use std::cell::RefCell;
use std::sync::Once;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

/// The variable that says what of the long tests is asked for.
pub const ASKED: &str = "HEDDLE_NIGHTLY";
/// How often each program is run there.
pub const TIMES: u64 = 50;
/// At most so many want the processors beside the programs.
pub const HOGS: u64 = 4;

/// Variables and their values.
pub type Said = Vec<(&'static str, String)>;

/// splitmix64: the number at a place of a seed's sequence.
pub fn number(seed: u64, place: u64) -> u64 {
    let mut z = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The seed that is given, else one of the time.
pub fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let given = std::env::var("HEDDLE_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or(now.as_secs())
}

/// What the environment of a run says.
pub fn environment(choice: u64) -> Said {
    let mut said = vec![("HEDDLE_WORKERS", (1 + choice % 4).to_string())];
    if choice >> 8 & 3 == 0 {
        said.push(("HEDDLE_IO", "uring".to_owned()));
    }
    if choice >> 16 & 3 != 0 {
        said.push(("HEDDLE_SLICE", (1 + (choice >> 24) % 8).to_string()));
    }
    said
}

/// Takes processors, as many as the seed says, others every half second, until `is_over`.
pub fn hog(seed: u64, index: u64, is_over: &AtomicBool) {
    let start = Instant::now();
    while !is_over.load(Relaxed) {
        let turn = start.elapsed().as_millis() as u64 / 500;
        if number(seed, turn) % (HOGS + 1) > index {
            (0..10_000).for_each(|_| std::hint::spin_loop());
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

thread_local! {
    static SAID: RefCell<Said> = const { RefCell::new(Vec::new()) };
}

/// What the environment of the programs says that the calling thread starts.
pub fn said() -> Said {
    SAID.with(|said| said.borrow().clone())
}

/// How often each test is asked for; `None`: as in every run, so without what takes minutes.
pub fn times() -> Option<u64> {
    let text = std::env::var(ASKED).ok().filter(|text| text != "0")?;
    Some(text.parse().unwrap_or(TIMES))
}

/// Runs the test `name` as often as is asked for.
pub fn many(name: &str, mut test: impl FnMut()) {
    static HOGS_STARTED: Once = Once::new();
    test();
    let times = times().unwrap_or(1);
    if times < 2 {
        return;
    }
    let seed = seed();
    // They end with the process.
    HOGS_STARTED.call_once(|| {
        for index in 0..HOGS {
            std::thread::spawn(move || hog(seed, index, &AtomicBool::new(false)));
        }
    });
    let start = name.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(byte));
    for turn in 1..times {
        let said = environment(number(seed, start.wrapping_add(turn)));
        println!("{name}, turn {turn}: HEDDLE_SEED={seed} {said:?}");
        SAID.set(said);
        test();
    }
    SAID.take();
}
