//! What a table says as a whole: the line above the rows, the lines per role, the warnings.

use std::collections::BTreeMap;
use std::io::{self, Write};

use heddle_record::{Snapshot, State, Thread, process};

use super::plural;
use crate::live::is_outside;
use crate::text::{bytes, duration, harmless};

/// "mariadbd (4711): 2 workers, 3 threads: 1 running, 2 parked".
pub fn headline(snapshot: &Snapshot) -> String {
    let program = match process::program_name(snapshot.pid) {
        Some(name) if snapshot.alive => harmless(&name).into_owned(),
        _ => "dead process".into(),
    };
    let (workers, threads) = (snapshot.workers.len(), snapshot.threads.len());
    let states = by_state(&snapshot.threads);
    let threads = format!("{threads} thread{}{states}", plural(threads));
    // Of kernel threads only: there are no workers to speak of.
    if snapshot.preload || is_outside(snapshot) {
        return format!("{program} ({}): {threads}", snapshot.pid);
    }
    let workers = format!("{workers} worker{}", plural(workers));
    let backend = if snapshot.native { ", native backend" } else { "" };
    format!("{program} ({}): {workers}, {threads}{backend}", snapshot.pid)
}

/// ": 1 running, 2 parked", nothing for no threads.
fn by_state(threads: &[Thread]) -> String {
    let mut counts: BTreeMap<State, usize> = BTreeMap::new();
    for thread in threads {
        *counts.entry(thread.fields.state).or_default() += 1;
    }
    let words: Vec<_> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) }
}

/// What the threads of one role have in common and in sum.
#[derive(Default)]
struct Sum {
    threads: usize,
    running: usize,
    ready: usize,
    parked: usize,
    stack_size: u32,
    stack_peak: u32,
    cpu_ns: u64,
    switches: u64,
}

impl Sum {
    fn add(&mut self, thread: &Thread) {
        let fields = &thread.fields;
        self.threads += 1;
        match fields.state {
            State::Running => self.running += 1,
            State::Ready | State::New => self.ready += 1,
            State::Parked | State::EvWait => self.parked += 1,
            State::Free | State::Finished => {}
        }
        self.stack_size = self.stack_size.max(fields.stack_size);
        self.stack_peak = self.stack_peak.max(fields.stack_peak);
        self.cpu_ns = self.cpu_ns.saturating_add(fields.cpu_ns);
        self.switches += u64::from(fields.switches);
    }
}

/// One line per role, the most numerous first. Sizes and peaks are the largest of the role.
pub fn write(out: &mut impl Write, snapshot: &Snapshot) -> io::Result<()> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for thread in &snapshot.threads {
        sums.entry(thread.role.as_deref().unwrap_or("-")).or_default().add(thread);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.threads));
    writeln!(
        out,
        "{:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>8} {:>10}  ROLE",
        "THREADS", "RUNNING", "READY", "PARKED", "STACK", "PEAK", "CPU", "SWITCHES"
    )?;
    for (role, sum) in sums {
        writeln!(
            out,
            "{:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>8} {:>10}  {}",
            sum.threads,
            sum.running,
            sum.ready,
            sum.parked,
            bytes(u64::from(sum.stack_size)),
            bytes(u64::from(sum.stack_peak)),
            duration(sum.cpu_ns),
            sum.switches,
            harmless(role),
        )?;
    }
    Ok(())
}

/// Says on standard error what the table could not tell.
pub fn warn(snapshot: &Snapshot) {
    const SHOWN_MAX: usize = 5;
    let pid = snapshot.pid;
    if snapshot.partial {
        eprintln!("heddle: {pid}: memory for the table ran out: its newest threads are not shown");
    }
    if snapshot.texts_full {
        eprintln!("heddle: {pid}: room for texts ran out: some names or roles are not shown");
    }
    for fault in snapshot.faults.iter().take(SHOWN_MAX) {
        eprintln!("heddle: {pid}: {fault}");
    }
    if let Some(more) = snapshot.faults.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        eprintln!("heddle: {pid}: {more} more records cannot be believed");
    }
}
