//! The processes of one program and the classes of their threads.
//!
//! Invariants
//! - A process belongs to the family if it is the first one, or if its parent is of the family when
//!   it is looked at first, or if its environment names the same plan: a daemon has no parent any
//!   more when it is looked at. It is known by pid and start time. This process is never taken in.
//! - What a table says of a thread counts only for a thread that /proc lists in that process.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;

use heddle_record::{Kind, Reader, State};

use super::proc::{self, Stat};
use super::workers::Workers;
use super::world::Attributes;

/// The parent of the kernel's own threads, which never have an environment.
const KTHREADD: i32 = 2;

/// One process.
#[derive(Debug)]
pub struct Member {
    /// When it started.
    started: u64,
    /// The program that it runs.
    image: u64,
    reader: Option<Reader>,
    /// Of the table's file when it was opened, if it has a name.
    inode: Option<u64>,
    /// What its table says of its threads, by tid; those of which it never said anything special
    /// are not in it, and a rule for names may say what they are.
    classes: HashMap<i32, Attributes>,
    /// Of a process whose threads a runtime makes: the account of the others, which left the
    /// name to the runtime's table.
    account: Option<Reader>,
    /// Its kernel threads by the account.
    own: HashSet<i32>,
    workers: Workers,
}

impl Member {
    /// Keeps what there is if the table cannot be read: it may be just beginning.
    fn open_table(&mut self, pid: i32, inode: Option<u64>) {
        if let Ok(reader) = Reader::open(pid) {
            self.image = Stat::of(pid).map_or(0, |stat| stat.image);
            self.reader = Some(reader);
            self.inode = inode;
            self.classes.clear();
            self.workers.clear();
            self.account = Reader::open_account(pid).ok();
        }
    }

    /// What the tables say of kernel threads that make no secret of being the program's own.
    fn read_own(&mut self) -> bool {
        let Some(reader) = self.account.as_ref().or(self.reader.as_ref()) else { return false };
        let (mut classes, mut own) = (HashMap::new(), HashSet::new());
        let result = reader.visit(|_, record| {
            let Ok(fields) = record else { return };
            let living = !matches!(fields.state, State::Free | State::Finished);
            if fields.kind != Kind::KernelThread || fields.tid <= 0 || !living {
                return;
            }
            own.insert(fields.tid);
            let (class, priority, group) = (fields.class, fields.priority, fields.group);
            let attributes = Attributes { class, priority, group, is_runtimes: false };
            let said = self.classes.contains_key(&fields.tid);
            if said || attributes != Attributes::default() {
                classes.insert(fields.tid, attributes);
            }
        });
        if result.is_err() {
            return false;
        }
        let is_hosted = self.account.is_some();
        let changed = classes != self.classes || is_hosted && own != self.own;
        (self.classes, self.own) = (classes, own);
        changed
    }

    /// Reads all that the tables say. Whether any of it changed.
    fn read(&mut self) -> bool {
        let workers = self.reader.as_ref().is_some_and(|reader| self.workers.read(reader));
        self.read_own() || workers
    }

    fn attributes(&self, tid: i32) -> Option<Attributes> {
        let said = || self.classes.get(&tid).copied();
        self.workers.attributes(tid).or_else(said)
    }

    /// Whether a kernel thread is one of a runtime, and no worker.
    fn is_helper(&self, tid: i32) -> bool {
        self.account.is_some() && !self.own.contains(&tid)
    }
}

/// Tells a table from the one of the next program in the same process.
fn inode_of(pid: i32) -> Option<u64> {
    Some(fs::symlink_metadata(format!("/dev/shm/heddle.{pid}")).ok()?.ino())
}

/// What `heddle run` gave to a program and to whatever that starts: the path of this run's plan. A
/// fork has what its creator was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    /// /proc shows an empty environment: so it does for a moment while a process is on its way
    /// into its program, when whoever started it has heard already that it is there.
    NotYet,
    /// Nobody gave one, or /proc does not tell.
    None,
    Path(Vec<u8>),
}

impl Plan {
    fn of(pid: i32) -> Plan {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return Plan::None };
        if environment.is_empty() {
            return Plan::NotYet;
        }
        let mut variables = environment.split(|byte| *byte == 0);
        let path = variables.find_map(|it| it.strip_prefix(b"HEDDLE_PLAN="));
        path.map_or(Plan::None, |path| Plan::Path(path.to_vec()))
    }
}

/// Tells processes of a run by its plan.
#[derive(Clone, Debug)]
pub struct Kin {
    plan: Plan,
    /// The first process.
    pid: i32,
    since: u64,
}

impl Kin {
    fn of(pid: i32, since: u64) -> Kin {
        Kin { plan: Plan::of(pid), pid, since }
    }

