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
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, RenameFlags};

use crate::layout::{FLAG_PRELOAD, MAGIC, TableHeader};
use crate::place::{SHARED_DIR, is_same_file, shared_path};
use crate::reader::{is_strangers, open_shared, shared_pids};
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
    Ok(tables(age, dead_table)?
        .into_iter()
        .filter(|&(_, pid)| remove(pid, age, dead_table))
        .count())
}

/// Removes what nobody will read any more, and says how many: tables that libheddle-preload wrote
/// for processes that are dead, and that no living `heddle run` waits for; whose, as [`sweep`].
/// Such a run tells what there was to tell when a process ends, a crash included. Tables of other
/// programs stay until they are swept by age or number.
///
/// # Errors
/// As [`sweep`].
pub fn sweep_left() -> Result<usize, Error> {
    let left = |pid, age| dead_table(pid, age).filter(is_of_preload);
    let tables = tables(Duration::ZERO, left)?;
    Ok(tables.into_iter().filter(|&(_, pid)| remove(pid, Duration::ZERO, left)).count())
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
    let many = remove_but(count, dead_table)?;
    let strange =
        if names.len() > STRANGERS_MAX { remove_but(STRANGERS_MAX, stranger)? } else { 0 };
    Ok(many + strange + sweep(age)?)
}

fn remove_but(count: usize, take: fn(i32, Duration) -> Option<File>) -> Result<usize, Error> {
    let many = surplus(tables(Duration::ZERO, take)?, count, SystemTime::UNIX_EPOCH);
    Ok(many.into_iter().filter(|&(_, pid)| remove(pid, Duration::ZERO, take)).count())
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

/// The tables that `take` takes, not changed for `age`: when they were, and whose.
fn tables(
    age: Duration,
    take: impl Fn(i32, Duration) -> Option<File>,
) -> Result<Vec<(SystemTime, i32)>, Error> {
    if !process::are_known() {
        return Ok(Vec::new());
    }
    let pids = shared_pids().map_err(Error::std_io("list /dev/shm"))?;
    let tables = pids.into_iter().filter_map(|pid| {
        // The cheapest question first: this is part of each start.
        fs::metadata(shared_path(pid)).ok().filter(|meta| is_older(meta, age))?;
        let file = take(pid, age)?;
        Some((file.metadata().and_then(|meta| meta.modified()).ok()?, pid))
    });
    Ok(tables.collect())
}

/// The table of `pid`, if that is dead, its table ours and not changed for `age`, and nobody waits
/// for it.
fn dead_table(pid: i32, age: Duration) -> Option<File> {
    let file = own_table(pid, age).filter(|file| !is_strangers(file))?;
    (!is_owner_alive(&file, pid) && !is_awaited(&file)).then_some(file)
}

/// The table of a process of another pid namespace that has the number `pid` there, if it is ours
/// and not changed for `age`.
fn stranger(pid: i32, age: Duration) -> Option<File> {
    own_table(pid, age).filter(is_strangers)
}

/// The table of `pid`, if it is ours, finished or long begun, and not changed for `age`.
fn own_table(pid: i32, age: Duration) -> Option<File> {
    let file = open_shared(pid, &shared_path(pid)).ok()?;
    // Nobody can say yet whose an unfinished one is.
    let age = if is_finished(&file) { age } else { age.max(START_TIME) };
    let is_free = is_ours(&file) && file.metadata().is_ok_and(|meta| is_older(&meta, age));
    is_free.then_some(file)
}

fn remove(pid: i32, age: Duration, take: impl Fn(i32, Duration) -> Option<File>) -> bool {
    let path = shared_path(pid);
    debug_assert!(path.starts_with(SHARED_DIR));
    take(pid, age).is_some_and(|file| is_same_file(&file, &path) && remove_if_same(&file, &path))
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

fn is_ours(file: &File) -> bool {
    let own = rustix::process::geteuid();
    file.metadata().is_ok_and(|meta| own.is_root() || meta.uid() == own.as_raw())
}

fn is_older(meta: &Metadata, age: Duration) -> bool {
    match meta.modified().map(|changed| SystemTime::now().duration_since(changed)) {
        Ok(Ok(passed)) => passed >= age,
        _ => age.is_zero(),
    }
}

/// Whether the process that wrote the table runs. A header that cannot be read belongs to a
/// writer that is just starting, or died while starting: then the number alone decides.
fn is_owner_alive(file: &File, pid: i32) -> bool {
    let mut start = [0; 8];
    let offset = std::mem::offset_of!(TableHeader, process_start);
    match file.fill(offset as u64, &mut start) {
        Ok(()) => process::is_alive(pid, u64::from_le_bytes(start)),
        Err(_) => process::is_alive(pid, 0),
    }
}

/// Whether the header was written.
fn is_finished(file: &File) -> bool {
    let mut magic = [0; 8];
    file.fill(std::mem::offset_of!(TableHeader, magic) as u64, &mut magic).is_ok()
        && u64::from_le_bytes(magic) == MAGIC
}

/// Whether the table belongs to a run that still lives.
fn is_awaited(file: &File) -> bool {
    let mut run = [0; 8];
    let offset = std::mem::offset_of!(TableHeader, run);
    file.fill(offset as u64, &mut run).is_ok() && process::is_run_alive(u64::from_le_bytes(run))
}

/// Whether libheddle-preload wrote the table.
fn is_of_preload(file: &File) -> bool {
    let mut flags = [0; 4];
    let offset = std::mem::offset_of!(TableHeader, flags);
    file.fill(offset as u64, &mut flags).is_ok() && u32::from_le_bytes(flags) & FLAG_PRELOAD != 0
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
