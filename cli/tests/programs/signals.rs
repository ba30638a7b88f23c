//! Signals: what is sent to `heddle run` is sent to the program, once.
//!
//! Invariant: a key on the terminal, which reaches both, reaches the program once.

use std::fs;
use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::build::c;
use crate::support::{Folder, Running, eventually, find, skip};

/// Time for a second, wrong signal to arrive.
const QUIET: Duration = Duration::from_millis(100);

fn ready(folder: &Folder) -> Running {
    let mut running = folder.start(folder.under(&[], c("signals")));
    let out = folder.path("out");
    running.until("ready", || fs::read_to_string(&out).is_ok_and(|text| text.contains("ready")));
    running
}

fn said(folder: &Folder, what: &str) {
    eventually(what, || folder.text("out").contains(what));
    sleep(QUIET);
    assert_eq!(folder.text("out").matches(what).count(), 1, "{}", folder.text("out"));
}

#[test]
fn signals_are_passed_on() {
    let folder = Folder::new("signals");
    let running = ready(&folder);
    running.signal(Signal::USR1);
    said(&folder, "User defined signal 1");
    running.signal(Signal::HUP);
    said(&folder, "Hangup");
    running.signal(Signal::ABORT);
    said(&folder, "Aborted");
    running.signal(Signal::URG);
    said(&folder, "Urgent I/O condition");
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(43), "{}", ended.errors);
    folder.report().check();
}

#[test]
fn a_key_on_the_terminal_arrives_once() {
    if find("script").is_none() {
        skip!("script is not installed: there is no other way to a terminal here");
    }
    let folder = Folder::new("keys");
    let inner = folder.under(&[], c("signals"));
    let words = std::iter::once(inner.get_program()).chain(inner.get_args());
    let words: Vec<String> = words.map(|it| format!("'{}'", it.to_string_lossy())).collect();
    // Not every shell gives its place to the program by itself.
    let inner = format!("exec {}", words.join(" "));
    let mut command = folder.plain("script");
    command.args(["--quiet", "--return", "--command", &inner, "/dev/null"]);
    let (keys, mut keyboard) = std::io::pipe().expect("a pipe");
    command.stdin(keys);
    let mut running = folder.start(command);
    let out = folder.path("out");
    running.until("ready", || fs::read_to_string(&out).is_ok_and(|text| text.contains("ready")));
    keyboard.write_all(b"\x03").expect("Ctrl-C");
    said(&folder, "Interrupt");
    let heddle = descendant(number(running.id()), "heddle").expect("heddle runs below script");
    kill_process(heddle, Signal::TERM).expect("it is there");
    assert_eq!(running.end().status.code(), Some(43), "{}", folder.text("out"));
}

fn number(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

/// A process below another by its name, children first.
fn descendant(parent: i32, name: &str) -> Option<Pid> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let children: Vec<i32> = list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    let named = |pid: &&i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
    };
    match children.iter().find(named) {
        Some(pid) => Pid::from_raw(*pid),
        None => children.iter().find_map(|pid| descendant(*pid, name)),
    }
}

#[test]
fn the_program_outlives_a_killed_heddle() {
    let folder = Folder::new("killed");
    let running = ready(&folder);
    let program = descendant(number(running.id()), "signals").expect("a child");
    running.signal(Signal::KILL);
    sleep(QUIET);
    kill_process(program, Signal::USR1).expect("it lives on");
    said(&folder, "User defined signal 1");
    kill_process(program, Signal::TERM).expect("it lives on");
    said(&folder, "Terminated");
    assert!(!running.end().status.success());
}