    fn look_again(&mut self) {
        if self.plan == Plan::NotYet {
            self.plan = Plan::of(self.pid);
        }
    }

    /// Whether a process is of the run.
    pub fn has(&self, pid: i32, stat: &Stat) -> bool {
        let is_known = matches!(self.plan, Plan::Path(_));
        is_known && stat.started >= self.since && Plan::of(pid) == self.plan
    }

    /// Whether nobody can tell yet.
    fn may_have(&self, pid: i32, stat: &Stat) -> bool {
        stat.started >= self.since && stat.parent != KTHREADD && Plan::of(pid) == Plan::NotYet
    }
}

/// All of them.
#[derive(Debug)]
pub struct Family {
    members: HashMap<i32, Member>,
    kin: Kin,
    /// Processes that were looked at and are not of the family.
    strangers: HashSet<i32>,
}

impl Family {
    /// The first process and its descendants; `None` if there is none by this number.
    pub fn of(pid: i32) -> Option<Family> {
        // We may be asked for a process that started us.
        let own = std::process::id() as i32;
        let stat = Stat::of(pid)?;
        let (members, strangers) = (HashMap::new(), HashSet::from([own]));
        let mut family = Family { members, kin: Kin::of(pid, stat.started), strangers };
        family.add(pid, &stat);
        family.refresh();
        Some(family)
    }

    fn add(&mut self, pid: i32, stat: &Stat) {
        let mut member = Member {
            started: stat.started,
            image: stat.image,
            reader: None,
            inode: None,
            classes: HashMap::new(),
            account: None,
            own: HashSet::new(),
            workers: Workers::default(),
        };
        member.open_table(pid, inode_of(pid));
        self.members.insert(pid, member);
    }

