//! Removes the tables of dead processes.
//!
//! Invariant: a table goes only if its own header names a process that no longer runs. Between that
//! look and the removal a new process may take the number, and the name for a table of its own: so
//! the name is taken away first, and given back if what had it is not what was looked at.
//!
//! Of a process of another pid namespace that shares `/dev/shm` nothing can be said: its table
//! stays, unless there are very many ([`sweep_but`]).
//!
//! A table that a `heddle run` ordered is that run's to read and remove, as long as the run lives;
//! after that it is swept like the others.

use std::fs::{self, File, Metadata};
use std::mem::offset_of;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, RenameFlags};

use crate::layout::{FLAG_PRELOAD, MAGIC, TableHeader};
use crate::place::{SHARED_DIR, is_same_file, shared_path};
use crate::reader::{open_shared, shared_pids};
use crate::source::Source;
use crate::{Error, process};

/// How long the tables of processes that ended without removing them are kept, where nobody asks.
pub const TABLE_AGE_MAX: Duration = Duration::from_secs(86_400);
/// How many of them are kept.
pub const TABLES_MAX: usize = 32;
/// How many are kept of processes of which nothing can be said.
pub const STRANGERS_MAX: usize = 1024;
/// In which a table is finished, however busy the machine.
const START_TIME: Duration = Duration::from_secs(10);

/// Removes the tables of dead processes that were not changed for `age`, and says how many.
/// Only tables of this user; root sweeps everyone's. A crash's table is worth a look, so
/// callers that were not asked by a person give it a day.
///
/// # Errors
/// If `/dev/shm` cannot be listed. A table that cannot be removed is left.
pub fn sweep(age: Duration) -> Result<usize, Error> {
    let sweeper = Sweeper::new();
    Ok(sweeper.remove_all(sweeper.tables(age, Sweeper::is_dead)?, age, Sweeper::is_dead))
}

/// Removes what nobody will read any more, and says how many: tables that libheddle-preload wrote
/// for processes that are dead, and that no living `heddle run` waits for; whose, as [`sweep`].
/// Such a run tells what there was to tell when a process ends, a crash included. Tables of other
/// programs stay until they are swept by age or number.
///
/// # Errors
/// As [`sweep`].
pub fn sweep_left() -> Result<usize, Error> {
    let is_left = |sweeper: &Sweeper, seen: &Seen| {
        seen.header.flags & FLAG_PRELOAD != 0 && sweeper.is_dead(seen)
    };
    let sweeper = Sweeper::new();
    let tables = sweeper.tables(Duration::ZERO, is_left)?;
    Ok(sweeper.remove_all(tables, Duration::ZERO, is_left))
}

/// Removes the tables of dead processes but for the `count` youngest, and of these those that were
/// not changed for `age`; says how many, and whose as [`sweep`]. So a program that crashes again
/// and again does not fill `/dev/shm`; nor do containers in which that happens: of other pid
/// namespaces' tables the oldest go where there are more than [`STRANGERS_MAX`], dead or not.
///
/// # Errors
/// As [`sweep`].
pub fn sweep_but(count: usize, age: Duration) -> Result<usize, Error> {
    let names = shared_pids().map_err(Error::std_io("list /dev/shm"))?;
    if names.len() <= count {
        return sweep(age);
    }
    let sweeper = Sweeper::new();
    let many = sweeper.remove_but(count, Sweeper::is_dead)?;
    let strange = if names.len() > STRANGERS_MAX {
        sweeper.remove_but(STRANGERS_MAX, Sweeper::is_strangers)?
    } else {
        0
    };
    Ok(many + strange + sweep(age)?)
}

/// The tables that were last changed before `since`, and the oldest but for `count`.
fn surplus(
    mut tables: Vec<(SystemTime, i32)>,
    count: usize,
    since: SystemTime,
) -> Vec<(SystemTime, i32)> {
    tables.sort_unstable();
    let old = tables.partition_point(|&(changed, _)| changed < since);
    tables.truncate(tables.len().saturating_sub(count).max(old));
    tables
}

/// What one look tells of a table. Looks are part of each start, so they ask little.
struct Seen {
    pid: i32,
    file: File,
    changed: SystemTime,
    header: Header,
}

/// What a header says that tells whether the table is still somebody's; zeros where it cannot be
/// read: it belongs to a writer that is just starting, or died while starting.
#[derive(Default)]
struct Header {
    is_finished: bool,
    start: u64,
    run: u64,
    flags: u32,
    namespace: u32,
}

impl Header {
    fn of(file: &File) -> Header {
        let mut bytes = [0; size_of::<TableHeader>()];
        if file.fill(0, &mut bytes).is_err() {
            return Header::default();
        }
        let long = |offset| u64::from_le_bytes(field(&bytes, offset));
        let short = |offset| u32::from_le_bytes(field(&bytes, offset));
        Header {
            is_finished: long(offset_of!(TableHeader, magic)) == MAGIC,
            start: long(offset_of!(TableHeader, process_start)),
            run: long(offset_of!(TableHeader, run)),
            flags: short(offset_of!(TableHeader, flags)),
            namespace: short(offset_of!(TableHeader, pid_namespace)),
        }
    }
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().expect("a field of the header")
}

