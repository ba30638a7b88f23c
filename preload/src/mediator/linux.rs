//! The Mediator's view of the real kernel: /proc, the thread tables, system calls.
//!
//! Invariants
//! - Files of threads are opened once per life, for the start time and the name; but for those of
//!   the time-critical ones (`watched.rs`), and of all once numbers are given out again.
//! - A look that is not thorough costs one read of /proc/loadavg and the tables, unless something
//!   was born.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;

use heddle_record::process::now_ns;

use super::cgroup::Groups;
use super::family::Family;
use super::journal::{Journal, Shared};
use super::proc::{self, Births, Stat};
use super::twin::Twin;
use super::watched::WatchList;
use super::world::{Activity, Attributes, Cell, Loan, Seen, World};
use crate::sys::{clock, sched};

const MS: u64 = 1_000_000;
/// Between looks for processes that the program's started.
const FAMILY_NS: u64 = 100 * MS;
/// The shortest that the kernel gives.
const OWN_SLICE_NS: u64 = 100_000;
/// How long a thread is asked for a name that it may get, and how often.
const YOUNG_NS: u64 = 2_000 * MS;
const NAMES_NS: u64 = 4 * MS;
const NAMES_MAX: usize = 64;
/// The name of the kernel thread that looks after a runtime's workers.
const MONITOR: &str = "heddle-monitor";

/// A thread that has no attributes in a table, to be told by its name or whatever else the caller
/// knows of it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its process.
    pub pid: i32,
    /// Its kernel thread id.
    pub tid: i32,
    /// Its name now.
    pub name: &'a str,
}

