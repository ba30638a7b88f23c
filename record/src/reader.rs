//! Opens the table of a process that is not trusted, and finds the processes that have one.
//!
//! Invariants
//! - A table is read only if its file belongs to the user whose process it describes, and is a
//!   plain file or a memfd: another user's file in `/dev/shm` cannot speak for this process.
//! - The kernel's permissions decide who may read: tables have mode 0600.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, RawDir};

use crate::header::Header;
use crate::layout::TableHeader;
use crate::place::{NAME_PREFIX, SHARED_DIR, shared_path};
use crate::snapshot::{Snapshot, ThreadId};
use crate::source::Source;
use crate::{Error, Fault, Fields, State, copy, process};

/// Behind the name of a table that is not the only one of its process.
pub const ACCOUNT_SUFFIX: &str = ".account";

/// Bytes for the entries that one system call tells.
const ENTRIES_BYTES: usize = 8 << 10;

/// A window on a process's thread table.
#[derive(Debug)]
pub struct Reader {
    file: File,
    header: Header,
    /// The process that was asked for. In another pid namespace the table has another number for
    /// it; and what a table says must not make it speak for somebody else.
    pid: i32,
}

impl Reader {
    /// Opens the table of a process: its file in shared memory, else its memfd.
    ///
    /// The table of a process that died is opened too ([`Snapshot::alive`] tells).
    ///
    /// # Errors
    /// [`Error::NoTable`], [`Error::Denied`], [`Error::Impostor`], or what is wrong with the file.
    pub fn open(pid: i32) -> Result<Reader, Error> {
        let path = shared_path(pid);
        let shared = match open_shared(pid, &path) {
            Ok((file, _)) => Reader::of_process(file, pid),
            Err(error) => Err(error),
        };
        match shared {
            Ok(reader) if reader.alive() => Ok(reader),
            // A dead process's file must not hide a living one's memfd.
            other => match open_memfd(pid) {
                Some(file) => Ok(Reader { pid, ..Reader::from_file(file)? }),
                None => other,
            },
        }
    }

    /// Opens the account that libheddle-preload keeps of a living process whose threads a runtime
    /// makes: it has left its name to the runtime's table.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_account(pid: i32) -> Result<Reader, Error> {
        let mut path = shared_path(pid).into_os_string();
        path.push(ACCOUNT_SUFFIX);
        let (file, _) = open_shared(pid, Path::new(&path))?;
        let reader = Reader::of_process(file, pid)?;
        if reader.alive() { Ok(reader) } else { Err(Error::NoTable { pid }) }
    }

    fn of_process(file: File, pid: i32) -> Result<Reader, Error> {
        let reader = Reader::from_file(file).map_err(|error| match error {
            // Its process has just begun to make it: the size comes after the name, and the magic
            // number last.
            Error::Truncated { have: 0, .. } | Error::NotATable { magic: 0 }
                if process::effective_user(pid).is_some() =>
            {
                Error::NoTable { pid }
            }
            other => other,
        })?;
        let claimed = reader.header.pid;
        if claimed != pid {
            return Err(Error::Header { field: "pid", value: u64::from(claimed.cast_unsigned()) });
        }
        Ok(reader)
    }

    /// Reads a table from an open file, whoever handed it over.
    ///
    /// # Errors
    /// What is wrong with its header.
    pub fn from_file(file: File) -> Result<Reader, Error> {
        let header = Header::read(&file)?;
        Ok(Reader { file, pid: header.pid, header })
    }

    /// The process that the table speaks of.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The `heddle run` that started it, 0 if none did. Costs nothing: the header was read.
    pub fn run(&self) -> u64 {
        self.header.run
    }

    /// Whether the process is of this pid namespace, as far as is known. Else its number means
    /// nothing here, and whether it runs cannot be told.
    pub fn is_of_here(&self) -> bool {
        let namespace = self.header.pid_namespace;
        namespace == 0 || namespace == process::own_namespace()
    }

    /// Whether that process still runs.
    pub fn alive(&self) -> bool {
        process::is_alive(self.pid, self.header.process_start)
    }

    /// Copies the table as it is now.
    ///
    /// # Errors
    /// What is wrong with the table as a whole. What is wrong with single records is in
    /// [`Snapshot::faults`].
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let mut snapshot = Snapshot::take(&self.file)?;
        snapshot.pid = self.pid;
        snapshot.alive = self.alive();
        Ok(snapshot)
    }

    /// Shows every used record to `each` as it is, keeping nothing: for sums over millions.
    ///
    /// Texts stay ids, and a running thread is ready here; the workers' records, which come by as
    /// well, say what they run (their `start` is a slot plus one).
    ///
    /// # Errors
    /// What is wrong with the table as a whole.
    pub fn visit(&self, mut each: impl FnMut(u32, Result<Fields, Fault>)) -> Result<(), Error> {
        let header = Header::read(&self.file)?;
        copy::visit(&self.file, &header, |slot, record| match record {
            Ok(copy) if !copy.fields.is_used() => {}
            record => each(slot, record.map(|copy| copy.fields)),
        })
    }
}

