//! What the tests share: a folder of their own, and programs run in it with a time limit.
//!
//! Invariant: every process that a test starts is in a process group that the test kills at its
//! end; profiles are kept in the test's folder, never in the user's. Output goes to files: a
//! daemon that keeps them open holds nobody up.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::report::Report;

pub const LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Prints why a test does not apply here; `cargo xtask ci` counts it as skipped.
macro_rules! skip {
    ($($reason:tt)*) => {{
        println!("skip: {}", format!($($reason)*));
        return;
    }};
}
pub(crate) use skip;

/// A test's folder; gone when the test ends well.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("heddle-{test}-{}", std::process::id()));
        if path.exists() {
            fs::remove_dir_all(&path).expect("the last run's folder goes");
        }
        fs::create_dir_all(&path).expect("a folder for the test");
        Self { path }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn text(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The program as a user starts it.
    pub fn plain(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.settle(&mut command);
        command
    }

    /// The program under `heddle run` with these flags; its report goes to a file.
    pub fn under(&self, flags: &[&str], program: impl AsRef<OsStr>) -> Command {
        // What was written before says nothing about the run that is about to start.
        let _ = fs::remove_file(self.path("report.json"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
        command.args(["run", "--report", "json", "--report-to"]).arg(self.path("report.json"));
        command.args(flags).arg("--").arg(program);
        self.settle(&mut command);
        command
    }

    /// The same with the report that people read, on standard error.
    pub fn under_text(&self, flags: &[&str], program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
        command.arg("run").args(flags).arg("--").arg(program);
        self.settle(&mut command);
        command
    }

    fn settle(&self, command: &mut Command) {
        command.env("XDG_STATE_HOME", self.path("state")).env_remove("XDG_CONFIG_HOME");
        // Written once for all tests, and not among the user's files either.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        command.env("XDG_CACHE_HOME", cache);
        command.current_dir(&self.path).stdin(Stdio::null());
    }

    pub fn start(&self, mut command: Command) -> Running {
        let file = |name| File::create(self.path(name)).expect("a file for output");
        command.stdout(file("out")).stderr(file("err")).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Running { child, folder: self.path.clone(), leaves_others: false }
    }

    /// Runs to the end.
    pub fn run(&self, command: Command) -> Ended {
        self.start(command).end()
    }

    /// The same, and what the program left behind goes on: a daemon may not yet have got out of
    /// our process group when whoever started it has ended.
    pub fn run_daemon(&self, command: Command) -> Ended {
        let mut running = self.start(command);
        running.leaves_others = true;
        running.end()
    }

    pub fn report(&self) -> Report {
        Report::read(&self.path("report.json"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Somebody's daemon may still write into it; then it stays for the next run.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A program on its way.
pub struct Running {
    child: Child,
    folder: PathBuf,
    leaves_others: bool,
}

impl Running {
    pub fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.id(), signal).expect("the process is there");
    }

    /// Waits for what is to come; the program must not end before.
    pub fn until(&mut self, what: &str, mut come: impl FnMut() -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !come() {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                panic!("ended with {status} before {what}: {}", self.errors());
            }
            assert!(Instant::now() < deadline, "no {what} in {LIMIT:?}: {}", self.errors());
            sleep(LOOK_EVERY);
        }
    }

    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("err")).unwrap_or_default()).into_owned()
    }

    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("out")).unwrap_or_default()).into_owned()
    }

    pub fn end(mut self) -> Ended {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break status;
            }
            assert!(Instant::now() < deadline, "no end in {LIMIT:?}: {}", self.errors());
            sleep(LOOK_EVERY);
        };
        let notes = Report::notes(&self.folder.join("report.json"));
        Ended { status, output: self.output(), errors: self.errors(), notes }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The group is gone where everything ended; the child is waited for in either case.
        let has_ended = matches!(self.child.try_wait(), Ok(Some(_)));
        if !(self.leaves_others && has_ended) {
            let _ = rustix::process::kill_process_group(self.id(), Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// What a program did.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub output: String,
    pub errors: String,
    /// What the report says besides figures.
    pub notes: Vec<String>,
}

impl Ended {
    /// What the program itself wrote to standard error.
    pub fn own_errors(&self) -> Vec<&str> {
        self.errors.lines().filter(|line| !line.starts_with("heddle")).collect()
    }

    /// heddle's messages: lines on standard error, and the report's notes.
    pub fn messages(&self) -> String {
        let lines = self.errors.lines().filter(|line| line.starts_with("heddle"));
        let notes = self.notes.iter().map(String::as_str);
        lines.chain(notes).collect::<Vec<_>>().join("\n")
    }

    /// The same end, by status or by signal, and the same words on the way.
    pub fn same_as(&self, plain: &Ended) {
        let differs = |(own, plain): &(&str, &str)| own != plain;
        let first = self.output.lines().zip(plain.output.lines()).find(differs);
        assert_eq!(first, None, "{}", self.errors);
        assert!(self.output == plain.output, "{self:?}");
        let ending = |ended: &Ended| (ended.status.code(), ended.status.signal());
        assert_eq!(ending(self), ending(plain), "{}", self.errors);
        assert_eq!(self.own_errors(), plain.own_errors());
    }

    pub fn good(self) -> Self {
        assert!(self.status.success(), "{}: {}{}", self.status, self.output, self.errors);
        self
    }
}

/// Where a program is, as the shell finds it.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Waits until something is so, without a process to watch.
pub fn eventually(what: &str, mut come: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !come() {
        assert!(Instant::now() < deadline, "no {what} in {LIMIT:?}");
        sleep(LOOK_EVERY);
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// This test's own sources.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}
