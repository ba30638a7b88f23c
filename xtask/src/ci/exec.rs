//! Runs one step's commands with their output in a log and a limit on their time.
//!
//! Invariant: when `run` returns, no process that the step started directly or through others is
//! left running because of a time-out. The children stay in our process group, so that an
//! interrupt from the terminal reaches them; on a time-out the tree under the child is found by
//! its parents in /proc and killed.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::plan::Call;
use crate::processes;

const LOOK_EVERY: Duration = Duration::from_millis(20);

pub enum Ending {
    Good,
    /// How a command ended instead.
    Bad(String),
    TimedOut(Duration),
}

/// The commands in order until one fails; the limit is for all of them together.
pub fn run(calls: &[Call], log: &Path, limit: Duration) -> Result<Ending> {
    File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let deadline = Instant::now() + limit;
    for call in calls {
        let mut command = call.command();
        let mut output = OpenOptions::new().append(true).open(log)?;
        writeln!(output, "+ {call}")?;
        command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
        let mut child =
            command.spawn().with_context(|| format!("cannot start `{}`", call.program()))?;
        match wait(&mut child, deadline)? {
            None => return Ok(Ending::TimedOut(limit)),
            Some(status) if status.success() => {}
            Some(status) => return Ok(Ending::Bad(format!("{}: {status}", call.program()))),
        }
    }
    Ok(Ending::Good)
}

fn wait(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            processes::signal_tree(child.id(), Signal::KILL);
            child.wait()?;
            return Ok(None);
        }
        sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn shell(name: &str, script: &str, limit: Duration) -> (Ending, String) {
        let folder = std::env::temp_dir().join(format!("heddle-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for logs");
        let log = folder.join(name);
        let call = Call::new("sh").args(&["-c", script]).env("WORD", "seven");
        let ending = run(&[call], &log, limit).expect("sh runs");
        (ending, fs::read_to_string(&log).expect("a log"))
    }

    #[test]
    fn output_lies_in_the_log() {
        let (ending, log) = shell("good", "echo $WORD; echo err >&2", Duration::from_secs(20));
        assert!(matches!(ending, Ending::Good));
        assert!(log.contains("seven\n") && log.contains("err\n"));
    }

    #[test]
    fn a_bad_end_is_told() {
        let (ending, _) = shell("bad", "exit 3", Duration::from_secs(20));
        assert!(matches!(ending, Ending::Bad(text) if text.contains('3')));
    }

    #[test]
    fn a_hang_is_killed_with_its_children() {
        let script = "sleep 1000 & echo child $!; wait";
        let (ending, log) = shell("hang", script, Duration::from_secs(5));
        assert!(matches!(ending, Ending::TimedOut(_)));
        let pid = log.rsplit_once("child ").expect("the child's id").1.trim();
        let state = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let gone = (0..1000).any(|_| {
            sleep(LOOK_EVERY);
            state().is_empty() || state().contains(") Z")
        });
        assert!(gone, "process {pid} still runs");
    }
}
