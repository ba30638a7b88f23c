//! A policy on a real process: who is put where, and that nothing stays behind.
//!
//! Invariant: what is looked at is the kernel's own word, /proc/PID/task/TID/stat.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use heddle_preload::mediator::Powers;
use rustix::process::{Pid, Signal, kill_process};

use crate::build::c;
use crate::support::{Folder, Running, eventually, skip};

const POLICY: &str = "[mediator]\nmeans = \"MEANS\"\nhold_ms = 200\n\n\
                      [[thread]]\nname = \"urgent\"\npriority = 60\nrole = \"alarms\"\n";
/// Numbers of the kernel's policies.
const OTHER: u32 = 0;
const RR: u32 = 2;
const IDLE: u32 = 5;

/// The policies of all threads whose name fits.
fn policies(pid: i32, named: impl Fn(&str) -> bool) -> BTreeSet<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    stats
        .filter_map(|stat| {
            let (head, rest) = stat.rsplit_once(") ")?;
            let name = head.split_once('(')?.1;
            // The 41st field; the first two are before.
            named(name).then(|| rest.split(' ').nth(38)?.parse().ok()).flatten()
        })
        .collect()
}

fn of(pid: i32, name: &str) -> BTreeSet<u32> {
    policies(pid, |it| it == name)
}

fn number(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

fn child_of(pid: Pid) -> i32 {
    let pid = number(pid);
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let named = |child: &&str| {
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|it| it.trim() == "classes")
    };
    let child = list.split_whitespace().find(named).and_then(|it| it.parse().ok());
    child.expect("the program is a child")
}

fn policy(folder: &Folder, means: &str) -> String {
    let file = folder.path("policy.toml");
    fs::write(&file, POLICY.replace("MEANS", means)).expect("a policy");
    file.display().to_string()
}

/// Starts the program under a policy and waits until its threads are there.
fn start(folder: &Folder, command: Command) -> Running {
    let mut running = folder.start(command);
    let out = folder.path("out");
    running.until("ready", || fs::read_to_string(&out).is_ok_and(|text| text.contains("ready")));
    running
}

#[test]
fn others_are_lazy_while_a_thread_is_time_critical() {
    let folder = Folder::new("mediated");
    let policy = policy(&folder, "idle");
    let running = start(&folder, folder.under(&["--policy", &policy], c("classes")));
    let program = child_of(running.id());
    let one = |policy| BTreeSet::from([policy]);
    eventually("Lazy region", || of(program, "burner") == one(IDLE));
    assert_eq!(of(program, "urgent"), one(OTHER));
    // The program stops being urgent at this signal, and goes on; so do the others, as before.
    if may_go_back() {
        kill_process(Pid::from_raw(program).expect("a process"), Signal::USR1).expect("there");
        eventually("way back", || of(program, "burner") == one(OTHER));
    }
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(44), "{}", ended.errors);
    let report = folder.report();
    let urgent = report.told("alarms");
    assert_eq!(urgent[0].text("class"), "time-critical");
    assert_eq!(report.0["mediator"]["means"], "idle", "{}", report.0["mediator"]);
}

#[test]
fn the_next_program_in_a_process_is_mediated_on() {
    if !may_be_real_time() {
        skip!("SCHED_RR is not permitted here");
    }
    let folder = Folder::new("mediated-exec");
    let policy = policy(&folder, "rr");
    let mut running = start(&folder, folder.under(&["--policy", &policy], c("classes")));
    let program = child_of(running.id());
    let tell = |signal| {
        kill_process(Pid::from_raw(program).expect("a process"), signal).expect("there");
    };
    running.until("Fast region", || of(program, "urgent") == BTreeSet::from([RR]));
    // A raised thread calls exec, and goes on as the main one.
    tell(Signal::USR2);
    let out = folder.path("out");
    let again = || fs::read_to_string(&out).is_ok_and(|it| it.matches("ready").count() == 2);
    running.until("second beginning", again);
    running.until("Fast region", || of(program, "urgent") == BTreeSet::from([RR]));
    let others = || policies(program, |name| name != "urgent");
    running.until("way back of the main thread", || others() == BTreeSet::from([OTHER]));
    tell(Signal::USR1);
    running.until("way back", || policies(program, |_| true) == BTreeSet::from([OTHER]));
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(44), "{}", ended.errors);
    let mediator = &folder.report().0["mediator"];
    assert_eq!(mediator["conflicts"].as_array().map(Vec::len), Some(0), "{mediator}");
}

