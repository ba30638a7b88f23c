//! Builds what later steps build, while earlier ones run their tests: these mostly wait.
//!
//! Invariants: what is built ahead is what the step itself would build, in a folder that only such
//! steps use, so the step finds nothing to do, waits for it by cargo's own lock, or does it itself;
//! it decides nothing. It runs as the kernel's idle class, which gives way to tests. When the last
//! step is done, or the run ends early, none of it is left running.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use rustix::process::Signal;

use super::plan::{Call, Step};
use crate::processes;
use crate::repo::has_command;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Runs a command in the idle class.
const IDLE: &[&str] = &["chrt", "--idle", "0"];

/// How far the steps are.
#[derive(Default)]
struct Progress {
    /// The last step that runs: it and those before it need nothing any more.
    step: AtomicUsize,
    ended: AtomicBool,
}

/// See the file's head.
pub struct Ahead {
    progress: Arc<Progress>,
    builder: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Begins; what the builds say goes to the file.
    pub fn begin(steps: &[Step], log: PathBuf) -> Self {
        // What an earlier run has left.
        let _ = fs::remove_file(&log);
        let progress = Arc::new(Progress::default());
        let wanted = steps.iter().enumerate().filter(|(_, step)| step.absent.is_none());
        let wanted = wanted.map(|(index, step)| (index, step.ahead()));
        let wanted: Vec<(usize, Vec<Call>)> = wanted.filter(|(_, it)| !it.is_empty()).collect();
        let is_wanted = !wanted.is_empty();
        let can = has_command(IDLE[0]);
        if is_wanted && !can {
            println!("nothing is built ahead: {} is not installed", IDLE[0]);
        }
        let of_builder = Arc::clone(&progress);
        let builder =
            (is_wanted && can).then(|| thread::spawn(move || of_builder.build(&wanted, &log)));
        Self { progress, builder }
    }

    /// A step begins.
    pub fn reached(&self, step: usize) {
        self.progress.step.store(step, Relaxed);
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.progress.ended.store(true, Relaxed);
        // A builder that panicked has built nothing: the steps did it themselves.
        let _ = self.builder.take().map(JoinHandle::join);
    }
}

impl Progress {
    fn build(&self, wanted: &[(usize, Vec<Call>)], log: &Path) {
        for (step, calls) in wanted {
            for call in calls {
                if self.ended.load(Relaxed) {
                    return;
                }
                if *step > self.step.load(Relaxed)
                    && let Some(child) = start(call, log)
                {
                    self.wait(child);
                }
            }
        }
    }

    fn wait(&self, mut child: Child) {
        while !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            if self.ended.load(Relaxed) {
                processes::signal_tree(child.id(), Signal::KILL);
                // It was killed; there is nothing to learn from how it ended.
                let _ = child.wait();
                return;
            }
            sleep(LOOK_EVERY);
        }
    }
}

/// None if it can't be started: the step will say why.
fn start(call: &Call, log: &Path) -> Option<Child> {
    let output = OpenOptions::new().create(true).append(true).open(log).ok()?;
    let own = call.command();
    let mut command = Command::new(IDLE[0]);
    command.args(&IDLE[1..]).arg(own.get_program()).args(own.get_args());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = own.get_current_dir() {
        command.current_dir(folder);
    }
    command.stdin(Stdio::null()).stderr(output.try_clone().ok()?).stdout(output);
    command.spawn().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn can_build() -> bool {
        let can = has_command(IDLE[0]);
        if !can {
            println!("skip: {} is not installed", IDLE[0]);
        }
        can
    }

    fn step(name: &'static str, script: &str) -> Step {
        let builds = vec![Call::new("sh").args(&["-c", script])];
        let limit = Duration::from_secs(20);
        let commands = Vec::new();
        Step { name, what: "", commands, builds, limit, absent: None, beside: None }
    }

    fn log(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("heddle-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for logs");
        folder.join(name)
    }

    fn read_until(log: &Path, word: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let text = fs::read_to_string(log).unwrap_or_default();
            if text.contains(word) {
                return text;
            }
            assert!(Instant::now() < deadline, "no {word} in {text:?}");
            sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn what_later_steps_build_is_built() {
        if !can_build() {
            return;
        }
        let log = log("ahead");
        let absent = Step { absent: Some("no reason".into()), ..step("absent", "echo absent") };
        let steps =
            [step("now", "echo now"), absent, step("then", "chrt -p $$; echo then; exit 1")];
        let steps = [&steps[..], &[step("last", "echo last")]].concat();
        let ahead = Ahead::begin(&steps, log.clone());
        let text = read_until(&log, "last");
        assert!(!text.contains("now") && !text.contains("absent"), "{text}");
        assert!(text.contains("SCHED_IDLE") && text.contains("then"), "{text}");
        drop(ahead);
    }

    #[test]
    fn nothing_is_left_running() {
        if !can_build() {
            return;
        }
        let log = log("left");
        let steps = [step("now", ""), step("then", "echo child $$; exec sleep 1000")];
        let ahead = Ahead::begin(&steps, log.clone());
        let text = read_until(&log, "child");
        drop(ahead);
        let pid = text.trim().rsplit_once(' ').expect("the child's id").1;
        assert!(!fs::exists(format!("/proc/{pid}")).unwrap_or(true), "{pid} still runs");
    }

    #[test]
    fn a_step_that_is_reached_builds_by_itself() {
        if !can_build() {
            return;
        }
        let log = log("reached");
        let script = format!("until test -e {0}.go; do sleep 0.02; done; echo one", log.display());
        let go = log.with_extension("go");
        let _ = fs::remove_file(&go);
        let steps = [step("now", ""), step("one", &script), step("two", "echo two")];
        let steps = [&steps[..], &[step("three", "echo three")]].concat();
        let ahead = Ahead::begin(&steps, log.clone());
        ahead.reached(2);
        fs::write(&go, "").expect("a file");
        let text = read_until(&log, "three");
        assert!(!text.contains("two"), "{text}");
    }
}
