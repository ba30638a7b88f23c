//! How many threads a process can have, and what 200 of them lock, with stacks of fixed sizes and
//! with sizes from history (Fig. 12 of the paper).
//!
//! The 32-bit process has 3 GiB of address space, as on a 32-bit kernel (`setarch --3gb`): a
//! 64-bit kernel would give it 4. Fixed sizes are the default ones, set as a user does it
//! (`ulimit -s`); the tuned process has 8 MiB as its default. Counts do not depend on a clock, so
//! one run is enough.

use std::path::Path;

use super::super::child::Output;
use super::super::programs::Program;
use super::super::progress::Progress;
use super::super::result::{Pick, SuiteResult};
use super::overcommit::StrictOvercommit;
use super::{Tek, words};

/// Threads that are tried, and those that a profile is learned from.
const ATTEMPTS: usize = 2000;
const TRAINING: usize = 100;
const LOCKED: usize = 200;
const ADDRESS_SPACE_MIB: usize = 1024;
/// What all processes together may still get under strict overcommit.
const COMMIT_BYTES: u64 = 2 << 30;

const LIMIT_S: u64 = 120;
const DEFAULT_KIB: u32 = 8192;

/// How stacks get their size.
#[derive(Clone, Copy)]
enum Size {
    Kib(u32),
    Auto,
}

/// One program, run once per implementation.
struct Case {
    metric: &'static str,
    program: Program,
    args: Vec<String>,
    implementations: &'static [(&'static str, Size)],
    add: fn(&mut SuiteResult, &Case, &str, &Output),
}

const SIZES: &[(&str, Size)] = &[
    ("stack_2m", Size::Kib(2048)),
    ("stack_4m", Size::Kib(4096)),
    ("stack_8m", Size::Kib(8192)),
    ("auto", Size::Auto),
];
const TWO: &[(&str, Size)] = &[("default", Size::Kib(DEFAULT_KIB)), ("auto", Size::Auto)];

fn cases() -> Vec<Case> {
    let (count, locked) = (ATTEMPTS.to_string(), LOCKED.to_string());
    let space = ADDRESS_SPACE_MIB.to_string();
    let case = |metric, program, args: &[&str], implementations, add| Case {
        metric,
        program,
        args: words(args),
        implementations,
        add,
    };
    vec![
        case("threads_32bit_max", Program::Threads32, &[&count, "plain"], SIZES, add_failures),
        case("mlockall_200_rss_bytes", Program::Threads, &[&locked, "locked"], TWO, add_locked),
        case("threads_as_1g_max", Program::Threads, &[&count, "plain", &space], TWO, add_reached),
    ]
}

pub fn run(tek: &Tek<'_>, result: &mut SuiteResult) {
    let cases = cases();
    let mut progress = Progress::new("tek limits", cases.len() * 4);
    for case in &cases {
        for (name, size) in case.implementations {
            progress.advance(1);
            if !tek.wants(case.metric, name) {
                continue;
            }
            progress.show(&format!("{} {name}", case.metric));
            match once(tek, case, *size) {
                Ok(output) => (case.add)(result, case, name, &output),
                Err(reason) => result.skip(case.metric, name, reason),
            }
        }
    }
    strict_overcommit(tek, result);
}

fn once(tek: &Tek<'_>, case: &Case, size: Size) -> Result<Output, String> {
    let program = tek.plan.programs.get(case.program)?.to_string_lossy().into_owned();
    let kib = match size {
        Size::Kib(kib) => kib,
        Size::Auto => DEFAULT_KIB,
    };
    let mut line = vec![program.clone()];
    line.extend(case.args.iter().cloned());
    let mut env = Vec::new();
    if let Size::Auto = size {
        train(tek, case, &program)?;
        let heddle = tek.heddle()?;
        let report = tek.scratch.path("report.json");
        line = heddle.line(&["--stacks", "auto"], &report, &line);
        env = heddle.env();
    }
    tek.job(&limited(kib, case.program == Program::Threads32, line), env, LIMIT_S)
}

/// A first run without limits, so that sizes come from history.
fn train(tek: &Tek<'_>, case: &Case, program: &str) -> Result<(), String> {
    let heddle = tek.heddle()?;
    heddle.forget()?;
    let report = tek.scratch.path("report.json");
    let line = words(&[program, &TRAINING.to_string(), "plain"]);
    let line = heddle.line(&["--stacks", "observe"], &report, &line);
    let line = limited(DEFAULT_KIB, case.program == Program::Threads32, line);
    tek.job(&line, heddle.env(), LIMIT_S).map(drop)
}

