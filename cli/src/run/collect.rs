//! The thread tables of a run, gathered while its processes live and when they end.
//!
//! Invariants
//! - A table of this run whose process has ended is read a last time and removed; so is one whose
//!   process became another program by exec. Tables of others are not touched.
//! - Looking costs less than half a percent of one CPU: the longer a look took, the longer the
//!   time to the next.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use heddle_preload::measure::Meter;
use heddle_preload::sys::clock::own_cpu_ns;
use heddle_record::process::{self, is_run_alive};
use heddle_record::{ACCOUNT_SUFFIX, Class, Reader, Snapshot, State, ThreadId, run_pids};

use rustix::fs::{Mode, OFlags};

use super::runtime::Seen;

/// Between two looks at the tables, at least.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Between two measurements of stacks, at least.
const MEASURE_PAUSE_MIN: Duration = Duration::from_secs(2);
/// Between two searches through all processes.
const SEARCH_PAUSE: Duration = Duration::from_secs(10);
/// Between two looks, at most, whatever they cost.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A look that took 1 ms is followed by a pause of 250 ms.
const PAUSE_FACTOR: u32 = 250;

/// One process of the run, as it was last seen.
pub struct Process {
    pub snapshot: Snapshot,
    /// The program's path.
    pub program: Option<String>,
    /// Highest peak per kind of thread that was measured from outside.
    pub peaks: HashMap<u32, Peak>,
    /// CPU time of threads when they were last seen.
    pub cpu_ns: HashMap<ThreadId, u64>,
    /// CPU time of threads that have not ended, as far as their kinds' sums have it already.
    pub counted_ns: HashMap<ThreadId, u64>,
    /// The process goes on as another program.
    pub replaced: bool,
    reader: Reader,
    /// The table's file, if it has a name.
    path: PathBuf,
    inode: Option<u64>,
    gone: bool,
}

/// Bytes of a stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    pub bytes: u64,
    pub resident: u64,
}

pub struct Collector {
    run: u64,
    /// The program itself.
    child: i32,
    pub processes: Vec<Process>,
    /// Tables of other runs and of runtimes.
    foreign: HashSet<(i32, u64)>,
    /// Of a program on heddle's own runtime.
    pub runtime: Option<Seen>,
    /// What could not be read, and why.
    pub faults: Vec<String>,
    next_look: Instant,
    next_measure: Instant,
    next_search: Instant,
}

impl Collector {
    pub fn new(run: u64, child: i32) -> Collector {
        let now = Instant::now();
        Collector {
            run,
            child,
            processes: Vec::new(),
            foreign: HashSet::new(),
            runtime: None,
            faults: Vec::new(),
            next_look: now + Duration::from_millis(20),
            next_measure: now + Duration::from_millis(500),
            next_search: now + SEARCH_PAUSE,
        }
    }

    /// Tells the tables that are there already, which are others', from what is to come. While the
    /// program starts: at the end of a short one it would have to be waited for.
    pub fn begin(&mut self) {
        for pid in self.pids() {
            self.discover(pid);
        }
    }

    /// Looks if it is time; the time until the next look.
    pub fn step(&mut self) -> Duration {
        let now = Instant::now();
        if now >= self.next_look {
            let measure = now >= self.next_measure;
            // CPU time: on a busy machine a look lasts long and costs little.
            let before = own_cpu_ns();
            self.look(measure);
            let cost = Duration::from_nanos(own_cpu_ns().saturating_sub(before));
            let pause = (cost * PAUSE_FACTOR).min(PAUSE_MAX);
            let now = Instant::now();
            self.next_look = now + PAUSE_MIN.max(pause);
            if measure {
                self.next_measure = now + MEASURE_PAUSE_MIN.max(pause);
            }
        }
        self.next_look.saturating_duration_since(Instant::now())
    }

    /// The last look, when the program itself has ended. Processes that it left behind keep their
    /// tables.
    pub fn finish(&mut self) {
        self.look(true);
    }

    fn look(&mut self, measure: bool) {
        self.take_replaced();
        for pid in self.pids() {
            self.discover(pid);
        }
        if self.foreign.iter().any(|(pid, _)| *pid == self.child) {
            let mut seen = self.runtime.take().unwrap_or_default();
            let is_there = seen.look(self.child);
            self.runtime = (is_there || seen.most() > 0).then_some(seen);
        }
        let mut faults = Vec::new();
        for process in self.processes.iter_mut().filter(|process| !process.gone) {
            if let Err(error) = process.look(measure) {
                process.gone = true;
                faults.push(format!("process {}: {error}", process.snapshot.pid));
            }
        }
        for fault in faults {
            self.fault(fault);
        }
    }

