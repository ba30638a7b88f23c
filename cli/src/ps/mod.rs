//! `heddle ps`: the threads of running processes, from their tables (those of crashed ones too)
//! or, without a table, from /proc.
//!
//! Invariant: the process that is looked at is not disturbed.

mod json;
mod outside;
mod rows;
mod summary;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::ValueEnum;
use heddle_record::{Error, Kind, Snapshot, State, Thread, table_pids};

use crate::live::{self, Starts};
use crate::which::Which;

/// Show the threads of processes
///
/// Reads the thread table that a process keeps in shared memory if it uses heddle's runtime or was
/// started by `heddle run`. Without a process given, shows every one whose table this user may
/// read; one with more than 100 threads by role only. The table of a process that crashed stays
/// readable until it is swept.
///
/// Of a process without a table (if it was given), the kernel tells names, states, scheduling,
/// CPU time and switches; roles, start functions and stacks are not known then.
///
/// Of a process under `heddle run` the stacks of living threads are measured at this moment.
/// A thread that is ready and on a worker is shown as running. Of workers and kernel threads the
/// CPU time is what the kernel says.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Process to look at, or the name of one or several; all with a table if not given
    #[arg(value_name = "PID|NAME")]
    which: Option<Which>,
    /// Print JSON: one object for a PID, else an array of them; sizes in bytes, times in ns
    #[arg(long)]
    json: bool,
    /// One line per role instead of one per thread
    #[arg(long, conflicts_with = "json")]
    by_role: bool,
    /// Only threads with this role
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Only threads in this state
    #[arg(long, value_name = "STATE")]
    state: Option<StateName>,
    /// What to sort threads by; largest first, except ids
    #[arg(long, value_name = "KEY", default_value = "id")]
    sort: Key,
    /// Remove the tables of dead processes instead of showing any
    #[arg(long, conflicts_with_all = ["which", "json", "by_role", "role", "state"])]
    sweep: bool,
}

const EXAMPLES: &str = "\
Examples:
  heddle ps                           every process
  heddle ps mariadbd                  those of this name
  heddle ps 4711 --sort cpu | head    what uses most CPU time
  heddle ps 4711 --by-role            how many threads of each role, and their stacks
  heddle ps 4711 --json | jq '[.threads[] | select(.zone == \"high\")]'

Exit status:
  0 if every table asked for was shown, 1 if one could not be read.";

/// [`State`] as an argument.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "verbatim")]
#[allow(non_camel_case_types)]
enum StateName {
    new,
    ready,
    running,
    parked,
    EV_WAIT,
    finished,
}

impl StateName {
    fn state(self) -> State {
        match self {
            StateName::new => State::New,
            StateName::ready => State::Ready,
            StateName::running => State::Running,
            StateName::parked => State::Parked,
            StateName::EV_WAIT => State::EvWait,
            StateName::finished => State::Finished,
        }
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Key {
    Id,
    Cpu,
    Switches,
    Peak,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    if args.sweep {
        return sweep();
    }
    if args.which.is_none() {
        // What earlier runs left behind is nobody's news; failing leaves it.
        let _ = heddle_record::sweep_left();
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let code = match &args.which {
        Some(Which::Pid(pid)) => {
            let snapshot = take(*pid, args, &mut Starts::default())
                .map_err(|error| name_process(error, *pid))?;
            if args.json {
                json::write_one(&mut out, &snapshot)?;
            } else {
                write_text(&mut out, &snapshot, args)?;
            }
            ExitCode::SUCCESS
        }
        Some(name) => several(&mut out, args, &name.pids()?, false)?,
        None => {
            let pids = table_pids().context("cannot list the thread tables")?;
            several(&mut out, args, &pids, true)?
        }
    };
    out.flush()?;
    Ok(code)
}

fn sweep() -> Result<ExitCode> {
    let count = heddle_record::sweep(std::time::Duration::ZERO)?;
    writeln!(io::stdout(), "removed {count} table{} of dead processes", plural(count))?;
    Ok(ExitCode::SUCCESS)
}

/// Each of these; one that cannot be read costs a message and the exit status, not the others.
/// Where `all` were found by their tables, one that is gone meanwhile is none of them.
fn several(out: &mut impl Write, args: &Args, pids: &[i32], all: bool) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    let (mut snapshots, mut starts) = (Vec::new(), Starts::default());
    for pid in pids {
        match take(*pid, args, &mut starts) {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(Error::NoTable { .. }) if all => {}
            Err(error) => {
                let error = name_process(error, *pid);
                eprintln!("heddle: {error:#}");
                code = ExitCode::FAILURE;
            }
        }
    }
    if args.json {
        json::write_all(out, &snapshots)?;
        return Ok(code);
    }
    if snapshots.is_empty() && code == ExitCode::SUCCESS {
        eprintln!("heddle: no process has a thread table that this user may read");
    }
    for (index, snapshot) in snapshots.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        write_text(out, snapshot, args)?;
    }
    Ok(code)
}

/// The snapshot of a process, with the threads that were asked for in the order asked for.
fn take(pid: i32, args: &Args, starts: &mut Starts) -> Result<Snapshot, Error> {
    let mut snapshot = live::take(pid)?;
    starts.name(&mut snapshot);
    live::measure(&mut snapshot, 0, usize::MAX);
    if let Some(role) = &args.role {
        snapshot.threads.retain(|thread| thread.role.as_deref() == Some(role));
    }
    if let Some(state) = args.state {
        snapshot.threads.retain(|thread| thread.fields.state == state.state());
    }
    sort(&mut snapshot.threads, args.sort);
    Ok(snapshot)
}

/// Some errors name the process themselves; the others need it.
fn name_process(error: Error, pid: i32) -> anyhow::Error {
    match error {
        Error::NoTable { .. } => anyhow::anyhow!("there is no process {pid}, nor a table of it"),
        Error::Denied { .. } | Error::Impostor { .. } => error.into(),
        other => anyhow::Error::new(other)
            .context(format!("cannot read the thread table of process {pid}")),
    }
}

/// Tables are in the order of ids already.
fn sort(threads: &mut [Thread], key: Key) {
    let value = |thread: &Thread| match key {
        Key::Id => 0,
        Key::Cpu => thread.fields.cpu_ns,
        Key::Switches => u64::from(thread.fields.switches),
        Key::Peak => u64::from(thread.fields.stack_peak),
    };
    threads.sort_by_key(|thread| std::cmp::Reverse(value(thread)));
}

fn write_text(out: &mut impl Write, snapshot: &Snapshot, args: &Args) -> io::Result<()> {
    /// Nobody who did not ask for one process wants a million lines about it.
    const ROWS_MAX: usize = 100;
    let crowded = args.which.is_none() && snapshot.threads.len() > ROWS_MAX;
    writeln!(out, "{}", summary::headline(snapshot))?;
    if live::is_outside(snapshot) && !args.by_role {
        outside::write(out, snapshot)?;
    } else if args.by_role || crowded {
        summary::write(out, snapshot)?;
    } else {
        rows::write(out, snapshot)?;
    }
    out.flush()?;
    summary::warn(snapshot);
    if live::is_outside(snapshot) {
        eprintln!("heddle: {}: {}", snapshot.pid, live::LIMITS);
    }
    Ok(())
}

/// The state as a word. A worker runs a thread or is idle, whatever its record says.
pub fn state(thread: &Thread) -> &'static str {
    match (thread.fields.kind, thread.runs) {
        (Kind::Worker, Some(_)) => State::Running.word(),
        (Kind::Worker, None) => "idle",
        _ => thread.fields.state.word(),
    }
}

/// "s" unless there is one.
fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
