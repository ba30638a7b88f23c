//! What a full thread costs beside a light one: a switch on one worker, and its memory.

use super::super::impls::THREADS;
use super::super::progress::Progress;
use super::super::result::{Pick, SuiteResult};
use super::Bench;

const LIMIT_S: u64 = 60;
const HEDDLE: &str = "heddle";

/// Metric, what the peer is asked, what it prints, unit, threads.
type Case = (&'static str, &'static str, &'static str, &'static str, usize);

const CASES: [Case; 4] = [
    ("light_switch_ns", "yield", "ns", "ns", 2),
    ("full_switch_ns", "yield_full", "ns", "ns", 2),
    ("light_thread_bytes", "parked", "bytes", "bytes", 20_000),
    ("full_thread_bytes", "parked_full", "bytes", "bytes", 20_000),
];

pub fn run(bench: &Bench<'_>, result: &mut SuiteResult) {
    let plan = bench.plan;
    let Some(peer) = plan.chosen(THREADS).into_iter().find(|one| one.name == HEDDLE) else {
        return;
    };
    let wanted: Vec<Case> = CASES.into_iter().filter(|case| plan.wants(case.0)).collect();
    let rounds = plan.rounds(1, 5);
    let mut values: Vec<Result<Vec<f64>, String>> = vec![Ok(Vec::new()); wanted.len()];
    let mut progress = Progress::new("unmodified", rounds * wanted.len());
    for _ in 0..rounds {
        for (case, values) in wanted.iter().zip(&mut values) {
            let &(metric, asked, printed, _, threads) = case;
            progress.show(metric);
            let ops = plan.pick(200_000, 10_000_000);
            let output = plan.measure(peer, asked, ops, threads, LIMIT_S);
            let value = output.and_then(|output| {
                output.values.get(printed).copied().ok_or_else(|| "printed no figure".to_string())
            });
            match (value, values.as_mut()) {
                (Ok(value), Ok(values)) => values.push(value),
                (Err(reason), Ok(_)) => *values = Err(reason),
                (_, Err(_)) => {}
            }
            progress.advance(1);
        }
    }
    for ((metric, _, _, unit, _), values) in wanted.into_iter().zip(values) {
        match values {
            Ok(values) => result.add(metric, HEDDLE, unit, Pick::Least, &values),
            Err(reason) => result.skip(metric, HEDDLE, reason),
        }
    }
}
