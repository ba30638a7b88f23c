//! After the run: what was learned is kept, and the report is printed.
//!
//! Invariant: nothing here changes the exit status; what goes wrong is a line in the report.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use heddle_preload::profile::{Executable, Observation, Store};
use heddle_preload::sys::clock::children_cpu_ns;
use heddle_record::Use;
use rustix::event::{PollFd, PollFlags, poll};

use super::program::Program;
use super::{Args, Form, Inputs, Watched, child, collect, prepare};
use crate::report::{self, Report, gather};
use crate::symbols::Symbols;
use crate::symbols::image::Image;
use crate::text::duration;

/// Of a report that goes to no terminal.
const WIDTH_DEFAULT: usize = 110;
const WIDTH_MIN: usize = 60;

pub fn finish(
    args: &Args,
    inputs: Inputs,
    program: &Program,
    prepared: prepare::Prepared,
    watched: Watched,
    elapsed: Duration,
) {
    let mut symbols = Symbols::default();
    let mut watched = watched;
    name_child(&mut watched, program);
    if args.report == Form::None {
        // What the report says beyond this is read from tables of symbols, which may be large.
        keep(&watched.collector.processes, &mut symbols);
        return;
    }
    let zones = inputs.policy.zones;
    let processes =
        gather::processes(&watched.collector.processes, &mut symbols, zones, &prepared.said);
    let mut notes = prepared.notes.clone();
    notes.extend(watched.troubles);
    notes.extend(watched.collector.faults.iter().cloned());
    let is_counted = !watched.collector.processes.is_empty();
    if let Some(seen) = watched.collector.runtime.as_ref().filter(|_| !is_counted) {
        notes.extend(seen.notes());
    } else if prepared.run.is_some() && !is_counted {
        notes.push(format!(
            "no thread table was made: {} did not load the library, or had no room for one",
            program.path.display()
        ));
    }
    notes.extend(left_running(&watched.collector.processes));
    notes.extend(user_level_cpu(&watched.collector.processes, &processes));
    let kept = keep(&watched.collector.processes, &mut symbols);
    notes.extend(kept.troubles);
    // The plan goes before the report is read, so that nothing is left if that takes long.
    drop(prepared);
    let wanted = inputs.policy.has_time_critical();
    let mediator = watched.mediator.filter(|it| wanted || has_acted(it)).and_then(|report| {
        let said = report.to_string();
        let lines = said.lines().map(|line| format!("CPU Mediator: {line}")).collect();
        Some((lines, serde_json::to_value(&report).ok()?))
    });
    let mut report = Report {
        program: program.path.to_string_lossy().into_owned(),
        arguments: args.program[1..].iter().map(|it| it.to_string_lossy().into_owned()).collect(),
        exit: match watched.exit {
            child::Exit::Code(code) => report::Exit::Code(code),
            child::Exit::Signal(signal) => report::Exit::Signal(signal),
        },
        elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
        stacks: args.stacks.word(),
        zones: inputs.policy.zones,
        processes,
        user_level: watched.collector.runtime.as_ref().map(|seen| seen.most()),
        mediator,
        notes,
    };
    report.forget(|program| kept.forgotten.iter().any(|it| it == program));
    let written = match inputs.report_to {
        Some(mut file) => write(&mut file, &report, args.report, WIDTH_DEFAULT),
        None => write(&mut Patient(io::stderr().lock()), &report, args.report, width()),
    };
    if let Err(error) = written {
        // Standard error may be closed: then there is nobody to tell.
        let _ = writeln!(io::stderr(), "heddle: cannot write the report: {error}");
    }
}

/// A Mediator that found no time-critical thread has nothing to tell.
fn has_acted(report: &heddle_preload::mediator::Report) -> bool {
    let lists = [&report.time_critical, &report.conflicts, &report.refused];
    report.divided > 0 || lists.iter().any(|list| !list.is_empty())
}

fn write(out: &mut impl Write, report: &Report, form: Form, width: usize) -> io::Result<()> {
    let text = match form {
        Form::Json => report::json::document(report)? + "\n",
        Form::Html => report::html::page(report),
        _ => report::text::lines(report, width).join("\n") + "\n",
    };
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Standard error, which the program may have made non-blocking for all who have it: what does not
/// fit now is written when there is room.
struct Patient<'a>(io::StderrLock<'a>);

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut fds = [PollFd::new(&self.0, PollFlags::OUT)];
                    match poll(&mut fds, None) {
                        Ok(_) | Err(rustix::io::Errno::INTR) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                }
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn width() -> usize {
    let stderr = io::stderr();
    if !stderr.is_terminal() {
        return WIDTH_DEFAULT;
    }
    let columns = rustix::termios::tcgetwinsize(&stderr).map_or(0, |size| size.ws_col);
    if columns == 0 { WIDTH_DEFAULT } else { usize::from(columns).max(WIDTH_MIN) }
}

