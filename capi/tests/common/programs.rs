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

pub enum Outcome {
    Pass,
    Skip(String),
    Fail(String),
}

#[derive(Default)]
struct Tally {
    passed: usize,
    skipped: usize,
    failed: usize,
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
            None => std::thread::sleep(Duration::from_millis(2)),
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

/// Calls `work` for each item on a few kernel threads; the programs mostly wait.
pub fn in_parallel<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    let width = std::thread::available_parallelism().map_or(2, usize::from) * 2;
    let queue = Mutex::new(VecDeque::from(items));
    std::thread::scope(|scope| {
        for _ in 0..width {
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

/// Runs each, in the way that `label` names; whether all hold.
pub fn run_all<T: Sync>(
    label: &str,
    programs: &[T],
    name: impl Fn(&T) -> String + Sync,
    run: impl Fn(&T) -> Outcome + Sync,
) -> bool {
    let tally = Mutex::new(Tally::default());
    let start = Instant::now();
    in_parallel(programs.iter().collect(), |program: &T| {
        let outcome = run(program);
        let mut tally = tally.lock().unwrap();
        match outcome {
            Outcome::Pass => tally.passed += 1,
            Outcome::Skip(reason) => {
                tally.skipped += 1;
                println!("{label:10} {}: {reason}", name(program));
            }
            Outcome::Fail(reason) => {
                tally.failed += 1;
                println!("{label:10} {}: FAILED: {reason}", name(program));
            }
        }
    });
    let tally = tally.into_inner().unwrap();
    println!(
        "{label:10} {} passed, {} skipped, {} failed in {:.1} s",
        tally.passed,
        tally.skipped,
        tally.failed,
        start.elapsed().as_secs_f64()
    );
    tally.failed == 0
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
