//! What watching threads costs: a record's write and read, a stack's measurement, a thread's life.
//!
//! The life of a thread is measured with and without `heddle run` in turns, all on one CPU, and its
//! overhead is the difference of the least times: disturbance only adds. Under valgrind the same
//! program's instructions are counted, which no other process disturbs; they leave the kernel out.

use super::super::child::Output;
use super::super::impls::{Impl, LIVES};
use super::super::instructions;
use super::super::programs::{Program, find};
use super::super::progress::Progress;
use super::super::result::{Pick, SuiteResult};
use super::super::rounds::interleave;
use super::{Tek, words};

const LIMIT_S: u64 = 120;
const PLAIN: &str = "plain";

pub fn run(tek: &Tek<'_>, result: &mut SuiteResult) {
    let mut progress = Progress::new("tek cost", 4);
    progress.show("records");
    records(tek, result);
    progress.advance(1);
    progress.show("stack measurement");
    peaks(tek, result);
    progress.advance(1);
    lives(tek, result);
    progress.advance(1);
    progress.show("instructions");
    instructions_of_lives(tek, result);
}

/// Runs a program that prints its figures by the metrics' names.
fn add_printed(
    tek: &Tek<'_>,
    result: &mut SuiteResult,
    program: Program,
    rounds: usize,
    metrics: &[&str],
) {
    let metrics: Vec<_> = metrics.iter().filter(|metric| tek.wants(metric, "heddle")).collect();
    if metrics.is_empty() {
        return;
    }
    let run = || -> Result<Vec<Output>, String> {
        let program = tek.plan.programs.get(program)?;
        let line = [program.to_string_lossy().into_owned()];
        let measured = tek.plan.cpus.measured();
        let once = |_| super::job_on(&line, Vec::new(), measured.clone(), LIMIT_S);
        (0..rounds).map(once).collect()
    };
    let outputs = run();
    for metric in metrics {
        let values: Result<Vec<f64>, String> = outputs.clone().and_then(|outputs| {
            let value = |output: &Output| output.values.get(*metric).copied();
            let values: Option<Vec<f64>> = outputs.iter().map(value).collect();
            values.ok_or_else(|| "printed no figure".to_string())
        });
        match values {
            Ok(values) => result.add(metric, "heddle", "ns", Pick::Least, &values),
            Err(reason) => result.skip(metric, "heddle", reason),
        }
    }
}

fn records(tek: &Tek<'_>, result: &mut SuiteResult) {
    let rounds = tek.plan.rounds(1, 3);
    add_printed(tek, result, Program::HeddleTek, rounds, &["record_read_ns", "record_write_ns"]);
}

fn peaks(tek: &Tek<'_>, result: &mut SuiteResult) {
    let rounds = tek.plan.rounds(1, 3);
    let metrics = ["peak_measure_ns", "peak_measure_64k_ns"];
    add_printed(tek, result, Program::Peak, rounds, &metrics);
}

/// The command line of the program that creates and joins, in one of the ways of `LIVES`.
fn life(tek: &Tek<'_>, name: &str, program: Vec<String>) -> Result<Vec<String>, String> {
    if name == PLAIN {
        return Ok(program);
    }
    let report = tek.scratch.path("report.json");
    Ok(tek.heddle()?.line(&["--stacks", name], &report, &program))
}

fn env(tek: &Tek<'_>, name: &str) -> Result<Vec<(String, String)>, String> {
    if name == PLAIN { Ok(Vec::new()) } else { Ok(tek.heddle()?.env()) }
}

fn lives(tek: &Tek<'_>, result: &mut SuiteResult) {
    const TIME: &str = "create_join_ns";
    const OVERHEAD: &str = "create_join_overhead_ns";
    if !tek.plan.wants(TIME) && !tek.plan.wants(OVERHEAD) {
        return;
    }
    let chosen = tek.plan.chosen(LIVES);
    // Where the kernel put a process's memory moves its figure by a third; the least of many
    // short processes does not.
    let rounds = tek.plan.rounds(2, 41);
    let mut progress = Progress::new("tek create + join", rounds * chosen.len());
    let [batches, ops] = tek.plan.pick(["20", "100"], ["200", "100"]);
    let turns = interleave("create + join", rounds, &chosen, &mut progress, |one: &Impl| {
        let program = tek.plan.programs.get(Program::Churn)?;
        let line = life(tek, one.name, words(&[&program.to_string_lossy(), batches, ops]))?;
        let cpus = tek.plan.cpus.measured();
        let output = super::job_on(&line, env(tek, one.name)?, cpus, LIMIT_S)?;
        output.values.get("ns").copied().ok_or_else(|| "printed no figure".to_string())
    });
    for (one, samples) in turns {
        match samples {
            Ok(ns) => result.add(TIME, one.name, "ns", Pick::Least, &ns),
            Err(reason) => result.skip(TIME, one.name, reason),
        }
    }
    differences(result, TIME, OVERHEAD, "ns");
}

/// What each way costs beyond the plain one; one figure of two least ones.
fn differences(result: &mut SuiteResult, of: &str, to: &str, unit: &str) {
    let plain = result.value(of, PLAIN);
    for name in LIVES.iter().map(|one| one.name).filter(|name| *name != PLAIN) {
        match (plain, result.value(of, name)) {
            (Some(plain), Some(value)) => {
                result.add(to, name, unit, Pick::Least, &[value - plain]);
            }
            _ => result.skip(to, name, format!("`{of}` has no two figures to compare")),
        }
    }
}

fn instructions_of_lives(tek: &Tek<'_>, result: &mut SuiteResult) {
    const COUNT: &str = "create_join_instructions";
    const OVERHEAD: &str = "create_join_overhead_instructions";
    if !tek.plan.wants(COUNT) && !tek.plan.wants(OVERHEAD) {
        return;
    }
    for one in tek.plan.chosen(LIVES) {
        match instructions_of(tek, one.name) {
            Ok(each) => result.add(COUNT, one.name, "count", Pick::Least, &[each]),
            Err(reason) => result.skip(COUNT, one.name, reason),
        }
    }
    differences(result, COUNT, OVERHEAD, "count");
}

/// Two runs of different length, subtracted: what remains is the threads' own.
fn instructions_of(tek: &Tek<'_>, name: &str) -> Result<f64, String> {
    const FEW: usize = 200;
    const MANY: usize = 1200;
    let valgrind = find("valgrind")?.to_string_lossy().into_owned();
    let churn = tek.plan.programs.get(Program::Churn)?.to_string_lossy().into_owned();
    let count = |ops: usize| -> Result<f64, String> {
        let mut program = vec![valgrind.clone()];
        program.extend(words(&instructions::CALLGRIND));
        program.extend(words(&[&churn, "1", &ops.to_string()]));
        let line = life(tek, name, program)?;
        let cpus = tek.plan.cpus.measured();
        let output = super::job_on(&line, env(tek, name)?, cpus, LIMIT_S)?;
        instructions::collected(&output.errors).ok_or_else(|| "callgrind printed no count".into())
    };
    Ok((count(MANY)? - count(FEW)?) / (MANY - FEW) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_what_lies_above_the_plain_life() {
        let mut result = SuiteResult::new("tek", true);
        result.add("t", PLAIN, "ns", Pick::Least, &[9000.0, 9100.0]);
        result.add("t", "observe", "ns", Pick::Least, &[9800.0, 9500.0]);
        differences(&mut result, "t", "overhead", "ns");
        assert_eq!(result.value("overhead", "observe"), Some(500.0));
        assert_eq!(result.value("overhead", "auto"), None);
        assert_eq!(result.skipped.len(), 1);
    }
}
