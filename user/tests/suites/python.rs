//! CPython's own tests of what threads do: each test's outcome is the same on both.
//!
//! A test that differs is run again by itself, on both: where the machine was too busy for a time
//! limit, that tells it from a defect.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::drawn::{many, said};
use crate::common::{folder, heddle, output_within, python, text};
use crate::is_nightly;

/// Modules of every run, and those that take minutes.
const MODULES: &[&str] = &["test_thread", "test_queue"];
const LONG: &[&str] =
    &["test_threading", "test_concurrent_futures", "test_socket", "test_subprocess"];
/// Longer than a module takes on a busy machine; the script ends by itself before, with its frames.
/// The processes of test_concurrent_futures need ten minutes where four others want each processor.
const LIMIT: Duration = Duration::from_secs(2400);

/// Outcome by test.
type Outcomes = BTreeMap<String, String>;

/// An interpreter that has its tests with it.
fn with_tests() -> Option<String> {
    let found = [Some("/usr/bin/python3".to_owned()), python()].into_iter().flatten().find(|it| {
        let asked = Command::new(it).args(["-c", "import test.test_threading"]).output();
        asked.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        println!("skip: Python's own tests are not installed (libpython3-testsuite)");
    }
    found
}

/// Runs tests; how each of them ended.
fn outcomes(mut command: Command, folder: &Path, names: &[String]) -> (Outcomes, String) {
    let results = folder.join("results");
    let _ = fs::remove_file(&results);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/suite.py");
    command
        .arg(script)
        .arg(&results)
        .arg((LIMIT.as_secs() - 30).to_string())
        .args(names)
        .current_dir(folder);
    let output = output_within(command, LIMIT);
    let said = text(&output.stdout) + &text(&output.stderr);
    let lines = fs::read_to_string(&results).unwrap_or_else(|_| panic!("no results: {said}"));
    let pairs = lines.lines().filter_map(|line| line.split_once(' '));
    (pairs.map(|(outcome, name)| (name.to_owned(), outcome.to_owned())).collect(), said)
}

fn plain(python: &str) -> Command {
    Command::new(python)
}

fn under_heddle(python: &str) -> Command {
    let mut command = Command::new(heddle());
    command.args(["run", "--threads", "user", "--report", "none", "--", python]);
    command.envs(said());
    command
}

/// Tests that hold natively and not under heddle, or came to no end there.
fn worse(native: &Outcomes, user: &Outcomes) -> Vec<String> {
    let holds = |outcome: &str| outcome == "ok";
    let differs = |name: &&String| user.get(*name).is_none_or(|outcome| !holds(outcome));
    let held = native.iter().filter(|(_, outcome)| holds(outcome)).map(|(name, _)| name);
    held.filter(differs).cloned().collect()
}

fn check(python: &str, module: &str) {
    let folder = folder(module);
    let names = [format!("test.{module}")];
    let (native, _) = outcomes(plain(python), &folder, &names);
    let held = native.values().filter(|outcome| *outcome == "ok").count();
    assert!(held > 0, "{module}: no test holds natively");
    many(module, || {
        let (user, said) = outcomes(under_heddle(python), &folder, &names);
        assert!(!said.contains("threads are kernel threads"), "{said}");
        let mut different = worse(&native, &user);
        let (all, differ) = (native.len(), different.len());
        println!("{module}: {all} tests, {held} hold natively, {differ} differ");
        if !different.is_empty() && different.len() < 20 {
            println!("again, by themselves: {different:?}");
            let (native, _) = outcomes(plain(python), &folder, &different);
            let (user, again) = outcomes(under_heddle(python), &folder, &different);
            different = worse(&native, &user);
            assert!(different.is_empty(), "{module}: {different:?}\n{again}");
        }
        assert!(different.is_empty(), "{module}: {different:?}\n{said}");
    });
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn tests_of_python_hold() {
    let Some(python) = with_tests() else { return };
    MODULES.iter().for_each(|module| check(&python, module));
}

#[test]
fn long_tests_of_python_hold() {
    if !is_nightly() {
        return println!("skip: {LONG:?} take minutes; cargo xtask ci nightly runs them");
    }
    let Some(python) = with_tests() else { return };
    LONG.iter().for_each(|module| check(&python, module));
}
