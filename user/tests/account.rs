//! What `heddle run` knows and does with threads on user-level threads: kinds, policy, sizes of
//! stacks, the profile and the report, as it does with kernel threads.
//!
//! Invariant: each test has a state folder of its own, so that no profile of another one acts.

mod common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use common::{built, can_run, folder, heddle, output, text};

/// The program of this test, and a state folder of its own.
struct Case {
    folder: PathBuf,
    program: String,
}

impl Case {
    /// `None`, with the reason said, where there are no user-level threads.
    fn new(name: &str) -> Option<Case> {
        if !can_run(&["cc"]) {
            return None;
        }
        let folder = folder(name);
        let headers = ["record", "preload"]
            .map(|it| format!("-I{}/../{it}/include", env!("CARGO_MANIFEST_DIR")));
        let program = built(&folder, "kinds", &headers.each_ref().map(String::as_str));
        Some(Case { program: program.to_str().expect("a name").to_owned(), folder })
    }

    /// Runs the program so; its output, and the report.
    fn run(&self, options: &[&str], words: &[&str]) -> (Output, Value) {
        self.run_on(&["--threads", "user", "--workers", "1"], options, words)
    }

    fn run_on(&self, threads: &[&str], options: &[&str], words: &[&str]) -> (Output, Value) {
        let report = self.folder.join("report.json");
        let mut command = Command::new(heddle());
        command.arg("run").args(threads).args(["--report", "json"]);
        command.arg("--report-to").arg(&report).args(options).arg("--").arg(&self.program);
        command.args(words).process_group(0).env("XDG_STATE_HOME", self.folder.join("state"));
        let output = output(command);
        let text = fs::read_to_string(&report).expect("a report");
        (output, serde_json::from_str(&text).expect("JSON"))
    }

