//! Where a table lives: a file in shared memory, else a memfd, else private memory.
//!
//! Invariant: the file `/dev/shm/heddle.PID` is made by this process (O_EXCL, mode 0600) and is
//! removed by nobody but it, `sweep`, or the next process with the same number.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};

use rustix::fs::{MemfdFlags, Mode, OFlags};

use crate::{Error, process};

/// Where shared memory files live on Linux.
pub(crate) const SHARED_DIR: &str = "/dev/shm";
/// How a table's file name starts; the pid follows.
pub(crate) const NAME_PREFIX: &str = "heddle.";

/// Where a table lives; each falls back to the next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// `/dev/shm/heddle.PID`: readable by the owner and root, and after the process's death.
    Shared,
    /// A memfd: readable by the owner and root while the process lives.
    Memfd,
    /// Private memory: no tool can see the threads.
    Private,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Place::Shared => "shared memory file",
            Place::Memfd => "memfd",
            Place::Private => "private memory",
        })
    }
}

/// The path of a process's table.
pub(crate) fn shared_path(pid: i32) -> PathBuf {
    Path::new(SHARED_DIR).join(format!("{NAME_PREFIX}{pid}"))
}

/// One table per process may own the name; a second would unlink the first's file.
static NAME_TAKEN: AtomicBool = AtomicBool::new(false);

/// A table's file, and the name that must go when the table goes.
#[derive(Debug)]
pub(crate) struct Home {
    pub file: Option<File>,
    pub path: Option<PathBuf>,
}

impl Home {
    /// Opens an empty file in `place`, which is one of the first two.
    pub fn open(place: Place) -> Result<Home, Error> {
        match place {
            Place::Shared => Home::shared(),
            Place::Memfd => Home::memfd(),
            Place::Private => Ok(Home { file: None, path: None }),
        }
    }

    fn shared() -> Result<Home, Error> {
        if NAME_TAKEN.swap(true, AcqRel) {
            return Err(Error::Exists);
        }
        let path = shared_path(process::own_pid());
        match create_exclusive(&path) {
            Ok(file) => Ok(Home { file: Some(file), path: Some(path) }),
            Err(error) => {
                NAME_TAKEN.store(false, Release);
                Err(error)
            }
        }
    }

    fn memfd() -> Result<Home, Error> {
        let name = format!("{NAME_PREFIX}{}", process::own_pid());
        let flags = MemfdFlags::CLOEXEC;
        let fd = rustix::fs::memfd_create(name, flags).map_err(Error::io("create a memfd"))?;
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)
            .map_err(Error::io("restrict the memfd to its owner"))?;
        Ok(Home { file: Some(fd.into()), path: None })
    }

    /// Removes the file's name, if it still is this table's file. Idempotent.
    pub fn unlink(&mut self) {
        let Some(path) = self.path.take() else { return };
        if self.file.as_ref().is_some_and(|file| is_same_file(file, &path)) {
            // Failing leaves a file that `sweep` removes.
            let _ = std::fs::remove_file(&path);
        }
        NAME_TAKEN.store(false, Release);
    }
}

/// Creates the file; one that an earlier process with this number left behind is replaced.
fn create_exclusive(path: &Path) -> Result<File, Error> {
    const ATTEMPTS_MAX: u32 = 4;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut attempts = 0;
    loop {
        attempts += 1;
        match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => return Ok(fd.into()),
            // This process is the only one alive with this number, so the file is stale. In a
            // sticky directory only our own can be removed: another user's stays, and the
            // caller falls back.
            Err(rustix::io::Errno::EXIST) if attempts < ATTEMPTS_MAX => {
                std::fs::remove_file(path)
                    .map_err(Error::std_io("replace a stale thread table"))?;
            }
            Err(errno) => return Err(Error::io("create the thread table in /dev/shm")(errno)),
        }
    }
}

/// Whether `path` still names `file`.
pub(crate) fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(ours), Ok(named)) => ours.dev() == named.dev() && ours.ino() == named.ino(),
        _ => false,
    }
}
