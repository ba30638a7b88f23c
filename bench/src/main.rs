//! `heddle-bench SUITE`: measures heddle and its peers in one run, side by side.
//!
//! Invariant: implementations take turns within each round, so whatever else the machine does
//! falls on all of them; and a figure that could not be had leaves its reason in the report.

mod harness;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;

use harness::instructions;
use harness::plan::{Plan, Suite};
use harness::report;
use harness::result::SuiteResult;

/// Measure heddle against its peers.
#[derive(Parser)]
#[command(name = "heddle-bench", version)]
struct Options {
    /// What to measure; `all` is every suite, `report` only writes the report and plots again.
    #[arg(value_parser = [
        "micro", "memory", "echo", "http", "class", "tek", "unmodified", "all", "report",
    ])]
    suite: String,
    /// Short runs with few threads and rounds: shows that everything works, proves no figure.
    #[arg(long)]
    quick: bool,
    /// Also write the rows {metric, impl, value, unit, n} to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure only these implementations.
    #[arg(long, value_name = "IMPL", value_delimiter = ',')]
    only: Vec<String>,
    /// Measure only metrics whose name begins so.
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Rounds, instead of the suite's own number.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Count heddle's instructions per operation under valgrind, instead of measuring time.
    #[arg(long)]
    instructions: bool,
    /// Where results go [default: bench/results, or bench/results/tmp with --quick].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Options {
    fn out(&self) -> PathBuf {
        let results = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("results");
        // A part of a suite must not replace the whole of it.
        let partial = self.quick || !self.only.is_empty() || !self.metrics.is_empty();
        match &self.out {
            Some(folder) => folder.clone(),
            None if partial => results.join("tmp"),
            None => results,
        }
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    let out = options.out();
    std::fs::create_dir_all(&out)?;
    if options.suite == "report" {
        return report::write(&out);
    }
    let plan = Plan::new(options.quick, options.rounds, &options.only, &options.metrics)?;
    let suites = match Suite::named(&options.suite) {
        Some(suite) => vec![suite],
        None => Suite::ALL.to_vec(),
    };
    if let Some(file) = &options.json {
        check_place(file, &out)?;
    }
    let mut all = Vec::new();
    for suite in suites {
        let result = if options.instructions {
            if suite != Suite::Micro {
                bail!("--instructions counts the micro suite only");
            }
            instructions::count(&plan)
        } else {
            suite.run(&plan)
        };
        print(&result);
        result.save(&out)?;
        all.push(result);
    }
    if let Some(file) = &options.json {
        let rows: Vec<_> = all.iter().flat_map(|result| &result.rows).collect();
        std::fs::write(file, serde_json::to_string_pretty(&rows)? + "\n")?;
    }
    report::write(&out)?;
    println!("report: {}", out.join("REPORT.md").display());
    Ok(())
}

/// Refuses a file for the rows that takes none, or that keeps a suite's whole result: before an
/// hour of measuring, not after it.
fn check_place(file: &Path, out: &Path) -> Result<()> {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
    opened.with_context(|| format!("--json {}", file.display()))?;
    let place = file.canonicalize()?;
    for suite in Suite::ALL {
        let kept = out.join(format!("{}.json", suite.name()));
        if kept.canonicalize().is_ok_and(|kept| kept == place) {
            bail!("--json {}: the suite keeps its whole result there", file.display());
        }
    }
    Ok(())
}

fn print(result: &SuiteResult) {
    for row in &result.rows {
        println!("{:<28} {:<12} {:>14.3} {}", row.metric, row.implementation, row.value, row.unit);
    }
    for skip in &result.skipped {
        println!("{:<28} {:<12} skipped: {}", skip.metric, skip.implementation, skip.reason);
    }
}
