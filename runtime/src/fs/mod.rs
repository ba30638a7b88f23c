//! Files: std's functions and types; what has to wait for a disk blocks only the thread.
//!
//! Reads and writes try the page cache first (`RWF_NOWAIT`: one system call on the worker when
//! the page is there), then the ring, then the blocking pool. What works on names goes to the
//! pool: the kernel does the same behind io_uring, and the pool serves both reactors; but opening
//! an existing file whose names are cached takes place at once.

mod dir;
mod file;
mod options;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::blocking;

pub use dir::{DirEntry, ReadDir, read_dir};
pub use file::File;
pub use options::OpenOptions;
pub use std::fs::{FileTimes, FileType, Metadata, Permissions};

/// Reads a whole file.
///
/// # Errors
/// As [`File::open`], what reading says.
///
/// ```
/// # heddle::run(|| {
/// let name = std::env::temp_dir().join(format!("heddle-doc-{}", std::process::id()));
/// heddle::fs::write(&name, b"woven")?;
/// assert_eq!(heddle::fs::read(&name)?, b"woven");
/// heddle::fs::remove_file(&name)
/// # }).unwrap();
/// ```
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(file.size_hint())?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file as text.
///
/// # Errors
/// As [`read`]; `InvalidData` for what is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let text = String::from_utf8(read(path)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes a whole file; one that exists is replaced.
///
/// # Errors
/// As [`File::create`], what writing says.
pub fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
    File::create(path)?.write_all(content.as_ref())
}

/// What the file system knows of a file; links are followed.
///
/// # Errors
/// What the kernel says.
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    blocking(|| std::fs::metadata(path))
}

/// What the file system knows of a file; a link is itself the file.
///
/// # Errors
/// What the kernel says.
pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    blocking(|| std::fs::symlink_metadata(path))
}

/// Whether something of this name exists.
///
/// # Errors
/// When it can't be told.
pub fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref();
    blocking(|| path.try_exists())
}

/// Makes a directory.
///
/// # Errors
/// What the kernel says.
pub fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::create_dir(path))
}

/// Makes a directory and those above it that are not there.
///
/// # Errors
/// What the kernel says.
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::create_dir_all(path))
}

/// Removes an empty directory.
///
/// # Errors
/// What the kernel says.
pub fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::remove_dir(path))
}

/// Removes a directory and all it contains.
///
/// # Errors
/// What the kernel says.
pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::remove_dir_all(path))
}

/// Removes a file.
///
/// # Errors
/// What the kernel says.
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::remove_file(path))
}

/// Renames a file or directory; a file of the new name is replaced.
///
/// # Errors
/// What the kernel says.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    blocking(|| std::fs::rename(from, to))
}

/// Copies a file's content and permissions; returns the number of bytes.
///
/// # Errors
/// What the kernel says.
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (from.as_ref(), to.as_ref());
    blocking(|| std::fs::copy(from, to))
}

/// Gives a file a second name.
///
/// # Errors
/// What the kernel says.
pub fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref(), link.as_ref());
    blocking(|| std::fs::hard_link(original, link))
}

/// Where a symbolic link points.
///
/// # Errors
/// What the kernel says.
pub fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    blocking(|| std::fs::read_link(path))
}

/// The absolute name without links and dots.
///
/// # Errors
/// What the kernel says.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    blocking(|| std::fs::canonicalize(path))
}

/// Changes a file's permissions.
///
/// # Errors
/// What the kernel says.
pub fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::set_permissions(path, permissions))
}
