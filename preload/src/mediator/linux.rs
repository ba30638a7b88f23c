//! The Mediator's view of the real kernel: /proc, the thread tables, system calls.
//!
//! Invariants
//! - Files of time-critical threads stay open and are read again, those of [`KEPT_MAX`] threads at
//!   most and never most of the descriptors that there may be; files of the others are opened once
//!   per life, for the start time and the name.
//! - A look that is not thorough costs one read of /proc/loadavg and the tables, unless something
//!   was born.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::sync::Arc;

use heddle_record::process::now_ns;

use super::cgroup::Groups;
use super::family::Family;
use super::journal::{Journal, Shared};
use super::proc::{self, Births, Stat};
use super::twin::Twin;
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
/// Two descriptors each.
const KEPT_MAX: usize = 256;

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
    /// What its name says.
    named: Option<Attributes>,
}

/// A time-critical thread, and what its files said last.
#[derive(Debug)]
struct Watched {
    /// `None`: opened each time, as there are too many to keep.
    files: Option<Files>,
    pid: i32,
    cpu_ns: u64,
    slices: u64,
}

/// What tells whether a thread is active.
#[derive(Debug)]
struct Files {
    schedstat: File,
    stat: File,
}

impl Files {
    fn open(pid: i32, tid: i32) -> io::Result<Files> {
        let open = |name| File::open(format!("/proc/{pid}/task/{tid}/{name}"));
        Ok(Files { schedstat: open("schedstat")?, stat: open("stat")? })
    }

