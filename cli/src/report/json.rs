//! The report for programs.
//!
//! Invariant: keys may be added, not renamed and not removed while `version` is 1. Sizes are in
//! bytes, times in ns; what is not known is null or, for a number, 0.

use serde::Serialize;

use super::{Exit, Kind, Process, Report};

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    program: &'a str,
    arguments: &'a [String],
    exit: ExitObject,
    elapsed_ns: u64,
    stacks: &'a str,
    zones: ZonesObject,
    totals: TotalsObject,
    processes: Vec<ProcessObject<'a>>,
    mediator: Option<&'a serde_json::Value>,
    notes: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ExitObject {
    Code(u8),
    Signal(i32),
}

#[derive(Serialize)]
struct ZonesObject {
    low_percent: u8,
    high_percent: u8,
}

#[derive(Serialize)]
struct TotalsObject {
    processes: u64,
    threads_created: u64,
    threads_failed: u64,
    threads_peak: u64,
    stack_reserved_peak_bytes: u64,
}

#[derive(Serialize)]
struct ProcessObject<'a> {
    pid: i32,
    program: &'a str,
    in_order: bool,
    running: bool,
    threads_created: u64,
    threads_failed: u64,
    threads_peak: u32,
    threads: Vec<KindObject<'a>>,
}

#[derive(Serialize)]
struct KindObject<'a> {
    key: Option<&'a str>,
    start: Option<&'a str>,
    species: Option<&'a str>,
    place: &'a str,
    module: &'a str,
    site: Option<&'a str>,
    defined_at: Option<&'a str>,
    role: Option<&'a str>,
    name: Option<&'a str>,
    class: &'a str,
    priority: u8,
    group: &'a str,
    category: &'a str,
    created: u64,
    failed: u64,
    ended: u64,
    stack_asked_bytes: u64,
    stack_given_bytes: u64,
    stack_peak_bytes: u64,
    stack_resident_bytes: u64,
    stack_reserved_peak_bytes: u64,
    zone: &'a str,
    cpu_ns: u64,
    main: bool,
    explicit: bool,
    user_stack: bool,
    tuned: bool,
    overflowed: bool,
    tripped: bool,
    advice: Option<&'a str>,
}

impl<'a> From<&'a Kind> for KindObject<'a> {
    fn from(kind: &'a Kind) -> KindObject<'a> {
        KindObject {
            key: Some(kind.key.as_str()).filter(|key| !key.is_empty()),
            start: kind.start.as_deref(),
            species: kind.species,
            place: &kind.place,
            module: &kind.module,
            site: kind.site.as_deref(),
            defined_at: kind.defined_at.as_deref(),
            role: kind.role.as_deref(),
            name: kind.name.as_deref(),
            class: kind.class,
            priority: kind.priority,
            group: kind.group,
            category: kind.category,
            created: kind.created,
            failed: kind.failed,
            ended: kind.ended,
            stack_asked_bytes: kind.stack_asked,
            stack_given_bytes: kind.stack_given,
            stack_peak_bytes: kind.peak,
            stack_resident_bytes: kind.resident,
            stack_reserved_peak_bytes: kind.reserved_peak,
            zone: kind.zone.word(),
            cpu_ns: kind.cpu_ns,
            main: kind.main,
            explicit: kind.explicit,
            user_stack: kind.user_stack,
            tuned: kind.tuned,
            overflowed: kind.overflowed,
            tripped: kind.tripped,
            advice: kind.advice.as_deref(),
        }
    }
}

impl<'a> From<&'a Process> for ProcessObject<'a> {
    fn from(process: &'a Process) -> ProcessObject<'a> {
        ProcessObject {
            pid: process.pid,
            program: &process.program,
            in_order: process.in_order,
            running: process.running,
            threads_created: process.created(),
            threads_failed: process.failed(),
            threads_peak: process.threads_peak,
            threads: process.kinds.iter().map(KindObject::from).collect(),
        }
    }
}

/// The report as one line of JSON.
pub fn document(report: &Report) -> serde_json::Result<String> {
    let totals = report.totals();
    serde_json::to_string(&Document {
        version: 1,
        program: &report.program,
        arguments: &report.arguments,
        exit: match report.exit {
            Exit::Code(code) => ExitObject::Code(code),
            Exit::Signal(signal) => ExitObject::Signal(signal),
        },
        elapsed_ns: report.elapsed_ns,
        stacks: report.stacks,
        zones: ZonesObject { low_percent: report.zones.low, high_percent: report.zones.high },
        totals: TotalsObject {
            processes: totals.processes,
            threads_created: totals.threads_created,
            threads_failed: totals.threads_failed,
            threads_peak: totals.threads_peak,
            stack_reserved_peak_bytes: totals.reserved_peak,
        },
        processes: report.processes.iter().map(ProcessObject::from).collect(),
        mediator: report.mediator.as_ref().map(|(_, value)| value),
        notes: &report.notes,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{kind, report};
    use super::*;

    #[test]
    fn keys_are_as_documented() {
        let mut report = report(vec![kind("worker", 8 << 20, 8 << 20, 12 << 10)]);
        report.exit = Exit::Signal(15);
        let text = document(&report).expect("JSON");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["exit"], json!({"signal": 15}));
        assert_eq!(value["totals"]["threads_created"], 4);
        let row = &value["processes"][0]["threads"][0];
        assert_eq!(row["start"], "worker");
        assert_eq!(row["stack_asked_bytes"], 8 << 20);
        assert_eq!(row["zone"], "low");
        assert_eq!(row["site"], Value::Null);
        assert!(row["advice"].as_str().is_some_and(|text| text.starts_with("asks 8 MiB")));
    }
}
