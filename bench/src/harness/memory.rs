//! Suite memory: what a parked and what a hibernated thread costs, all memory of the process
//! counted, and how many each implementation can have at all.

use super::child::Output;
use super::impls::{Impl, THREADS};
use super::plan::{Plan, short};
use super::progress::Progress;
use super::result::{Pick, SuiteResult};
use super::rounds::interleave;

const LIMIT_S: u64 = 300;

struct Case {
    kind: &'static str,
    threads: usize,
    rounds: usize,
}

fn cases(plan: &Plan) -> Vec<Case> {
    let case = |kind, quick, full, rounds| {
        let rounds = plan.rounds(1, rounds);
        Case { kind, threads: plan.pick(quick, full), rounds }
    };
    let mut cases =
        vec![case("parked", 20_000, 1_000_000, 3), case("hibernated", 20_000, 1_000_000, 3)];
    if !plan.quick {
        cases.push(case("hibernated", 0, 10_000_000, 1));
    }
    cases
}

pub fn run(plan: &Plan) -> SuiteResult {
    let mut result = SuiteResult::new("memory", plan.quick);
    let chosen = plan.chosen(THREADS);
    let cases: Vec<Case> =
        cases(plan).into_iter().filter(|case| plan.wants(&name(case, ""))).collect();
    let steps = cases.iter().map(|case| case.rounds * chosen.len()).sum();
    let mut progress = Progress::new("memory", steps);
    if !plan.quick && !cases.is_empty() {
        progress.show("touching memory once");
        back_by_host();
    }
    for case in &cases {
        let label = name(case, "");
        let turns = interleave(&label, case.rounds, &chosen, &mut progress, |one| {
            room_for(&result, case, one)?;
            plan.measure(one, case.kind, 1, case.threads, LIMIT_S)
        });
        for (one, outputs) in turns {
            match outputs {
                Ok(outputs) => add(&mut result, case, one, &outputs),
                Err(reason) => result.skip(&name(case, "_bytes"), one.name, reason),
            }
        }
    }
    result.versions = plan.versions(THREADS);
    result
}

fn name(case: &Case, what: &str) -> String {
    format!("{}_{}{what}", case.kind, short(case.threads))
}

/// Touches memory and frees it. In a virtual machine the first touch of a page may fault in the
/// host, and that time is charged to the process that happens to come first: up to four times the
/// cost of creating a thread was seen.
fn back_by_host() {
    const CHUNK_BYTES: usize = 64 << 20;
    let wanted = (0.6 * available_bytes()).min(8e9) as usize;
    let chunks: Vec<Vec<u8>> = (0..wanted / CHUNK_BYTES).map(|_| vec![1; CHUNK_BYTES]).collect();
    std::hint::black_box(&chunks);
}

/// Refuses a run that the smaller one foretells to need more memory than there is: the machine's
/// out-of-memory killer picks its victims freely.
fn room_for(result: &SuiteResult, case: &Case, one: &Impl) -> Result<(), String> {
    let smaller = result.rows.iter().rfind(|row| {
        row.implementation == one.name && row.unit == "bytes" && row.metric.starts_with(case.kind)
    });
    let stopped = result
        .skipped
        .iter()
        .rfind(|skip| skip.implementation == one.name && skip.metric.starts_with(case.kind));
    if let (None, Some(skip)) = (smaller, stopped) {
        return Err(format!("the smaller run already ended so: {}", skip.reason));
    }
    let Some(row) = smaller else { return Ok(()) };
    let (needed, free) = (row.value * case.threads as f64, available_bytes());
    if needed > 0.9 * free {
        let gib = |bytes: f64| bytes / (1u64 << 30) as f64;
        return Err(format!(
            "would need {:.1} GiB of the {:.1} GiB available",
            gib(needed),
            gib(free)
        ));
    }
    Ok(())
}

fn available_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map_or(f64::INFINITY, |kib| kib * 1024.0)
}

fn add(result: &mut SuiteResult, case: &Case, one: &Impl, outputs: &[Output]) {
    let all = |key: &str| -> Vec<f64> {
        outputs.iter().filter_map(|output| output.values.get(key).copied()).collect()
    };
    let reached = all("reached");
    if reached.is_empty() {
        result.skip(&name(case, "_bytes"), one.name, "printed no figure");
        return;
    }
    result.add(&name(case, "_reached"), one.name, "threads", Pick::Median, &reached);
    let mut figures = vec![("bytes", "_bytes", "bytes", Pick::Median)];
    if case.kind == "parked" {
        figures.push(("create_ns", "_create_ns", "ns", Pick::Least));
        figures.push(("vmas", "_vmas", "count", Pick::Median));
        add_creation(result, one, outputs);
    }
    if reached.iter().all(|&count| count as usize == case.threads) {
        for (key, suffix, unit, pick) in figures {
            result.add(&name(case, suffix), one.name, unit, pick, &all(key));
        }
        return;
    }
    let why = outputs.iter().find_map(|output| output.remark.clone()).unwrap_or_default();
    for (key, suffix, unit, pick) in figures {
        let (at, value) = (Pick::Median.of(&reached), pick.of(&all(key)));
        let reason = format!("ended at {at} threads, with {value:.0} {unit}: {why}");
        result.skip(&name(case, suffix), one.name, reason);
    }
}

/// The points of the plot of creation time (uThread Fig. 4).
fn add_creation(result: &mut SuiteResult, one: &Impl, outputs: &[Output]) {
    let mut counts: Vec<usize> = outputs
        .iter()
        .flat_map(|output| output.values.keys())
        .filter_map(|key| key.strip_prefix("at_")?.parse().ok())
        .collect();
    counts.sort_unstable();
    counts.dedup();
    for count in counts {
        let values = outputs.iter().filter_map(|output| output.values.get(&format!("at_{count}")));
        let ms: Vec<f64> = values.map(|ns| ns / 1e6).collect();
        let metric = format!("create_at_{}", short(count));
        result.add(&metric, one.name, "ms", Pick::Least, &ms);
    }
}
