//! Reading directories: all entries in one go by the blocking pool.
//!
//! std reads a directory piece by piece, each of which may wait for the disk; one hand-over for
//! the whole directory is cheaper than one per piece. The entries of the directory are in memory
//! at once.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::vec;

use super::{FileType, Metadata};
use crate::blocking;

/// The entries of a directory; std's `ReadDir`.
#[derive(Debug)]
pub struct ReadDir(vec::IntoIter<io::Result<DirEntry>>);

/// One entry of a directory; std's `DirEntry`.
#[derive(Debug)]
pub struct DirEntry(std::fs::DirEntry);

/// Reads the directory `path`, without "." and "..", in the file system's order.
///
/// # Errors
/// What the kernel says.
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let entries = blocking(|| {
        let entries = std::fs::read_dir(path)?;
        io::Result::Ok(entries.map(|entry| entry.map(DirEntry)).collect::<Vec<_>>())
    })?;
    Ok(ReadDir(entries.into_iter()))
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl DirEntry {
    /// The entry's path: the directory's and its name.
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// Its name.
    pub fn file_name(&self) -> OsString {
        self.0.file_name()
    }

    /// What the file system knows of it; links are not followed.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn metadata(&self) -> io::Result<Metadata> {
        blocking(|| self.0.metadata())
    }

    /// Its type.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn file_type(&self) -> io::Result<FileType> {
        blocking(|| self.0.file_type())
    }
}