    /// Processes that may be of this run. Those with a table that has no name in shared memory
    /// (which is full, or not there) are only found by looking at all processes: seldom.
    fn pids(&mut self) -> Vec<i32> {
        if Instant::now() >= self.next_search {
            self.next_search = Instant::now() + SEARCH_PAUSE;
            match run_pids(self.run) {
                Ok(pids) => return pids,
                Err(error) => self.fault(format!("cannot list the thread tables: {error}")),
            }
        }
        let names = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        let named = names.filter_map(|entry| {
            let name = entry.file_name();
            let name = name.to_str()?.strip_prefix("heddle.")?;
            name.strip_suffix(ACCOUNT_SUFFIX).unwrap_or(name).parse::<i32>().ok()
        });
        named.chain([self.child]).collect()
    }

    /// Takes up the table of a process, unless it is known. A program that another one was
    /// replaced by (exec) keeps the id and has a table of its own.
    fn discover(&mut self, pid: i32) {
        self.discover_aside(pid);
        let path = table_path(pid);
        let inode = inode_of(&path);
        let is_known = |it: &Process| it.snapshot.pid == pid && it.inode == inode;
        let is_foreign = inode.is_some_and(|inode| self.foreign.contains(&(pid, inode)));
        if pid <= 0 || is_foreign || self.processes.iter().any(is_known) {
            return;
        }
        // One that cannot be read may be just beginning, or have ended; the next look tells.
        let Ok(reader) = Reader::open(pid) else { return };
        // So does it of one that has come or gone since: it would be known by another number.
        if inode_of(&path) != inode {
            return;
        }
        if reader.run() != self.run {
            self.foreign.extend(inode.map(|inode| (pid, inode)));
            self.forget_displaced(pid, &path);
            return;
        }
        self.take_up(reader, path, inode);
    }

    /// Drops what was seen of a process before its own runtime's table took the name from the
    /// library's: what a look finds must not depend on whether it came before that. Not what the
    /// process was before an exec.
    fn forget_displaced(&mut self, pid: i32, path: &Path) {
        let program = running_program(pid);
        self.processes.retain(|it| {
            it.gone || it.snapshot.pid != pid || it.path != path || it.program != program
        });
    }

    /// The table that left its name to the one of a runtime in the same process, which makes the
    /// program's threads: this one has the account of them.
    fn discover_aside(&mut self, pid: i32) {
        let path = PathBuf::from(format!("{}{ACCOUNT_SUFFIX}", table_path(pid).display()));
        let Some((reader, inode)) = open_left(&path) else { return };
        if pid <= 0 || reader.run() != self.run || reader.pid() != pid {
            return;
        }
        let same = |it: &&mut Process| it.snapshot.pid == pid && it.inode == Some(inode);
        match self.processes.iter_mut().find(same) {
            Some(known) => known.path = path,
            None => self.take_up(reader, path, Some(inode)),
        }
    }

    fn take_up(&mut self, reader: Reader, path: PathBuf, inode: Option<u64>) {
        let Ok(process) = Process::new(reader, path, inode) else { return };
        let pid = process.snapshot.pid;
        for before in self.processes.iter_mut().filter(|it| it.snapshot.pid == pid) {
            before.replace();
        }
        self.processes.push(process);
    }

    /// Takes up what processes were before an exec. The library has put the tables aside, as the
    /// next program's has the name; one that was seen before is known by its inode.
    fn take_replaced(&mut self) {
        for (pid, path) in replaced_tables() {
            let Some((reader, inode)) = open_left(&path) else { continue };
            if reader.run() != self.run || reader.pid() != pid {
                continue;
            }
            let same = |it: &&mut Process| it.snapshot.pid == pid && it.inode == Some(inode);
            if let Some(known) = self.processes.iter_mut().find(same) {
                known.replace();
            } else if let Ok(mut process) = Process::new(reader, path.clone(), Some(inode)) {
                process.replace();
                self.processes.push(process);
            }
            let _ = fs::remove_file(path);
        }
    }

    /// Whether any thread was said to be time-critical, by a policy or by the program.
    pub fn has_time_critical(&self) -> bool {
        let is_critical = |process: &Process| {
            process.snapshot.uses.iter().any(|kind| kind.class == Class::TimeCritical)
                || process.snapshot.threads.iter().any(|it| it.fields.class == Class::TimeCritical)
        };
        self.processes.iter().any(is_critical)
    }

    fn fault(&mut self, text: String) {
        const FAULTS_MAX: usize = 16;
        if self.faults.len() < FAULTS_MAX && !self.faults.contains(&text) {
            self.faults.push(text);
        }
    }
}

impl Process {
    fn new(
        reader: Reader,
        path: PathBuf,
        inode: Option<u64>,
    ) -> Result<Process, heddle_record::Error> {
        let snapshot = reader.snapshot()?;
        Ok(Process {
            program: program_of(&snapshot),
            snapshot,
            peaks: HashMap::new(),
            cpu_ns: HashMap::new(),
            counted_ns: HashMap::new(),
            replaced: false,
            reader,
            path,
            inode,
            gone: false,
        })
    }

