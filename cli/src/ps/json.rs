//! A snapshot as JSON, for programs.
//!
//! Invariant: field names are the record's words with their unit last; they may be added to, not
//! renamed.

use std::io::Write;

use heddle_record::{Snapshot, Thread, policy_name, process};
use serde::Serialize;

use super::state;
use crate::live::is_outside;

#[derive(Serialize)]
struct Process<'a> {
    pid: i32,
    program: Option<String>,
    alive: bool,
    /// "table", or "proc" where there is none and only the kernel was asked.
    source: &'static str,
    native: bool,
    partial: bool,
    texts_full: bool,
    capacity: u32,
    high_water: u32,
    created_ns: u64,
    taken_ns: u64,
    workers: Vec<Entry<'a>>,
    threads: Vec<Entry<'a>>,
    faults: Vec<Fault>,
}

/// A thread or a worker.
#[derive(Serialize)]
struct Entry<'a> {
    id: String,
    slot: u32,
    generation: u32,
    kind: &'static str,
    state: &'static str,
    class: &'static str,
    priority: u8,
    group: &'static str,
    category: &'static str,
    policy: &'static str,
    role: Option<&'a str>,
    name: Option<&'a str>,
    start: Option<&'a str>,
    worker: Option<u16>,
    tid: i32,
    /// Of a worker: the slot of the thread it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<u32>,
    stack_size_bytes: u32,
    stack_peak_bytes: u32,
    stack_resident_bytes: u32,
    zone: &'static str,
    created_ns: u64,
    cpu_ns: u64,
    switches: u32,
}

#[derive(Serialize)]
struct Fault {
    slot: u32,
    fault: String,
}

impl<'a> From<&'a Thread> for Entry<'a> {
    fn from(thread: &'a Thread) -> Entry<'a> {
        let fields = &thread.fields;
        Entry {
            id: thread.id.to_string(),
            slot: thread.id.slot,
            generation: thread.id.generation,
            kind: fields.kind.word(),
            state: state(thread),
            class: fields.class.word(),
            priority: fields.priority,
            group: fields.group.word(),
            category: fields.category.word(),
            policy: policy_name(fields.policy),
            role: thread.role.as_deref(),
            name: thread.name.as_deref(),
            start: thread.start.as_deref(),
            worker: thread.worker(),
            tid: fields.tid,
            runs: thread.runs,
            stack_size_bytes: fields.stack_size,
            stack_peak_bytes: fields.stack_peak,
            stack_resident_bytes: fields.stack_resident,
            zone: fields.zone.word(),
            created_ns: fields.created_ns,
            cpu_ns: fields.cpu_ns,
            switches: fields.switches,
        }
    }
}

impl<'a> From<&'a Snapshot> for Process<'a> {
    fn from(snapshot: &'a Snapshot) -> Process<'a> {
        let program = process::program_name(snapshot.pid).filter(|_| snapshot.alive);
        let fault =
            |it: &heddle_record::SlotFault| Fault { slot: it.slot, fault: it.fault.to_string() };
        Process {
            pid: snapshot.pid,
            program,
            alive: snapshot.alive,
            source: if is_outside(snapshot) { "proc" } else { "table" },
            native: snapshot.native,
            partial: snapshot.partial,
            texts_full: snapshot.texts_full,
            capacity: snapshot.capacity,
            high_water: snapshot.high_water,
            created_ns: snapshot.created_ns,
            taken_ns: snapshot.taken_ns,
            workers: snapshot.workers.iter().map(Entry::from).collect(),
            threads: snapshot.threads.iter().map(Entry::from).collect(),
            faults: snapshot.faults.iter().map(fault).collect(),
        }
    }
}

pub fn write_one(out: &mut impl Write, snapshot: &Snapshot) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, &Process::from(snapshot))?;
    Ok(writeln!(out)?)
}

pub fn write_all(out: &mut impl Write, snapshots: &[Snapshot]) -> anyhow::Result<()> {
    let processes: Vec<_> = snapshots.iter().map(Process::from).collect();
    serde_json::to_writer(&mut *out, &processes)?;
    Ok(writeln!(out)?)
}
