//! `heddle stacks`: what earlier runs learned of stacks, and the sizes that follow.
//!
//! Invariant: shows and forgets; nothing is learned here. A profile that cannot be read costs a
//! message and the exit status, not the others.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::ValueEnum;
use heddle_preload::profile::{Executable, Profile, Row, Sort, Store};

use crate::report::layout::{Column, Columns};
use crate::run::program::Program;
use crate::symbols::image::Image;
use crate::symbols::shorten;
use crate::text::{bytes, harmless};

/// Wide enough for names, narrow enough for most windows.
const WIDTH: usize = 110;

/// Show, forget or export what earlier runs learned of stacks
///
/// "heddle run" keeps a profile per executable: how deep the stacks of each kind of thread were
/// used in any run so far. "heddle run --stacks auto" gives stacks half as much again and 40K, at
/// least 64K, and after an overflow at least double of what overflowed.
///
/// Profiles are files in $XDG_STATE_HOME/heddle/stacks, or ~/.local/state/heddle/stacks.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// What to do
    #[arg(value_name = "show|reset|export", hide_possible_values = true)]
    what: What,
    /// Program, by name or path; all programs if not given
    program: Option<String>,
    /// Print JSON, which is the only form of an export
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  heddle stacks show                   every program that was ever run
  heddle stacks show memcached         one of them
  heddle stacks reset ./server         forget it: the next run only measures
  heddle stacks export --json > all.json

Exit status:
  0 if all was done, 1 if there is nothing for the program named, or a profile cannot be read.";

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// The profiles with the sizes that they give
    Show,
    /// Forget profiles
    Reset,
    /// The profiles for other programs
    Export,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let store = Store::open()?;
    let program = args.program.as_deref();
    match args.what {
        What::Show if args.json => export(&store, program),
        What::Show => show(&store, program),
        What::Reset => reset(&store, program),
        What::Export => export(&store, program),
    }
}

/// The profiles of a program, or all; none of a named one is a message.
fn chosen(store: &Store, program: Option<&str>) -> Result<Vec<Profile>> {
    let all = store.profiles().context("cannot list the profiles")?;
    let Some(program) = program else { return Ok(all) };
    let own = of_file(store, program);
    let chosen: Vec<Profile> = all
        .into_iter()
        .filter(|profile| {
            let path = Path::new(&profile.executable().path);
            let is_named = !program.contains('/') && path.file_name() == Some(OsStr::new(program));
            is_named || Some(profile.path()) == own.as_ref().map(Profile::path)
        })
        .collect();
    if chosen.is_empty() {
        eprintln!(
            "heddle: no run of {} has left a profile in {}",
            harmless(program),
            store.dir().display()
        );
    }
    Ok(chosen)
}

/// The profile of the file that a shell would run, or that a path names.
fn of_file(store: &Store, program: &str) -> Option<Profile> {
    let path = Program::find(program.as_ref()).ok()?.path;
    let path = std::fs::canonicalize(path).ok()?;
    let id = Image::open(&path).ok()?.head.build_id;
    Some(store.for_executable(&Executable::new(&path, id.as_deref())))
}

