//! `cargo xtask ci quick | full | nightly`: runs the steps, one after the other or a few that leave
//! processors idle beside each other, and adds up what they say.
//!
//! Invariant: a step passes, fails or is skipped with a printed reason; nothing is silently left
//! out. A failed step does not stop the others, so that one run tells everything. The last line
//! is `N passed, N failed, N skipped`, and the exit status is 0 only when N failed is 0.
//! Each step's whole output lies in target/ci/; only a failed step's is shown.

mod ahead;
mod exec;
mod full;
mod plan;
mod tally;

use std::fs;
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::repo::Repo;
use ahead::Ahead;
use exec::Ending;
use plan::Step;
use tally::Tally;

/// How many lines of a failed step's output are shown: some compiler errors or backtraces.
const SHOWN_LINES_MAX: usize = 200;
/// And once more at the end, of all steps together: whoever sees only the end of all output still
/// finds something of each.
const REPEATED_LINES_MAX: usize = 24;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Format, clippy, tidy, rustdoc, unit tests: before each commit
    Quick,
    /// Everything that can run on this machine
    Full,
    /// What takes hours, and nothing else: programs' own suites, stress, many runs
    Nightly,
}

/// What became of one step.
struct Outcome {
    name: String,
    tally: Tally,
    /// Why the step as a whole was left out or failed.
    note: Option<String>,
    /// What its output says about the failure, if it failed: see [`tally::telling`].
    told: Vec<String>,
    took: Duration,
}

pub fn run(repo: &Repo, level: Level, only: &[String], list: bool) -> Result<bool> {
    let mut steps = plan::steps(repo, level);
    if !only.is_empty() {
        steps.retain(|step| only.iter().any(|text| step.name.contains(text.as_str())));
    }
    if list {
        steps.iter().for_each(|step| println!("{:<22}{}", step.name, step.what));
        return Ok(true);
    }
    if steps.is_empty() {
        bail!("no step has {} in its name: see --list", only.join(" or "));
    }
    let logs = repo.target().join("ci");
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let started = Instant::now();
    let mut outcomes = Vec::new();
    let ahead = Ahead::begin(&steps, logs.join("ahead.log"));
    for together in steps.chunk_by(|before, step| step.is_beside(before)) {
        ahead.reached(outcomes.len() + together.len() - 1);
        take_together(together, steps.len(), &logs, &mut outcomes)?;
    }
    drop(ahead);
    Ok(summarise(&outcomes, started.elapsed()))
}

/// Steps that run beside each other; what becomes of them is told in their order.
fn take_together(
    steps: &[Step],
    of: usize,
    logs: &Path,
    outcomes: &mut Vec<Outcome>,
) -> Result<()> {
    let log = |step: &Step| logs.join(format!("{}.log", step.name));
    thread::scope(|scope| {
        let start = |step| (step, scope.spawn(move || take(step, &log(step))));
        let started: Vec<_> = steps.iter().map(start).collect();
        for (step, thread) in started {
            print!("[{:>2}/{of}] {:<22}", outcomes.len() + 1, step.name);
            io::stdout().flush()?;
            let outcome = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            println!("{}", line(&outcome));
            if outcome.tally.failed > 0 {
                println!("---- from {} ----", log(step).display());
                println!("{}\n----", outcome.told.join("\n"));
            }
            outcomes.push(outcome);
        }
        Ok(())
    })
}

fn take(step: &Step, log: &Path) -> Result<Outcome> {
    let started = Instant::now();
    let mut told = Vec::new();
    let (tally, note) = match &step.absent {
        Some(reason) => (Tally::skipped(reason), Some(reason.clone())),
        None => {
            let ending = exec::run(&step.commands, log, step.limit)
                .with_context(|| format!("step {}", step.name))?;
            let text = String::from_utf8_lossy(&fs::read(log)?).into_owned();
            let (tally, note) = judge(ending, &text);
            if tally.failed > 0 {
                told = tally::telling(&text, SHOWN_LINES_MAX).into_iter().map(Into::into).collect();
            }
            (tally, note)
        }
    };
    Ok(Outcome { name: step.name.to_owned(), tally, note, told, took: started.elapsed() })
}

fn judge(ending: Ending, text: &str) -> (Tally, Option<String>) {
    let mut tally = Tally::read(text);
    let note = match ending {
        Ending::Good if tally.is_empty() && tally::has_harness(text) => {
            Some("not one test ran".to_owned())
        }
        Ending::Good => None,
        Ending::Bad(status) => Some(status),
        Ending::TimedOut(limit) => Some(format!("no end after {} s, killed", limit.as_secs())),
    };
    match &note {
        // A step that ends badly without a failed test (a compiler error, a hang) is a failure.
        Some(_) if tally.failed == 0 => tally.failed = 1,
        // A step that counts no tests is one check.
        None if tally.is_empty() => tally.passed = 1,
        _ => {}
    }
    (tally, note)
}

