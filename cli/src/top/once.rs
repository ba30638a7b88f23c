//! `heddle top --once`: one look, for scripts.
//!
//! Invariant: the same rows, order and advice as on the screen; JSON keys are `heddle ps`'s words.

use std::io::{self, Write};

use serde::Serialize;

use super::advice::Advice;
use super::sample::{Process, Row};
use super::view::View;
use crate::ps::state;
use crate::text::{bytes, harmless};

#[derive(Serialize)]
struct Whole<'a> {
    processes: Vec<One<'a>>,
    threads: Vec<Entry<'a>>,
    advice: &'a [Advice],
}

#[derive(Serialize)]
struct One<'a> {
    pid: i32,
    program: &'a str,
    source: &'a str,
}

#[derive(Serialize)]
struct Entry<'a> {
    pid: i32,
    id: String,
    tid: i32,
    kind: &'static str,
    state: &'static str,
    class: &'static str,
    priority: u8,
    group: &'static str,
    role: Option<&'a str>,
    name: Option<&'a str>,
    start: Option<&'a str>,
    scheduling: Option<&'a str>,
    cpu_permille: Option<u64>,
    cpu_ns: u64,
    switches: u32,
    switches_per_second: Option<u64>,
    stack_size_bytes: u32,
    stack_peak_bytes: u32,
    stack_resident_bytes: u32,
    zone: &'static str,
}

impl<'a> From<&'a Row> for Entry<'a> {
    fn from(row: &'a Row) -> Entry<'a> {
        let (thread, fields) = (&row.thread, &row.thread.fields);
        Entry {
            pid: row.pid,
            id: thread.id.to_string(),
            tid: fields.tid,
            kind: fields.kind.word(),
            state: state(thread),
            class: fields.class.word(),
            priority: fields.priority,
            group: fields.group.word(),
            role: thread.role.as_deref(),
            name: thread.name.as_deref(),
            start: thread.start.as_deref(),
            scheduling: Some(row.scheduling.as_str()).filter(|it| !it.is_empty()),
            cpu_permille: row.cpu_permille,
            cpu_ns: fields.cpu_ns,
            switches: fields.switches,
            switches_per_second: row.switch_rate,
            stack_size_bytes: fields.stack_size,
            stack_peak_bytes: fields.stack_peak,
            stack_resident_bytes: fields.stack_resident,
            zone: fields.zone.word(),
        }
    }
}

pub fn write_json(out: &mut impl Write, view: &View) -> anyhow::Result<()> {
    let one = |it: &'_ Process| -> (i32, String, &'static str) {
        (it.pid, it.program.clone(), it.source)
    };
    let processes: Vec<_> = view.sample.processes.iter().map(one).collect();
    let processes =
        processes.iter().map(|(pid, program, source)| One { pid: *pid, program, source }).collect();
    let threads = view.rows().map(Entry::from).collect();
    let whole = Whole { processes, threads, advice: &view.sample.advice };
    serde_json::to_writer(&mut *out, &whole)?;
    Ok(writeln!(out)?)
}

pub fn write_text(out: &mut impl Write, view: &View) -> io::Result<()> {
    writeln!(
        out,
        "{:>8}  {:>9}  {:<8}  {:<17}  {:<14}  {:>6}  {:>8}  {:>6}  {:>6}  {:<7}  ROLE: NAME",
        "PID",
        "TID/ID",
        "STATE",
        "CLASS",
        "SCHEDULING",
        "CPU%",
        "SWITCH/S",
        "STACK",
        "PEAK",
        "ZONE"
    )?;
    for row in view.rows() {
        let fields = &row.thread.fields;
        let class = match row.is_fast() {
            true => format!("time-critical:{}", fields.priority),
            false => fields.group.word().to_owned(),
        };
        let cpu = row.cpu_permille.map_or("-".into(), |it| format!("{}.{}", it / 10, it % 10));
        let rate = row.switch_rate.map_or("-".into(), |it| it.to_string());
        let size = |it: u32| if it == 0 { "-".into() } else { bytes(it.into()) };
        let zone = if fields.stack_peak == 0 { "-" } else { fields.zone.word() };
        let scheduling = if row.scheduling.is_empty() { "-" } else { &row.scheduling };
        writeln!(
            out,
            "{:>8}  {:>9}  {:<8}  {class:<17}  {scheduling:<14}  {cpu:>6}  {rate:>8}  {:>6}  \
             {:>6}  {zone:<7}  {}",
            row.pid,
            row.id(),
            state(&row.thread),
            size(fields.stack_size),
            size(fields.stack_peak),
            harmless(&row.title()),
        )?;
    }
    for advice in &view.sample.advice {
        writeln!(out, "! {}: {}", advice.pid, harmless(&advice.text))?;
    }
    Ok(())
}
