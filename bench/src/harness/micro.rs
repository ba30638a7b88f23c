//! Suite micro: nanoseconds of CPU time per operation on one worker.

use std::collections::HashMap;

use super::impls::{Impl, THREADS};
use super::plan::{Plan, short};
use super::progress::Progress;
use super::result::{Pick, SuiteResult};
use super::rounds::interleave;

/// One metric of the suite.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// What the peers are asked for.
    pub asked: &'static str,
    pub threads: usize,
    /// Operations of the first run, which only finds out how fast this implementation is.
    first_ops: usize,
    /// Least operations of a measured run.
    ops_min: usize,
}

impl Case {
    fn plain(asked: &'static str, first_ops: usize) -> Self {
        Case { name: asked.into(), asked, threads: 1, first_ops, ops_min: first_ops }
    }

    fn yields(name: String, asked: &'static str, threads: usize) -> Self {
        // So many for each thread that its end hardly counts: it costs as much as several yields.
        let ops_min = (threads * 50).max(20_000);
        Case { name, asked, threads, first_ops: (threads * 2).max(20_000), ops_min }
    }
}

/// Thread counts of the plot of yields (uThread Fig. 5).
pub const YIELD_POINTS: [usize; 6] = [1, 10, 100, 1000, 10_000, 100_000];

const OPS_MAX: f64 = 5e7;
/// A run that takes longer than this is stuck.
const LIMIT_S: u64 = 60;

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::yields("yield_2".into(), "yield", 2),
        Case::yields("yield_1000".into(), "yield", 1000),
        Case::yields("yield_100k".into(), "yield_touch", 100_000),
        Case::plain("spawn_join", 5000),
        Case::plain("sem_round_trip", 5000),
        Case::plain("mutex", 200_000),
        Case::plain("channel_item", 20_000),
    ];
    for threads in YIELD_POINTS {
        cases.push(Case::yields(format!("yield_at_{}", short(threads)), "yield", threads));
    }
    cases
}

pub fn run(plan: &Plan) -> SuiteResult {
    let mut result = SuiteResult::new("micro", plan.quick);
    let chosen = plan.chosen(THREADS);
    let cases: Vec<Case> = cases().into_iter().filter(|case| plan.wants(&case.name)).collect();
    let rounds = plan.rounds(2, 7);
    let mut progress = Progress::new("micro", cases.len() * chosen.len() * rounds);
    for case in cases {
        let mut ops = HashMap::new();
        let turns = interleave(&case.name, rounds, &chosen, &mut progress, |one| {
            measure(plan, &case, one, &mut ops)
        });
        for (one, samples) in turns {
            match samples {
                Ok(ns) => result.add(&case.name, one.name, "ns", Pick::Least, &ns),
                Err(reason) => result.skip(&case.name, one.name, reason),
            }
        }
    }
    result.versions = plan.versions(THREADS);
    result
}

/// Measures once; the first time it also finds how many operations fill the run's time.
fn measure(
    plan: &Plan,
    case: &Case,
    one: &Impl,
    ops: &mut HashMap<&'static str, usize>,
) -> Result<f64, String> {
    let ask = |ops| -> Result<f64, String> {
        let output = plan.measure(one, case.asked, ops, case.threads, LIMIT_S)?;
        let ns = output.values.get("ns").copied().filter(|ns| ns.is_finite() && *ns > 0.0);
        ns.ok_or_else(|| format!("printed no figure: {}", output.text.trim()))
    };
    let ops = match ops.get(one.name) {
        Some(&known) => known,
        None => {
            let ns = ask(case.first_ops)?;
            let run_ns = plan.pick(3e7, 4e8);
            let fitting = ((run_ns / ns).min(OPS_MAX) as usize).max(case.ops_min);
            *ops.entry(one.name).or_insert(fitting)
        }
    };
    ask(ops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_promised_metrics() {
        let names: Vec<_> = cases().into_iter().map(|case| case.name).collect();
        for metric in ["yield_2", "yield_1000", "yield_100k", "spawn_join", "sem_round_trip"] {
            assert!(names.iter().any(|name| name == metric), "{metric}");
        }
        assert!(names.contains(&"yield_at_100k".to_string()));
    }
}
