//! An open file.
//!
//! A read or write goes through up to three doors: (1) `RWF_NOWAIT`, which succeeds when the
//! pages are in the cache and else fails at once; (2) the ring of the worker; (3) the blocking
//! pool, for threads without a ring (the epoll reactor, threads that may hibernate). The file's
//! position is the kernel's own (offset -1), so handles that share it share it here as well.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::fs::{FileTimes, Metadata, Permissions};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

use rustix::io::{Errno, ReadWriteFlags};

use super::OpenOptions;
use crate::blocking;
use crate::io::call;

/// Stands for the file's own position.
const AT_POSITION: u64 = u64::MAX;

/// An open file; std's `File`.
#[derive(Debug)]
pub struct File {
    inner: std::fs::File,
    /// Whether the first door exists for reading and writing; found out by trying.
    cached_reads: AtomicBool,
    cached_writes: AtomicBool,
}

impl From<std::fs::File> for File {
    fn from(inner: std::fs::File) -> Self {
        File { inner, cached_reads: AtomicBool::new(true), cached_writes: AtomicBool::new(true) }
    }
}

impl File {
    /// Opens a file to read.
    ///
    /// # Errors
    /// As std's.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file to write, made if it is not there, emptied if it is.
    ///
    /// # Errors
    /// As std's.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Makes a file to read and write; one that exists is an error.
    ///
    /// # Errors
    /// As std's.
    pub fn create_new(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// Nothing set.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Brings content and metadata to the disk.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync_all(&self) -> io::Result<()> {
        match call::operate(call::sync_entry(self.as_raw_fd(), false), 0) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                blocking(|| self.inner.sync_all())
            }
            other => other.map(drop),
        }
    }

    /// Brings the content to the disk, and what is needed to read it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync_data(&self) -> io::Result<()> {
        match call::operate(call::sync_entry(self.as_raw_fd(), true), 0) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                blocking(|| self.inner.sync_data())
            }
            other => other.map(drop),
        }
    }

    /// Sets the file's length.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        blocking(|| self.inner.set_len(bytes))
    }

    /// What the file system knows of the file.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn metadata(&self) -> io::Result<Metadata> {
        // An open file's inode is in memory.
        self.inner.metadata()
    }

    /// Changes the file's permissions.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        blocking(|| self.inner.set_permissions(permissions))
    }

    /// Changes the file's times.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        blocking(|| self.inner.set_times(times))
    }

    /// Another handle of the open file; they share the position.
    ///
    /// # Errors
    /// The limit of descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.inner.try_clone().map(File::from)
    }

    /// Reads at `offset`; the file's position stays.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_from(buffer, checked(offset)?)
    }

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` for a shorter file, what the kernel says.
    pub fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let count = self.read_at(buffer, offset)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = &mut buffer[count..];
            offset += count as u64;
        }
        Ok(())
    }

    /// Writes at `offset`; the file's position stays.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        self.write_to(buffer, checked(offset)?)
    }

    /// Writes all of `buffer` at `offset`.
    ///
    /// # Errors
    /// `WriteZero`, what the kernel says.
    pub fn write_all_at(&self, mut buffer: &[u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let count = self.write_at(buffer, offset)?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            buffer = &buffer[count..];
            offset += count as u64;
        }
        Ok(())
    }

    /// Bytes from the position to the end, as far as that is known.
    pub(super) fn size_hint(&self) -> usize {
        let size = self.inner.metadata().map_or(0, |metadata| metadata.len());
        let position = (&self.inner).stream_position().unwrap_or(0);
        usize::try_from(size.saturating_sub(position)).unwrap_or(0)
    }

    fn read_from(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if !crate::thread::is_user_level() {
            return match offset {
                AT_POSITION => (&self.inner).read(buffer),
                _ => self.inner.read_at(buffer, offset),
            };
        }
        if self.cached_reads.load(Relaxed) {
            let vector = &mut [IoSliceMut::new(buffer)];
            let nowait = ReadWriteFlags::NOWAIT;
            match rustix::io::preadv2(&self.inner, vector, offset, nowait) {
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::SPIPE) => {
                    self.cached_reads.store(false, Relaxed);
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
        loop {
            let entry = call::read_entry(self.as_raw_fd(), buffer, offset);
            match call::operate(entry, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::Unsupported => break,
                other => return other.map(|count| count as usize),
            }
        }
        blocking(|| match offset {
            AT_POSITION => (&self.inner).read(buffer),
            _ => self.inner.read_at(buffer, offset),
        })
    }

    fn write_to(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        if !crate::thread::is_user_level() {
            return match offset {
                AT_POSITION => (&self.inner).write(buffer),
                _ => self.inner.write_at(buffer, offset),
            };
        }
        if self.cached_writes.load(Relaxed) {
            let nowait = ReadWriteFlags::NOWAIT;
            match rustix::io::pwritev2(&self.inner, &[IoSlice::new(buffer)], offset, nowait) {
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::SPIPE) => {
                    self.cached_writes.store(false, Relaxed);
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
        loop {
            let entry = call::write_entry(self.as_raw_fd(), buffer, offset);
            match call::operate(entry, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::Unsupported => break,
                other => return other.map(|count| count as usize),
            }
        }
        blocking(|| match offset {
            AT_POSITION => (&self.inner).write(buffer),
            _ => self.inner.write_at(buffer, offset),
        })
    }
}

/// Offsets are signed in the kernel, and -1 has a meaning of its own.
fn checked(offset: u64) -> io::Result<u64> {
    if offset > i64::MAX as u64 {
        let text = "an offset beyond 2^63";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(offset)
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_from(buffer, AT_POSITION)
    }
}

impl Write for &File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_to(buffer, AT_POSITION)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        (&self.inner).seek(position)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        (&*self).seek(position)
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl IntoRawFd for File {
    fn into_raw_fd(self) -> RawFd {
        self.inner.into_raw_fd()
    }
}

impl FromRawFd for File {
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: the caller owns the descriptor.
        unsafe { std::fs::File::from_raw_fd(fd) }.into()
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        std::fs::File::from(fd).into()
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> Self {
        file.inner.into()
    }
}

impl From<File> for std::fs::File {
    fn from(file: File) -> Self {
        file.inner
    }
}

impl From<File> for Stdio {
    fn from(file: File) -> Self {
        file.inner.into()
    }
}
