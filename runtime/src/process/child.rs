//! A running child process and its streams.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Output};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::io::{PipeReader, PipeWriter, call, wait_readable};

/// The child's standard input, which we write.
pub type ChildStdin = PipeWriter;
/// The child's standard output, which we read.
pub type ChildStdout = PipeReader;
/// The child's standard error, which we read.
pub type ChildStderr = PipeReader;

/// A child process; std's `Child`. Dropping it neither ends the child nor waits for it.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    /// The child's standard input, if it is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if it is a pipe.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, if it is a pipe.
    pub stderr: Option<ChildStderr>,
    /// Readable when the child has ended; made by the first wait.
    pidfd: Option<OwnedFd>,
}

impl Child {
    pub(super) fn adopt(mut inner: std::process::Child) -> io::Result<Self> {
        let stdin = inner.stdin.take().map(|pipe| PipeWriter::adopt(pipe.into())).transpose()?;
        let stdout = inner.stdout.take().map(|pipe| PipeReader::adopt(pipe.into())).transpose()?;
        let stderr = inner.stderr.take().map(|pipe| PipeReader::adopt(pipe.into())).transpose()?;
        Ok(Child { inner, stdin, stdout, stderr, pidfd: None })
    }

    /// The child's process id.
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// Kills the child (`SIGKILL`).
    ///
    /// # Errors
    /// What the kernel says; a child that has ended is no error.
    pub fn kill(&mut self) -> io::Result<()> {
        self.inner.kill()
    }

    /// How the child has ended; `None` while it runs.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.inner.try_wait()
    }

    /// Closes the child's standard input and waits for the child's end.
    ///
    /// # Errors
    /// [`crate::Cancelled`] (the child goes on), what the kernel says.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        if let Some(status) = self.inner.try_wait()? {
            return Ok(status);
        }
        if !self.wait_for_end(None)? {
            let inner = &mut self.inner;
            return crate::blocking(|| inner.wait());
        }
        self.inner.wait()
    }

    /// As [`Child::wait`], at most for `timeout`; `None` when it has passed.
    ///
    /// # Errors
    /// As [`Child::wait`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        drop(self.stdin.take());
        let deadline = call::deadline(Some(timeout));
        if let Some(status) = self.inner.try_wait()? {
            return Ok(Some(status));
        }
        match self.wait_for_end(Some(timeout)) {
            Ok(true) => return self.inner.wait().map(Some),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
            Err(error) => return Err(error),
        }
        // Without a pidfd: look again and again.
        while crate::sys::clock::now_ns() < deadline {
            if let Some(status) = self.inner.try_wait()? {
                return Ok(Some(status));
            }
            crate::thread::sleep(LOOK_AGAIN);
            if crate::thread::is_cancelled() {
                return Err(crate::error::cancelled());
            }
        }
        self.inner.try_wait()
    }

    /// Waits until the child has ended; false when there is no pidfd to wait with.
    fn wait_for_end(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        if self.pidfd.is_none() {
            let pid = Pid::from_raw(self.inner.id() as i32);
            self.pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        }
        match &self.pidfd {
            Some(pidfd) => wait_readable(pidfd, timeout).map(|()| true),
            None => Ok(false),
        }
    }

    /// Waits for the child's end and collects what it writes until then.
    ///
    /// # Errors
    /// As [`Child::wait`], or what reading says.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = super::read_both(self.stdout.take(), self.stderr.take())?;
        Ok(Output { status: self.wait()?, stdout, stderr })
    }
}

/// Time between two looks where the kernel has no pidfd.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