    /// The processes.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.members.keys().copied()
    }

    /// By what others of this run are told.
    pub fn kin(&mut self) -> &Kin {
        self.kin.look_again();
        &self.kin
    }

    /// Takes in who was born, lets go who died. Whether anything changed.
    pub fn refresh(&mut self) -> bool {
        self.kin.look_again();
        let before = self.members.len();
        self.members.retain(|pid, member| {
            Stat::of(*pid).is_some_and(|stat| stat.started == member.started && !stat.is_over())
        });
        let mut changed = self.members.len() != before;
        let all = proc::processes();
        let mut unknown: Vec<(i32, Stat)> = all
            .iter()
            .copied()
            .filter(|pid| !self.strangers.contains(pid) && !self.members.contains_key(pid))
            .filter_map(|pid| Some((pid, Stat::of(pid)?)))
            .filter(|(_, stat)| !stat.is_over())
            .collect();
        // Grandchildren may have a lower number than their parents: once more if there was one.
        loop {
            let count = unknown.len();
            unknown.retain(|(pid, stat)| {
                let ours = self.members.contains_key(&stat.parent) || self.kin.has(*pid, stat);
                if ours {
                    self.add(*pid, stat);
                    changed = true;
                }
                !ours
            });
            if unknown.len() == count || unknown.is_empty() {
                break;
            }
        }
        unknown.retain(|(pid, stat)| !self.kin.may_have(*pid, stat));
        self.strangers.extend(unknown.into_iter().map(|(pid, _)| pid));
        let alive: HashSet<i32> = all.into_iter().collect();
        self.strangers.retain(|pid| alive.contains(pid));
        changed
    }

    /// Opens tables that were made meanwhile, by a program that was started in the same process
    /// (exec), too.
    pub fn open_tables(&mut self) {
        for (pid, member) in &mut self.members {
            let inode = inode_of(*pid);
            if inode.is_some() && inode != member.inode {
                member.open_table(*pid, inode);
            }
        }
    }

    /// A process runs another program now: what the table of the last one says is over.
    pub fn leave_table(&mut self, pid: i32, image: u64) {
        let Some(member) = self.members.get_mut(&pid) else { return };
        if std::mem::replace(&mut member.image, image) != image {
            (member.reader, member.account) = (None, None);
            member.classes.clear();
            member.workers.clear();
        }
    }

    /// Reads what the tables say. Whether any thread's class or group changed.
    pub fn read_classes(&mut self) -> bool {
        let mut changed = false;
        for member in self.members.values_mut() {
            changed |= member.read();
        }
        changed
    }

    /// What the tables of its process say of a thread.
    pub fn attributes(&self, pid: i32, tid: i32) -> Option<Attributes> {
        self.members.get(&pid)?.attributes(tid)
    }

    /// Whether it is a kernel thread that serves a runtime's workers.
    pub fn is_helper(&self, pid: i32, tid: i32) -> bool {
        self.members.get(&pid).is_some_and(|member| member.is_helper(tid))
    }

    /// See [`Workers::is_active`].
    pub fn is_active_worker(&self, pid: i32, tid: i32) -> Option<bool> {
        self.members.get(&pid)?.workers.is_active(tid)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};
    use std::sync::{Mutex, PoisonError};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use heddle_record::{Class, Fields, Group, Place, Table};

    use super::*;

    /// A process has one table in shared memory.
    static TABLE: Mutex<()> = Mutex::new(());
    const CRITICAL: Attributes = Attributes {
        class: Class::TimeCritical,
        priority: 7,
        group: Group::Normal,
        is_runtimes: false,
    };

    /// A table of this process that says this of one thread; `None` if it found no place.
    fn table(tid: i32, class: Class, priority: u8) -> Option<Table> {
        let table = Table::create(256).expect("a table");
        if table.report().place != Place::Shared {
            println!("skip: {:?}", table.report());
            return None;
        }
        table.set_high_water(1).expect("room");
        say(&table, tid, class, priority);
        Some(table)
    }

    fn say(table: &Table, tid: i32, class: Class, priority: u8) {
        let (kind, state) = (Kind::KernelThread, State::Ready);
        let known = Fields { generation: 1, tid, kind, state, ..Fields::default() };
        table.record(0).publish(&Fields { class, priority, ..known });
    }

    /// Ends the process when it goes.
    struct Ended(Child);

    impl Ended {
        fn pid(&self) -> i32 {
            self.0.id() as i32
        }
    }

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = (self.0.kill(), self.0.wait());
        }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.env_clear().args(["-c", script]).stdin(Stdio::piped());
        command
    }

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < end, "never: {what}");
            sleep(Duration::from_millis(1));
        }
    }

    /// A process without an environment until it is told to have this plan.
    fn late(plan: &str) -> Ended {
        let script = format!("read line; HEDDLE_PLAN={plan} exec sleep 60");
        let process = Ended(shell(&script).spawn().expect("a shell"));
        // Before it is the shell it has our environment.
        until("start", || Plan::of(process.pid()) == Plan::NotYet);
        process
    }

    fn go_on(process: &mut Ended) {
        let input = process.0.stdin.as_mut().expect("a pipe");
        input.write_all(b"\n").expect("it reads");
        until("plan", || matches!(Plan::of(process.pid()), Plan::Path(_)));
    }

    #[test]
    fn who_has_no_environment_yet_is_looked_at_again() {
        let mut first = late("one");
        let mut family = Family::of(first.pid()).expect("it lives");
        let mut other = late("one");
        let stranger = late("two");
        assert!(!family.refresh());
        go_on(&mut first);
        // Nobody's child, as a daemon is: it is told by the plan alone.
        let daemon = Ended(shell("exec sleep 60").env("HEDDLE_PLAN", "one").spawn().expect("one"));
        until("plan", || Plan::of(daemon.pid()) == Plan::Path(b"one".to_vec()));
        // The shell has it as well, and on the way from that to the program nobody has any.
        until("daemon", || family.refresh());
        go_on(&mut other);
        assert!(family.refresh());
        let members: HashSet<i32> = family.pids().collect();
        assert_eq!(members, HashSet::from([first.pid(), daemon.pid(), other.pid()]));
        drop(stranger);
    }

    #[test]
    fn the_table_of_the_next_program_is_opened() {
        let _one = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = std::process::id() as i32;
        let Some(first) = table(10, Class::TimeCritical, 7) else { return };
        let mut family = Family::of(pid).expect("it lives");
        assert!(family.read_classes());
        assert_eq!(family.attributes(pid, 10), Some(CRITICAL));
        drop(first);
        let Some(_second) = table(11, Class::TimeCritical, 7) else { return };
        family.open_tables();
        family.read_classes();
        assert_eq!(family.attributes(pid, 10), None);
        assert_eq!(family.attributes(pid, 11), Some(CRITICAL));
    }

    #[test]
    fn who_was_time_critical_can_be_lazy_again() {
        let _one = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = std::process::id() as i32;
        let Some(table) = table(10, Class::Lazy, 0) else { return };
        let mut family = Family::of(pid).expect("it lives");
        family.read_classes();
        assert_eq!(family.attributes(pid, 10), None, "a rule for names may say it");
        say(&table, 10, Class::TimeCritical, 7);
        assert!(family.read_classes());
        assert_eq!(family.attributes(pid, 10), Some(CRITICAL));
        say(&table, 10, Class::Lazy, 0);
        assert!(family.read_classes());
        assert_eq!(family.attributes(pid, 10), Some(Attributes::default()));
    }
}
