//! Thread calls in a loop: create + join, by the main thread and by another, and sched_yield; and
//! how late a thread wakes beside others that compute.

use super::super::programs::Program;
use super::super::result::{Pick, SuiteResult};
use super::super::tek::words;
use super::way::Way;
use super::{Bench, figure};

const LIMIT_S: u64 = 60;

pub fn run(bench: &Bench<'_>, result: &mut SuiteResult) {
    let batches = bench.plan.pick("2", "20");
    one(bench, result, "create_join", batches, Pick::Least);
    one(bench, result, "create_join_thread", batches, Pick::Least);
    one(bench, result, "sched_yield", bench.plan.pick("20000", "500000"), Pick::Least);
    one(bench, result, "wake_late", bench.plan.pick("50", "1000"), Pick::Median);
}

fn one(bench: &Bench<'_>, result: &mut SuiteResult, name: &str, ops: &str, pick: Pick) {
    let figures = [figure(format!("{name}_ns"), "ns", pick)];
    bench.turns(result, name, bench.plan.rounds(1, 5), &figures, |one| {
        let program = bench.plan.programs.get(Program::Loops)?;
        let line = words(&[&program.to_string_lossy(), name, ops]);
        let output = Way::new(bench, one).run(&line, bench.plan.cpus.measured(), LIMIT_S)?;
        let ns = output.values.get("ns").copied();
        Ok(vec![ns.ok_or_else(|| "printed no figure".to_string())])
    });
}
