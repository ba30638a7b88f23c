//! The program as our child: signals go through to it, and its end becomes ours.
//!
//! Invariants
//! - A signal that someone sent to us alone reaches the program. One that the kernel sent to the
//!   whole process group (keys, a terminal that was closed) is not sent to it twice.
//! - The program stops by a signal, we stop by the same one, and go on when it does; it ends by a
//!   signal, we end by the same one, without a core file of our own.
//! - Nothing else in this process has children to wait for while the program runs.
//! - What was ignored when we started is ignored by the program when it starts.
//!
//! A sender who names the process group reaches the program directly and through us: nothing in a
//! signal tells to whom else it was sent, and one too many does less harm than one too few.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use heddle_preload::sys::fork::helper;
use heddle_preload::sys::passed::{pass_faults_on, pass_no_faults_on};
use heddle_preload::sys::spawn::{
    continue_as_itself, end_by, let_go, send_signal, spawn, stop_by, unblock_signals,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, WaitOptions, WaitStatus, set_dumpable_behavior,
    setrlimit, wait,
};
use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGPROF, SIGQUIT, SIGTERM,
    SIGTSTP, SIGURG, SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::exfiltrator::origin::Origin;
use signal_hook::low_level::siginfo::{Cause, Sent};

/// Signals that are meant for the program: all that end, stop or tell a program something. Those of
/// faults are passed on in another way, as this process may have faults of its own. (One for a file
/// that grew too large our own report may cause, too: it is not to end us.)
const FORWARDED: [i32; 18] = [
    SIGABRT, SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP,
    SIGURG, SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
];
/// Two without a constant: of a coprocessor's stack, and of supervisors (SIGPWR).
const NAMELESS: [i32; 2] = [16, 30];
/// Those of real time that the C library leaves to programs.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;
/// Time between two looks whether a stopped program goes on.
const STOPPED_LOOKS: Duration = Duration::from_millis(100);
/// Until then a signal to a process group has come to all of it.
const GROUP_PATIENCE: Duration = Duration::from_millis(20);

/// How the program ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    Code(u8),
    Signal(i32),
}

impl Exit {
    fn of(status: WaitStatus) -> Option<Exit> {
        let code = status.exit_status().map(|code| Exit::Code(code as u8));
        code.or(status.terminating_signal().map(Exit::Signal))
    }
}

/// The running program.
pub struct Child {
    pub pid: i32,
    /// Handled until this process ends: to take the handlers out one by one is work for nothing.
    signals: ManuallyDrop<SignalDelivery<UnixStream, WithOrigin>>,
}

impl Child {
    /// Starts the program with `set` added to its environment.
    pub fn start(
        program: &Path,
        arguments: &[OsString],
        set: &[(&str, OsString)],
    ) -> io::Result<Child> {
        let ignored = ignored_signals();
        let (read, write) = UnixStream::pair().map_err(|error| match error.kind() {
            // A sandbox that knows no sockets.
            io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => {
                io::Error::new(io::ErrorKind::Unsupported, format!("no pair of sockets: {error}"))
            }
            _ => error,
        })?;
        // Handlers are there before the program is, so that no signal falls between. But a
        // handler ends being ignored, which the program is to inherit: those come after.
        let all = || FORWARDED.into_iter().chain(NAMELESS).chain(REAL_TIME);
        let early = all().filter(|it| !ignored.contains(it)).chain([SIGCHLD]);
        let signals = SignalDelivery::with_pipe(read, write, WithOrigin::default(), early)?;
        let pid = spawn(program, arguments, set)?;
        for signal in all().filter(|it| ignored.contains(it)) {
            signals.handle().add_signal(signal)?;
        }
        pass_faults_on(pid);
        unblock_signals();
        // Without /dev/null a reader of the program's output waits for our end, too.
        let _ = let_go();
        Ok(Child { pid, signals: ManuallyDrop::new(signals) })
    }

