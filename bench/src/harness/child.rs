//! Runs peers: pinned to a CPU, with a time limit, their output read while they run.
//!
//! Invariant: no child outlives its run; a dropped server is killed and waited for.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::PidfdFlags;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The two CPUs of a run: one for what is measured, one for what drives it.
#[derive(Clone, Debug)]
pub struct Cpus {
    allowed: Vec<usize>,
}

impl Cpus {
    pub fn of_this_process() -> Self {
        let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let mut allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
        if allowed.is_empty() {
            allowed.push(0);
        }
        Cpus { allowed }
    }

    /// For the measured process.
    pub fn measured(&self) -> Vec<usize> {
        self.allowed[..1].to_vec()
    }

    /// For the load generator or the waker: another CPU where there is one.
    pub fn driver(&self) -> Vec<usize> {
        self.allowed[self.allowed.len().min(2) - 1..][..1].to_vec()
    }

    /// For the runs with several workers.
    pub fn all(&self) -> Vec<usize> {
        self.allowed.clone()
    }
}

/// A program to run and how.
pub struct Job<'a> {
    pub program: &'a Path,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cpus: Vec<usize>,
}

/// What a peer printed, and the last line it had to say on stderr.
#[derive(Clone, Debug, Default)]
pub struct Output {
    pub values: BTreeMap<String, f64>,
    pub text: String,
    pub errors: String,
    pub remark: Option<String>,
}

