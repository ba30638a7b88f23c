//! Pipes; a read or write that has to wait blocks only the calling thread.
//!
//! Invariant: our ends are in non-blocking mode for the kernel; an end that leaves as an
//! `OwnedFd` (to a child process, to a library) goes back to blocking mode first, as everybody
//! else expects.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::Stdio;
use std::time::Duration;

use rustix::pipe::PipeFlags;

use super::Interest;
use super::call;

/// Makes a pipe.
///
/// # Errors
/// The limit of descriptors.
///
/// ```
/// use std::io::{Read, Write};
/// let (mut reader, mut writer) = heddle::io::pipe()?;
/// let other = heddle::thread::spawn(move || writer.write_all(b"through the pipe"));
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "through the pipe");
/// other.join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((PipeReader(End(reader.into())), PipeWriter(End(writer.into()))))
}

/// One end. A `File` for its system calls only: it is never used through std's `Read`.
#[derive(Debug)]
struct End(File);

impl End {
    /// Takes over an end that is in blocking mode.
    fn adopt(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(End(fd.into()))
    }

    fn into_fd(self) -> OwnedFd {
        // It fails for no descriptor that is a pipe.
        let _ = rustix::io::ioctl_fionbio(&self.0, false);
        self.0.into()
    }

    fn read(
        &self,
        timeout: Option<Duration>,
        mut read: impl FnMut(&File) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (fd, deadline) = (self.0.as_raw_fd(), call::deadline(timeout));
        call::retry(fd, Interest::Read, deadline, |_| read(&self.0))
    }

    fn write(
        &self,
        timeout: Option<Duration>,
        mut write: impl FnMut(&File) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (fd, deadline) = (self.0.as_raw_fd(), call::deadline(timeout));
        call::retry(fd, Interest::Write, deadline, |_| write(&self.0))
    }
}

/// The end of a pipe that is read.
#[derive(Debug)]
pub struct PipeReader(End);

/// The end of a pipe that is written.
#[derive(Debug)]
pub struct PipeWriter(End);

impl PipeReader {
    /// Takes over a descriptor in blocking mode that can be waited for: a pipe, a terminal.
    ///
    /// # Errors
    /// What the kernel says of the descriptor.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        End::adopt(fd).map(PipeReader)
    }

    /// Reads, waiting at most `timeout`.
    ///
    /// # Errors
    /// `TimedOut`, what the kernel says.
    pub fn read_timeout(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<usize> {
        self.0.read(Some(timeout), |mut file| file.read(buffer))
    }
}

impl PipeWriter {
    /// Takes over a descriptor in blocking mode that can be waited for: a pipe, a terminal.
    ///
    /// # Errors
    /// What the kernel says of the descriptor.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        End::adopt(fd).map(PipeWriter)
    }

    /// Writes, waiting at most `timeout`.
    ///
    /// # Errors
    /// `TimedOut`, what the kernel says.
    pub fn write_timeout(&self, buffer: &[u8], timeout: Duration) -> io::Result<usize> {
        self.0.write(Some(timeout), |mut file| file.write(buffer))
    }
}

impl Read for &PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(None, |mut file| file.read(buffer))
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read(None, |mut file| file.read_vectored(buffers))
    }
}

impl Write for &PipeWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(None, |mut file| file.write(buffer))
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write(None, |mut file| file.write_vectored(buffers))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }
}

impl Write for PipeWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

macro_rules! owns_pipe {
    ($type:ident) => {
        impl AsFd for $type {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.0.as_fd()
            }
        }

        impl AsRawFd for $type {
            fn as_raw_fd(&self) -> RawFd {
                self.0.0.as_raw_fd()
            }
        }

        impl From<$type> for OwnedFd {
            fn from(pipe: $type) -> Self {
                pipe.0.into_fd()
            }
        }

        impl From<$type> for Stdio {
            fn from(pipe: $type) -> Self {
                pipe.0.into_fd().into()
            }
        }
    };
}

owns_pipe!(PipeReader);
owns_pipe!(PipeWriter);