/// Who sweeps.
struct Sweeper {
    user: rustix::process::Uid,
    namespace: u32,
}

impl Sweeper {
    fn new() -> Sweeper {
        Sweeper { user: rustix::process::geteuid(), namespace: process::own_namespace() }
    }

    /// The tables that `take` takes, not changed for `age`: when they were, and whose.
    fn tables(
        &self,
        age: Duration,
        take: impl Fn(&Sweeper, &Seen) -> bool,
    ) -> Result<Vec<(SystemTime, i32)>, Error> {
        if !process::are_known() {
            return Ok(Vec::new());
        }
        let pids = shared_pids().map_err(Error::std_io("list /dev/shm"))?;
        let tables = pids.into_iter().filter_map(|pid| {
            let seen = self.look(pid, age).filter(|seen| take(self, seen))?;
            Some((seen.changed, pid))
        });
        Ok(tables.collect())
    }

    /// The table of `pid`, if it is ours, finished or long begun, and not changed for `age`.
    fn look(&self, pid: i32, age: Duration) -> Option<Seen> {
        let path = shared_path(pid);
        // The cheapest question first, if it can say no.
        if !age.is_zero() {
            fs::metadata(&path).ok().filter(|meta| is_older(meta, age))?;
        }
        let (file, meta) = open_shared(pid, &path).ok()?;
        let header = Header::of(&file);
        // Nobody can say yet whose an unfinished one is.
        let age = if header.is_finished { age } else { age.max(START_TIME) };
        let is_ours = self.user.is_root() || meta.uid() == self.user.as_raw();
        let changed = meta.modified().ok().filter(|_| is_ours && is_older(&meta, age))?;
        Some(Seen { pid, file, changed, header })
    }

    /// Whether the process of the table is dead, and nobody waits for it.
    fn is_dead(&self, seen: &Seen) -> bool {
        let Header { start, run, .. } = seen.header;
        !self.is_strangers(seen)
            && !process::is_alive(seen.pid, start)
            && !process::is_run_alive(run)
    }

    /// Whether the table's process is of another pid namespace.
    fn is_strangers(&self, seen: &Seen) -> bool {
        seen.header.namespace != 0 && seen.header.namespace != self.namespace
    }

    fn remove_but(
        &self,
        count: usize,
        take: impl Fn(&Sweeper, &Seen) -> bool,
    ) -> Result<usize, Error> {
        let many = surplus(self.tables(Duration::ZERO, &take)?, count, SystemTime::UNIX_EPOCH);
        Ok(self.remove_all(many, Duration::ZERO, take))
    }

    /// Removes those of these that `take` still takes; says how many.
    fn remove_all(
        &self,
        tables: Vec<(SystemTime, i32)>,
        age: Duration,
        take: impl Fn(&Sweeper, &Seen) -> bool,
    ) -> usize {
        let remove = |&(_, pid): &(SystemTime, i32)| {
            let path = shared_path(pid);
            debug_assert!(path.starts_with(SHARED_DIR));
            self.look(pid, age).filter(|seen| take(self, seen)).is_some_and(|seen| {
                is_same_file(&seen.file, &path) && remove_if_same(&seen.file, &path)
            })
        };
        tables.iter().filter(|it| remove(it)).count()
    }
}

/// Removes what has this name if it is `file`.
fn remove_if_same(file: &File, path: &Path) -> bool {
    // No table's name: those end in one number.
    let aside = PathBuf::from(format!("{}.{}", path.display(), process::own_pid()));
    if fs::rename(path, &aside).is_err() {
        return false;
    }
    if is_same_file(file, &aside) {
        return fs::remove_file(&aside).is_ok();
    }
    // Refused if the name was taken once more: what was put aside is nobody's then.
    if rustix::fs::renameat_with(CWD, &aside, CWD, path, RenameFlags::NOREPLACE).is_err() {
        let _ = fs::remove_file(&aside);
    }
    false
}

fn is_older(meta: &Metadata, age: Duration) -> bool {
    match meta.modified().map(|changed| SystemTime::now().duration_since(changed)) {
        Ok(Ok(passed)) => passed >= age,
        _ => age.is_zero(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_another_table_has_taken_stays() {
        let name = format!("heddle-sweep-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "looked at").unwrap();
        let looked_at = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        std::fs::write(&path, "of the next process").unwrap();
        assert!(!remove_if_same(&looked_at, &path));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of the next process");
        assert!(remove_if_same(&File::open(&path).unwrap(), &path));
        assert!(!path.exists());
    }

    #[test]
    fn the_oldest_tables_are_surplus() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let tables = vec![(at(3), 30), (at(1), 10), (at(2), 20)];
        assert_eq!(surplus(tables.clone(), 1, at(0)), [(at(1), 10), (at(2), 20)]);
        assert_eq!(surplus(tables.clone(), 3, at(0)), []);
        assert_eq!(surplus(tables.clone(), 3, at(2)), [(at(1), 10)]);
        assert_eq!(surplus(tables, usize::MAX, at(9)).len(), 3);
    }

    #[test]
    fn nothing_goes_while_there_is_room() {
        let ages = Duration::from_secs(400 * 86_400);
        assert_eq!(sweep_but(usize::MAX, ages).expect("a list"), 0);
    }
}