    /// Waits for the program's end for at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Option<Exit>> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(exit) = self.look()? {
                return Ok(Some(exit));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let ready = self.rest(left)?;
            let arrived: Vec<Origin> =
                if ready { self.signals.pending().collect() } else { Vec::new() };
            for origin in arrived {
                self.pass_on(&origin);
            }
        }
    }

    /// Sleeps until a signal or the time.
    fn rest(&self, left: Duration) -> io::Result<bool> {
        let pipe = self.signals.get_read();
        let mut fds = [PollFd::new(pipe, PollFlags::IN)];
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut fds, Some(&left)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether it has ended; stops with it. As the first process of a container we are everybody's
    /// parent in the end: orphans are waited for, too, or they would stay as zombies.
    fn look(&self) -> io::Result<Option<Exit>> {
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if pid == self.process() => {
                    if let Some(signal) = status.stopping_signal() {
                        self.stop_too(signal);
                    }
                    let exit = Exit::of(status);
                    if exit.is_some() {
                        pass_no_faults_on();
                    }
                    return Ok(exit);
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(rustix::io::Errno::INTR) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Stops as the program has, by whose signal the shell knows why. Who continues it alone tells
    /// nobody who is stopped: a helper looks.
    fn stop_too(&self, signal: i32) {
        let until = io::pipe().and_then(|(reader, writer)| {
            let reader = OwnedFd::from(reader);
            let own = rustix::process::getpid().as_raw_nonzero().get();
            helper(&reader, c"heddle-stopped", || continue_with(self.pid, own, &reader))?;
            Ok(writer)
        });
        stop_by(signal);
        drop(until);
    }

    fn pass_on(&self, origin: &Origin) {
        let by_process =
            matches!(origin.cause, Cause::Sent(Sent::User | Sent::TKill | Sent::Queue));
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let from_itself = origin.process.is_some_and(|it| it.pid == self.pid || it.pid == own);
        let is_ours = origin.signal == SIGCHLD;
        // A shell continues the whole group; only a program that is still stopped needs it again.
        let needless = origin.signal == SIGCONT && !stays_stopped(self.pid);
        if by_process && !from_itself && !is_ours && !needless {
            // Not ended: look() is the only one to reap it, so the id is still its own.
            let _ = send_signal(self.pid, origin.signal);
        }
    }

    fn process(&self) -> Pid {
        Pid::from_raw(self.pid).expect("ids of processes are positive")
    }
}

/// From here on a file that grows beyond the limit is an error to whoever writes it, not our end.
/// A handler, as the program is to have the signal as it was.
pub fn outlive_file_limits() {
    if !ignored_signals().contains(&SIGXFSZ) {
        let seen = Arc::new(AtomicBool::new(false));
        // Without it such a file ends us, as any other program.
        let _ = signal_hook::flag::register(SIGXFSZ, seen);
    }
}

/// Signals that this process ignores, by /proc.
fn ignored_signals() -> BTreeSet<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).unwrap_or(0);
    (1..=64).filter(|signal| mask >> (signal - 1) & 1 == 1).collect()
}

/// Continues `stopped` as long as the program is not stopped any more, until the other end of the
/// pipe is closed: it may not have stopped yet when it is continued first.
fn continue_with(program: i32, stopped: i32, until: &OwnedFd) {
    let pause = Timespec { tv_sec: 0, tv_nsec: STOPPED_LOOKS.subsec_nanos().into() };
    let goes_on = || poll(&mut [PollFd::new(until, PollFlags::IN)], Some(&pause)) == Ok(0);
    while goes_on() {
        if !is_stopped(program) {
            // What comes from ourselves is not passed on: the program may have been stopped anew.
            if continue_as_itself(stopped).is_err() {
                let _ = send_signal(stopped, SIGCONT);
            }
        }
    }
}

/// A signal to a whole process group comes to one after the other.
fn stays_stopped(pid: i32) -> bool {
    is_stopped(pid) && {
        std::thread::sleep(GROUP_PATIENCE);
        is_stopped(pid)
    }
}

fn is_stopped(pid: i32) -> bool {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.iter().rposition(|byte| *byte == b')').map_or(0, |at| at + 2);
    matches!(stat.get(after), Some(b'T'))
}

/// Ends this process as the program ended.
pub fn end_as(exit: Exit) -> std::process::ExitCode {
    match exit {
        Exit::Code(code) => code.into(),
        Exit::Signal(signal) => {
            // The program's core file is enough.
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
            end_by(signal);
            // A signal that ended the program and does not end us: there is none that we know.
            std::process::ExitCode::from(128u8.wrapping_add(signal as u8))
        }
    }
}
