//! The files under the profiles: reading with limits, replacing at once, one writer at a time.
//!
//! Invariant: files are written and removed only by who holds the lock; readers need none,
//! because a profile appears under its name only when it is whole.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::SUFFIX;
use super::text::{self, Content, FILE_BYTES_MAX};

/// The file that the lock is on.
const LOCK: &str = "lock";
/// The file that a profile is written to before it gets its name.
const DRAFT: &str = "draft";
/// How long another run's merge is waited for; one takes milliseconds.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);
const LOCK_POLL: Duration = Duration::from_millis(5);

/// Makes the folder, for its owner only; the ones above as usual.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    if let Some(above) = dir.parent() {
        std::fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        result => result,
    }
}

/// The only one who may write, until it is dropped.
pub(super) struct Lock(#[expect(dead_code, reason = "held, not used")] File);

/// Takes the lock.
pub(super) fn lock(dir: &Path) -> io::Result<Lock> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    let file = options.open(dir.join(LOCK))?;
    let started = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Lock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) if started.elapsed() < LOCK_WAIT_MAX => {
                std::thread::sleep(LOCK_POLL);
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let message = "another run holds the lock for too long";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reads a profile: `None` if there is none, an inner error if it cannot be believed.
pub(super) fn read(path: &Path) -> io::Result<Option<Result<Content, String>>> {
    // NONBLOCK: a FIFO by this name must not hang us.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Ok(Some(Err("it is no plain file".into())));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Ok(Some(Err(format!("it is larger than {FILE_BYTES_MAX} bytes"))));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is no text".to_owned());
    Ok(Some(text.and_then(text::parse)))
}

/// Writes a profile and puts it in the old one's place at once. Under the lock.
///
/// Nothing is forced to the disk: what a power failure leaves is whole, or is found out when it is
/// read, and costs only history.
pub(super) fn replace(path: &Path, content: &str) -> io::Result<()> {
    let draft = path.with_file_name(DRAFT);
    // A run that was killed may have left one.
    let _ = std::fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = file.write_all(content.as_bytes()).and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// The profiles in the folder, by name; none if there is no folder.
pub(super) fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let ends = |path: &PathBuf| path.to_string_lossy().ends_with(SUFFIX);
    Ok(entries(dir)?.into_iter().filter(ends).collect())
}

fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort_unstable();
    Ok(paths)
}

/// Removes every profile and what was kept aside; says how many profiles there were.
pub(super) fn remove_all(dir: &Path) -> io::Result<usize> {
    let profiles = list(dir)?;
    if entries(dir)?.is_empty() {
        return Ok(0);
    }
    let _lock = lock(dir)?;
    for path in entries(dir)?.iter().filter(|path| is_ours(path)) {
        std::fs::remove_file(path)?;
    }
    Ok(profiles.len())
}

/// Whether the file is one of those that are made here, the lock apart.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(SUFFIX) || name.ends_with(".stacks.corrupt") || name == DRAFT
}

/// Removes the profiles that were not changed for longest until `count` are left. Under the lock.
pub(super) fn remove_oldest(dir: &Path, count: usize) -> io::Result<()> {
    let mut profiles: Vec<(SystemTime, PathBuf)> = list(dir)?
        .into_iter()
        .filter_map(|path| Some((path.metadata().and_then(|meta| meta.modified()).ok()?, path)))
        .collect();
    profiles.sort_unstable();
    let surplus = profiles.len().saturating_sub(count);
    profiles[..surplus].iter().try_for_each(|(_, path)| std::fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_profiles_go() {
        let dir = std::env::temp_dir().join(format!("heddle-oldest-{}", std::process::id()));
        make_dir(&dir).expect("a folder");
        for (index, name) in ["b", "c", "a"].into_iter().enumerate() {
            let path = dir.join(format!("{name}{SUFFIX}"));
            replace(&path, "x").expect("written");
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(index as u64);
            File::options().write(true).open(&path).expect("it").set_modified(time).expect("it");
        }
        remove_oldest(&dir, 2).expect("removed");
        let names = list(&dir).expect("a list");
        assert_eq!(names, [dir.join("a.stacks"), dir.join("c.stacks")]);
        assert_eq!(remove_all(&dir).expect("removed"), 2);
        std::fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(remove_all(&dir).expect("nothing"), 0);
    }
}
