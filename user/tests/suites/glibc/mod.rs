//! glibc's own tests of threads, signals, processes and I/O: what holds natively holds under
//! heddle.
//!
//! Each is run as its own driver does, in a child that the program forks, and as the program
//! itself, in a folder of its own. One that differs is run again by itself, on both, as for Python.
//!
//! The first turn runs all of them in both ways, each further one a part of them in one way.
//!
//! Invariant: every program has a time limit, and none of its processes outlives it.

pub mod build;
mod lists;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::drawn::{Said, many, said};
use crate::common::{Ended, can_run, folder, heddle, text};
use crate::is_nightly;
use build::at_once_each;
use lists::KNOWN;

/// How much longer than natively on an idle machine a test may take by its own account, among
/// others and by itself; most are given 20 seconds.
const FACTOR: u32 = 2;
const FACTOR_ALONE: u32 = 5;
/// How long a test may take by ours, and one that is known to differ, as some then wait for ever.
const LIMIT: Duration = Duration::from_secs(150);
const LIMIT_KNOWN: Duration = Duration::from_secs(30);
/// How many at once for each processor: most of them sleep.
const EACH: usize = 2;
/// A turn after the first runs each so manieth test.
const PARTS: usize = 8;
/// So many are built and hold; where it is fewer, it is our way to build them that fails.
const BUILT_AT_LEAST: usize = 700;
const HELD_AT_LEAST: usize = 600;
/// What the library or the command says when threads are the kernel's.
const REFUSAL: &str = "threads are kernel threads";
/// In a child that the program forks, and in the program itself.
const WAYS: [&str; 2] = ["forked", "direct"];

/// How a test ended, how long it took, and what it said.
struct Outcome {
    is_held: bool,
    took: Duration,
    said: String,
}

/// Where and how tests are run.
#[derive(Clone)]
struct Place {
    folder: PathBuf,
    way: &'static str,
    is_user: bool,
    factor: u32,
    said: Said,
}

/// Why a test differs, if that is known.
fn known(program: &Path) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| *known == name(program)).map(|(_, why)| *why)
}

fn name(program: &Path) -> &str {
    program.file_name().and_then(|name| name.to_str()).expect("a name of ours")
}

/// Words that glibc's build gives some tests: how to start them again.
fn arguments(program: &Path) -> Vec<String> {
    let path = program.to_string_lossy().into_owned();
    match name(program) {
        "tst-cancel7" | "tst-cancelx7" => vec!["--command".into(), format!("exec {path}")],
        "tst-stackguard1" => vec!["--command".into(), format!("{path} --child")],
        "tst-exec4" => vec![path],
        "tst-mqueue7" | "tst-exec" | "tst-execvpe5" | "tst-spawn" | "tst-spawn5" | "tst-spawn6" => {
            vec!["--".into(), path]
        }
        _ => Vec::new(),
    }
}

/// Ends what is left of a program, in process groups of its own, too.
fn end_all(program: &Path) {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let is_its = fs::read_link(process.path().join("exe")).is_ok_and(|exe| exe == program);
        if let (true, Ok(pid)) = (is_its, process.file_name().to_string_lossy().parse::<i32>()) {
            // SAFETY: no memory is involved; the program is this test's own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

impl Place {
    fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = if self.is_user {
            let mut command = Command::new(heddle());
            command.args(["run", "--threads", "user", "--report", "none", "--"]).arg(program);
            command.envs(self.said.iter().cloned());
            command
        } else {
            Command::new(program)
        };
        if self.way == "direct" {
            command.arg("--direct");
        }
        command.args(arguments(program)).current_dir(folder).process_group(0);
        command.env("TIMEOUTFACTOR", self.factor.to_string()).env("TMPDIR", folder);
        command.env("LC_ALL", "C").env("XDG_STATE_HOME", &self.folder);
        command
    }

    fn outcome(&self, program: &Path) -> Outcome {
        let folder = self.folder.join(name(program));
        let log = folder.with_extension("log");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("ours");
        let mut command = self.command(program, &folder);
        let output = File::create(&log).expect("ours");
        command.stdin(Stdio::null()).stderr(output.try_clone().expect("open")).stdout(output);
        let start = Instant::now();
        let is_known = self.is_user && known(program).is_some();
        let limit = if is_known { LIMIT_KNOWN } else { LIMIT };
        let mut child = Ended(command.spawn().expect("the command starts"));
        let code = loop {
            match child.0.try_wait().expect("a child") {
                None if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
                status => break status.and_then(|status| status.code()),
            }
        };
        drop(child);
        end_all(program);
        let said = text(&fs::read(&log).unwrap_or_default());
        let is_held = code == Some(0) && !said.contains(REFUSAL);
        Outcome { is_held, took: start.elapsed(), said: format!("{code:?}: {said}") }
    }

    fn outcomes<'a>(&self, programs: &[&'a Path]) -> BTreeMap<&'a Path, Outcome> {
        let pairs = at_once_each(EACH, programs, |program| (*program, self.outcome(program)));
        pairs.into_iter().collect()
    }
}