    /// Writes a policy for `run`.
    fn policy(&self, text: &str) -> String {
        let file = self.folder.join("policy.toml");
        fs::write(&file, text).expect("a file");
        file.to_str().expect("a name").to_owned()
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The kind with this start function in the report's first process.
fn kind(report: &Value, start: impl Into<Value>) -> &Value {
    let start = start.into();
    let kinds = report["processes"][0]["threads"].as_array().expect("kinds");
    let found = kinds.iter().find(|kind| kind["start"] == start);
    found.unwrap_or_else(|| panic!("no kind {start} in {report:#}"))
}

const URGENT: &str = "role = \"goes first\"\nclass = \"time-critical\"\npriority = 30\n";

#[test]
fn a_policy_names_threads_and_acts() {
    let Some(case) = Case::new("policy") else { return };
    let (plain, _) = case.run(&[], &["alone"]);
    assert_eq!(text(&plain.stdout), "together\n", "{plain:?}");
    let by_start = case.policy(&format!("[[thread]]\nstart = \"urgent\"\n{URGENT}"));
    let (output, report) = case.run(&["--policy", &by_start], &["alone"]);
    assert_eq!(text(&output.stdout), "alone\n", "{output:?}");
    let urgent = kind(&report, "urgent");
    assert_eq!(urgent["role"], "goes first");
    assert_eq!((&urgent["class"], &urgent["priority"]), (&"time-critical".into(), &30.into()));
    assert_eq!(kind(&report, "other")["class"], "lazy");
}

#[test]
fn a_rule_for_a_name_acts_once_the_thread_has_it() {
    let Some(case) = Case::new("name") else { return };
    let by_name = case.policy(&format!("[[thread]]\nname = \"sensor/*\"\n{URGENT}"));
    let (output, report) = case.run(&["--policy", &by_name], &["alone", "sensor/1"]);
    assert_eq!(text(&output.stdout), "alone\n", "{output:?}");
    let urgent = kind(&report, "urgent");
    assert_eq!((&urgent["role"], &urgent["name"]), (&"goes first".into(), &"sensor/1".into()));
    let (output, _) = case.run(&["--policy", &by_name], &["alone", "other/1"]);
    assert_eq!(text(&output.stdout), "together\n", "{output:?}");
}

#[test]
fn stacks_are_sized_by_the_run_before() {
    let Some(case) = Case::new("auto") else { return };
    let words = ["sizes", "20000"];
    let (_, first) = case.run(&["--stacks", "auto"], &words);
    let deep = kind(&first, "deep");
    assert_eq!((&deep["tuned"], &deep["created"]), (&false.into(), &3.into()), "{deep}");
    assert_eq!(deep["stack_given_bytes"], 8 << 20);
    let peak = deep["stack_peak_bytes"].as_u64().expect("measured");
    assert!((20_000..40_000).contains(&peak), "{peak}");
    let (output, second) = case.run(&["--stacks", "auto"], &words);
    assert_eq!(text(&output.stdout), "ran\n", "{output:?}");
    assert_eq!(kind(&second, "other")["stack_given_bytes"], 64 << 10);
    assert_eq!(kind(&second, "deep")["tuned"], true);
    let plain = kind(&second, "plain");
    assert_eq!((&plain["explicit"], &plain["tuned"]), (&true.into(), &false.into()));
    assert_eq!(plain["stack_asked_bytes"], 300 << 10);
    let (_, forced) = case.run(&["--stacks", "force"], &words);
    assert_eq!(kind(&forced, "plain")["stack_given_bytes"], 64 << 10);
}

#[test]
fn an_overflow_of_a_sized_stack_corrects_the_profile() {
    let Some(case) = Case::new("overflow") else { return };
    case.run(&[], &["sizes", "3000"]);
    let words = ["sizes", "200000"];
    let (output, report) = case.run(&["--stacks", "auto"], &words);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("at least twice as much"), "{said}");
    let deep = kind(&report, "deep");
    assert_eq!((&deep["overflowed"], &deep["tuned"]), (&true.into(), &true.into()), "{deep}");
    for round in 0.. {
        let (output, report) = case.run(&["--stacks", "auto"], &words);
        if output.status.success() {
            assert!(kind(&report, "deep")["stack_given_bytes"].as_u64() > Some(200_000));
            return;
        }
        assert!(round < 3, "{report:#}");
    }
}

#[test]
fn kernel_threads_and_cancelled_ones_are_in_the_report() {
    let Some(case) = Case::new("own") else { return };
    let (output, report) = case.run(&[], &["own"]);
    assert!(output.status.success(), "{output:?}");
    let plain = kind(&report, "plain");
    assert_eq!((&plain["user_stack"], &plain["ended"]), (&true.into(), &1.into()), "{plain}");
    assert!(plain["cpu_ns"].as_u64() > Some(0), "{plain}");
    let endless = kind(&report, "endless");
    assert_eq!((&endless["created"], &endless["ended"]), (&1.into(), &1.into()), "{endless}");
    for kind in [plain, endless] {
        assert!(kind["site"].as_str().is_some_and(|it| it.contains("kinds.c:")), "{kind}");
    }
    let main = kind(&report, Value::Null);
    assert_eq!((&main["main"], &main["created"]), (&true.into(), &1.into()));
    assert!(report["notes"].to_string().contains("of CPU time besides"), "{}", report["notes"]);
}

#[test]
fn what_a_program_says_of_its_threads_is_known() {
    let Some(case) = Case::new("say") else { return };
    let rules = "[[thread]]\nstart = \"spoken\"\ncategory = \"drawing\"\n\
                 [[thread]]\nname = \"sensor/*\"\nrole = \"of the policy\"\n\
                 [[thread]]\nstart = \"varied\"\ngroup = \"service\"\n";
    let policy = case.policy(rules);
    let (output, report) = case.run(&["--policy", &policy], &["say"]);
    assert_eq!(text(&output.stdout), "said\n", "{output:?}");
    let said = |start: Value| {
        let kind = kind(&report, start);
        let word = |name: &str| kind[name].as_str().unwrap_or("-").to_owned();
        let words = [word("role"), word("class"), word("group"), word("category")];
        (words.join(", "), kind["priority"].as_u64())
    };
    let gas = "gas detection, time-critical, urgent, event";
    assert_eq!(said("spoken".into()), (gas.into(), Some(20)));
    assert_eq!(said(Value::Null), (gas.into(), Some(20)), "the main thread, a kernel thread");
    assert_eq!(said("asked".into()).1, Some(40));
    assert_eq!(said("changed".into()).1, Some(7));
}

#[test]
fn each_stack_is_measured_for_its_own_kind() {
    let Some(case) = Case::new("mixed") else { return };
    let peaks = |bytes: &str| {
        let (output, report) = case.run(&[], &["mixed", bytes]);
        assert!(output.status.success(), "{output:?}");
        let peak = |start: &str| kind(&report, start)["stack_peak_bytes"].as_u64().expect("known");
        (peak("varied"), peak("plain"))
    };
    let (shallow, plain) = peaks("1");
    let (deep, plain_beside) = peaks("100000");
    let (deeper, _) = peaks("102048");
    assert!(shallow < 10_000 && deep > 100_000, "{shallow} {deep}");
    assert_eq!(plain, plain_beside, "not a byte of the other kind's");
    assert!((2048..2400).contains(&(deeper - deep)), "{deep} {deeper}");
}

/// Threads of one kind alone have work at a time, so theirs is what the kernel says of the workers.
#[test]
fn cpu_time_is_known_by_kind() {
    let Some(case) = Case::new("cpu") else { return };
    let (output, report) = case.run(&[], &["cpu"]);
    assert!(output.status.success(), "{output:?}");
    let used_us = |start: &str| kind(&report, start)["cpu_ns"].as_u64().expect("known") / 1000;
    let said = text(&output.stdout);
    let workers_us: Vec<u64> =
        said.lines().map(|line| line.parse::<u64>().expect("a number") / 1000).collect();
    // Between two pieces the workers have the scheduler's time: a part that depends on the machine.
    for ((start, least), kernel) in [("in_pieces", 8), ("in_one", 19)].into_iter().zip(workers_us) {
        let used = used_us(start);
        let is_right = used * 20 >= kernel * least && used * 20 <= kernel * 21;
        assert!(kernel > 50_000 && is_right, "{start}: {used} {said}");
    }
    assert!(used_us("unseen") < 5000, "{}", used_us("unseen"));
}

/// The program puts an address of the calls that make threads behind the thread's argument.
#[test]
fn what_heddle_leaves_on_a_stack_is_no_start_function() {
    let Some(case) = Case::new("left") else { return };
    for threads in [&["--threads", "user"][..], &[]] {
        let (output, report) = case.run_on(threads, &[], &["cpu"]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(kind(&report, "in_pieces")["created"], 2, "{threads:?}");
    }
}

/// What is left in shared memory of the first process of the report.
fn tables_left(report: &Value) -> Vec<String> {
    let pid = report["processes"][0]["pid"].as_i64().expect("a number");
    let left = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = left.filter_map(|it| it.file_name().into_string().ok());
    let table = format!("heddle.{pid}");
    let is_of_it = |name: &String| {
        name.strip_prefix(&table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    names.filter(is_of_it).collect()
}

#[test]
fn threads_are_reported_however_the_program_ends() {
    let Some(case) = Case::new("ends") else { return };
    for (how, status) in [("return", 0), ("_exit", 3), ("quick_exit", 4), ("exec", 0)] {
        let (output, report) = case.run(&[], &["end", how]);
        assert_eq!(output.status.code(), Some(status), "{how}");
        let endless = kind(&report, "endless");
        assert_eq!((&endless["created"], &endless["ended"]), (&1.into(), &0.into()), "{how}");
        assert!(endless["stack_peak_bytes"].as_u64() >= Some(9000), "{how}: {endless}");
        assert_eq!(report["totals"]["threads_peak"], 2, "{how}");
        assert_eq!(tables_left(&report), [""; 0], "{how}");
    }
    let (_, report) = case.run(&[], &["end", "kill"]);
    assert_eq!(report["exit"]["signal"], 9);
    assert_eq!(kind(&report, "endless")["created"], 1);
    // The threads as they were, for who asks.
    let left = tables_left(&report);
    assert!(left.len() == 1 && !left[0].contains("account"), "{left:?}");
}

/// Who waits first makes the runtime's table, which has the name that the account's had.
#[test]
fn the_account_stays_where_somebody_waits_before_the_first_thread() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("waits-first");
    let program = built(&folder, "waits_first", &[]);
    for words in [&[][..], &["timer"]] {
        let mut command = Command::new(heddle());
        command.args(["run", "--threads", "user", "--report", "none", "--"]).arg(&program);
        let output = output({
            command.args(words);
            command
        });
        assert_eq!(text(&output.stdout), "kept\n", "{words:?}: {output:?}");
    }
    let _ = fs::remove_dir_all(folder);
}

#[test]
fn a_profile_that_cannot_be_kept_or_read_is_told_and_the_program_runs() {
    let Some(case) = Case::new("state") else { return };
    fs::write(case.folder.join("state"), "no folder").expect("a file");
    let (output, report) = case.run(&["--stacks", "auto"], &["sizes", "3000"]);
    assert_eq!(text(&output.stdout), "ran\n", "{output:?}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("not remembered"), "{notes}");
    fs::remove_file(case.folder.join("state")).expect("ours");
    case.run(&[], &["sizes", "3000"]);
    let profiles = fs::read_dir(case.folder.join("state/heddle/stacks")).expect("profiles");
    for entry in profiles.flatten().filter(|it| it.path().is_file()) {
        fs::write(entry.path(), "nonsense").expect("ours");
    }
    let (output, report) = case.run(&["--stacks", "auto"], &["sizes", "3000"]);
    assert_eq!(text(&output.stdout), "ran\n", "{output:?}");
    assert_eq!(kind(&report, "deep")["tuned"], false);
    let notes = report["notes"].to_string();
    assert!(notes.contains("is ignored and kept as"), "{notes}");
}

#[test]
fn a_plan_of_nonsense_is_told_and_the_program_runs() {
    let Some(case) = Case::new("plan") else { return };
    let mut look = Command::new(heddle());
    look.args(["run", "--threads", "user", "--report", "none", "--", "cat", "/proc/self/maps"]);
    look.process_group(0).env("XDG_STATE_HOME", case.folder.join("state"));
    let maps = text(&output(look).stdout);
    let library = |name: &str| {
        let line = maps.lines().find(|line| line.ends_with(name));
        line.and_then(|line| line.split_whitespace().last()).expect("loaded").to_owned()
    };
    let both = [library("/libheddle-user.so"), library("/libheddle-preload.so")].join(":");
    let plan = case.folder.join("plan");
    fs::write(&plan, "nonsense").expect("a file");
    for (plan, said) in [(plan.to_str().expect("a name"), "makes no sense"), ("", "")] {
        let mut command = Command::new(&case.program);
        command.args(["sizes", "3000"]).env("LD_PRELOAD", &both).env("HEDDLE_PLAN", plan);
        let output = output(command);
        assert_eq!((text(&output.stdout), output.status.code()), ("ran\n".into(), Some(0)));
        assert!(text(&output.stderr).contains(said), "{output:?}");
        assert_eq!(text(&output.stderr).is_empty(), said.is_empty(), "{output:?}");
    }
}
