//! Runs C programs of tests, many at a time: what the tests of two libraries share.
//!
//! A program's exit status says what became of it: 0 holds, 77 skips with the reason that it has
//! written, anything else or no end in time fails.
//!
//! Invariant: the run ends; every program has a time limit, and none outlives the run.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

const STATUS_SKIP: i32 = 77;
const LOOK_EVERY: Duration = Duration::from_millis(2);

pub enum Outcome {
    Pass,
    Skip(String),
    Fail(String),
}

#[derive(Default)]
struct Tally {
    started: Option<Instant>,
    passed: usize,
    skipped: usize,
    failed: usize,
}

impl Tally {
    fn add(&mut self, label: &str, name: &str, outcome: Outcome) {
        match outcome {
            Outcome::Pass => self.passed += 1,
            Outcome::Skip(reason) => {
                self.skipped += 1;
                println!("{label:10} {name}: {reason}");
            }
            Outcome::Fail(reason) => {
                self.failed += 1;
                println!("{label:10} {name}: FAILED: {reason}");
            }
        }
    }

    fn ended(&self) -> usize {
        self.passed + self.skipped + self.failed
    }

    fn tell(&self, label: &str) {
        let Self { passed, skipped, failed, .. } = self;
        let seconds = self.started.map_or(0.0, |at| at.elapsed().as_secs_f64());
        println!(
            "{label:10} {passed} passed, {skipped} skipped, {failed} failed in {seconds:.1} s"
        );
    }
}

/// The words after the test's own options: parts of the names of the programs that are asked for.
pub fn filters() -> Vec<String> {
    std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect()
}

/// Whether `path` is the source of a program.
pub fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "c" || end == "cpp")
}

/// The compiler for a source, with the flags that all programs have.
pub fn compiler(source: &Path) -> Command {
    let cxx = source.extension().is_some_and(|end| end == "cpp");
    let mut compiler = Command::new(if cxx { "c++" } else { "cc" });
    compiler.arg(if cxx { "-std=gnu++17" } else { "-std=gnu11" });
    compiler.args(["-O1", "-g", "-Wall", "-Wextra"]);
    compiler
}

/// Whether what was built is newer than everything it is made from.
pub fn is_current(built: &Path, inputs: &[PathBuf]) -> bool {
    let built = modified(built);
    built.is_some() && inputs.iter().all(|input| modified(input) < built)
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|meta| meta.modified()).ok()
}

/// Runs one program in its own process group; the whole group ends with it. What it writes is in
/// `log`.
pub fn run_limited(program: Command, log: &Path, limit: Duration) -> Outcome {
    try_limited(program, log, limit).unwrap_or_else(Outcome::Fail)
}

fn try_limited(mut program: Command, log: &Path, limit: Duration) -> Result<Outcome, String> {
    let output = File::create(log).map_err(|e| e.to_string())?;
    let errors = output.try_clone().map_err(|e| e.to_string())?;
    let mut child = program
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|e| format!("{program:?}: {e}"))?;
    let group = -i32::try_from(child.id()).unwrap_or(0);
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break Some(status),
            None if Instant::now() > end => break None,
            None => std::thread::sleep(LOOK_EVERY),
        }
    };
    // SAFETY: kill has no memory effects; the group is the child's own, made above.
    unsafe { libc::kill(group, libc::SIGKILL) };
    let text = fs::read(log).map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&text).trim().to_string();
    let Some(status) = status else {
        let _ = child.wait();
        return Ok(Outcome::Fail(format!("no end within {limit:?}; {text}")));
    };
    Ok(match status.code() {
        Some(0) => Outcome::Pass,
        Some(STATUS_SKIP) => Outcome::Skip(text),
        Some(code) => Outcome::Fail(format!("exit {code}; {text}")),
        None => Outcome::Fail(format!("signal {}; {text}", status.signal().unwrap_or(0))),
    })
}

/// How many run at once: they mostly wait.
fn width() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from) * 2
}

