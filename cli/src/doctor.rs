//! `heddle doctor`: what this machine supports, and what follows from it.
//!
//! Invariant: shows every check of the runtime and those of `heddle run`; the words for a person
//! and for a program are the same.

mod programs;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Result;
use heddle::doctor::{Check, Verdict, examine};
use serde::Serialize;

/// Show what this machine supports and which fallbacks are in force
///
/// Each feature of the kernel that heddle can use is tried once, each limit is looked at. A line
/// says what was found and what follows from it: "good" is the best way, "fallback" works at some
/// cost, "missing" is not possible here.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Print JSON: an array of objects with area, name, value, verdict and consequence
    #[arg(long)]
    json: bool,
    /// Only what is not good
    #[arg(long)]
    problems: bool,
}

const EXAMPLES: &str = "\
Examples:
  heddle doctor                       everything
  heddle doctor --problems            what could be better
  HEDDLE_IO=epoll heddle doctor       as seen by a program with this setting

Exit status:
  0, whatever was found: heddle runs with every fallback.";

/// What was found, and what follows.
struct Row {
    area: String,
    name: String,
    value: String,
    verdict: Verdict,
    consequence: String,
}

impl From<Check> for Row {
    fn from(check: Check) -> Row {
        Row {
            area: check.area.to_string(),
            name: check.name.to_owned(),
            value: check.value,
            verdict: check.verdict,
            consequence: check.consequence,
        }
    }
}

#[derive(Serialize)]
struct Entry<'a> {
    area: &'a str,
    name: &'a str,
    value: &'a str,
    verdict: String,
    consequence: &'a str,
}

impl<'a> From<&'a Row> for Entry<'a> {
    fn from(row: &'a Row) -> Entry<'a> {
        Entry {
            area: &row.area,
            name: &row.name,
            value: &row.value,
            verdict: row.verdict.to_string(),
            consequence: &row.consequence,
        }
    }
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let mut checks: Vec<Row> = examine().into_iter().map(Row::from).collect();
    checks.extend(programs::examine());
    if args.problems {
        checks.retain(|check| check.verdict != Verdict::Good);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        let entries: Vec<_> = checks.iter().map(Entry::from).collect();
        serde_json::to_writer_pretty(&mut out, &entries)?;
        writeln!(out)?;
    } else {
        write_text(&mut out, &checks)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A heading per area; name and value in columns, the consequence behind or below.
fn write_text(out: &mut impl Write, checks: &[Row]) -> io::Result<()> {
    let width = |text: fn(&Row) -> &str| {
        checks.iter().map(|check| text(check).chars().count()).max().unwrap_or(0)
    };
    let (names, values) = (width(|check| &check.name), width(|check| &check.value));
    let mut area = None;
    for check in checks {
        if area.replace(&check.area) != Some(&check.area) {
            writeln!(out, "{}", check.area)?;
        }
        let mark = match check.verdict {
            Verdict::Good => "ok",
            Verdict::Fallback => "--",
            _ => "!!",
        };
        let Row { name, value, consequence, .. } = check;
        writeln!(out, "  {mark} {name:names$}  {value:values$}  {consequence}")?;
    }
    if checks.is_empty() {
        writeln!(out, "nothing: this machine has everything that heddle can use")?;
    }
    Ok(())
}
