//! `--instructions`: heddle's instructions per operation, counted by valgrind.
//!
//! A count does not move with the machine's load, so it can be gated where a time cannot. Two runs
//! of different length are counted and subtracted: what remains is the operations' own.

use std::path::Path;
use std::process::Command;

use super::impls::THREADS;
use super::micro::cases;
use super::plan::Plan;
use super::programs::Program;
use super::progress::Progress;
use super::result::{Pick, SuiteResult};

/// Arguments that make valgrind count and write no file.
pub const CALLGRIND: [&str; 2] = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];

const FEW_OPS: usize = 20_000;
const MANY_OPS: usize = 60_000;

pub fn count(plan: &Plan) -> SuiteResult {
    let mut result = SuiteResult::new("instructions", plan.quick);
    let cases: Vec<_> = cases()
        .into_iter()
        .filter(|case| case.threads <= 1000 && !case.name.starts_with("yield_at"))
        .filter(|case| plan.wants(&case.name))
        .collect();
    let mut progress = Progress::new("instructions", 2 * cases.len());
    let program = plan.programs.get(Program::HeddlePeer);
    for case in cases {
        let metric = format!("{}_instructions", case.name);
        progress.show(&metric);
        let counted = program.clone().and_then(|program| {
            let few = instructions(&program, case.asked, FEW_OPS, case.threads)?;
            let many = instructions(&program, case.asked, MANY_OPS, case.threads)?;
            Ok((many - few) / (MANY_OPS - FEW_OPS) as f64)
        });
        match counted {
            Ok(each) => result.add(&metric, "heddle", "count", Pick::Least, &[each]),
            Err(reason) => result.skip(&metric, "heddle", reason),
        }
        progress.advance(2);
    }
    result.versions = plan.versions(&THREADS[..1]);
    result
}

/// valgrind knows no io_uring of this age, so the reactor is epoll; these metrics do no I/O.
fn instructions(program: &Path, metric: &str, ops: usize, threads: usize) -> Result<f64, String> {
    let output = Command::new("valgrind")
        .args(CALLGRIND)
        .arg(program)
        .args([metric.to_string(), ops.to_string(), threads.to_string()])
        .env("HEDDLE_WORKERS", "1")
        .env("HEDDLE_IO", "epoll")
        .output()
        .map_err(|e| format!("valgrind cannot be started: {e}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
        return Err(format!("under valgrind: {}", last.trim()));
    }
    collected(&text).ok_or_else(|| "callgrind printed no count".to_string())
}

/// The count in what callgrind says at its end.
pub fn collected(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_callgrinds_count() {
        assert_eq!(collected("==7== \n==7== Collected : 123456\n"), Some(123_456.0));
        assert_eq!(collected("==7== nothing"), None);
    }
}