/// Calls `work` for each item on a few kernel threads.
pub fn in_parallel<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    let queue = Mutex::new(VecDeque::from(items));
    std::thread::scope(|scope| {
        for _ in 0..width() {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().pop_front();
                    match next {
                        Some(item) => work(item),
                        None => break,
                    }
                }
            });
        }
    });
}

/// Builds each; the error is the first of those that were met.
pub fn build_all<T: Send>(
    items: Vec<T>,
    build: impl Fn(T) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let broken = Mutex::new(Vec::new());
    in_parallel(items, |item| {
        if let Err(error) = build(item) {
            broken.lock().unwrap().push(error);
        }
    });
    let broken = broken.into_inner().unwrap();
    match broken.first() {
        None => Ok(()),
        Some(error) => Err(format!("{} programs do not compile; the first: {error}", broken.len())),
    }
}

/// A way in which programs are run, and those that are.
pub struct Runs<'a, W, T> {
    pub label: &'a str,
    pub way: &'a W,
    pub programs: Vec<T>,
}

/// What is still to be run: the places of `runs` and of a program there; and the names of those
/// that run.
struct Pending<'a> {
    queue: VecDeque<(usize, usize)>,
    names: Vec<Vec<&'a str>>,
    running: Vec<&'a str>,
}

impl Pending<'_> {
    /// The first whose program does not run in another way: such could be in each other's way.
    fn take(&mut self) -> Option<(usize, usize)> {
        let is_free = |&(way, at): &(usize, usize)| !self.running.contains(&self.names[way][at]);
        let place = self.queue.iter().position(is_free)?;
        let (way, at) = self.queue.remove(place)?;
        self.running.push(self.names[way][at]);
        Some((way, at))
    }

    fn end(&mut self, (way, at): (usize, usize)) {
        let name = self.names[way][at];
        self.running.retain(|running| *running != name);
    }
}

/// Runs each in its way, one way after the other, but without a pause between two; whether all
/// hold. What became of a way is told when the last of its programs has ended.
pub fn run_all<W: Sync, T: Sync>(
    runs: &[Runs<W, T>],
    name: impl Fn(&T) -> String,
    run: impl Fn(&T, &W) -> Outcome + Sync,
) -> bool {
    let names: Vec<Vec<String>> =
        runs.iter().map(|it| it.programs.iter().map(&name).collect()).collect();
    let names: Vec<Vec<&str>> =
        names.iter().map(|it| it.iter().map(String::as_str).collect()).collect();
    let queue = (0..runs.len()).flat_map(|way| (0..names[way].len()).map(move |at| (way, at)));
    let pending =
        Mutex::new(Pending { queue: queue.collect(), names: names.clone(), running: Vec::new() });
    let tallies: Vec<Mutex<Tally>> = runs.iter().map(|_| Mutex::default()).collect();
    let work = || {
        loop {
            let mut held = pending.lock().unwrap();
            let Some(place) = held.take() else {
                if held.queue.is_empty() {
                    return;
                }
                drop(held);
                std::thread::sleep(LOOK_EVERY);
                continue;
            };
            drop(held);
            let (at, it) = (place.1, &runs[place.0]);
            tallies[place.0].lock().unwrap().started.get_or_insert_with(Instant::now);
            let outcome = run(&it.programs[at], it.way);
            pending.lock().unwrap().end(place);
            let mut tally = tallies[place.0].lock().unwrap();
            tally.add(it.label, names[place.0][at], outcome);
            if tally.ended() == it.programs.len() {
                tally.tell(it.label);
            }
        }
    };
    std::thread::scope(|scope| (0..width()).for_each(|_| _ = scope.spawn(work)));
    tallies.iter().all(|tally| tally.lock().unwrap().failed == 0)
}

/// The test's exit code; skips where there is no C compiler.
pub fn end(test_all: impl FnOnce() -> Result<bool, String>) -> ExitCode {
    if Command::new("cc").arg("--version").output().is_err() {
        println!("skip: the C programs need a C compiler (cc), and there is none");
        return ExitCode::SUCCESS;
    }
    match test_all() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
