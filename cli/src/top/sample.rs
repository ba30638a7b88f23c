//! What `heddle top` shows: the threads of all processes looked at, with what they did since the
//! last time.
//!
//! Invariants
//! - A rate is of the time between two samples; a thread that was not in the last one has none.
//! - Work is bounded per sample: stacks are measured in turns, locks looked at for time-critical
//!   threads only.

use std::collections::HashMap;

use heddle_preload::mediator::scheduling_words;
use heddle_preload::sys::sched;
use heddle_record::{Class, Kind, Snapshot, Thread, process, table_pids};

use super::advice::{self, Advice};
use crate::live::{self, Starts};

/// Stacks measured per process and sample.
const STACKS_MAX: usize = 256;

/// A thread, and what it did lately.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its process.
    pub pid: i32,
    /// Its record, completed from outside.
    pub thread: Thread,
    /// CPU time since the last sample, in thousandths of one CPU.
    pub cpu_permille: Option<u64>,
    /// Switches per second since the last sample.
    pub switch_rate: Option<u64>,
    /// How the kernel schedules it: "rr 49"; empty for threads that it does not know.
    pub scheduling: String,
}

impl Row {
    /// What it is called, best word first.
    pub fn name(&self) -> &str {
        let thread = &self.thread;
        [&thread.name, &thread.start].into_iter().find_map(|it| it.as_deref()).unwrap_or("-")
    }

    /// What it is for.
    pub fn role(&self) -> &str {
        self.thread.role.as_deref().unwrap_or("-")
    }

    /// "role: name", or what of them there is.
    pub fn title(&self) -> String {
        match self.thread.role.as_deref() {
            Some(role) => format!("{role}: {}", self.name()),
            None => self.name().to_owned(),
        }
    }

    /// A kernel thread's number, another's id.
    pub fn id(&self) -> String {
        match self.thread.fields.kind {
            Kind::KernelThread | Kind::Worker => self.thread.fields.tid.to_string(),
            _ => self.thread.id.to_string(),
        }
    }

    /// Whether it is in the time-critical class.
    pub fn is_fast(&self) -> bool {
        self.thread.fields.class == Class::TimeCritical
    }
}

/// One process of a sample.
#[derive(Clone, Debug)]
pub struct Process {
    pub pid: i32,
    pub program: String,
    /// "table", or "proc" where there is none.
    pub source: &'static str,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub processes: Vec<Process>,
    pub rows: Vec<Row>,
    pub advice: Vec<Advice>,
    /// What could not be read.
    pub troubles: Vec<String>,
}

/// Takes samples, and remembers the last one.
pub struct Sampler {
    /// `None`: every process that has a table.
    pid: Option<i32>,
    starts: Starts,
    last: HashMap<(i32, u32, u32), (u64, u32)>,
    last_ns: u64,
    turn: usize,
}

impl Sampler {
    pub fn new(pid: Option<i32>) -> Sampler {
        Sampler { pid, starts: Starts::default(), last: HashMap::new(), last_ns: 0, turn: 0 }
    }

    /// Looks at everything now.
    pub fn take(&mut self) -> Sample {
        let pids = match self.pid {
            Some(pid) => vec![pid],
            None => table_pids().unwrap_or_default(),
        };
        let now = process::now_ns();
        let passed_ns = now.saturating_sub(self.last_ns);
        let mut sample = Sample::default();
        let mut last = HashMap::new();
        let mut stacks = 0;
        for pid in pids {
            match live::take(pid) {
                // Without a pid, the living are shown: the dead do nothing.
                Ok(snapshot) if !snapshot.alive && self.pid.is_none() => {}
                Ok(mut snapshot) => {
                    self.starts.name(&mut snapshot);
                    stacks = live::measure(&mut snapshot, self.turn, STACKS_MAX).max(stacks);
                    self.add(&mut sample, &snapshot, passed_ns, &mut last);
                }
                Err(error) => sample.troubles.push(format!("{pid}: {error}")),
            }
        }
        self.turn = if self.turn + STACKS_MAX < stacks { self.turn + STACKS_MAX } else { 0 };
        (self.last, self.last_ns) = (last, now);
        sample.advice = advice::give(&sample.rows);
        sample
    }

    fn add(
        &self,
        sample: &mut Sample,
        snapshot: &Snapshot,
        passed_ns: u64,
        last: &mut HashMap<(i32, u32, u32), (u64, u32)>,
    ) {
        let pid = snapshot.pid;
        sample.processes.push(Process {
            pid,
            program: process::program_name(pid).filter(|_| snapshot.alive).unwrap_or("dead".into()),
            source: if live::is_outside(snapshot) { "proc" } else { "table" },
        });
        for thread in snapshot.workers.iter().chain(&snapshot.threads) {
            let fields = &thread.fields;
            // A slot of /proc is no identity, a tid is.
            let slot = if fields.tid > 0 { fields.tid.unsigned_abs() } else { thread.id.slot };
            let key = (pid, slot, thread.id.generation);
            last.insert(key, (fields.cpu_ns, fields.switches));
            let before = self.last.get(&key).filter(|_| passed_ns > 0);
            let rate = |now: u64, then: u64, scale: u64| {
                let part = u128::from(now.saturating_sub(then)) * u128::from(scale);
                u64::try_from(part / u128::from(passed_ns.max(1))).unwrap_or(u64::MAX)
            };
            let switches = u64::from(fields.switches);
            sample.rows.push(Row {
                pid,
                thread: thread.clone(),
                cpu_permille: before.map(|it| rate(fields.cpu_ns, it.0, 1000)),
                switch_rate: before.map(|it| rate(switches, it.1.into(), 1_000_000_000)),
                scheduling: scheduling(snapshot, thread),
            });
        }
    }
}

/// Of a kernel thread of a living process.
fn scheduling(snapshot: &Snapshot, thread: &Thread) -> String {
    let fields = &thread.fields;
    let known = matches!(fields.kind, Kind::KernelThread | Kind::Worker) && fields.tid > 0;
    if !snapshot.alive || !known {
        return String::new();
    }
    sched::get(fields.tid).map(|it| scheduling_words(&it)).unwrap_or_default()
}
