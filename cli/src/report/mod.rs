//! What a run's threads were and what was done for them: the report's content, apart from its
//! form.
//!
//! - [`gather`] makes it of the tables; [`advice`] says what follows for each kind of thread.
//! - [`text`], [`json`], [`html`]: the forms.
//!
//! Invariant: the forms decide about looks alone; each number is computed once, here.

pub mod advice;
pub mod gather;
pub mod html;
pub mod json;
pub mod layout;
pub mod text;

use std::collections::{HashMap, HashSet};

use heddle_preload::policy::Zones;
use heddle_record::Zone;

/// A whole run.
pub struct Report {
    /// The program, as it was found.
    pub program: String,
    pub arguments: Vec<String>,
    pub exit: Exit,
    pub elapsed_ns: u64,
    /// observe, auto or force.
    pub stacks: &'static str,
    pub zones: Zones,
    pub processes: Vec<Process>,
    /// Of a program on heddle's own runtime: most user-level threads at one look.
    pub user_level: Option<usize>,
    /// What the CPU Mediator says of itself: for people and for programs.
    pub mediator: Option<(Vec<String>, serde_json::Value)>,
    /// What did not apply or could not be done.
    pub notes: Vec<String>,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    Code(u8),
    Signal(i32),
}

/// One process of the run.
pub struct Process {
    pub pid: i32,
    pub program: String,
    /// Whether it ended by its own will, so that every stack was measured at its end.
    pub in_order: bool,
    pub running: bool,
    /// Most threads at one time, the main thread included.
    pub threads_peak: u32,
    pub kinds: Vec<Kind>,
}

/// The threads of one kind in one process, or, in a [`Summary`], in several.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    /// As text; empty if the process did not say what starts them.
    pub key: String,
    /// What runs, by name.
    pub start: Option<String>,
    /// What such threads are called where nothing better is known.
    pub species: Option<&'static str>,
    /// One function starts many kinds, which their names alone tell apart.
    pub by_name: bool,
    /// "module+0xOFFSET" of the start function.
    pub place: String,
    pub module: String,
    /// "file:line" of the call that created the first one.
    pub site: Option<String>,
    /// "file:line" of the start function.
    pub defined_at: Option<String>,
    pub role: Option<String>,
    pub name: Option<String>,
    pub class: &'static str,
    pub priority: u8,
    pub group: &'static str,
    pub category: &'static str,
    pub created: u64,
    pub failed: u64,
    pub ended: u64,
    pub stack_asked: u64,
    pub stack_given: u64,
    pub peak: u64,
    pub resident: u64,
    pub reserved_peak: u64,
    pub zone: Zone,
    pub cpu_ns: u64,
    pub main: bool,
    pub explicit: bool,
    pub user_stack: bool,
    pub tuned: bool,
    /// What it was tuned to stands in the policy, not in the history.
    pub by_policy: bool,
    pub overflowed: bool,
    pub tripped: bool,
    /// The next run will not know what its stacks needed.
    pub forgotten: bool,
    pub advice: Option<String>,
}

impl Kind {
    /// What people call them: what they are for, else what they run, else where that is.
    pub fn title(&self) -> &str {
        let own = self.name.as_deref().filter(|_| self.by_name);
        let named = self.role.as_deref().or(own).or(self.species).or(self.start.as_deref());
        match named {
            Some(title) => title,
            None if self.main => "main",
            None if self.place.is_empty() => self.name.as_deref().unwrap_or("?"),
            None => &self.place,
        }
    }

    /// "file:line" that a person would look at: the call that creates the threads, or, where a
    /// library makes that call for the program, what it was given to run.
    pub fn written_at(&self) -> Option<&str> {
        let is_foreign = |place: &&str| {
            place.starts_with("/rustc/") || place.starts_with("/usr/") || place.starts_with("../")
        };
        let (site, function) = (self.site.as_deref(), self.defined_at.as_deref());
        let (site, function) =
            (site.filter(|it| !is_foreign(it)), function.filter(|it| !is_foreign(it)));
        if self.key.contains('~') { function.or(site) } else { site.or(function) }
    }

