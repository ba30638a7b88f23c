//! What the Mediator found and did, for people and for programs.
//!
//! Invariant: grows with the number of threads up to a limit and not beyond; what was left out is
//! counted.

use std::collections::BTreeMap;
use std::fmt;

use heddle_record::policy_name;
use serde::Serialize;

use super::aims::Means;
use crate::sys::sched::{DEADLINE, FIFO, RR, Scheduling};

/// More single threads or texts than this are only counted.
const ENTRIES_MAX: usize = 256;

/// A thread that its program scheduled by itself, and that is left alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Conflict {
    /// It had this when it was first seen.
    Before(Scheduling),
    /// It was given this by its program meanwhile.
    After(Scheduling),
}

/// What a thread was given last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change {
    /// Whether it is in the Fast region.
    pub fast: bool,
    /// What it had.
    pub origin: Scheduling,
    /// What it was given.
    pub given: Scheduling,
}

/// Counts and lists, kept while the Mediator works.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Threads seen.
    pub threads: u64,
    /// Times that the regions were divided.
    pub divided: u64,
    /// For how long they were, but for the present time.
    pub divided_ns: u64,
    /// Since when they are.
    pub divided_since: Option<u64>,
    /// Slices that the Lazy region was given.
    pub slices: u64,
    /// Changes made, restorations included.
    pub sets: u64,
    /// Threads that are left alone.
    pub conflicts: BTreeMap<i32, Conflict>,
    /// Threads that the kernel refused to change, and why.
    pub refusals: BTreeMap<i32, String>,
    /// Threads changed, by what they had and were given.
    pub kinds: BTreeMap<String, u64>,
    /// Time-critical threads, with what they were given last.
    pub fast: BTreeMap<i32, Change>,
    /// Texts for people.
    pub notes: Vec<String>,
}

impl Tally {
    pub(super) fn conflict(&mut self, tid: i32, conflict: Conflict) {
        if self.conflicts.len() < ENTRIES_MAX {
            self.conflicts.entry(tid).or_insert(conflict);
        }
    }

    pub(super) fn refused(&mut self, tid: i32, why: &str) {
        if self.refusals.len() < ENTRIES_MAX {
            self.refusals.insert(tid, why.to_owned());
        }
    }

    pub(super) fn change(&mut self, tid: i32, change: Change) {
        let kind = format!("{} -> {}", words(&change.origin), words(&change.given));
        if self.kinds.len() < ENTRIES_MAX || self.kinds.contains_key(&kind) {
            *self.kinds.entry(kind).or_default() += 1;
        }
        if change.fast && self.fast.len() < ENTRIES_MAX {
            self.fast.insert(tid, change);
        }
    }
}

/// Scheduling parameters as people write them: "other", "other, nice 5", "rr 49", "idle".
pub fn words(it: &Scheduling) -> String {
    let policy = policy_name(u8::try_from(it.policy).unwrap_or(u8::MAX));
    let mut text = policy.to_owned();
    match it.policy {
        FIFO | RR => text += &format!(" {}", it.priority),
        DEADLINE => {}
        _ if it.nice != 0 => text += &format!(", nice {}", it.nice),
        _ => {}
    }
    if it.is_fair() && it.slice_ns != 0 {
        text += &format!(", slice {} ms", it.slice_ns as f64 / 1e6);
    }
    text
}

/// A single thread of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Its kernel thread id.
    pub tid: i32,
    /// Its name, if it was still there to be asked.
    pub name: Option<String>,
    /// What happened to it.
    pub text: String,
}

/// What the Mediator did.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The process it was started for.
    pub pid: i32,
    /// "rr", "idle", "cgroup", "nice" or "none".
    pub means: &'static str,
    /// The means in detail.
    pub detail: Means,
    /// Whether every thread could get back what it had.
    pub way_back: bool,
    /// Why these means and no better ones.
    pub why: Vec<String>,
    /// Threads seen.
    pub threads: u64,
    /// Times that the regions were divided.
    pub divided: u64,
    /// For how long they were, together.
    pub divided_ns: u64,
    /// Slices that the Lazy region was given because it starved.
    pub slices: u64,
    /// Changes by kind: "other -> idle", how often.
    pub changes: BTreeMap<String, u64>,
    /// The time-critical threads, with what they were given.
    pub time_critical: Vec<Entry>,
    /// Threads that the program schedules itself.
    pub conflicts: Vec<Entry>,
    /// Threads that the kernel refused to change, or to give back what they had.
    pub refused: Vec<Entry>,
    /// What else there is to say.
    pub notes: Vec<String>,
    /// CPU time that the Mediator used.
    pub cpu_ns: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "means {}", self.means)?;
        for why in &self.why {
            write!(f, "; {why}")?;
        }
        writeln!(f)?;
        let (divided, slices) = (self.divided, self.slices);
        let times = if divided == 1 { "once" } else { "times" };
        let count = if divided == 1 { String::new() } else { format!("{divided} ") };
        let ms = self.divided_ns / 1_000_000;
        writeln!(
            f,
            "regions divided {count}{times}, {ms} ms in all; {slices} slices for the Lazy region"
        )?;
        for (kind, count) in &self.changes {
            writeln!(f, "changed {kind}: {count} x")?;
        }
        let lists = [
            ("time-critical", &self.time_critical),
            ("left alone", &self.conflicts),
            ("refused", &self.refused),
        ];
        for (what, entries) in lists {
            for entry in entries {
                let name = entry.name.as_deref().unwrap_or("-");
                writeln!(f, "{what}: {} ({}): {}", name.escape_debug(), entry.tid, entry.text)?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}
