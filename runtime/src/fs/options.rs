//! How a file is opened.

use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};

use super::File;
use crate::blocking;

/// How a file is opened; std's `OpenOptions`.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    inner: std::fs::OpenOptions,
    read: bool,
    write: bool,
    append: bool,
    /// Creates, truncates, or has flags of its own: opened by the pool.
    changes: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Nothing set.
    pub fn new() -> Self {
        OpenOptions {
            inner: std::fs::OpenOptions::new(),
            read: false,
            write: false,
            append: false,
            changes: false,
        }
    }

    /// To read.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.read = read;
        self.inner.read(read);
        self
    }

    /// To write.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.write = write;
        self.inner.write(write);
        self
    }

    /// To write at the end, wherever that is at the time.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.append = append;
        self.inner.append(append);
        self
    }

    /// Empties a file that exists.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.changes |= truncate;
        self.inner.truncate(truncate);
        self
    }

    /// Makes a file that does not exist.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.changes |= create;
        self.inner.create(create);
        self
    }

    /// Makes the file; one that exists is an error.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.changes |= create_new;
        self.inner.create_new(create_new);
        self
    }

    /// Permissions of a file that is made.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.inner.mode(mode);
        self
    }

    /// Further flags for `open`.
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.changes |= flags != 0;
        self.inner.custom_flags(flags);
        self
    }

    /// Opens `path`.
    ///
    /// # Errors
    /// As std's.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        if crate::thread::is_user_level()
            && !self.changes
            && let Some(file) = self.open_cached(path)
        {
            return Ok(file.into());
        }
        blocking(|| self.inner.open(path)).map(File::from)
    }

    /// Opens a regular file or directory whose names are in the kernel's cache; `None` when they
    /// are not, or for any other reason: then the pool finds out.
    ///
    /// Opening a FIFO may wait, and opening a device may do anything: hence the look before.
    fn open_cached(&self, path: &Path) -> Option<std::fs::File> {
        let look = OFlags::PATH | OFlags::CLOEXEC;
        let cached = ResolveFlags::CACHED;
        let found = rustix::fs::openat2(CWD, path, look, Mode::empty(), cached).ok()?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&found).ok()?.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            return None;
        }
        let access = match (self.read, self.write || self.append) {
            (true, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
            (false, false) => return None,
        };
        let append = if self.append { OFlags::APPEND } else { OFlags::empty() };
        let flags = access | append | OFlags::CLOEXEC;
        let file = rustix::fs::openat2(CWD, path, flags, Mode::empty(), cached).ok()?;
        Some(file.into())
    }
}
