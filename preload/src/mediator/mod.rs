//! The CPU Mediator: TEK's Fast and Lazy regions (section IV-A of that paper) in user space, for
//! the kernel threads of a program, from outside.
//!
//! While any time-critical thread is active, the program's other threads are in the Lazy region;
//! when the last one has ended or slept for the hold time, every thread gets back exactly the
//! policy, nice value and priority that it had. Departing from the paper: the regions are made of
//! what the kernel has (see [`Means`]), the Lazy region has a bound, and a program that schedules
//! its threads itself is left alone where the two conflict.
//!
//! Invariants
//! - Whoever dies, nothing is left behind: dropping the [`Mediator`] restores, and a watchdog
//!   process restores when the Mediator is killed.
//! - It uses less than one percent of a CPU in the long run: steps are paid from a credit
//!   that grows that slowly; it is full at first, because that is when threads are created, and
//!   may be overdrawn while time-critical threads would otherwise wait for the first division, and
//!   as far as the Lazy region's bound asks.
//!
//! | file | what it does |
//! |---|---|
//! | `core.rs`, `apply.rs` | decisions, through the seam `world.rs` |
//! | `aims.rs`, `origin.rs` | what a thread should have; what it would have had |
//! | `powers.rs` | what is permitted, which means follow |
//! | `linux.rs`, `family.rs`, `watched.rs`, `proc.rs`, `cgroup.rs` | the real kernel |
//! | `workers.rs` | kernel threads that run user-level threads |
//! | `journal.rs`, `twin.rs` | the watchdog |

mod aims;
mod apply;
mod cgroup;
pub mod core;
mod family;
mod journal;
mod linux;
mod origin;
mod powers;
mod proc;
mod report;
mod twin;
mod watched;
mod workers;
pub mod world;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::{self, Policy};
use crate::sys::clock;

use self::core::{Core, Timing};
use self::journal::Shared;
use self::linux::Linux;
use self::report::words;
use self::world::Attributes;

pub use aims::{Means, Region};
pub use linux::{Candidate, Classify};
pub use powers::{Choice, Powers, choose};
pub use report::{Conflict, Entry, Report, Tally, words as scheduling_words};

/// CPU time that the Mediator may use: one part in so many of the time that passes.
const COST_FACTOR: u32 = 150;
/// What it may save.
const CREDIT_NS: i64 = 30_000_000;
/// What it may owe while time-critical threads would have to wait for it.
const DEBT_NS: i64 = 300_000_000;
/// Nothing is put off for longer, whatever it costs.
const PERIOD_MAX: Duration = Duration::from_secs(1);
/// Nor for longer than this while a time-critical thread may wake up.
const WATCHING_MAX: Duration = Duration::from_millis(20);

/// The CPU Mediator of one program.
pub struct Mediator {
    core: Core<Linux>,
    pid: i32,
    why: Vec<String>,
    /// Names of the threads that the report will speak of, asked while they lived.
    names: HashMap<i32, String>,
    named: usize,
    credit: Credit,
    cpu: Duration,
    unrestored: usize,
}

impl Mediator {
    /// For a program that the caller started and outlives: means that cannot be undone are used
    /// if there are no better ones. Looks only; [`Mediator::step`] acts.
    ///
    /// # Errors
    /// If there is no such process, or no memory for the watchdog's notes.
    pub fn new(pid: i32, policy: &Policy) -> io::Result<Mediator> {
        Mediator::build(pid, policy, true, by_name(policy))
    }

    /// For a process that goes on without us: only means that can be undone, unless the policy
    /// asks for others by name. `classify` tells of threads of which no table tells.
    ///
    /// # Errors
    /// As [`Mediator::new`].
    pub fn attach(pid: i32, policy: &Policy, classify: Classify) -> io::Result<Mediator> {
        Mediator::build(pid, policy, false, Some(classify))
    }

    fn build(
        pid: i32,
        policy: &Policy,
        bound: bool,
        classify: Option<Classify>,
    ) -> io::Result<Mediator> {
        let shared = Arc::new(Shared::new()?);
        let Some(world) = Linux::new(pid, shared, classify) else {
            return Err(rustix::io::Errno::SRCH.into());
        };
        let powers = Powers::probe(Some(pid));
        let Choice { means, fallbacks, why } =
            choose(policy.mediator.means, &powers, powers::usual_nice(pid), bound);
        let timing = Timing {
            hold_ns: nanoseconds(policy.mediator.hold),
            lazy_bound_ns: policy.mediator.lazy_bound.map(nanoseconds),
        };
        Ok(Mediator {
            core: Core::new(world, means, fallbacks, timing),
            pid,
            why,
            names: HashMap::new(),
            named: 0,
            credit: Credit { ns: CREDIT_NS, since_ns: heddle_record::process::now_ns() },
            cpu: Duration::ZERO,
            unrestored: 0,
        })
    }

    /// Looks, decides, acts; returns how long to wait before the next step. All steps must come
    /// from one thread, which may become a real-time thread meanwhile.
    pub fn step(&mut self) -> Duration {
        let before = clock::own_cpu_ns();
        let settled = !self.core.is_settling(heddle_record::process::now_ns());
        let sparing = self.credit.ns < 0 && settled && self.core.region() == Region::Divided;
        let period = self.core.step_as(sparing);
        self.name_new_ones();
        let cost = Duration::from_nanos(clock::own_cpu_ns().saturating_sub(before));
        self.cpu += cost;
        let now = heddle_record::process::now_ns();
        let wait = self.credit.pay(cost, now);
        let may_owe = self.credit.ns > -DEBT_NS;
        match self.core.region() {
            Region::Slice => period,
            _ if may_owe && self.core.is_settling(now) => period,
            Region::Open if self.core.has_fast() => period.max(wait.min(WATCHING_MAX)),
            _ => period.max(wait).min(self.core.patience(now).unwrap_or(PERIOD_MAX)),
        }
    }

