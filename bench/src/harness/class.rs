//! Suite class: how late a thread runs that another kernel thread wakes, while a thousand normal
//! threads compute for 20 us and yield on the same worker.

use super::impls::THREADS;
use super::plan::Plan;
use super::progress::Progress;
use super::result::{Pick, SuiteResult};
use super::rounds::interleave;

const BUSY_THREADS: usize = 1000;

pub fn run(plan: &Plan) -> SuiteResult {
    let mut result = SuiteResult::new("class", plan.quick);
    let chosen = plan.chosen(THREADS);
    let rounds = plan.rounds(1, 3);
    let wakes = plan.pick(20, 400);
    let limit_s = plan.pick(15, 60);
    let mut progress = Progress::new("class", 2 * rounds * chosen.len());
    for kind in ["critical_wake", "normal_wake"] {
        if !plan.wants(kind) {
            continue;
        }
        let asked = if kind == "critical_wake" { "wake_critical" } else { "wake_normal" };
        let turns = interleave(kind, rounds, &chosen, &mut progress, |one| {
            plan.measure(one, asked, wakes, BUSY_THREADS, limit_s)
        });
        for (one, outputs) in turns {
            for percentile in ["p50_us", "p99_us"] {
                let metric = format!("{kind}_{percentile}");
                match &outputs {
                    Ok(outputs) => {
                        let us: Vec<f64> = outputs
                            .iter()
                            .filter_map(|output| output.values.get(percentile).copied())
                            .collect();
                        if us.is_empty() {
                            result.skip(&metric, one.name, "printed no figure");
                        } else {
                            result.add(&metric, one.name, "us", Pick::Median, &us);
                        }
                    }
                    Err(reason) => result.skip(&metric, one.name, reason),
                }
            }
        }
    }
    result.versions = plan.versions(THREADS);
    result
}