/// The end of what a test said.
fn end(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n    ")
}

/// Whether the test holds natively and not under heddle, by itself.
fn differs(place: &Place, program: &Path) -> bool {
    let alone = Place { factor: FACTOR_ALONE, ..place.clone() };
    let user = alone.outcome(program);
    if user.is_held || !(Place { is_user: false, ..alone }).outcome(program).is_held {
        return false;
    }
    println!("  {} differs by itself: {}", name(program), end(&user.said));
    true
}

/// What the tests of a way do natively: those that hold, the longest first.
fn native<'a>(place: &Place, programs: &[&'a Path]) -> Vec<&'a Path> {
    let native = Place { is_user: false, ..place.clone() };
    let mut held: Vec<_> =
        native.outcomes(programs).into_iter().filter(|(_, outcome)| outcome.is_held).collect();
    held.sort_by_key(|(_, outcome)| std::cmp::Reverse(outcome.took));
    println!("glibc, {}: {} of {} tests hold natively", place.way, held.len(), programs.len());
    held.into_iter().map(|(program, _)| program).collect()
}

/// Compares the tests that hold natively; names of those that differ.
fn compare<'a>(place: &Place, held: &[&'a Path]) -> Vec<&'a str> {
    let place = Place { said: said(), ..place.clone() };
    let user = place.outcomes(held);
    let mut different = Vec::new();
    for (program, outcome) in &user {
        let name = name(program);
        match (known(program), outcome.is_held) {
            (Some(_), true) => println!("  {name} holds, though it is named as one that differs"),
            (Some(why), false) => println!("  {name} differs, as is known: {why}"),
            (None, true) => {}
            (None, false) => {
                println!("  {name} differs among others: {}", end(&outcome.said));
                different.push(*program);
            }
        }
    }
    let count = user.values().filter(|outcome| outcome.is_held).count();
    let (all, unknown) = (user.len(), different.len());
    println!("glibc, {}: {count} of {all} tests hold, {unknown} differ", place.way);
    assert!(different.len() < 20, "{different:?}");
    different.retain(|program| differs(&place, program));
    different.into_iter().map(name).collect()
}

#[test]
fn tests_of_glibc_hold() {
    if !is_nightly() {
        return println!("skip: glibc's tests take minutes; cargo xtask ci nightly runs them");
    }
    if !can_run(&["cc", "ar"]) {
        return;
    }
    let folder = folder("glibc");
    let Some(source) = build::source("glibc", &folder) else {
        return fs::remove_dir_all(folder).expect("ours");
    };
    let programs = build::programs(&source, &folder);
    assert!(programs.len() >= BUILT_AT_LEAST, "{} programs", programs.len());
    let programs: Vec<&Path> = programs.iter().map(PathBuf::as_path).collect();
    let places = WAYS.map(|way| {
        let folder = folder.join(way);
        Place { folder, way, is_user: true, factor: FACTOR, said: Said::new() }
    });
    let held = places.each_ref().map(|place| native(place, &programs));
    assert!(held.iter().all(|held| held.len() >= HELD_AT_LEAST));
    let mut turn = 0;
    many("glibc", || {
        let mut different = Vec::new();
        for (index, (place, held)) in places.iter().zip(&held).enumerate() {
            let is_part = |at: usize| match turn {
                0 => true,
                _ => turn % WAYS.len() == index && at % PARTS == turn / WAYS.len() % PARTS,
            };
            let part = held.iter().enumerate().filter(|(at, _)| is_part(*at));
            let part: Vec<&Path> = part.map(|(_, program)| *program).collect();
            if !part.is_empty() {
                different.extend(compare(place, &part));
            }
        }
        turn += 1;
        assert!(different.is_empty(), "{different:?}");
    });
    fs::remove_dir_all(folder).expect("ours");
}
