//! Configuration of the runtime: from the environment, overridden by [`Config`].

use std::io;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use crate::hibernate::DROWSY_MAX;
use crate::sys::say;

/// Most workers that can be configured.
pub(crate) const WORKERS_MAX: usize = 256;
/// How long the Lazy region may wait for a slice by default.
const LAZY_BOUND: Duration = Duration::from_millis(100);
/// How long a full thread may run by default while others wait, and while all that wait compute.
const SLICE: Duration = Duration::from_millis(5);
const SLICE_COMPUTING: Duration = Duration::from_millis(20);

/// What threads are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// User-level threads on workers.
    #[default]
    User,
    /// One kernel thread per thread: the same API, for comparison (uThread, section 3).
    Native,
}

/// How workers wait for I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Io {
    /// io_uring where the kernel allows it, else epoll.
    #[default]
    Auto,
    /// io_uring; starting fails where the kernel refuses it.
    Uring,
    /// epoll, with a pool of kernel threads for files.
    Epoll,
}

/// How the runtime starts. Values that are not set come from `HEDDLE_WORKERS`,
/// `HEDDLE_BACKEND` (`user`, `native`), `HEDDLE_IO` (`uring`, `epoll`), `HEDDLE_THREADS`
/// (`light`, `full`), `HEDDLE_LAZY_BOUND` and `HEDDLE_SLICE` (milliseconds, or `off`),
/// `HEDDLE_DROWSY` (0 to 64), else
/// from the machine.
///
/// ```
/// heddle::Config::new().workers(2).start().unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    workers: Option<usize>,
    backend: Option<Backend>,
    io: Option<Io>,
    full_threads: Option<bool>,
    lazy_bound: Option<Option<Duration>>,
    drowsy: Option<usize>,
    slice: Option<Option<Duration>>,
}

impl Config {
    /// Nothing set.
    pub fn new() -> Self {
        Config::default()
    }

    /// Number of workers, 1 to 256; by default the CPUs that the process may use.
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = Some(count);
        self
    }

    /// User-level threads or kernel threads.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// io_uring or epoll.
    pub fn io(mut self, io: Io) -> Self {
        self.io = Some(io);
        self
    }

    /// Whether every thread is a full one, as if [`crate::thread::Builder::full`] were called for
    /// each; those that hibernate stay light.
    pub fn full_threads(mut self, full: bool) -> Self {
        self.full_threads = Some(full);
        self
    }

    /// How long the Lazy region may be kept waiting by the Fast region; `None` = for ever, as in
    /// the TEK paper (section IV-A).
    pub fn lazy_bound(mut self, bound: Option<Duration>) -> Self {
        self.lazy_bound = Some(bound);
        self
    }

    /// How many of the threads that hibernate keep their stacks, of each worker those that parked
    /// last: one that wakes soon then costs nothing more. 0 to 64; by default 64.
    pub fn drowsy(mut self, count: usize) -> Self {
        self.drowsy = Some(count);
        self
    }

    /// How long a full thread may run while others wait for its worker; then it is preempted.
    /// `None` = until it waits or yields. 5 ms by default, and 20 ms while all threads there have
    /// used up their slices; 1 ms at most while they seem to spin: one that spins for another comes
    /// to it sooner so. One that becomes ready does not wait for a slice: who has computed for 2 ms
    /// makes room, and who was preempted goes behind it.
    pub fn slice(mut self, slice: Option<Duration>) -> Self {
        self.slice = Some(slice);
        self
    }

    /// Starts the runtime with this configuration.
    ///
    /// # Errors
    /// `InvalidInput` for a number of workers out of range or an unreadable environment variable,
    /// `AlreadyExists` when the runtime runs already (the first spawn starts it), else what the
    /// kernel refused.
    pub fn start(self) -> io::Result<()> {
        crate::runtime::start(self.resolve()?)
    }

    /// Fills what is not set from the environment.
    pub(crate) fn resolve(self) -> io::Result<Settings> {
        let workers = match self.workers {
            Some(count) => count,
            None => match variable("HEDDLE_WORKERS") {
                Some(text) => text.parse().map_err(|_| unreadable("HEDDLE_WORKERS", &text))?,
                None => {
                    std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX)
                }
            },
        };
        if workers == 0 || workers > WORKERS_MAX {
            let text = format!("{workers} workers: must be 1 to {WORKERS_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let drowsy = match self.drowsy {
            Some(count) => count,
            None => match variable("HEDDLE_DROWSY") {
                Some(text) => text.parse().map_err(|_| unreadable("HEDDLE_DROWSY", &text))?,
                None => DROWSY_MAX,
            },
        };
        if drowsy > DROWSY_MAX {
            let text = format!("{drowsy} drowsy threads: must be 0 to {DROWSY_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let slice_ns = match self.slice {
            Some(slice) => slice.map_or(0, |s| s.as_nanos().clamp(1, u64::MAX.into()) as u64),
            None => bound_from_environment("HEDDLE_SLICE", SLICE)?,
        };
        let is_default = self.slice.is_none() && variable("HEDDLE_SLICE").is_none();
        Ok(Settings {
            workers,
            drowsy,
            backend: match self.backend {
                Some(backend) => backend,
                None => backend_from_environment()?,
            },
            io: match self.io {
                Some(io) => io,
                None => io_from_environment()?,
            },
            full_threads: match self.full_threads {
                Some(full) => full,
                None => full_from_environment()?,
            },
            lazy_bound_ns: match self.lazy_bound {
                Some(bound) => bound.map_or(0, |b| b.as_nanos().clamp(1, u64::MAX.into()) as u64),
                None => bound_from_environment("HEDDLE_LAZY_BOUND", LAZY_BOUND)?,
            },
            slice_ns,
            slice_computing_ns: match is_default {
                true => SLICE_COMPUTING.as_nanos() as u64,
                false => slice_ns,
            },
        })
    }
}

