//! What time-critical threads have been doing, by the files that /proc has of each.
//!
//! Invariants
//! - The files of [`KEPT_MAX`] threads at most, and never most of the descriptors that there may
//!   be, stay open and are read again; those of the others are opened each time.
//! - The CPU time of a thread that has ended is not forgotten: its process's clock has it, too.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;

use super::proc::{self, Stat};
use super::world::Activity;

/// Two descriptors each.
const KEPT_MAX: usize = 256;

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

/// The threads.
#[derive(Debug)]
pub struct WatchList {
    threads: HashMap<i32, Watched>,
    /// How many of them may keep their files open.
    kept_max: usize,
    /// CPU time of those that have ended, by process.
    ended_ns: HashMap<i32, u64>,
}

impl WatchList {
    /// Empty.
    pub fn new() -> WatchList {
        WatchList { threads: HashMap::new(), kept_max: kept_max(), ended_ns: HashMap::new() }
    }

    /// CPU time that all of them have used, the ended ones among them.
    pub fn cpu_ns(&self) -> u64 {
        // Not what they had used when they were last asked: that may be long ago.
        let now = |it: &Watched| {
            let times = it.files.as_ref().and_then(|files| files.times().ok());
            times.map_or(it.cpu_ns, |times| times.0)
        };
        self.threads.values().map(now).sum::<u64>() + self.ended_ns.values().sum::<u64>()
    }

    /// Closes the files of a thread that is no more.
    pub fn let_go(&mut self, tid: i32) {
        if let Some(watched) = self.threads.remove(&tid) {
            *self.ended_ns.entry(watched.pid).or_default() += watched.cpu_ns;
        }
    }

    /// Lets go of all but the living threads and processes.
    pub fn keep(&mut self, threads: &HashSet<i32>, processes: &HashSet<i32>) {
        let over: Vec<i32> =
            self.threads.keys().copied().filter(|tid| !threads.contains(tid)).collect();
        over.into_iter().for_each(|tid| self.let_go(tid));
        self.ended_ns.retain(|pid, _| processes.contains(pid));
    }

    /// What a thread did since it was asked last.
    pub fn activity(&mut self, pid: i32, tid: i32) -> Activity {
        match self.ask(pid, tid) {
            Ok(activity) => activity,
            Err(error) if is_gone(&error) => Activity::Gone,
            // No descriptor to be had: it must not wait for one.
            Err(_) => Activity::Active,
        }
    }

    fn ask(&mut self, pid: i32, tid: i32) -> io::Result<Activity> {
        if !self.threads.contains_key(&tid) {
            let kept = self.threads.values().filter(|it| it.files.is_some()).count();
            let files = if kept < self.kept_max { Files::open(pid, tid).ok() } else { None };
            self.threads.insert(tid, Watched { files, pid, cpu_ns: 0, slices: 0 });
        }
        let watched = self.threads.get_mut(&tid).ok_or(io::ErrorKind::NotFound)?;
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
            Some(stat) if !stat.is_ended() => Activity::Asleep,
            _ => Activity::Gone,
        })
    }
}

/// Whether an error says that the thread is no more.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(test)]
pub mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::sys::clock;

    const MS: u64 = 1_000_000;

    /// A thread of this process that takes some CPU time at once and ends when it is told to.
    pub struct Worker(std::thread::JoinHandle<()>, mpsc::Sender<()>, pub i32);

    impl Worker {
        pub fn start(busy_ns: u64) -> Worker {
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
        pub fn end(self) {
            drop(self.1);
            self.0.join().expect("no panic");
            while Stat::of_thread(std::process::id() as i32, self.2).is_some() {
                std::thread::yield_now();
            }
        }
    }

    fn own_pid() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn more_threads_than_descriptors_are_watched() {
        let mut list = WatchList { kept_max: 2, ..WatchList::new() };
        let workers: Vec<_> = (0..6).map(|_| Worker::start(1)).collect();
        for _ in 0..3 {
            for worker in &workers {
                assert_ne!(list.activity(own_pid(), worker.2), Activity::Gone);
            }
        }
        let kept = list.threads.values().filter(|it| it.files.is_some()).count();
        assert_eq!((list.threads.len(), kept), (6, 2));
        let tids: Vec<i32> = workers.iter().map(|it| it.2).collect();
        workers.into_iter().for_each(Worker::end);
        assert!(tids.iter().all(|tid| list.activity(own_pid(), *tid) == Activity::Gone));
        assert!(kept_max() <= KEPT_MAX);
    }

    #[test]
    fn cpu_time_of_an_ended_thread_is_not_the_others() {
        let (mut list, worker) = (WatchList::new(), Worker::start(20 * MS));
        list.activity(own_pid(), worker.2);
        worker.end();
        list.keep(&HashSet::new(), &HashSet::from([own_pid()]));
        assert!(list.cpu_ns() >= 20 * MS, "{}", list.cpu_ns());
        list.keep(&HashSet::new(), &HashSet::new());
        assert_eq!(list.cpu_ns(), 0);
    }
}