    fn times(&self) -> io::Result<(u64, u64)> {
        let mut bytes = [0; 128];
        let count = proc::read_again(&self.schedstat, &mut bytes)?;
        proc::parse_schedstat(&bytes[..count]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn state(&self) -> io::Result<Option<Stat>> {
        let mut bytes = [0; 1024];
        let count = proc::read_again(&self.stat, &mut bytes)?;
        Ok(Stat::parse(&bytes[..count]))
    }
}

/// Of how many time-critical threads the files stay open: a part of what the limit permits.
fn kept_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(KEPT_MAX, |it| usize::try_from(it / 8).unwrap_or(KEPT_MAX).min(KEPT_MAX))
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
    classify: Classify,
    known: HashMap<i32, Known>,
    watched: HashMap<i32, Watched>,
    /// How many of them may keep their files open.
    kept_max: usize,
    /// CPU time of watched threads that have ended, by process: that counts it for ever.
    ended_ns: HashMap<i32, u64>,
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
    pub fn new(pid: i32, shared: Arc<Shared>, classify: Classify) -> Option<Linux> {
        Some(Linux {
            family: Family::of(pid)?,
            classify,
            known: HashMap::new(),
            watched: HashMap::new(),
            kept_max: kept_max(),
            ended_ns: HashMap::new(),
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
        let Some(known) = self.known.get_mut(&tid) else { return false };
        let Some(name) = proc::name(known.pid, tid) else { return false };
        let named = (self.classify)(&Candidate { pid: known.pid, tid, name: &name });
        std::mem::replace(&mut known.named, named) != named
    }

    fn list(&mut self, now: u64) -> Vec<Seen> {
        let pids: Vec<i32> = self.family.pids().collect();
        let mut list = Vec::new();
        let mut latest = 0;
        for pid in pids {
            for tid in proc::threads(pid) {
                let Some(known) = self.meet(pid, tid, now) else { continue };
                latest = known.started.max(latest);
                let attributes = self.family.attributes(pid, tid).or(known.named);
                let attributes = attributes.unwrap_or_default();
                list.push(Seen { tid, started: known.started, attributes });
            }
        }
        let living: HashSet<i32> = list.iter().map(|it| it.tid).collect();
        self.known.retain(|tid, _| living.contains(tid));
        self.unwatch(&living);
        self.journal.set_known_until(latest);
        list
    }

    /// The thread as it is known, after asking for what is not.
    fn meet(&mut self, pid: i32, tid: i32, now: u64) -> Option<Known> {
        if let Some(known) = self.known.get(&tid).filter(|known| known.pid == pid) {
            return Some(*known);
        }
        let started = Stat::of_thread(pid, tid)?.started;
        self.known.insert(tid, Known { pid, started, named: None });
        self.ask_name(tid);
        self.young.push_back((tid, now + YOUNG_NS));
        self.known.get(&tid).copied()
    }

    /// Lets go of the files of threads that have ended.
    fn unwatch(&mut self, living: &HashSet<i32>) {
        let ended_ns = &mut self.ended_ns;
        self.watched.retain(|tid, watched| {
            let lives = living.contains(tid);
            if !lives {
                *ended_ns.entry(watched.pid).or_default() += watched.cpu_ns;
            }
            lives
        });
        let pids: HashSet<i32> = self.family.pids().collect();
        ended_ns.retain(|pid, _| pids.contains(pid));
    }

    /// What a thread did since it was asked last.
    fn ask_activity(&mut self, tid: i32) -> io::Result<Activity> {
        let pid = self.process_of(tid).ok_or(io::ErrorKind::NotFound)?;
        if !self.watched.contains_key(&tid) {
            let kept = self.watched.values().filter(|it| it.files.is_some()).count();
            let files = if kept < self.kept_max { Files::open(pid, tid).ok() } else { None };
            self.watched.insert(tid, Watched { files, pid, cpu_ns: 0, slices: 0 });
        }
        let watched = self.watched.get_mut(&tid).ok_or(io::ErrorKind::NotFound)?;
        let opened;
        let files = match &watched.files {
            Some(files) => files,
            None => {
                opened = Files::open(pid, tid)?;
                &opened
            }
        };
        let before = (watched.cpu_ns, watched.slices);
        (watched.cpu_ns, watched.slices) = files.times()?;
        if before != (0, 0) && (watched.cpu_ns, watched.slices) != before {
            return Ok(Activity::Active);
        }
        // Nothing changes either while it waits for a CPU.
        Ok(match files.state()? {
            Some(stat) if stat.is_runnable() => Activity::Active,
            Some(stat) if !matches!(stat.state, b'Z' | b'X') => Activity::Asleep,
            _ => Activity::Gone,
        })
    }
}

/// Whether an error says that the thread is no more.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
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
        match self.ask_activity(tid) {
            Ok(activity) => activity,
            Err(error) if is_gone(&error) => Activity::Gone,
            // No descriptor to be had: it must not wait for one.
            Err(_) => Activity::Active,
        }
    }

    fn is_runnable(&mut self, tid: i32) -> bool {
        let pid = self.process_of(tid);
        let stat = pid.and_then(|pid| Stat::of_thread(pid, tid));
        stat.is_some_and(|stat| stat.is_runnable())
    }

    fn lazy_cpu_ns(&mut self) -> u64 {
        let all: u64 = self.family.pids().filter_map(clock::process_cpu_ns).sum();
        // Not what they had used when they were last asked: that may be long ago.
        let now = |it: &Watched| {
            let times = it.files.as_ref().and_then(|files| files.times().ok());
            times.map_or(it.cpu_ns, |times| times.0)
        };
        let fast: u64 = self.watched.values().map(now).sum();
        all.saturating_sub(fast + self.ended_ns.values().sum::<u64>())
    }

    fn get(&mut self, tid: i32) -> io::Result<sched::Scheduling> {
        sched::get(tid)
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
            self.watchdog = match Twin::start(&self.shared, self.groups.as_ref()) {
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
    use std::sync::mpsc;

    use super::*;

    /// A thread of this process that takes some CPU time at once and ends when it is told to.
    struct Worker(std::thread::JoinHandle<()>, mpsc::Sender<()>, i32);

    impl Worker {
        fn start(busy_ns: u64) -> Worker {
            let (tell, told) = mpsc::channel();
            let (stop, stopped) = mpsc::channel();
            let thread = std::thread::spawn(move || {
                while clock::own_cpu_ns() < busy_ns {}
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("a listener");
                let _ = stopped.recv();
            });
            Worker(thread, stop, told.recv().expect("its number"))
        }

        /// Returns when /proc does not list it any more.
        fn end(self) {
            drop(self.1);
            self.0.join().expect("no panic");
            while Stat::of_thread(std::process::id() as i32, self.2).is_some() {
                std::thread::yield_now();
            }
        }
    }

    fn world() -> Linux {
        let shared = Arc::new(Shared::new().expect("memory"));
        Linux::new(std::process::id() as i32, shared, Box::new(|_| None)).expect("it lives")
    }

    #[test]
    fn more_time_critical_threads_than_descriptors_are_watched() {
        let mut world = world();
        world.kept_max = 2;
        let workers: Vec<_> = (0..6).map(|_| Worker::start(1)).collect();
        world.look(true).expect("it always tells");
        for _ in 0..3 {
            for worker in &workers {
                assert_ne!(world.activity(worker.2), Activity::Gone);
            }
        }
        let kept = world.watched.values().filter(|it| it.files.is_some()).count();
        assert_eq!((world.watched.len(), kept), (6, 2));
        let tids: Vec<i32> = workers.iter().map(|it| it.2).collect();
        workers.into_iter().for_each(Worker::end);
        assert!(tids.iter().all(|tid| world.activity(*tid) == Activity::Gone));
        assert!(kept_max() <= KEPT_MAX);
    }

    #[test]
    fn cpu_time_of_an_ended_time_critical_thread_is_not_the_others() {
        let (mut world, worker) = (world(), Worker::start(20 * MS));
        world.look(true).expect("it always tells");
        world.activity(worker.2);
        worker.end();
        world.look(true).expect("it always tells");
        let ended_ns = world.ended_ns.values().sum::<u64>();
        assert!(ended_ns >= 20 * MS, "{ended_ns}");
    }
}