impl Job<'_> {
    /// Runs to the end; the error is the reason to give in the report.
    pub fn run(&self, limit: Duration) -> Result<Output, String> {
        let mut child = self.start()?;
        let (stdout, stderr) = readers(&mut child);
        let status = wait_until(&mut child, Instant::now() + limit);
        if status.is_none() {
            let all = descendants(child.id());
            end(&mut child);
            all.into_iter().skip(1).for_each(kill);
        }
        forget_table(child.id());
        let text = stdout.join().unwrap_or_default();
        let errors = stderr.join().unwrap_or_default();
        let remark = last_line(&errors);
        match status {
            None => Err(format!("no result within {} s", limit.as_secs())),
            Some(status) if status.success() => {
                Ok(Output { values: values(&text), text, errors, remark })
            }
            Some(status) => Err(remark.unwrap_or_else(|| status.to_string())),
        }
    }

    /// Starts without waiting: the child inherits the CPUs of the starting kernel thread.
    fn start(&self) -> Result<Child, String> {
        let before = sched_getaffinity(None).map_err(|e| format!("sched_getaffinity: {e}"))?;
        let mut set = CpuSet::new();
        self.cpus.iter().for_each(|&cpu| set.set(cpu));
        sched_setaffinity(None, &set).map_err(|e| format!("sched_setaffinity: {e}"))?;
        let child = Command::new(self.program)
            .args(&self.args)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        sched_setaffinity(None, &before).map_err(|e| format!("sched_setaffinity: {e}"))?;
        child.map_err(|e| format!("cannot start {}: {e}", self.program.display()))
    }

    /// Starts a server and waits until it accepts on `port`.
    pub fn serve(&self, port: u16) -> Result<Server, String> {
        let mut child = self.start()?;
        let (stdout, stderr) = readers(&mut child);
        let mut server = Server { child, readers: Some((stdout, stderr)) };
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(server.last_words().unwrap_or_else(|| status.to_string()));
            }
            if Instant::now() > deadline {
                return Err("did not accept connections within 10 s".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A running server; ends when dropped.
pub struct Server {
    child: Child,
    readers: Option<(JoinHandle<String>, JoinHandle<String>)>,
}

impl Server {
    /// The server's process and its descendants: nginx serves from children.
    pub fn pids(&self) -> Vec<u32> {
        descendants(self.child.id())
    }

    /// Ends the server and returns its last line on stderr.
    pub fn last_words(&mut self) -> Option<String> {
        end(&mut self.child);
        let (_, stderr) = self.readers.take()?;
        last_line(&stderr.join().unwrap_or_default())
    }

    /// Asks the server to end and waits until it has: one that is killed cannot say what it did.
    /// Returns what it said on stderr.
    pub fn finish(mut self, limit: Duration) -> Result<String, String> {
        let all = self.pids();
        ask_to_end(&self.child);
        let status = wait_until(&mut self.child, Instant::now() + limit);
        if status.is_none() {
            // Whoever was started by it would go on; children first, so that none is restarted.
            all.iter().rev().for_each(|&pid| kill(pid));
            return Err(format!("did not end within {} s of being asked", limit.as_secs()));
        }
        let said = self.readers.take().map(|(_, stderr)| stderr.join().unwrap_or_default());
        Ok(said.unwrap_or_default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
        forget_table(self.child.id());
    }
}

/// A thread table outlives a process that was killed, for those who want to know why it died;
/// here nobody does, and the table of ten million threads is memory that the next run needs.
fn forget_table(pid: u32) {
    // Peers have none.
    let _ = std::fs::remove_file(format!("/dev/shm/heddle.{pid}"));
}

/// nginx ends its workers on SIGTERM, so ask first; a peer that does not listen is killed.
fn end(child: &mut Child) {
    ask_to_end(child);
    if wait_until(child, Instant::now() + Duration::from_secs(1)).is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn ask_to_end(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
}

pub fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
}

/// The exit status, or none if the child still runs then. Sleeps all the while: looking every few
/// milliseconds preempted what was measured, once per event of the response experiment.
fn wait_until(child: &mut Child, deadline: Instant) -> Option<std::process::ExitStatus> {
    let pid = rustix::process::Pid::from_child(child);
    let exit = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    loop {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let mut exits = [PollFd::new(&exit, PollFlags::IN)];
        // Interrupted, or over: the next turn tells.
        let _ = poll(&mut exits, Timespec::try_from(left).ok().as_ref());
    }
}

/// The process, its children, theirs, and so on.
fn descendants(pid: u32) -> Vec<u32> {
    let mut pids = vec![pid];
    let mut next = 0;
    while next < pids.len() {
        pids.extend(children_of(pids[next]));
        next += 1;
    }
    pids
}

fn children_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let words: Vec<String> = lists.collect();
    words.iter().flat_map(|list| list.split_whitespace()).flat_map(str::parse).collect()
}

fn readers(child: &mut Child) -> (JoinHandle<String>, JoinHandle<String>) {
    let (stdout, stderr): (ChildStdout, ChildStderr) =
        (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    (read_all(stdout), read_all(stderr))
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error still holds.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn values(text: &str) -> BTreeMap<String, f64> {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, value)| Some((name.to_string(), value.trim().parse().ok()?))).collect()
}

/// The line that says why: the message of a panic, a line that calls itself an error, else the last
/// one.
fn last_line(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut from_panic = lines.clone().skip_while(|line| !line.contains(" panicked at "));
    let line = match from_panic.nth(1) {
        Some(message) => format!("panicked: {message}"),
        None => match lines.clone().find(|line| line.starts_with("error: ")) {
            Some(error) => error.to_string(),
            None => lines.next_back()?.to_string(),
        },
    };
    Some(line.chars().take(300).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Output, String> {
        shell_for(script, Duration::from_secs(40))
    }

    fn shell_for(script: &str, limit: Duration) -> Result<Output, String> {
        let cpus = Cpus::of_this_process();
        let args = vec!["-c".to_string(), script.to_string()];
        let job =
            Job { program: Path::new("/bin/sh"), args, env: Vec::new(), cpus: cpus.measured() };
        job.run(limit)
    }

    #[test]
    fn reads_values_and_the_remark() {
        let output = shell("echo ns 12.5; echo reached 3; echo one >&2; echo two >&2").unwrap();
        assert_eq!(output.values["ns"], 12.5);
        assert_eq!(output.values["reached"], 3.0);
        assert_eq!(output.remark.as_deref(), Some("two"));
    }

    #[test]
    fn a_failure_gives_its_last_line_as_reason() {
        assert_eq!(shell("echo no memory >&2; exit 1").unwrap_err(), "no memory");
    }

    #[test]
    fn a_panic_gives_its_message_as_reason() {
        let text = "\nthread 'x' (1) panicked at a.rs:1:1:\nno memory\nstack backtrace:\n  0: f\n";
        assert_eq!(last_line(text).as_deref(), Some("panicked: no memory"));
    }

    #[test]
    fn a_refusal_gives_its_error_as_reason() {
        let text = "error: unexpected argument 'x'\n\nFor more information, try '--help'.\n";
        assert_eq!(last_line(text).as_deref(), Some("error: unexpected argument 'x'"));
    }

    #[test]
    fn a_hang_ends_at_the_limit() {
        let begin = Instant::now();
        let ended = shell_for("exec sleep 60", Duration::from_secs(2));
        assert_eq!(ended.unwrap_err(), "no result within 2 s");
        assert!(begin.elapsed() < Duration::from_secs(40));
    }

    #[test]
    fn the_child_is_pinned_and_the_parent_is_not() {
        let before = sched_getaffinity(None).unwrap();
        let output = shell("grep Cpus_allowed_list /proc/self/status").unwrap();
        let list = output.text.split_whitespace().last().unwrap().to_string();
        assert_eq!(list, Cpus::of_this_process().measured()[0].to_string());
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