/// Descriptors that each worker of full threads has, with a ring as well, and what they have
/// together with some spare workers.
const FILES_EACH: u64 = 3;
const FILES_EACH_WITH_RING: u64 = 5;
const FILES_SHARED: u64 = 18;

impl Settings {
    /// With as many workers as have room for their descriptors in half of what the process may
    /// have: programs that know nothing of them need the rest. Where they are fewer it says so.
    pub fn fitting(mut self) -> Self {
        let Some(limit) = getrlimit(Resource::Nofile).current.filter(|_| self.full_threads) else {
            return self;
        };
        let each = if self.io == Io::Uring { FILES_EACH_WITH_RING } else { FILES_EACH };
        let room = (limit / 2).saturating_sub(FILES_SHARED) / each;
        let most = room.clamp(1, WORKERS_MAX as u64) as usize;
        if self.backend == Backend::User && self.workers > most {
            let wanted = core::mem::replace(&mut self.workers, most);
            say::line(format_args!(
                "heddle: {most} workers instead of {wanted}: {limit} descriptors are allowed \
                 (RLIMIT_NOFILE)"
            ));
        }
        self
    }
}

/// A complete configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub workers: usize,
    pub backend: Backend,
    pub io: Io,
    pub full_threads: bool,
    pub drowsy: usize,
    /// 0 = no bound.
    pub lazy_bound_ns: u64,
    /// 0 = no preemption.
    pub slice_ns: u64,
    /// The same while all that wait compute.
    pub slice_computing_ns: u64,
}

/// How long an event may be on its way to a full thread, if that is to be checked.
pub(crate) fn check_limit() -> io::Result<Option<Duration>> {
    let Some(text) = variable("HEDDLE_CHECK").filter(|text| text != "off") else { return Ok(None) };
    match text.parse() {
        Ok(ms @ 1..) => Ok(Some(Duration::from_millis(ms))),
        _ => Err(unreadable("HEDDLE_CHECK", &text)),
    }
}

