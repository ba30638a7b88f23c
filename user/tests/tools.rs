//! strace and perf with `heddle run --threads user`, as heddle-run(1) has it: they follow the
//! workers, and the program runs as without them.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{can_run, folder, heddle, output, text};

/// A program of the tests, compiled.
fn program(folder: &Path, name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    let headers =
        ["record", "preload"].map(|it| format!("-I{}/../{it}/include", env!("CARGO_MANIFEST_DIR")));
    cc.args(["-O1", "-g", "-pthread"]).args(headers).arg("-o").arg(&program);
    assert!(cc.arg(tests.join(format!("{name}.c"))).status().expect("a compiler").success());
    program
}

/// The arguments that run a program on one worker.
fn on_workers(command: &mut Command, program: &Path) {
    command.arg(heddle()).args(["run", "--threads", "user", "--workers", "1"]);
    command.args(["--report", "none", "--"]).arg(program);
}

/// What a program of the tests says under strace on one worker, and the trace.
fn traced(folder: &Path, name: &str, arguments: &[&str]) -> Option<(String, String)> {
    let (program, trace) = (program(folder, name), folder.join("trace"));
    let mut command = Command::new("strace");
    command.arg("-f").args(arguments).arg("-o").arg(&trace);
    on_workers(&mut command, &program);
    let output = output(command);
    if !output.status.success() && text(&output.stderr).contains("ptrace") {
        println!("skip: this machine does not allow tracing: {output:?}");
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    Some((text(&output.stdout), fs::read_to_string(trace).expect("a trace")))
}

#[test]
fn strace_shows_what_the_workers_do() {
    if !can_run(&["cc", "strace"]) {
        return;
    }
    let folder = folder("strace");
    let Some((said, trace)) = traced(&folder, "threads", &[]) else { return };
    assert_eq!(said, "36, user\n");
    // The worker gets its name, and waits where nothing is ready.
    let name = trace.lines().find(|line| line.contains("PR_SET_NAME, \"heddle-0\""));
    let worker = name.and_then(|line| line.split_whitespace().next()).expect("a worker");
    let mut own = trace.lines().filter(|line| line.starts_with(&format!("{worker} ")));
    assert!(own.any(|line| line.contains("epoll_")), "{trace}");
    fs::remove_dir_all(folder).expect("ours");
}

/// As `calls/turns.rs` has it; native threads would wait 4000 times.
#[test]
fn threads_that_take_turns_wait_seldom() {
    if !can_run(&["cc", "strace"]) {
        return;
    }
    let folder = folder("turns");
    let arguments = ["-e", "trace=epoll_ctl"];
    let Some((_, trace)) = traced(&folder, "turns", &arguments) else { return };
    let waits = trace.matches("epoll_ctl(").count();
    assert!((1..400).contains(&waits), "{waits} waits");
    fs::remove_dir_all(folder).expect("ours");
}

/// Once in the worker's set and once in its own for each of 300 events; twice in each before asks
/// in vain were left out.
#[test]
fn an_event_loop_that_waits_asks_seldom() {
    if !can_run(&["cc", "strace"]) {
        return;
    }
    let folder = folder("loop");
    let arguments = ["-e", "trace=epoll_wait,epoll_pwait2"];
    let Some((_, trace)) = traced(&folder, "loop", &arguments) else { return };
    let asks = trace.matches("epoll_wait(").count();
    assert!((300..1000).contains(&asks), "{asks} asks");
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn perf_shows_what_threads_compute() {
    if !can_run(&["cc", "perf"]) {
        return;
    }
    let folder = folder("perf");
    let (program, data) = (program(&folder, "kinds"), folder.join("data"));
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-e", "cpu-clock", "--call-graph", "dwarf", "-o"]).arg(&data);
    on_workers(command.arg("--"), &program);
    command.arg("cpu");
    let recorded = output(command);
    if !data.exists() {
        return println!("skip: perf cannot record here: {}", text(&recorded.stderr));
    }
    assert!(recorded.status.success(), "{recorded:?}");
    assert_eq!(text(&recorded.stdout).lines().count(), 3, "{recorded:?}");
    let mut command = Command::new("perf");
    command.args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"]).arg(&data);
    let script = output(command);
    let shown = text(&script.stdout);
    if shown.is_empty() {
        return println!("skip: perf script shows nothing here: {}", text(&script.stderr));
    }
    // A sample is the worker's, and its frames are the thread's from its start function on.
    let samples: Vec<&str> = shown.split("\n\n").collect();
    let is_full = |sample: &&&str| sample.contains("in_one") && sample.contains("call_start");
    let full = samples.iter().find(is_full).unwrap_or_else(|| panic!("{shown:.2000}"));
    assert!(full.trim_start().starts_with("heddle-0"), "{full}");
    fs::remove_dir_all(folder).expect("ours");
}
