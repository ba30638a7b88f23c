//! One line per worker and thread, in columns as wide as their content.
//!
//! Invariant: the columns are [`COLUMNS`], each with its name, its side and its content in one
//! place; only the last ones may hold blanks. START is shown where names and start functions are
//! two things: of programs under `heddle run`.

use std::io::{self, Write};

use heddle_record::{Class, Kind, Snapshot, Thread};

use super::state;
use crate::symbols::shorten;
use crate::text::{bytes, duration, harmless};

/// Beyond this a role is cut: one long text must not push all other columns out of sight.
const ROLE_CHARS_MAX: usize = 32;
const START_CHARS_MAX: usize = 60;

struct Column {
    name: &'static str,
    right: bool,
    content: fn(&Thread) -> String,
}

const COLUMNS: [Column; 15] = [
    Column { name: "ID", right: true, content: |thread| thread.id.to_string() },
    Column { name: "KIND", right: false, content: kind },
    Column { name: "STATE", right: false, content: |thread| state(thread).into() },
    Column { name: "CLASS", right: false, content: class },
    Column { name: "GROUP", right: false, content: group },
    Column { name: "ROLE", right: false, content: role },
    Column { name: "WORKER", right: true, content: worker },
    Column { name: "TID", right: true, content: tid },
    Column { name: "STACK", right: true, content: |it| size(it.fields.stack_size) },
    Column { name: "PEAK", right: true, content: |it| size(it.fields.stack_peak) },
    Column { name: "ZONE", right: false, content: zone },
    Column { name: "CPU", right: true, content: |thread| duration(thread.fields.cpu_ns) },
    Column { name: "SWITCHES", right: true, content: |it| it.fields.switches.to_string() },
    Column { name: "NAME", right: false, content: name },
    Column { name: "START", right: false, content: start },
];

pub fn write(out: &mut impl Write, snapshot: &Snapshot) -> io::Result<()> {
    let all = || snapshot.workers.iter().chain(&snapshot.threads);
    let columns = if snapshot.preload { &COLUMNS[..] } else { &COLUMNS[..COLUMNS.len() - 1] };
    let mut widths: Vec<usize> = columns.iter().map(|column| column.name.len()).collect();
    for thread in all() {
        for (width, column) in widths.iter_mut().zip(columns) {
            *width = (*width).max((column.content)(thread).chars().count());
        }
    }
    write_line(out, &widths, |column| column.name.to_owned())?;
    for thread in all() {
        write_line(out, &widths, |column| (column.content)(thread))?;
    }
    Ok(())
}

fn write_line(
    out: &mut impl Write,
    widths: &[usize],
    content: impl Fn(&Column) -> String,
) -> io::Result<()> {
    let mut line = String::new();
    for (column, width) in COLUMNS.iter().zip(widths) {
        let content = content(column);
        line += &if column.right {
            format!("{content:>width$}  ")
        } else {
            format!("{content:<width$}  ")
        };
    }
    writeln!(out, "{}", line.trim_end())
}

fn kind(thread: &Thread) -> String {
    match thread.fields.kind {
        // One word, so that `awk` counts columns right.
        Kind::KernelThread => "kernel".into(),
        kind => kind.to_string(),
    }
}

fn class(thread: &Thread) -> String {
    match (thread.fields.kind, thread.fields.class) {
        (Kind::Worker, _) => "-".into(),
        (_, Class::TimeCritical) => format!("time-critical:{}", thread.fields.priority),
        (_, class) => class.to_string(),
    }
}

fn group(thread: &Thread) -> String {
    match thread.fields.kind {
        Kind::Worker => "-".into(),
        _ => thread.fields.group.to_string(),
    }
}

fn role(thread: &Thread) -> String {
    let role = harmless(thread.role.as_deref().unwrap_or("-"));
    if role.chars().count() <= ROLE_CHARS_MAX {
        return role.into_owned();
    }
    role.chars().take(ROLE_CHARS_MAX - 1).chain(['~']).collect()
}

fn worker(thread: &Thread) -> String {
    thread.worker().map_or("-".into(), |worker| worker.to_string())
}

fn zone(thread: &Thread) -> String {
    match thread.fields.zone {
        heddle_record::Zone::Unknown => "-".into(),
        zone => zone.to_string(),
    }
}

/// The name, else the start function, which says almost as much.
fn name(thread: &Thread) -> String {
    let text = thread.name.as_deref().or(thread.start.as_deref()).unwrap_or("-");
    harmless(text).into_owned()
}

/// The start function, cut as a role is.
fn start(thread: &Thread) -> String {
    let name = harmless(thread.start.as_deref().unwrap_or("-"));
    shorten(&name, START_CHARS_MAX)
}

fn size(count: u32) -> String {
    if count == 0 { "-".into() } else { bytes(u64::from(count)) }
}

fn tid(thread: &Thread) -> String {
    if thread.fields.tid == 0 { "-".into() } else { thread.fields.tid.to_string() }
}
