//! The programs many times over, each time otherwise (`common/drawn.rs`).
//!
//! `HEDDLE_NIGHTLY=programs` runs each of them [`TIMES`] times, `HEDDLE_NIGHTLY=N` N times.
//! `HEDDLE_NIGHTLY=wakes` runs the stress of all waits (`wakes.c`) for [`WAKES`] in each way,
//! `HEDDLE_NIGHTLY=wakes:SECONDS` for so long. `HEDDLE_NIGHTLY=long` runs [`LONG`],
//! `HEDDLE_NIGHTLY=long:N` with an Nth of their numbers.
//!
//! Invariant: what a run was like stands in the line that tells of its failure, and `HEDDLE_SEED`
//! repeats the choices.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::common::drawn::{ASKED, HOGS, TIMES, environment, hog, number, seed};
use super::programs::{Outcome, in_parallel, run_limited};
use super::{CHECK_MS, Program, Suite, Way, loaded_ways, was_refused};

/// Its value for every program in every way, once: not this file's.
pub const WAYS: &str = "ways";
const WAKES: Duration = Duration::from_secs(3600);
/// Of a program that is done in a second when nobody is beside it.
const LIMIT: Duration = Duration::from_secs(240);

/// What is asked for.
pub enum Asked {
    /// All programs so many times.
    Programs(u64),
    /// The stress of all waits, for so long in each way.
    Wakes(Duration),
    /// The programs that can do more than they do in every run; this part of it.
    Long(u64),
}

/// Programs with their arguments: a million short threads, ten thousand connections.
const LONG: &[(&str, &[u64])] =
    &[("thread_memory", &[1_000_000]), ("hold_connections", &[10_000, 600])];
/// More than those take on a busy machine.
const LONG_LIMIT: Duration = Duration::from_secs(1800);

/// By the environment; anything that is not understood is the first of them.
pub fn asked() -> Option<Asked> {
    let text = std::env::var(ASKED).ok().filter(|text| text != "0" && text != WAYS)?;
    Some(match text.split_once(':') {
        _ if text == "long" => Asked::Long(1),
        Some(("long", part)) => Asked::Long(part.parse().unwrap_or(1).max(1)),
        _ if text == "wakes" => Asked::Wakes(WAKES),
        Some(("wakes", seconds)) => {
            Asked::Wakes(seconds.parse().map_or(WAKES, Duration::from_secs))
        }
        _ => Asked::Programs(text.parse().unwrap_or(TIMES)),
    })
}

pub fn run(suite: &Suite, programs: &[Program], asked: Asked) -> bool {
    match asked {
        Asked::Programs(times) => many_times(suite, programs, times),
        Asked::Wakes(time) => wakes(suite, programs, time),
        Asked::Long(part) => long(suite, programs, part),
    }
}

fn many_times(suite: &Suite, programs: &[Program], times: u64) -> bool {
    let seed = seed();
    println!("each program {times} times, HEDDLE_SEED={seed}");
    let runs: Vec<(u64, &Program)> =
        (0..times).flat_map(|turn| programs.iter().map(move |program| (turn, program))).collect();
    let (passed, skipped) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for index in 0..HOGS {
            let is_over = &is_over;
            scope.spawn(move || hog(seed, index, is_over));
        }
        in_parallel(runs.into_iter().enumerate().collect(), |(place, (turn, program))| {
            let said = environment(number(seed, place as u64));
            match run_once(suite, program, turn, &said) {
                Outcome::Pass => passed.fetch_add(1, Relaxed),
                Outcome::Skip(_) => skipped.fetch_add(1, Relaxed),
                Outcome::Fail(reason) => {
                    println!("{} {said:?}: FAILED: {reason}", program.name());
                    failed.lock().unwrap().push(program.name());
                    0
                }
            };
        });
        is_over.store(true, Relaxed);
    });
    let failed = failed.into_inner().unwrap().len();
    println!("{} passed, {} skipped, {failed} failed", passed.into_inner(), skipped.into_inner());
    failed == 0
}

fn run_once(
    suite: &Suite,
    program: &Program,
    turn: u64,
    said: &[(&'static str, String)],
) -> Outcome {
    let executable = suite.executable(program);
    let mut command = Command::new(&executable);
    command.env("LD_PRELOAD", &suite.library).envs(said.iter().map(|(name, value)| (name, value)));
    command.env("HEDDLE_CHECK", CHECK_MS);
    run_on_user_threads(command, &executable.with_extension(format!("nightly-{turn}.log")), LIMIT)
}

fn run_on_user_threads(command: Command, log: &Path, limit: Duration) -> Outcome {
    match run_limited(command, log, limit) {
        Outcome::Pass if was_refused(log) => Outcome::Fail("it ran on kernel threads".into()),
        outcome => outcome,
    }
}

/// Runs one of ours with arguments; whether it held. The last line that it prints is shown.
fn run_long(
    suite: &Suite,
    programs: &[Program],
    (name, arguments): (&str, &[&str]),
    way: &Way,
    limit: Duration,
) -> bool {
    let Some(program) = programs.iter().find(|it| it.own && it.name() == name) else {
        return false;
    };
    let executable = suite.executable(program);
    let mut command = Command::new(&executable);
    command.env("LD_PRELOAD", &suite.library).envs(way.env.iter().copied()).args(arguments);
    command.env("HEDDLE_CHECK", CHECK_MS);
    let log = executable.with_extension(format!("{}.long.log", way.label.replace(' ', "-")));
    let outcome = run_on_user_threads(command, &log, limit);
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    println!("{:10} {name}: {}", way.label, said.lines().last().unwrap_or_default());
    if let Outcome::Fail(reason) = &outcome {
        println!("{:10} {name}: FAILED: {reason}", way.label);
    }
    !matches!(outcome, Outcome::Fail(_))
}

fn tell(held: &[bool]) -> bool {
    let failed = held.iter().filter(|held| !**held).count();
    println!("{} passed, 0 skipped, {failed} failed", held.len() - failed);
    failed == 0
}

fn wakes(suite: &Suite, programs: &[Program], time: Duration) -> bool {
    let seconds = time.as_secs().to_string();
    let run = |way| run_long(suite, programs, ("wakes", &[&seconds]), way, time + LIMIT);
    tell(&loaded_ways().iter().map(run).collect::<Vec<_>>())
}

fn long(suite: &Suite, programs: &[Program], part: u64) -> bool {
    let run = |&(name, numbers): &(&str, &[u64])| {
        let numbers: Vec<String> = numbers.iter().map(|it| (it / part).to_string()).collect();
        let words: Vec<&str> = numbers.iter().map(String::as_str).collect();
        run_long(suite, programs, (name, &words), &loaded_ways()[0], LONG_LIMIT)
    };
    tell(&LONG.iter().map(run).collect::<Vec<_>>())
}
