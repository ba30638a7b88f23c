//! `heddle run`: a program under libheddle-preload, and what its threads were.
//!
//! - [`program`] finds the program; [`prepare`] writes the plan for it; [`child`] runs it;
//!   [`collect`] watches the thread tables; [`judge`] answers for the programs that it starts;
//!   [`finish`] keeps what was learned and reports.
//!
//! Invariant: whatever fails on heddle's side, a program that was asked for runs, unchanged, and
//! its exit status is ours. Only what the user wrote wrongly (a policy, a flag) stops us before.

pub mod child;
pub mod collect;
mod finish;
mod judge;
mod mediation;
mod prepare;
pub mod program;
mod runtime;
mod text;
mod user;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use heddle_preload::policy::Policy;
use heddle_preload::sys::spawn::become_program;

use crate::attach;
use child::Child;
use collect::Collector;
use mediation::Mediation;
use program::Program;
use text::EXAMPLES;

/// heddle itself failed, as env(1) and others have it.
const STATUS_OWN_FAILURE: u8 = 125;

/// Run an unmodified threaded program: its threads named, sized and prioritised
///
/// Adds libheddle-preload.so to the program and its children, and prints at the end what their
/// threads were, how much of their stacks they used, and what heddle did. Exit status, signals,
/// output and environment are the program's own. The report goes to standard error.
///
/// Stacks: "observe" measures only. "auto" gives threads that ask for no size what earlier runs
/// needed (half as much again and 40K, at least 64K); without history nothing changes. "force"
/// also changes sizes that the program asks for. Profiles are kept per executable in
/// $XDG_STATE_HOME/heddle (see heddle-stacks(1)).
///
/// With --threads user every thread that the program makes is a thread of heddle's runtime: many of
/// them share a few kernel threads. Where the program, the processor, the C library, a limit on
/// address space (RLIMIT_AS, RLIMIT_DATA), one below 256 KiB on the main stack (RLIMIT_STACK), one
/// below 32 on descriptors (RLIMIT_NOFILE) or one below 16 on a user's processes (RLIMIT_NPROC)
/// does not allow that, its threads are kernel threads and a line says why; heddle doctor --program
/// tells it beforehand. So is each program judged that it becomes or starts: a server behind a
/// script, env or npm has user-level threads, too.
///
/// A policy file names threads and says what they are for, which are time-critical, and how their
/// stacks are to be; see heddle-policy(5).
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// What threads are for, how urgent they are and how large their stacks are (TOML)
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Whether stacks are only measured or also sized by what earlier runs needed
    #[arg(long, value_name = "MODE", default_value = "observe")]
    stacks: Stacks,
    /// What its threads run on: kernel threads of their own, or heddle's user-level threads
    #[arg(long, value_name = "KIND", default_value = "kernel")]
    threads: Threads,
    /// Kernel threads that run the user-level threads [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: Option<u16>,
    /// Form of the report at the end
    #[arg(long, value_name = "FORM", default_value = "text")]
    report: Form,
    /// Write the report to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    report_to: Option<PathBuf>,
    /// Report with a backtrace when a thread uses more of its stack than the High zone's border
    #[arg(long)]
    tripwire: bool,
    /// Apply the policy's priorities to a running process instead, until it ends or Ctrl-C
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    #[arg(conflicts_with_all = ["program", "stacks", "report", "report_to", "tripwire"])]
    #[arg(conflicts_with_all = ["threads", "workers"])]
    pid: Option<i32>,
    /// Program to run, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required_unless_present = "pid")]
    #[arg(value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// `--stacks`
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Stacks {
    /// Measure, change nothing
    Observe,
    /// Size stacks of threads that ask for no size, if there is history
    Auto,
    /// Size all stacks but those on the program's own memory
    Force,
}

impl Stacks {
    pub fn word(self) -> &'static str {
        match self {
            Stacks::Observe => "observe",
            Stacks::Auto => "auto",
            Stacks::Force => "force",
        }
    }
}

/// `--threads`
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Threads {
    /// As the program makes them
    Kernel,
    /// On heddle's runtime, where the program and the C library allow it
    User,
}

/// `--report`
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Form {
    /// For people
    Text,
    /// One JSON document; its keys are listed in heddle-report(5)
    Json,
    /// One page that needs no other file
    Html,
    /// No report
    None,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(pid) = args.pid {
        return attach::run(pid, args.policy.as_deref());
    }
    let failed = |error: anyhow::Error| {
        tell(&format!("{error:#}"));
        Ok(ExitCode::from(STATUS_OWN_FAILURE))
    };
    let inputs = match Inputs::take(args) {
        Ok(inputs) => inputs,
        Err(error) => return failed(error),
    };
    let program = match Program::of(&args.program) {
        Ok(program) => program,
        Err(missing) => {
            tell(&missing.to_string());
            return Ok(missing.status().into());
        }
    };
    child::outlive_file_limits();
    let (mut prepared, untold) = prepared(args, &inputs.policy, &program);
    let started = Instant::now();
    let (path, arguments) = program.command(&args.program);
    let child = match Child::start(&path, &arguments, &prepared.environment) {
        Ok(child) => child,
        Err(error) => {
            drop(prepared);
            let error = if is_no_room(&error) { alone(&path, &arguments, error) } else { error };
            let is_missing = error.kind() == std::io::ErrorKind::NotFound;
            let path = program.path.display();
            match program.missing_interpreter().filter(|_| is_missing) {
                Some(other) => tell(&format!("{path}: it needs {}: {error}", other.display())),
                None => tell(&format!("{path}: {error}")),
            }
            let status = if is_missing { 127 } else { 126 };
            return Ok(ExitCode::from(status));
        }
    };
    if let Some(why) = untold {
        tell_refusal(&why);
    }
    prepare::clear();
    let watched = watch(child, &inputs.policy, prepared.run);
    let exit = watched.exit;
    drop(prepared.judge.take());
    finish::finish(args, inputs, &program, prepared, watched, started.elapsed());
    Ok(child::end_as(exit))
}