    /// The peak's share of the stack, in percent.
    pub fn used_percent(&self) -> Option<u64> {
        let known = self.peak > 0 && self.stack_given > 0;
        known.then(|| (self.peak * 100).checked_div(self.stack_given)).flatten()
    }

    /// Takes in what another process had of the same kind.
    fn add(&mut self, other: &Kind) {
        self.created += other.created;
        self.failed += other.failed;
        self.ended += other.ended;
        self.cpu_ns += other.cpu_ns;
        self.reserved_peak += other.reserved_peak;
        self.peak = self.peak.max(other.peak);
        self.resident = self.resident.max(other.resident);
        self.stack_asked = self.stack_asked.max(other.stack_asked);
        self.stack_given = self.stack_given.max(other.stack_given);
        self.tuned |= other.tuned;
        self.by_policy |= other.by_policy;
        self.overflowed |= other.overflowed;
        self.tripped |= other.tripped;
        self.forgotten |= other.forgotten;
        self.site = self.site.take().or_else(|| other.site.clone());
        self.name = self.name.take().or_else(|| other.name.clone());
    }
}

/// The same program's processes together.
pub struct Summary {
    pub program: String,
    pub processes: usize,
    pub kinds: Vec<Kind>,
}

/// Numbers of the whole run. The main threads are not among the created ones.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    pub processes: u64,
    pub threads_created: u64,
    pub threads_failed: u64,
    pub threads_peak: u64,
    pub reserved_peak: u64,
}

impl Process {
    pub fn created(&self) -> u64 {
        self.kinds.iter().filter(|it| !it.main).map(|it| it.created).sum()
    }

    pub fn failed(&self) -> u64 {
        self.kinds.iter().map(|it| it.failed).sum()
    }
}

impl Report {
    pub fn totals(&self) -> Totals {
        let sum = |value: fn(&Process) -> u64| self.processes.iter().map(value).sum();
        Totals {
            processes: self.processes.iter().map(|it| it.pid).collect::<HashSet<_>>().len() as u64,
            threads_created: sum(Process::created),
            threads_failed: sum(Process::failed),
            threads_peak: self.at_once(|it| it.threads_peak.into()),
            reserved_peak: self.at_once(|it| {
                it.kinds.iter().filter(|it| !it.main).map(|it| it.reserved_peak).sum()
            }),
        }
    }

    /// The sum over processes; of the programs that one ran after the other (exec), the most.
    fn at_once(&self, value: fn(&Process) -> u64) -> u64 {
        let mut most: HashMap<i32, u64> = HashMap::new();
        for process in &self.processes {
            let known = most.entry(process.pid).or_default();
            *known = value(process).max(*known);
        }
        most.values().sum()
    }

    /// Takes back what was said of the next run, about kinds that nothing is remembered of: those
    /// of programs whose profile could not be written, and those without a key.
    pub fn forget(&mut self, is_forgotten: impl Fn(&str) -> bool) {
        for process in &mut self.processes {
            let all = is_forgotten(&process.program);
            for kind in process.kinds.iter_mut().filter(|kind| all || kind.key.is_empty()) {
                kind.forgotten = true;
                kind.advice = advice::for_kind(kind);
            }
        }
    }

    /// By program, in the order of their first processes.
    pub fn summaries(&self) -> Vec<Summary> {
        let mut summaries: Vec<Summary> = Vec::new();
        let mut counted = HashSet::new();
        for process in &self.processes {
            let known = summaries.iter().position(|it| it.program == process.program);
            let index = known.unwrap_or(summaries.len());
            if known.is_none() {
                let program = process.program.clone();
                summaries.push(Summary { program, processes: 0, kinds: Vec::new() });
            }
            let summary = &mut summaries[index];
            // A process may run the same program several times, by exec.
            summary.processes += usize::from(counted.insert((index, process.pid)));
            for kind in &process.kinds {
                let mut kind = kind.clone();
                if kind.by_name {
                    kind.name = kind.name.as_deref().map(family);
                }
                let by_name = kind.by_name || kind.key.is_empty();
                let same = |it: &&mut Kind| {
                    it.key == kind.key && it.main == kind.main && (!by_name || it.name == kind.name)
                };
                match summary.kinds.iter_mut().find(same) {
                    Some(known) => known.add(&kind),
                    None => summary.kinds.push(kind),
                }
            }
        }
        for kind in summaries.iter_mut().flat_map(|it| &mut it.kinds) {
            kind.zone = self.zones.of(kind.peak, kind.stack_given);
            kind.advice = advice::for_kind(kind);
        }
        summaries
    }
}

