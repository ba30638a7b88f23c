//! `heddle doctor`: what this machine supports, and what follows from it.
//!
//! Invariant: shows every check of the runtime and those of `heddle run`, or every finding about
//! one program; the words for a person and for a program are the same.

mod program;
mod programs;

use std::ffi::OsString;
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
///
/// With `--program` the question is another one: whether that program could run on user-level
/// threads. Its files are looked at, nothing of it is run: the machine, how it is linked, whether
/// it changes its privileges, its C library, and kinds of code that treat threads in a way of their
/// own (Go, Java's machine, sanitizers, Wine, faked clocks, allocators with caches per
/// processor). What is used of the C library is tried out, and address space must not be limited.
/// A line with "missing" says what stands in the way; then `heddle run --threads user` has the
/// program on kernel threads, which need none of this.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Print JSON: an array of objects with area, name, value, verdict and consequence
    #[arg(long)]
    json: bool,
    /// Only what is not good
    #[arg(long)]
    problems: bool,
    /// Judge this program instead of the machine: a path, or a name that is searched in PATH
    #[arg(long, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandName)]
    program: Option<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  heddle doctor                       everything
  heddle doctor --problems            what could be better
  HEDDLE_IO=epoll heddle doctor       as seen by a program with this setting
  heddle doctor --program mariadbd    could it run on user-level threads?

Exit status:
  0, whatever was found about the machine: heddle runs with every fallback.
  With --program: 0 if nothing speaks against user-level threads, 1 if something does or there
  is no such program.";

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
    let (mut checks, nothing) = match &args.program {
        Some(program) => (program::examine(program), "nothing speaks against user-level threads"),
        None => (machine(), "nothing: this machine has everything that heddle can use"),
    };
    // What a machine lacks has a fallback; what a program lacks is its answer.
    let is_answer = |check: &Row| args.program.is_some() && check.verdict != Verdict::Good;
    let code = ExitCode::from(u8::from(checks.iter().any(is_answer)));
    if args.problems {
        checks.retain(|check| check.verdict != Verdict::Good);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        let entries: Vec<_> = checks.iter().map(Entry::from).collect();
        serde_json::to_writer_pretty(&mut out, &entries)?;
        writeln!(out)?;
    } else {
        write_text(&mut out, &checks, nothing)?;
    }
    out.flush()?;
    Ok(code)
}

fn machine() -> Vec<Row> {
    let mut checks: Vec<Row> = examine().into_iter().map(Row::from).collect();
    checks.extend(programs::examine());
    checks
}

/// A heading per area; name and value in columns, the consequence behind or below.
fn write_text(out: &mut impl Write, checks: &[Row], nothing: &str) -> io::Result<()> {
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
        writeln!(out, "{nothing}")?;
    }
    Ok(())
}