/// What the program needs; whether its threads are to be user-level threads is decided here. If
/// they are not, and the kernel is to say first whether it is a program at all: why they are not.
fn prepared(
    args: &Args,
    policy: &Policy,
    program: &Program,
) -> (prepare::Prepared, Option<String>) {
    let mut untold = None;
    let (library, refusal) = match args.threads {
        Threads::Kernel => (None, None),
        Threads::User => {
            let (refusal, library) = (user::refusal(&args.program), user::library());
            (library.as_ref().ok().cloned(), refusal.or(library.err()))
        }
    };
    let is_user = library.is_some() && refusal.is_none();
    if let Some(why) = refusal {
        if program.image.is_none() || program.missing_interpreter().is_some() {
            untold = Some(why);
        } else {
            tell_refusal(&why);
        }
    }
    let mut prepared = prepare::prepare(args, policy, program, library.clone());
    if args.workers.is_some() && args.threads == Threads::Kernel {
        prepared.notes.push("--workers means nothing without --threads user".to_owned());
    }
    if let Some(library) = library.filter(|_| is_user) {
        user::add(&mut prepared, library, args.workers);
    }
    (prepared, untold)
}

fn tell_refusal(why: &str) {
    tell(&format!("threads are kernel threads: {why}"));
}

/// A line on standard error, whose reader may have gone: that changes no exit status.
fn tell(line: &str) {
    // In one piece: the program may write at the same time.
    let _ = std::io::stderr().write_all(format!("heddle: {line}\n").as_bytes());
}

/// What the flags name, opened before the program starts: a mistake is told before anything runs.
pub struct Inputs {
    pub policy: Policy,
    pub report_to: Option<File>,
}

impl Inputs {
    fn take(args: &Args) -> Result<Inputs> {
        let policy = match &args.policy {
            Some(path) => load_policy(path)?,
            None => Policy::default(),
        };
        let report_to = args.report_to.as_deref().map(|path| {
            File::create(path).with_context(|| format!("cannot write {}", path.display()))
        });
        Ok(Inputs { policy, report_to: report_to.transpose()? })
    }
}

fn load_policy(path: &Path) -> Result<Policy> {
    // The error names the file, the line and the column.
    Policy::load(path).map_err(anyhow::Error::new)
}

/// Whether a second process, or what it takes to watch one, was too much: more than the program
/// would take alone. Or it is not allowed here, as `Child::start` says.
fn is_no_room(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    if error.kind() == std::io::ErrorKind::Unsupported && error.raw_os_error().is_none() {
        return true;
    }
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let limits = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::TOOBIG];
    errno.is_some_and(|errno| limits.contains(&errno))
}

/// The program in our place; the error if not even that can be.
fn alone(path: &Path, arguments: &[OsString], error: std::io::Error) -> std::io::Error {
    tell(&format!("{}: {error}: it runs without heddle", path.display()));
    become_program(path, arguments)
}

/// What was seen while the program ran.
pub struct Watched {
    /// The program's process.
    pub pid: i32,
    pub exit: child::Exit,
    pub collector: Collector,
    pub mediator: Option<heddle_preload::mediator::Report>,
    pub troubles: Vec<String>,
}

/// Waits for the program, looks at its tables now and then, and mediates where there is a policy.
fn watch(mut child: Child, policy: &Policy, run: Option<u64>) -> Watched {
    let mut troubles = Vec::new();
    let mut collector = Collector::new(run.unwrap_or(0), child.pid);
    if run.is_some() {
        collector.begin();
    }
    let mut mediation = Mediation::new(child.pid, policy);
    let exit = loop {
        const FOREVER: Duration = Duration::from_secs(3600);
        let pause = if run.is_some() { collector.step() } else { FOREVER };
        let wanted = policy.has_time_critical() || collector.has_time_critical();
        let step = mediation.step(wanted, &mut troubles);
        let pause = pause.min(step.unwrap_or(FOREVER));
        match child.wait(pause) {
            Ok(Some(exit)) => break exit,
            Ok(None) => {}
            Err(error) => {
                // Nobody can wait for it: some other code did.
                troubles.push(format!("the program's exit status is lost: {error}"));
                break child::Exit::Code(0);
            }
        }
    };
    let mediator = mediation.finish();
    if run.is_some() {
        collector.finish();
    }
    Watched { pid: child.pid, exit, collector, mediator, troubles }
}