/// A thread's name without what numbers it among its likes: "worker-*" for "worker-12".
fn family(name: &str) -> String {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() || stem.is_empty() { name.to_owned() } else { format!("{stem}*") }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A kind of thread with round numbers.
    pub fn kind(start: &str, asked: u64, given: u64, peak: u64) -> Kind {
        let mut kind = Kind {
            key: format!("ab12+{:#x}", start.len()),
            start: Some(start.into()),
            place: format!("prog+{:#x}", start.len()),
            module: "/usr/bin/prog".into(),
            class: "lazy",
            group: "normal",
            category: "-",
            created: 4,
            ended: 4,
            stack_asked: asked,
            stack_given: given,
            peak,
            resident: peak,
            reserved_peak: given * 4,
            cpu_ns: 1_500_000,
            tuned: given != asked,
            ..Kind::default()
        };
        kind.zone = Zones::default().of(peak, given);
        kind.advice = advice::for_kind(&kind);
        kind
    }

    /// A report with the given kinds, in one process.
    pub fn report(kinds: Vec<Kind>) -> Report {
        let process = Process {
            pid: 17,
            program: "/usr/bin/prog".into(),
            in_order: true,
            running: false,
            threads_peak: 5,
            kinds,
        };
        Report {
            program: "/usr/bin/prog".into(),
            arguments: vec!["-x".into()],
            exit: Exit::Code(0),
            elapsed_ns: 2_000_000_000,
            stacks: "observe",
            zones: Zones::default(),
            processes: vec![process],
            user_level: None,
            mediator: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn threads_told_by_name_are_families() {
        let named = |name: &str| Kind {
            by_name: true,
            name: Some(name.into()),
            ..kind("thread_native_entry", 1 << 20, 1 << 20, 30 << 10)
        };
        let report = report(vec![named("work-1"), named("work-22"), named("GC Thread#0")]);
        let kinds = &report.summaries()[0].kinds;
        let titles: Vec<_> = kinds.iter().map(|it| (it.title(), it.created)).collect();
        assert_eq!(titles, [("work-*", 8), ("GC Thread#*", 4)]);
    }

    #[test]
    fn processes_of_a_program_are_summed() {
        let mut report = report(vec![kind("worker", 8 << 20, 8 << 20, 12 << 10)]);
        let mut other = kind("worker", 8 << 20, 8 << 20, 20 << 10);
        other.site = Some("a.c:1".into());
        let second = Process {
            pid: 18,
            program: "/usr/bin/prog".into(),
            in_order: true,
            running: false,
            threads_peak: 5,
            kinds: vec![other, kind("x", 1 << 20, 1 << 20, 1000)],
        };
        report.processes.push(second);
        let summaries = report.summaries();
        assert_eq!((summaries.len(), summaries[0].processes), (1, 2));
        let worker = &summaries[0].kinds[0];
        assert_eq!((worker.created, worker.peak), (8, 20 << 10));
        assert_eq!(worker.site.as_deref(), Some("a.c:1"));
        assert_eq!(report.totals().threads_created, 12);
        assert_eq!(report.totals().threads_peak, 10);
    }

    #[test]
    fn programs_that_follow_each_other_are_one_process() {
        let mut report = report(vec![kind("worker", 8 << 20, 8 << 20, 12 << 10)]);
        let mut next = super::tests::report(vec![kind("worker", 8 << 20, 4 << 20, 9)]).processes;
        next[0].threads_peak = 7;
        report.processes.append(&mut next);
        assert_eq!(report.summaries()[0].processes, 1);
        let totals = report.totals();
        assert_eq!((totals.processes, totals.threads_peak, totals.threads_created), (1, 7, 8));
        assert_eq!(totals.reserved_peak, 32 << 20);
    }
}