#[test]
fn a_daemon_that_the_program_leaves_is_given_back_what_it_inherited() {
    if !may_go_back() {
        skip!("there may be no way back from SCHED_IDLE here");
    }
    let folder = Folder::new("mediated-daemon");
    let policy = policy(&folder, "idle");
    let ended = folder.start(folder.under(&["--policy", &policy], c("leaves_daemon"))).end().good();
    let daemon: i32 = ended.output.trim().parse().expect("its number");
    let left = policies(daemon, |_| true);
    kill_process(Pid::from_raw(daemon).expect("a process"), Signal::KILL).expect("there");
    assert_eq!(left, BTreeSet::from([OTHER]));
}

#[test]
fn a_killed_heddle_leaves_nothing_behind() {
    if !may_go_back() {
        skip!("there may be no way back from SCHED_IDLE here");
    }
    let folder = Folder::new("mediated-killed");
    for (means, name, changed) in [("rr", "urgent", RR), ("idle", "burner", IDLE)] {
        if means == "rr" && !may_be_real_time() {
            println!("skip: SCHED_RR is not permitted here");
            continue;
        }
        let policy = policy(&folder, means);
        let running = start(&folder, folder.under(&["--policy", &policy], c("classes")));
        let program = child_of(running.id());
        eventually("a change", || of(program, name) == BTreeSet::from([changed]));
        running.signal(Signal::KILL);
        eventually("way back", || policies(program, |_| true) == BTreeSet::from([OTHER]));
        kill_process(Pid::from_raw(program).expect("a process"), Signal::TERM).expect("there");
        drop(running);
    }
}

#[test]
fn attached_and_let_go() {
    if !may_go_back() {
        skip!("there may be no way back from SCHED_IDLE here");
    }
    let folder = Folder::new("attached");
    let program = start(&folder, folder.plain(c("classes")));
    let pid = number(program.id());
    let policy = policy(&folder, "idle");
    let other = Folder::new("attached-heddle");
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut command = other.plain(env!("CARGO_BIN_EXE_heddle"));
        command.args(["run", "--policy", &policy, "--pid", &pid.to_string()]);
        let heddle = other.start(command);
        eventually("a change", || of(pid, "burner") == BTreeSet::from([IDLE]));
        heddle.signal(signal);
        eventually("way back", || policies(pid, |_| true) == BTreeSet::from([OTHER]));
        drop(heddle);
    }
    program.signal(Signal::TERM);
    assert_eq!(program.end().status.code(), Some(44));
}

#[test]
fn a_program_goes_on_without_its_main_thread() {
    if !may_go_back() {
        skip!("there may be no way back from SCHED_IDLE here");
    }
    let folder = Folder::new("attached-without-main");
    let mut command = folder.plain(c("classes"));
    command.arg("without-main");
    let mut program = start(&folder, command);
    let pid = number(program.id());
    let is_zombie = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(") Z ")
    };
    program.until("end of the main thread", is_zombie);
    let policy = policy(&folder, "idle");
    let other = Folder::new("attached-without-main-heddle");
    let mut command = other.plain(env!("CARGO_BIN_EXE_heddle"));
    command.args(["run", "--policy", &policy, "--pid", &pid.to_string()]);
    let mut heddle = other.start(command);
    heddle.until("Lazy region", || of(pid, "burner") == BTreeSet::from([IDLE]));
    // Long enough for several looks that spare nothing: those are a second apart.
    let later = Instant::now() + Duration::from_secs(3);
    heddle.until("a few looks", || Instant::now() > later);
    heddle.signal(Signal::TERM);
    eventually("way back", || of(pid, "burner") == BTreeSet::from([OTHER]));
    let ended = heddle.end();
    assert!(ended.errors.contains("goes on with what it had"), "{}", ended.errors);
    program.signal(Signal::TERM);
    assert_eq!(program.end().status.code(), Some(44));
}

/// Who runs the command may raise what it lowered.
fn may_go_back() -> bool {
    Powers::probe(None).may_return(0)
}

/// Root may not either where its control group has no budget for it.
fn may_be_real_time() -> bool {
    Powers::probe(None).ceiling().is_some()
}