    /// Whether any process of the program still lives.
    pub fn is_alive(&mut self) -> bool {
        self.core.world().is_alive()
    }

    /// Gives everything back. Stepping again would begin anew.
    pub fn finish(&mut self) {
        self.unrestored = self.core.restore();
        self.core.world().leave();
    }

    /// What was found and done so far.
    pub fn report(&mut self) -> Report {
        self.name_new_ones();
        let mut notes = self.core.tally().notes.clone();
        if let Some(error) = self.core.world().watchdog_error() {
            notes
                .push(format!("no watchdog ({error}): killing heddle would leave threads changed"));
        }
        if self.unrestored > 0 {
            let count = self.unrestored;
            notes.push(format!("{count} threads could not be given back what they had"));
        }
        let (tally, means) = (self.core.tally(), self.core.means());
        let entry =
            |tid: &i32, text: String| Entry { tid: *tid, name: self.names.get(tid).cloned(), text };
        Report {
            pid: self.pid,
            means: means.word(),
            detail: means,
            way_back: means.has_way_back(),
            why: self.why.clone(),
            threads: tally.threads,
            divided: tally.divided,
            divided_ns: tally.divided_ns,
            slices: tally.slices,
            changes: tally.kinds.clone(),
            time_critical: tally
                .fast
                .iter()
                .map(|(tid, change)| entry(tid, words(&change.given)))
                .collect(),
            conflicts: tally
                .conflicts
                .iter()
                .map(|(tid, conflict)| entry(tid, conflict_text(conflict)))
                .collect(),
            refused: tally.refusals.iter().map(|(tid, why)| entry(tid, why.clone())).collect(),
            notes,
            cpu_ns: nanoseconds(self.cpu),
        }
    }

    /// Asks for names while there is somebody to ask.
    fn name_new_ones(&mut self) {
        let tally = self.core.tally();
        let count = tally.fast.len() + tally.conflicts.len() + tally.refusals.len();
        if std::mem::replace(&mut self.named, count) == count {
            return;
        }
        let tids = tally.fast.keys().chain(tally.conflicts.keys()).chain(tally.refusals.keys());
        let new: Vec<i32> = tids.copied().filter(|it| !self.names.contains_key(it)).collect();
        for tid in new {
            let pid = self.core.world().process_of(tid);
            if let Some(name) = pid.and_then(|pid| proc::name(pid, tid)) {
                self.names.insert(tid, name);
            }
        }
    }
}

/// CPU time that may be used now.
#[derive(Clone, Copy, Debug)]
struct Credit {
    /// Negative: overdrawn.
    ns: i64,
    since_ns: u64,
}

impl Credit {
    /// Takes what a step cost; returns how long to wait until nothing is owed.
    fn pay(&mut self, cost: Duration, now_ns: u64) -> Duration {
        let passed = now_ns.saturating_sub(self.since_ns) / u64::from(COST_FACTOR);
        self.since_ns = now_ns;
        let grown = self.ns.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX));
        let cost = i64::try_from(cost.as_nanos()).unwrap_or(i64::MAX);
        self.ns = grown.min(CREDIT_NS).saturating_sub(cost);
        let owed = u64::try_from(self.ns.saturating_neg()).unwrap_or(0);
        Duration::from_nanos(owed.saturating_mul(u64::from(COST_FACTOR)))
    }
}

impl Drop for Mediator {
    fn drop(&mut self) {
        self.finish();
    }
}

fn conflict_text(conflict: &Conflict) -> String {
    match conflict {
        Conflict::Before(it) => format!("its program runs it as {}", words(it)),
        Conflict::After(it) => format!("its program changed it to {}", words(it)),
    }
}

fn nanoseconds(it: Duration) -> u64 {
    u64::try_from(it.as_nanos()).unwrap_or(u64::MAX)
}

/// Tells threads by the policy's rules for names, if it has any: to ask hundreds of threads for
/// theirs is half of the files to be opened.
fn by_name(policy: &Policy) -> Option<Classify> {
    policy.threads.iter().any(|rule| rule.name.is_some()).then(|| {
        let policy = policy.clone();
        let classify: Classify = Box::new(move |candidate| {
            let rule = policy.for_name(candidate.name)?;
            rule.attributes.as_ref().map(attributes)
        });
        classify
    })
}

/// What the Mediator needs of a rule's attributes.
pub fn attributes(it: &policy::Attributes) -> Attributes {
    let (class, priority, group) = (it.class, it.priority, it.group);
    Attributes { class, priority, group, is_runtimes: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_paid_by_time_and_savings() {
        let mut credit = Credit { ns: CREDIT_NS, since_ns: 0 };
        assert_eq!(credit.pay(Duration::from_millis(30), 0), Duration::ZERO);
        assert_eq!(credit.pay(Duration::from_millis(1), 0), Duration::from_millis(150));
        assert_eq!(credit.pay(Duration::ZERO, 150_000_000), Duration::ZERO);
        // Savings have a limit.
        assert_eq!(credit.pay(Duration::from_millis(30), u64::MAX / 2), Duration::ZERO);
        assert!(credit.pay(Duration::from_millis(1), u64::MAX / 2) > Duration::ZERO);
    }
}