/// The command line under a default stack size and, in 32 bits, with a 32-bit kernel's space.
fn limited(stack_kib: u32, three_gib: bool, line: Vec<String>) -> Vec<String> {
    let mut limited = words(&["/bin/sh", "-c", "ulimit -s \"$0\" && exec \"$@\""]);
    limited.push(stack_kib.to_string());
    if three_gib {
        limited.extend(words(&["setarch", "--3gb"]));
    }
    limited.extend(line);
    limited
}

fn value(output: &Output, key: &str) -> Option<f64> {
    output.values.get(key).copied()
}

fn add_reached(result: &mut SuiteResult, case: &Case, name: &str, output: &Output) {
    match value(output, "reached") {
        Some(reached) => result.add(case.metric, name, "threads", Pick::Median, &[reached]),
        None => result.skip(case.metric, name, "printed no figure"),
    }
}

/// The number reached, and the points of the plot: failures among the first N attempts.
fn add_failures(result: &mut SuiteResult, case: &Case, name: &str, output: &Output) {
    add_reached(result, case, name, output);
    let mut points: Vec<(usize, f64)> = output
        .values
        .iter()
        .filter_map(|(key, failures)| {
            Some((key.strip_prefix("failures_at_")?.parse().ok()?, *failures))
        })
        .collect();
    points.sort_unstable_by_key(|point| point.0);
    for (attempts, failures) in points {
        let metric = format!("failures_at_{attempts}");
        result.add(&metric, name, "threads", Pick::Median, &[failures]);
    }
}

/// The memory of fewer threads than asked for would be a lie.
fn add_locked(result: &mut SuiteResult, case: &Case, name: &str, output: &Output) {
    let reached = value(output, "reached").unwrap_or(0.0);
    match value(output, "rss_bytes") {
        Some(bytes) if reached as usize == LOCKED => {
            result.add(case.metric, name, "bytes", Pick::Median, &[bytes]);
        }
        _ => {
            let reason = format!("only {reached} of {LOCKED} threads could be created");
            result.skip(case.metric, name, reason);
        }
    }
}

/// Touches the whole machine, so only full runs do it.
fn strict_overcommit(tek: &Tek<'_>, result: &mut SuiteResult) {
    const METRIC: &str = "threads_overcommit_max";
    let names = TWO.iter().filter(|(name, _)| tek.wants(METRIC, name));
    for (name, size) in names {
        let args = words(&[&ATTEMPTS.to_string(), "plain"]);
        let (program, implementations) = (Program::Threads, TWO);
        let case = Case { metric: METRIC, program, args, implementations, add: add_reached };
        let outcome = if tek.plan.quick {
            Err("changes a setting of the whole machine: only in a full run".to_string())
        } else {
            under_strict_overcommit(tek, &case, *size)
        };
        match outcome {
            Ok(output) => add_reached(result, &case, name, &output),
            Err(reason) => result.skip(METRIC, name, reason),
        }
    }
}

fn under_strict_overcommit(tek: &Tek<'_>, case: &Case, size: Size) -> Result<Output, String> {
    // Built and trained while memory is still plenty.
    let program = tek.plan.programs.get(case.program)?;
    if let Size::Auto = size {
        train(tek, case, &program.to_string_lossy())?;
    }
    let strict = StrictOvercommit::begin(Path::new("/proc/sys/vm"), COMMIT_BYTES)?;
    let output = once(tek, case, size);
    strict.end()?;
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_set_before_anything_else() {
        let line = limited(2048, true, words(&["program", "7"]));
        assert_eq!(line[..2], ["/bin/sh", "-c"]);
        assert_eq!(line[3..], ["2048", "setarch", "--3gb", "program", "7"]);
    }

    #[test]
    fn locked_memory_of_too_few_threads_is_no_figure() {
        let case = &cases()[1];
        let mut output = Output::default();
        output.values.insert("reached".into(), 150.0);
        output.values.insert("rss_bytes".into(), 1e6);
        let mut result = SuiteResult::new("tek", true);
        add_locked(&mut result, case, "auto", &output);
        assert!(result.rows.is_empty());
        assert_eq!(result.skipped[0].reason, "only 150 of 200 threads could be created");
    }

    #[test]
    fn failures_become_points_in_order() {
        let case = &cases()[0];
        let mut output = Output::default();
        for (key, count) in [("reached", 381.0), ("failures_at_1000", 619.0)] {
            output.values.insert(key.into(), count);
        }
        output.values.insert("failures_at_200".into(), 0.0);
        let mut result = SuiteResult::new("tek", true);
        add_failures(&mut result, case, "stack_8m", &output);
        let metrics: Vec<_> = result.rows.iter().map(|row| row.metric.as_str()).collect();
        assert_eq!(metrics, ["threads_32bit_max", "failures_at_200", "failures_at_1000"]);
    }
}