    /// The last look at a program that another one has replaced: what it left in its table. Its
    /// threads' numbers are the next one's by now.
    fn replace(&mut self) {
        if self.gone {
            return;
        }
        if let Ok(snapshot) = self.reader.snapshot() {
            self.snapshot = snapshot;
            self.count();
        }
        self.gone = true;
        self.replaced = true;
    }

    /// Notes what the table says of the CPU time of its living threads, before the kernel is asked.
    fn count(&mut self) {
        let counted = self.snapshot.threads.iter().filter(|it| it.fields.cpu_ns > 0);
        self.counted_ns = counted.map(|it| (it.id, it.fields.cpu_ns)).collect();
    }

    fn look(&mut self, measure: bool) -> Result<(), heddle_record::Error> {
        // Asked before: a process that ends in between is looked at once more.
        let alive = self.reader.alive();
        self.snapshot = self.reader.snapshot()?;
        self.count();
        self.snapshot.ask_kernel();
        for thread in self.snapshot.threads.iter().filter(|it| it.fields.cpu_ns > 0) {
            if thread.fields.state != State::Finished {
                self.cpu_ns.insert(thread.id, thread.fields.cpu_ns);
            }
        }
        if alive && measure {
            self.measure();
        }
        if !alive {
            self.gone = true;
            self.remove_table();
        }
        Ok(())
    }

    /// Measures the stacks of the threads that live.
    fn measure(&mut self) {
        let Ok(meter) = Meter::new(self.snapshot.pid) else { return };
        let mut measured = Vec::new();
        for thread in &self.snapshot.threads {
            let Some(stack) = &thread.stack else { continue };
            let Some(index) = stack.use_index else { continue };
            if thread.fields.state == State::Finished {
                continue;
            }
            if let Some(peak) = meter.peak(stack) {
                measured.push((thread.id, index, peak));
            }
        }
        let Ok(living) = self.reader.living() else { return };
        for (_, index, peak) in measured.into_iter().filter(|(id, ..)| living.contains(id)) {
            let highest = self.peaks.entry(index).or_default();
            highest.bytes = highest.bytes.max(peak.bytes);
            highest.resident = highest.resident.max(peak.resident);
        }
    }

    /// Removes the table, unless the name is another's by now.
    fn remove_table(&self) {
        if self.inode.is_some() && inode_of(&self.path) == self.inode {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Whether it still runs.
    pub fn is_running(&self) -> bool {
        !self.gone
    }
}

/// The path of the program: the table says what its main thread runs, and /proc what the process
/// runs now.
fn program_of(snapshot: &Snapshot) -> Option<String> {
    let main = snapshot.uses.iter().find(|kind| kind.is_main());
    let told = main.and_then(|main| main.places().0).map(|place| place.path);
    told.filter(|path| !path.is_empty())
        .or_else(|| running_program(snapshot.pid).filter(|_| snapshot.alive))
}

fn running_program(pid: i32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(path.to_string_lossy().into_owned())
}

fn table_path(pid: i32) -> PathBuf {
    format!("/dev/shm/heddle.{pid}").into()
}

/// Tables that an exec put aside: whose, and their paths.
fn replaced_tables() -> Vec<(i32, PathBuf)> {
    tables_aside(|word| word.parse::<u32>().is_ok())
}

/// Tables with a word behind their name that is `wanted`: whose, and their paths.
fn tables_aside(wanted: impl Fn(&str) -> bool) -> Vec<(i32, PathBuf)> {
    let names = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let aside = names.filter_map(|entry| {
        let name = entry.file_name();
        let (pid, word) = name.to_str()?.strip_prefix("heddle.")?.split_once('.')?;
        wanted(word).then_some((pid.parse().ok()?, entry.path()))
    });
    aside.collect()
}

/// Opens a table that was put aside, if nobody else can have written it.
fn open_left(path: &Path) -> Option<(Reader, u64)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let about = file.metadata().ok()?;
    let own = rustix::process::geteuid();
    let is_ours = own.is_root() || about.uid() == own.as_raw();
    let reader = Reader::from_file(file).ok().filter(|_| is_ours && about.is_file())?;
    Some((reader, about.ino()))
}

/// Removes the tables that killed runs left put aside.
pub fn remove_left() {
    if !process::are_known() {
        return;
    }
    for (_, path) in tables_aside(|_| true) {
        if let Some((reader, _)) = open_left(&path)
            && reader.is_of_here()
            && !is_run_alive(reader.run())
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Tells a table from the one of the next program in the same process.
fn inode_of(path: &Path) -> Option<u64> {
    Some(fs::symlink_metadata(path).ok()?.ino())
}
