//! The CPU Mediator beside user-level threads: what `heddle run --policy` does with the kernel
//! threads of a program whose others are user-level, and with those that run these.
//!
//! Invariant: what is looked at is the kernel's own word, /proc/PID/task/TID/stat.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Ended, TIME_LIMIT, can_run, folder, heddle};

/// Numbers of the kernel's policies.
const OTHER: u32 = 0;
const RR: u32 = 2;
const IDLE: u32 = 5;

/// The program, under the command with a policy of these means.
struct Run {
    folder: PathBuf,
    _command: Ended,
    output: BufReader<ChildStdout>,
    pid: i32,
}

impl Run {
    /// `None`, with the reason said, where that cannot be tested.
    fn new(means: &str, rounds: u32) -> Option<Run> {
        if !can_run(&["cc"]) {
            return None;
        }
        // SAFETY: no memory is involved.
        if unsafe { libc::geteuid() } != 0 {
            println!("skip: not root: there may be no way back");
            return None;
        }
        let folder = folder(&format!("mediated-{means}"));
        let program = folder.join("regions");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/regions.c");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-pthread", "-Wall", "-Wextra", "-o"]).args([&program, &source]);
        assert!(cc.status().expect("a compiler").success());
        let policy = folder.join("policy.toml");
        let text = format!(
            "[mediator]\nmeans = \"{means}\"\nhold_ms = 200\n\n[[thread]]\nstart = \"urgent\"\n\
             priority = 60\nrole = \"alarms\"\n"
        );
        fs::write(&policy, text).expect("a file");
        let mut command = Command::new(heddle());
        command.args(["run", "--threads", "user", "--workers", "2", "--report", "json"]);
        command.arg("--report-to").arg(folder.join("report.json")).arg("--policy").arg(policy);
        command.arg("--").arg(&program).arg(rounds.to_string()).process_group(0);
        command.env("XDG_STATE_HOME", folder.join("state")).stdout(Stdio::piped());
        let mut command = Ended(command.spawn().expect("the command"));
        let output = BufReader::new(command.0.stdout.take().expect("a pipe"));
        let own = command.0.id() as i32;
        let mut run = Run { folder, _command: command, output, pid: 0 };
        assert_eq!(run.line(), "ready");
        let list = fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let named = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it.trim() == "regions")
        };
        let children = list.expect("its children");
        let mut children = children.split_whitespace().filter_map(|it| it.parse().ok());
        run.pid = children.find(named).expect("the program");
        Some(run)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output");
        line.trim().to_owned()
    }

    /// The policies of all threads whose name begins so.
    fn policies(&self, name: &str) -> BTreeSet<u32> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten();
        let stats = tasks.filter_map(|it| fs::read_to_string(it.ok()?.path().join("stat")).ok());
        let policy = |stat: String| {
            let (head, rest) = stat.rsplit_once(") ")?;
            let is_named = head.split_once('(')?.1.starts_with(name);
            // The 41st field; the first two are before.
            is_named.then(|| rest.split(' ').nth(38)?.parse().ok()).flatten()
        };
        stats.filter_map(policy).collect()
    }

    fn eventually(&self, what: &str, condition: impl Fn() -> bool) {
        let end = Instant::now() + TIME_LIMIT;
        while !condition() {
            assert!(Instant::now() < end, "no {what}: {:?}", self.policies(""));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the program; the report's part about the Mediator.
    fn end(mut self) -> serde_json::Value {
        // SAFETY: no memory is involved; the process is the child's.
        unsafe { libc::kill(self.pid, libc::SIGTERM) };
        let _ = self._command.0.wait();
        let report = fs::read_to_string(self.folder.join("report.json")).expect("a report");
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        fs::remove_dir_all(&self.folder).expect("ours");
        report["mediator"].clone()
    }
}

fn only(policy: u32) -> BTreeSet<u32> {
    BTreeSet::from([policy])
}

#[test]
fn kernel_threads_are_lazy_while_a_user_level_thread_is_time_critical() {
    let Some(mut run) = Run::new("idle", 1000) else { return };
    for name in ["regions", "burner"] {
        run.eventually("Lazy region", || run.policies(name) == only(IDLE));
    }
    // Those that run user-level threads are never in it, but for the moments that the Lazy region
    // gets: both regions are equals then.
    let begun = Instant::now();
    let mut lowered = 0;
    for look in 0.. {
        if begun.elapsed() > Duration::from_millis(500) {
            assert!(lowered * 4 < look, "{lowered} of {look}");
            break;
        }
        lowered += i32::from(run.policies("heddle-").contains(&IDLE));
        std::thread::sleep(Duration::from_millis(1));
    }
    run.line();
    run.eventually("way back", || run.policies("") == only(OTHER));
    let mediator = run.end();
    assert_eq!(mediator["means"], "idle", "{mediator}");
    assert_eq!(mediator["conflicts"].as_array().map(Vec::len), Some(0), "{mediator}");
}

#[test]
fn who_runs_a_time_critical_thread_is_in_the_fast_region_as_long() {
    let Some(mut run) = Run::new("rr", 1000) else { return };
    run.eventually("Fast region", || {
        run.policies("heddle-0").union(&run.policies("heddle-1")).any(|&it| it == RR)
    });
    run.eventually("monitor", || run.policies("heddle-monitor") == only(RR));
    assert!(!run.policies("regions").contains(&RR) && !run.policies("burner").contains(&RR));
    run.line();
    run.eventually("way back", || run.policies("") == only(OTHER));
    let mediator = run.end();
    assert_eq!(mediator["means"], "rr", "{mediator}");
    let critical = mediator["time_critical"].as_array().expect("a list");
    let name = |it: &serde_json::Value| it["name"].as_str().unwrap_or("-").to_owned();
    assert!(critical.iter().any(|it| name(it).starts_with("heddle-")), "{mediator}");
}