/// A program that ended before it was looked at did not tell its path; ours is known.
fn name_child(watched: &mut Watched, program: &Program) {
    let Some(image) = &program.image else { return };
    let path = std::fs::canonicalize(&image.path).unwrap_or(image.path.clone());
    let own = |it: &&mut collect::Process| it.snapshot.pid == watched.pid;
    let mut own: Vec<_> = watched.collector.processes.iter_mut().filter(own).collect();
    // With several tables the process ran several programs, one after the other.
    if let [only] = &mut own[..]
        && only.program.is_none()
    {
        only.program = Some(path.to_string_lossy().into_owned());
    }
}

/// Processes that the program left behind are reported as they are now.
fn left_running(processes: &[collect::Process]) -> Option<String> {
    let running: Vec<String> = processes
        .iter()
        .filter(|it| it.is_running())
        .map(|it| it.snapshot.pid.to_string())
        .collect();
    let text = "still running, seen as far as they have come: process";
    (!running.is_empty()).then(|| format!("{text} {}", running.join(", ")))
}

/// CPU time that no kind of thread has: that of the workers between user-level threads, and of
/// user-level threads that a signal has ended. `None` where there were none, or several processes.
fn user_level_cpu(seen: &[collect::Process], processes: &[report::Process]) -> Option<String> {
    let ([seen], [process]) = (seen, processes) else { return None };
    if seen.snapshot.user_peak == 0 || seen.is_running() {
        return None;
    }
    let known: u64 = process.kinds.iter().map(|kind| kind.cpu_ns).sum();
    let rest = children_cpu_ns().saturating_sub(known);
    let rest = duration(rest);
    Some(match process.in_order {
        true => format!("the workers of user-level threads used {rest} of CPU time besides"),
        false => format!(
            "user-level threads that lived at the end, and all workers, used {rest} of CPU time \
             besides"
        ),
    })
}

/// What became of what the stacks needed.
#[derive(Default)]
struct Kept {
    /// What could not be kept, and why.
    troubles: Vec<String>,
    /// Programs of which nothing is remembered.
    forgotten: Vec<String>,
}

/// Adds to the profiles what the stacks needed.
fn keep(processes: &[collect::Process], symbols: &mut Symbols) -> Kept {
    let mut by_program: BTreeMap<&str, Vec<(Use, Option<String>)>> = BTreeMap::new();
    let mut kept = Kept::default();
    for process in processes {
        let Some(program) = process.program.as_deref() else {
            kept.forgotten.push(gather::UNKNOWN_PROGRAM.into());
            continue;
        };
        let seen = by_program.entry(program).or_default();
        seen.extend(process.snapshot.uses.iter().map(|kind| needed(process, kind, symbols)));
    }
    by_program.retain(|_, seen| seen.iter().any(|(kind, _)| !kind.is_main()));
    if by_program.is_empty() {
        return kept;
    }
    let store = match Store::open() {
        Ok(store) => store,
        Err(error) => {
            kept.troubles.push(format!("nothing is remembered: {error}"));
            kept.forgotten.extend(by_program.into_keys().map(str::to_owned));
            return kept;
        }
    };
    for (program, seen) in by_program {
        let id = Image::open(Path::new(program)).ok().and_then(|image| image.head.build_id);
        let executable = Executable::new(Path::new(program), id.as_deref());
        let seen: Vec<Observation> =
            seen.iter().map(|(kind, name)| Observation { kind, name: name.as_deref() }).collect();
        match store.for_executable(&executable).merge(&seen) {
            Ok(loaded) => kept.troubles.extend(loaded.trouble),
            Err(error) => {
                kept.troubles.push(format!("not remembered: {error}"));
                kept.forgotten.push(program.to_owned());
            }
        }
    }
    kept
}

/// What a kind of thread needed, as seen from within and from outside, and its function's name.
fn needed(process: &collect::Process, kind: &Use, symbols: &mut Symbols) -> (Use, Option<String>) {
    let mut kind = kind.clone();
    if let Some(peak) = process.peaks.get(&kind.index) {
        kind.peak = kind.peak.max(u32::try_from(peak.bytes).unwrap_or(u32::MAX));
        kind.resident = kind.resident.max(u32::try_from(peak.resident).unwrap_or(u32::MAX));
    }
    let (start, refine) = kind.places();
    let name = start.and_then(|it| symbols.function(&it, refine.as_ref()));
    (kind, name)
}
