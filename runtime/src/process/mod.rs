//! Child processes: std's `Command`; starting one and waiting for one block only the thread.
//!
//! A child is started on a kernel thread of the blocking pool (the kernel suspends the starter
//! until the child has called `execve`), and waited for by its pidfd; where the kernel has none
//! (before 5.3, or no descriptor is left) the pool waits.
//!
//! As the pool's kernel threads end when idle, a child must not ask for a signal at its parent
//! *thread's* end (`PR_SET_PDEATHSIG`).

mod child;

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;

pub use child::{Child, ChildStderr, ChildStdin, ChildStdout};
pub use std::process::{ExitCode, ExitStatus, Output, Stdio, abort, exit, id};

/// Builds and starts a child process; std's `Command`.
///
/// ```
/// let output = heddle::process::Command::new("echo").arg("hello").output()?;
/// assert_eq!(output.stdout, b"hello\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Command {
    inner: std::process::Command,
    /// Which of the three streams the program has set.
    set: [bool; 3],
}

impl From<std::process::Command> for Command {
    /// Takes a std command whose streams are to be used as they were set there.
    fn from(inner: std::process::Command) -> Self {
        Command { inner, set: [true; 3] }
    }
}

impl Command {
    /// A command that runs `program`, found through `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Command { inner: std::process::Command::new(program), set: [false; 3] }
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.inner.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.inner.args(arguments);
        self
    }

    /// Sets a variable of the environment.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.inner.env(key, value);
        self
    }

    /// Sets variables of the environment.
    pub fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        &mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> &mut Self {
        self.inner.envs(variables);
        self
    }

    /// Takes a variable out of the environment.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Self {
        self.inner.env_remove(key);
        self
    }

    /// Starts with an empty environment.
    pub fn env_clear(&mut self) -> &mut Self {
        self.inner.env_clear();
        self
    }

    /// The directory that the child starts in.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.inner.current_dir(directory);
        self
    }

    /// The child's standard input.
    pub fn stdin(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.inner.stdin(stream);
        self.set[0] = true;
        self
    }

    /// The child's standard output.
    pub fn stdout(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.inner.stdout(stream);
        self.set[1] = true;
        self
    }

    /// The child's standard error.
    pub fn stderr(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.inner.stderr(stream);
        self.set[2] = true;
        self
    }

    /// std's command, for what is not repeated here (`pre_exec`, `uid`, `process_group`).
    pub fn as_std_mut(&mut self) -> &mut std::process::Command {
        &mut self.inner
    }

    /// Starts the child.
    ///
    /// # Errors
    /// `NotFound` for a program that is not there; what the kernel says.
    pub fn spawn(&mut self) -> io::Result<Child> {
        let inner = &mut self.inner;
        Child::adopt(crate::blocking(|| inner.spawn())?)
    }

    /// Starts the child and waits for its end.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Starts the child and collects what it writes; its input is empty unless it was set.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn output(&mut self) -> io::Result<Output> {
        if !self.set[0] {
            self.inner.stdin(Stdio::null());
        }
        if !self.set[1] {
            self.inner.stdout(Stdio::piped());
        }
        if !self.set[2] {
            self.inner.stderr(Stdio::piped());
        }
        self.spawn()?.wait_with_output()
    }
}

/// Reads both streams to their ends, at the same time: a child that fills one pipe while we wait
/// for the other would never end.
fn read_both(
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    match (stdout, stderr) {
        (Some(mut out), Some(mut err)) => crate::thread::scope(|scope| {
            let builder = crate::thread::Builder::new();
            let reader = scope.spawn_with(builder, move || read_all(&mut err))?;
            let out = read_all(&mut out);
            let err = reader.join().map_err(|_| io::Error::other("the reader panicked"))?;
            Ok((out?, err?))
        }),
        (Some(mut out), None) => Ok((read_all(&mut out)?, Vec::new())),
        (None, Some(mut err)) => Ok((Vec::new(), read_all(&mut err)?)),
        (None, None) => Ok((Vec::new(), Vec::new())),
    }
}

fn read_all(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(bytes)
}