fn show(store: &Store, program: Option<&str>) -> Result<ExitCode> {
    let profiles = chosen(store, program)?;
    let mut code = status(&profiles, program);
    let mut out = BufWriter::new(io::stdout().lock());
    if profiles.is_empty() && program.is_none() {
        eprintln!("heddle: there are no profiles in {} yet", store.dir().display());
    }
    for (index, profile) in profiles.iter().enumerate() {
        match profile.load() {
            Ok(loaded) => {
                if let Some(trouble) = loaded.trouble {
                    eprintln!("heddle: {}", harmless(&trouble));
                    code = ExitCode::FAILURE;
                    continue;
                }
                if index > 0 {
                    writeln!(out)?;
                }
                let path = &profile.executable().path;
                for line in lines(path, &loaded.rows) {
                    writeln!(out, "{line}")?;
                }
            }
            Err(error) => {
                eprintln!("heddle: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    out.flush()?;
    Ok(code)
}

fn status(profiles: &[Profile], program: Option<&str>) -> ExitCode {
    if profiles.is_empty() && program.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// One program's kinds of threads, the deepest first.
fn lines(path: &str, rows: &[Row]) -> Vec<String> {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.peak));
    let mut columns = Columns::new(&[
        ("THREAD", Column::Elastic),
        ("RUNS", Column::Right),
        ("THREADS", Column::Right),
        ("ASKS", Column::Right),
        ("PEAK", Column::Right),
        ("GIVES", Column::Right),
        ("MODE", Column::Left),
    ]);
    let size = |count: u32| if count == 0 { "-".into() } else { bytes(count.into()) };
    for row in &rows {
        let gives = row.size_for().map_or("-".into(), |size| bytes(size.into()));
        let mode = match (row.sort, row.overflowed) {
            (Sort::Default, 0) => "auto".into(),
            (Sort::Explicit, 0) => "force".into(),
            (Sort::Main, _) => "never: made by the kernel".into(),
            (Sort::User, _) => "never: the program's memory".into(),
            (Sort::Default, too_small) => format!("auto; overflowed at {}", size(too_small)),
            (Sort::Explicit, too_small) => format!("force; overflowed at {}", size(too_small)),
        };
        columns.row(vec![
            title(row),
            row.runs.to_string(),
            row.threads.to_string(),
            size(row.asked),
            size(row.peak),
            gives,
            mode,
        ]);
    }
    let mut lines = vec![harmless(path).into_owned()];
    lines.extend(columns.lines(WIDTH, 2, shorten));
    lines
}

fn title(row: &Row) -> String {
    let module = row.module.rsplit('/').next().unwrap_or("?");
    let title = match &row.name {
        Some(name) => name.clone(),
        None if row.sort == Sort::Main => "main".into(),
        None => format!("{module}+{:#x}", row.key.refine.unwrap_or(row.key.start).offset),
    };
    harmless(&title).into_owned()
}

fn reset(store: &Store, program: Option<&str>) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    if program.is_none() {
        let count = store.reset()?;
        writeln!(out, "forgot {count} profile{}", if count == 1 { "" } else { "s" })?;
        return Ok(ExitCode::SUCCESS);
    }
    let profiles = chosen(store, program)?;
    let mut forgotten = BTreeSet::new();
    for profile in &profiles {
        if profile.reset(None)? {
            forgotten.insert(profile.executable().path.clone());
        }
    }
    for path in &forgotten {
        writeln!(out, "forgot {}", harmless(path))?;
    }
    Ok(status(&profiles, program))
}

fn export(store: &Store, program: Option<&str>) -> Result<ExitCode> {
    let profiles = chosen(store, program)?;
    let mut code = status(&profiles, program);
    let mut exported = Vec::new();
    for profile in &profiles {
        match profile.export() {
            Ok(export) => exported.push(export),
            Err(error) => {
                eprintln!("heddle: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    let mut out = BufWriter::new(io::stdout().lock());
    serde_json::to_writer(&mut out, &exported)?;
    writeln!(out)?;
    out.flush()?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_shown_with_what_they_give() {
        let row = |key: &str, name: Option<&str>, sort, peak, overflowed| Row {
            name: name.map(str::to_owned),
            module: "/usr/bin/prog".into(),
            sort,
            threads: 4,
            runs: 2,
            peak,
            asked: 8 << 20,
            overflowed,
            ..Row::new(key.parse().expect("a key"), 0)
        };
        let rows = [
            row("ab+0x10", Some("worker"), Sort::Default, 12 << 10, 0),
            row("ab+0x20", None, Sort::Explicit, 900, 128 << 10),
            row("ab+0x0", None, Sort::Main, 20 << 10, 0),
        ];
        let wanted = "\
/usr/bin/prog
  THREAD     RUNS  THREADS  ASKS  PEAK  GIVES  MODE
  main          2        4    8M   20K      -  never: made by the kernel
  worker        2        4    8M   12K    64K  auto
  prog+0x20     2        4    8M   900   256K  force; overflowed at 128K";
        assert_eq!(lines("/usr/bin/prog", &rows).join("\n"), wanted);
    }
}