fn line(outcome: &Outcome) -> String {
    let Tally { passed, failed, skipped, .. } = &outcome.tally;
    let seconds = outcome.took.as_secs_f64();
    let counts = format!("{passed:>5} passed {failed:>3} failed {skipped:>3} skipped");
    let verdict = match (*failed, *passed) {
        (0, 0) => "skip",
        (0, _) => "ok",
        _ => "FAIL",
    };
    let note = outcome.note.as_ref().map_or(String::new(), |note| format!("  {note}"));
    format!("{verdict:<5}{seconds:>7.1} s {counts}{note}")
}

/// The table, the reasons of what was skipped, the failures once more, and the closing line. True
/// when nothing failed.
fn summarise(outcomes: &[Outcome], took: Duration) -> bool {
    println!("\n{:<22}{:<5}{:>9}", "step", "", "time");
    let mut total = Tally::default();
    for outcome in outcomes {
        println!("{:<22}{}", outcome.name, line(outcome));
        total.add(&outcome.tally);
    }
    // Less than the sum where steps ran beside each other.
    println!("{:<27}{:>7.1} s", "in all", took.as_secs_f64());
    let reasons = outcomes.iter().flat_map(|outcome| {
        outcome.tally.reasons.iter().map(|reason| format!("  {}: {reason}", outcome.name))
    });
    let mut reasons: Vec<String> = reasons.collect();
    reasons.dedup();
    if !reasons.is_empty() {
        println!("\nskipped, and why:\n{}", reasons.join("\n"));
    }
    let failed = outcomes.iter().filter(|outcome| outcome.tally.failed > 0);
    let lines_each = REPEATED_LINES_MAX / failed.clone().count().max(1);
    for outcome in failed {
        let note = outcome.note.as_deref().unwrap_or("failed");
        println!("\n{}: {note}", outcome.name);
        // The end tells most: what the last failed test printed, and the names of all.
        let begin = outcome.told.len().saturating_sub(lines_each);
        outcome.told[begin..].iter().for_each(|line| println!("  {line}"));
    }
    println!("\n{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    total.failed == 0
}

/// Where a step with compiler flags of its own builds, so that it does not undo the others' work.
fn target_for(repo: &Repo, name: &str) -> PathBuf {
    repo.target().join("ci").join(name)
}

#[cfg(test)]
mod tests {
    use super::plan::Call;
    use super::*;

    fn step(name: &'static str, script: &str, beside: Option<&'static str>) -> Step {
        let commands = vec![Call::new("sh").args(&["-c", script])];
        let limit = Duration::from_secs(20);
        Step { name, what: "", commands, builds: Vec::new(), limit, absent: None, beside }
    }

    fn logs(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("heddle-xtask-{}", std::process::id()));
        let folder = folder.join(name);
        fs::create_dir_all(&folder).expect("a folder for logs");
        folder
    }

    #[test]
    fn steps_are_beside_those_of_their_group_only() {
        let all = [
            step("one", "", None),
            step("two", "", Some("one")),
            step("three", "", Some("one")),
            step("four", "", None),
            step("five", "", Some("four")),
        ];
        let groups = |steps: &[Step]| -> Vec<usize> {
            steps.chunk_by(|before, step| step.is_beside(before)).map(<[Step]>::len).collect()
        };
        assert_eq!(groups(&all), [3, 2]);
        assert_eq!(groups(&all[1..]), [2, 2], "without the first of a group");
        let some = [all[0].clone(), all[2].clone(), all[4].clone()];
        assert_eq!(groups(&some), [2, 1], "beside none that is not of its group");
    }

    #[test]
    fn steps_together_run_at_once_and_are_told_in_order() {
        let logs = logs("together");
        let _ = fs::remove_file(logs.join("go"));
        // The first ends only when the second runs.
        let waits = format!("until test -e {}/go; do sleep 0.02; done", logs.display());
        let goes = format!("echo > {}/go; exit 3", logs.display());
        let steps = [step("waits", &waits, None), step("goes", &goes, Some("waits"))];
        let mut outcomes = Vec::new();
        take_together(&steps, 2, &logs, &mut outcomes).expect("both start");
        let told: Vec<_> = outcomes
            .iter()
            .map(|it| (it.name.as_str(), it.tally.failed, it.tally.passed))
            .collect();
        assert_eq!(told, [("waits", 0, 1), ("goes", 1, 0)]);
    }
}