impl Reader {
    /// The threads that have not ended by now. What was read of their stacks before was theirs:
    /// a thread says that it ends before its stack becomes somebody else's.
    ///
    /// # Errors
    /// What is wrong with the table as a whole.
    pub fn living(&self) -> Result<HashSet<ThreadId>, Error> {
        let mut living = HashSet::new();
        self.visit(|slot, record| {
            if let Ok(fields) = record
                && fields.state != State::Finished
            {
                living.insert(ThreadId { slot, generation: fields.generation });
            }
        })?;
        Ok(living)
    }
}

/// The processes of this pid namespace that have a table which this user may read, in ascending
/// order.
///
/// # Errors
/// If `/dev/shm` exists but cannot be listed.
pub fn table_pids() -> io::Result<Vec<i32>> {
    pids_of(|file| !is_strangers(file))
}

fn pids_of(is_meant: impl Fn(&File) -> bool) -> io::Result<Vec<i32>> {
    let mut pids: Vec<i32> = shared_pids()?
        .into_iter()
        .filter(|pid| open_shared(*pid, &shared_path(*pid)).is_ok_and(|(file, _)| is_meant(&file)))
        .collect();
    pids.extend(memfd_pids());
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// The processes that a `heddle run` started and whose tables this user may read, in ascending
/// order; those of pid namespaces within, and ended ones included, until
/// [`sweep`](crate::sweep()) or the run removes their tables.
///
/// # Errors
/// As [`table_pids`].
pub fn run_pids(run: u64) -> io::Result<Vec<i32>> {
    let is_of_run = |pid: &i32| Reader::open(*pid).is_ok_and(|reader| reader.run() == run);
    // Of those in memfds nothing is known yet, and of the others only what the header says.
    Ok(pids_of(|file| says_run(file, run))?.into_iter().filter(is_of_run).collect())
}

/// The pids in the names of the files in shared memory.
///
/// Not by std's `read_dir`: the C library allocates for it, and a process lists them as it makes
/// its table, where it may not wait for an allocator of the program's.
pub(crate) fn shared_pids() -> io::Result<Vec<i32>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(SHARED_DIR, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(rustix::io::Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut space = Vec::with_capacity(ENTRIES_BYTES);
    let mut entries = RawDir::new(&folder, space.spare_capacity_mut());
    let mut pids = Vec::new();
    while let Some(entry) = entries.next() {
        pids.extend(entry?.file_name().to_str().ok().and_then(parse_pid));
    }
    Ok(pids)
}

/// The pid in a table's file name. Only the canonical form counts: "heddle.007" is nobody's.
fn parse_pid(name: &str) -> Option<i32> {
    let digits = name.strip_prefix(NAME_PREFIX)?;
    let pid: i32 = digits.parse().ok()?;
    (pid > 0 && digits == pid.to_string()).then_some(pid)
}

/// Whether the table's header names this `heddle run`.
fn says_run(file: &File, run: u64) -> bool {
    let mut said = [0; 8];
    file.fill(offset_of!(TableHeader, run) as u64, &mut said).is_ok() && said == run.to_le_bytes()
}

/// Whether the table's process is of another pid namespace, where others have the numbers.
fn is_strangers(file: &File) -> bool {
    let mut namespace = [0; 4];
    let offset = offset_of!(TableHeader, pid_namespace);
    let is_known = file.fill(offset as u64, &mut namespace).is_ok() && namespace != [0; 4];
    is_known && u32::from_le_bytes(namespace) != process::own_namespace()
}

/// Opens the file of `pid` in shared memory, if it can be its own; and what it is.
pub(crate) fn open_shared(pid: i32, path: &Path) -> Result<(File, Metadata), Error> {
    // NONBLOCK: a FIFO by this name must not hang us.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file: File = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => fd.into(),
        Err(rustix::io::Errno::NOENT) => return Err(Error::NoTable { pid }),
        Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {
            return Err(Error::Denied { pid });
        }
        Err(rustix::io::Errno::LOOP) => return Err(Error::Impostor { path: path.into() }),
        Err(errno) => return Err(Error::io("open the thread table")(errno)),
    };
    let meta = file.metadata().ok().filter(|meta| is_of_process(meta, pid));
    meta.map(|meta| (file, meta)).ok_or_else(|| Error::Impostor { path: path.into() })
}

/// Whether the file is a plain one that can be the table of `pid`.
fn is_of_process(meta: &Metadata, pid: i32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let process = process::effective_user(pid);
    meta.is_file() && !meta.file_type().is_fifo() && may_speak(meta.uid(), process, own)
}

/// Whether a file of the user `file` may be the table of a process of the user `process`, `None`
/// if it is dead, when `own` asks.
///
/// - The user who runs the process may.
/// - Root may: a process that has dropped its privileges (a server's worker) made its table
///   while it was root, and nobody else can make root's files.
/// - Nobody runs a dead process: its file is believed if it is ours, or if we are root.
fn may_speak(file: u32, process: Option<u32>, own: u32) -> bool {
    const ROOT: u32 = 0;
    let by_owner = match process {
        Some(process) => file == process,
        None => file == own || own == ROOT,
    };
    by_owner || file == ROOT
}

/// Opens the memfd that `pid` keeps its table in. The kernel guards `/proc/PID/fd`.
fn open_memfd(pid: i32) -> Option<File> {
    let link = memfd_link(pid)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file: File = rustix::fs::open(link, flags, Mode::empty()).ok()?.into();
    file.metadata().is_ok_and(|meta| meta.is_file()).then_some(file)
}

/// The entry of `/proc/PID/fd` that is a table.
fn memfd_link(pid: i32) -> Option<PathBuf> {
    let wanted = format!("/memfd:{NAME_PREFIX}");
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut links = entries.filter_map(|entry| Some(entry.ok()?.path()));
    links.find(|link| {
        fs::read_link(link).is_ok_and(|target| target.to_string_lossy().starts_with(&wanted))
    })
}

/// Processes that keep a table in a memfd. Readers and children hold the descriptor as well: only
/// the process that started when the table says counts.
fn memfd_pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let header = open_memfd(*pid).map(|file| Header::read(&file));
        matches!(header, Some(Ok(header)) if process::is_alive(*pid, header.process_start))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_names_are_tables() {
        assert_eq!(parse_pid("heddle.17"), Some(17));
        for name in ["heddle.", "heddle.017", "heddle.+1", "heddle.-1", "heddle.0", "x.1"] {
            assert_eq!(parse_pid(name), None, "{name}");
        }
    }

    #[test]
    fn only_the_owner_and_root_may_speak_for_a_process() {
        let (root, me, other) = (0, 1000, 1001);
        for asker in [root, me, other] {
            assert!(may_speak(me, Some(me), asker));
            assert!(may_speak(root, Some(me), asker), "privileges were dropped");
            assert!(!may_speak(other, Some(me), asker), "asked by {asker}");
        }
        assert!(!may_speak(me, Some(root), me) && !may_speak(other, Some(root), me));
        assert!(may_speak(me, None, me) && may_speak(me, None, root));
        assert!(may_speak(root, None, me) && !may_speak(other, None, me));
    }

    #[test]
    fn a_process_without_a_table_says_so() {
        // Pids end at 2^22.
        assert!(matches!(Reader::open(1 << 30), Err(Error::NoTable { .. })));
    }
}