/// Whether switches of full threads may set the thread pointer by a segment.
#[cfg(target_arch = "x86_64")]
pub(crate) fn wants_segments() -> io::Result<bool> {
    match variable("HEDDLE_SEGMENTS").as_deref() {
        None | Some("auto") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => Err(unreadable("HEDDLE_SEGMENTS", other)),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Variables that heddle reads, those of its tools included (see heddle(7)).
const NAMES: [&str; 11] = [
    "HEDDLE_WORKERS",
    "HEDDLE_BACKEND",
    "HEDDLE_IO",
    "HEDDLE_THREADS",
    "HEDDLE_LAZY_BOUND",
    "HEDDLE_SLICE",
    "HEDDLE_DROWSY",
    "HEDDLE_SEGMENTS",
    "HEDDLE_TRACE",
    "HEDDLE_CHECK",
    "HEDDLE_PLAN",
];

/// Says so when the environment has a name that one of [`NAMES`] was probably meant by: a setting
/// that is silently ignored costs an afternoon.
pub(crate) fn warn_of_misspelled_names() {
    for (name, meant) in misspelled_names() {
        say::line(format_args!("heddle: {name} is not read; {meant} is"));
    }
}

/// Names in the environment that are none of [`NAMES`], each with the one that was probably meant.
pub(crate) fn misspelled_names() -> impl Iterator<Item = (String, &'static str)> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names
        .filter(|name| name.starts_with("HEDDLE_"))
        .filter_map(|name| meant_by(&name).map(|meant| (name, meant)))
}

/// The name of ours that differs from `name` by one or two letters.
fn meant_by(name: &str) -> Option<&'static str> {
    if NAMES.contains(&name) {
        return None;
    }
    NAMES.into_iter().find(|ours| edits(name.as_bytes(), ours.as_bytes()) <= 2)
}

/// Letters to insert, delete or replace to make `one` of `two` (Levenshtein's distance).
fn edits(one: &[u8], two: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in two.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[two.len()]
}

fn unreadable(name: &str, value: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{name}={value}: not understood"))
}

fn backend_from_environment() -> io::Result<Backend> {
    match variable("HEDDLE_BACKEND").as_deref() {
        None | Some("user") => Ok(Backend::User),
        Some("native") => Ok(Backend::Native),
        Some(other) => Err(unreadable("HEDDLE_BACKEND", other)),
    }
}

fn io_from_environment() -> io::Result<Io> {
    match variable("HEDDLE_IO").as_deref() {
        None => Ok(Io::Auto),
        Some("uring") => Ok(Io::Uring),
        Some("epoll") => Ok(Io::Epoll),
        Some(other) => Err(unreadable("HEDDLE_IO", other)),
    }
}

fn full_from_environment() -> io::Result<bool> {
    match variable("HEDDLE_THREADS").as_deref() {
        None | Some("light") => Ok(false),
        Some("full") => Ok(true),
        Some(other) => Err(unreadable("HEDDLE_THREADS", other)),
    }
}

/// A time in milliseconds, as ns; 0 for `off`.
fn bound_from_environment(name: &str, default: Duration) -> io::Result<u64> {
    match variable(name).as_deref() {
        None => Ok(default.as_nanos() as u64),
        Some("off") => Ok(0),
        Some(text) => match text.parse::<u64>() {
            Ok(ms) if ms > 0 => Ok(ms.saturating_mul(1_000_000)),
            _ => Err(unreadable(name, text)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_recognised() {
        let meant = |rest: &str| meant_by(&["HEDDLE", rest].join("_"));
        assert_eq!(meant("WORKER"), Some("HEDDLE_WORKERS"));
        assert_eq!(meant("BACKED"), Some("HEDDLE_BACKEND"));
        assert_eq!(meant("LAZYBOUND"), Some("HEDDLE_LAZY_BOUND"));
        assert_eq!(meant("OI"), Some("HEDDLE_IO"));
        for right in NAMES {
            assert_eq!(meant_by(right), None);
        }
        // Somebody else's.
        assert_eq!(meant("COLOUR_THEME"), None);
    }

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits(b"", b"abc"), 3);
        assert_eq!(edits(b"kitten", b"sitting"), 3);
        assert_eq!(edits(b"same", b"same"), 0);
    }
}