/// Tells what a thread is.
pub type Classify = Box<dyn FnMut(&Candidate<'_>) -> Option<Attributes>>;

/// A thread that was seen.
#[derive(Clone, Copy, Debug)]
struct Known {
    pid: i32,
    started: u64,
    /// See [`Seen`]; 0 for all but the main thread.
    image: u64,
    /// What its name says.
    named: Option<Attributes>,
}

/// The watchdog is started when there is something to watch.
#[derive(Debug)]
enum Watchdog {
    NotYet,
    Awake(Twin),
    /// There is none, and why.
    Failed(io::Error),
}

/// The real kernel.
pub struct Linux {
    family: Family,
    /// `None`: what is not in a table is nothing special, and no name need be asked for.
    classify: Option<Classify>,
    known: HashMap<i32, Known>,
    watched: WatchList,
    births: Births,
    /// Threads that may still get their name, and until when.
    young: VecDeque<(i32, u64)>,
    family_ns: u64,
    names_ns: u64,
    shared: Arc<Shared>,
    journal: Journal,
    watchdog: Watchdog,
    groups: Option<Groups>,
    groups_made: bool,
    /// What the Mediator's own thread had before it was made real-time.
    own: Option<sched::Scheduling>,
}

impl Linux {
    /// Begins to look at a process; `None` if there is none by this number.
    pub fn new(pid: i32, shared: Arc<Shared>, classify: Option<Classify>) -> Option<Linux> {
        Some(Linux {
            family: Family::of(pid)?,
            classify,
            known: HashMap::new(),
            watched: WatchList::new(),
            births: Births::new(),
            young: VecDeque::new(),
            family_ns: 0,
            names_ns: 0,
            journal: Journal::new(shared.clone()),
            shared,
            watchdog: Watchdog::NotYet,
            groups: Groups::plan(pid).ok(),
            groups_made: false,
            own: None,
        })
    }

    /// After everything was given back: removes the control groups, sends the watchdog home.
    pub fn leave(&mut self) {
        if std::mem::take(&mut self.groups_made)
            && let Some(groups) = &self.groups
        {
            groups.remove();
        }
        if let Watchdog::Awake(twin) = std::mem::replace(&mut self.watchdog, Watchdog::NotYet) {
            twin.dismiss();
        }
    }

    /// Why there is no watchdog, if it was needed and could not be had.
    pub fn watchdog_error(&self) -> Option<&io::Error> {
        match &self.watchdog {
            Watchdog::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Whether any process of the program lives.
    pub fn is_alive(&mut self) -> bool {
        self.family.pids().any(|pid| Stat::of(pid).is_some_and(|stat| !stat.is_over()))
    }

    /// The process of a thread that was seen.
    pub fn process_of(&self, tid: i32) -> Option<i32> {
        self.known.get(&tid).map(|known| known.pid)
    }

    /// Asks what threads are called that are young enough to have been named late. Whether that
    /// changed what one is.
    fn ask_names(&mut self, now: u64) -> bool {
        if now - self.names_ns < NAMES_NS {
            return false;
        }
        self.names_ns = now;
        let mut changed = false;
        for _ in 0..NAMES_MAX.min(self.young.len()) {
            let Some((tid, until)) = self.young.pop_front() else { break };
            changed |= self.ask_name(tid);
            if now < until && self.known.contains_key(&tid) {
                self.young.push_back((tid, until));
            }
        }
        changed
    }

    fn ask_name(&mut self, tid: i32) -> bool {
        let Some(classify) = &mut self.classify else { return false };
        let Some(known) = self.known.get_mut(&tid) else { return false };
        let Some(name) = proc::name(known.pid, tid) else { return false };
        let named = classify(&Candidate { pid: known.pid, tid, name: &name });
        std::mem::replace(&mut known.named, named) != named
    }

    fn list(&mut self, now: u64) -> Vec<Seen> {
        let pids: Vec<i32> = self.family.pids().collect();
        let mut list = Vec::new();
        let mut latest = 0;
        let doubted = self.births.have_turned();
        for pid in pids {
            for tid in proc::threads(pid) {
                // The main thread may have ended before the others, or run another program.
                let known = if doubted || tid == pid { None } else { self.known.get(&tid) };
                let known = known.filter(|known| known.pid == pid).copied();
                let Some(known) = known.or_else(|| self.meet(pid, tid, now)) else { continue };
                latest = known.started.max(latest);
                let attributes = self.attributes(pid, tid, &known);
                let (started, image) = (known.started, known.image);
                list.push(Seen { tid, started, image, attributes });
            }
        }
        let living: HashSet<i32> = list.iter().map(|it| it.tid).collect();
        self.known.retain(|tid, _| living.contains(tid));
        self.watched.keep(&living, &self.family.pids().collect());
        self.journal.set_known_until(latest);
        list
    }

    /// What is known of a thread.
    fn attributes(&self, pid: i32, tid: i32, known: &Known) -> Attributes {
        if let Some(said) = self.family.attributes(pid, tid) {
            return said;
        }
        if self.family.is_helper(pid, tid) {
            // Who watches the workers must not wait for a CPU behind them.
            let is_monitor = proc::name(pid, tid).is_some_and(|name| name == MONITOR);
            let priority = if is_monitor { 99 } else { 0 };
            return Attributes { is_runtimes: true, priority, ..Attributes::default() };
        }
        known.named.unwrap_or_default()
    }

    /// The thread as it is now, if it lives.
    fn meet(&mut self, pid: i32, tid: i32, now: u64) -> Option<Known> {
        let stat = Stat::of_thread(pid, tid).filter(|stat| !stat.is_ended())?;
        let image = if tid == pid { stat.image } else { 0 };
        let known = self.known.get(&tid).filter(|it| (it.pid, it.started) == (pid, stat.started));
        match known {
            Some(known) if known.image == image => return Some(*known),
            Some(_) => self.family.leave_table(pid, image),
            None => self.watched.let_go(tid),
        }
        self.known.insert(tid, Known { pid, started: stat.started, image, named: None });
        self.ask_name(tid);
        if self.classify.is_some() {
            self.young.push_back((tid, now + YOUNG_NS));
        }
        self.known.get(&tid).copied()
    }
}

impl World for Linux {
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn look(&mut self, thorough: bool) -> Option<Vec<Seen>> {
        let now = now_ns();
        let born = self.births.any();
        let mut changed = thorough || born;
        if thorough || born && now - self.family_ns >= FAMILY_NS {
            self.family_ns = now;
            self.family.open_tables();
            if self.family.refresh() {
                self.journal.set_pids(self.family.pids());
            }
        }
        changed |= self.family.read_classes();
        changed |= self.ask_names(now);
        changed.then(|| self.list(now))
    }

    fn activity(&mut self, tid: i32) -> Activity {
        let Some(pid) = self.process_of(tid) else { return Activity::Gone };
        match (self.watched.activity(pid, tid), self.family.is_active_worker(pid, tid)) {
            // What it ran was lazy.
            (Activity::Active, Some(false)) => Activity::Asleep,
            (activity, _) => activity,
        }
    }

    fn is_runnable(&mut self, tid: i32) -> bool {
        let pid = self.process_of(tid);
        let stat = pid.and_then(|pid| Stat::of_thread(pid, tid));
        stat.is_some_and(|stat| stat.is_runnable())
    }

    fn lazy_cpu_ns(&mut self) -> u64 {
        let all: u64 = self.family.pids().filter_map(clock::process_cpu_ns).sum();
        all.saturating_sub(self.watched.cpu_ns())
    }

    fn get(&mut self, tid: i32) -> io::Result<sched::Scheduling> {
        sched::get(tid)
    }

    fn image(&mut self, tid: i32) -> u64 {
        let Some(known) = self.known.get(&tid) else { return 0 };
        let stat = if known.pid == tid { Stat::of_thread(tid, tid) } else { None };
        stat.map_or(known.image, |stat| stat.image)
    }

    fn set(&mut self, tid: i32, wanted: &sched::Scheduling) -> io::Result<()> {
        match sched::set(tid, wanted) {
            // Without CAP_SYS_NICE the flag cannot be taken back; the rest can.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                if sched::get(tid)?.reset_on_fork && !wanted.reset_on_fork {
                    return sched::set(tid, &sched::Scheduling { reset_on_fork: true, ..*wanted });
                }
                Err(error)
            }
            other => other,
        }
    }

    fn place(&mut self, tid: i32, cell: Cell) -> io::Result<()> {
        if cell == Cell::Home && !self.groups_made {
            return Ok(());
        }
        let Some(groups) = &self.groups else {
            return Err(io::ErrorKind::PermissionDenied.into());
        };
        if !self.groups_made {
            groups.make()?;
            self.groups_made = true;
        }
        groups.place(tid, cell)
    }

    fn attend(&mut self, priority: Option<u32>) {
        match (priority, self.own) {
            (Some(priority), None) => {
                let Ok(own) = sched::get(0) else { return };
                self.own = Some(own);
                let policy = sched::RR;
                let wanted = sched::Scheduling { policy, priority, reset_on_fork: true, ..own };
                // Failing both, it is less punctual.
                let _ = sched::set(0, &wanted).or_else(|_| sched::set_own_slice(OWN_SLICE_NS));
            }
            (None, Some(own)) => {
                let _ = self.set(0, &own);
                // The usual slice again, of a thread that had no other.
                let _ = sched::set_own_slice(0);
                self.own = None;
            }
            _ => {}
        }
    }

    fn note(&mut self, tid: i32, loan: Option<Loan>) -> bool {
        if loan.is_some() && matches!(self.watchdog, Watchdog::NotYet) {
            self.journal.set_pids(self.family.pids());
            self.watchdog = match Twin::start(&self.shared, self.groups.as_ref(), self.family.kin())
            {
                Ok(twin) => Watchdog::Awake(twin),
                // Without it a crash of ours leaves threads as they are; nothing else changes.
                Err(error) => Watchdog::Failed(error),
            };
        }
        self.journal.note(tid, loan)
    }
}

#[cfg(test)]
mod tests {
    use super::super::watched::tests::Worker;
    use super::*;

    fn world() -> Linux {
        let shared = Arc::new(Shared::new().expect("memory"));
        Linux::new(std::process::id() as i32, shared, None).expect("it lives")
    }

    #[test]
    fn a_number_that_is_given_again_is_another_thread() {
        let mut world = world();
        let first = Worker::start(1);
        let tid = first.2;
        // Numbers grow from one look to the next, or have begun anew.
        Worker::start(1).end();
        let seen = |world: &mut Linux| {
            let all = world.look(true).expect("it always tells");
            all.into_iter().find(|it| it.tid == tid)
        };
        let before = seen(&mut world).expect("it lives");
        first.end();
        // Starts are told in clock ticks of 10 ms.
        std::thread::sleep(std::time::Duration::from_millis(30));
        for _ in 0..50 {
            let set = std::fs::write("/proc/sys/kernel/ns_last_pid", (tid - 1).to_string());
            if let Err(error) = set {
                println!("skip: numbers cannot be chosen: {error}");
                return;
            }
            let second = Worker::start(1);
            let now = seen(&mut world);
            let last = std::fs::read_to_string("/proc/sys/kernel/ns_last_pid");
            // Where others came after it the numbers may seem to have grown since the first look.
            let is_last = last.is_ok_and(|last| last.trim().parse() == Ok(tid));
            if second.2 == tid && is_last {
                assert_ne!(now.expect("it lives").started, before.started);
                return second.end();
            }
            second.end();
        }
        println!("skip: others took the number");
    }
}
