//! What `heddle ps` and `heddle top` show of threads on user-level threads while they live.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use common::{Ended, TIME_LIMIT, built, can_run, children, folder, heddle, run, text};

/// What the command prints; it succeeds.
fn shown(words: &[&str]) -> String {
    let output = Command::new(heddle()).args(words).output().expect("heddle runs");
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// As [`shown`], of a command that prints JSON.
fn told(words: &[&str]) -> Value {
    serde_json::from_str(&shown(words)).expect("JSON")
}

/// The process that the run has started.
fn program_of(run: &Child) -> String {
    let children = children(run.id());
    let [program] = children[..] else { panic!("not one child: {children:?}") };
    program.to_string()
}

/// The threads so named, or of a start function so named.
fn named<'a>(whole: &'a Value, name: &str) -> Vec<&'a Value> {
    let threads = whole["threads"].as_array().expect("threads");
    let is_it = |thread: &&Value| {
        [&thread["name"], &thread["start"]]
            .iter()
            .any(|it| it.as_str().is_some_and(|it| it.starts_with(name)))
    };
    threads.iter().filter(is_it).collect()
}

/// Asks until the threads that wait do so, with stacks that were measured, and one computes.
fn settled(process: &str) -> Value {
    let end = Instant::now() + TIME_LIMIT;
    loop {
        let whole = told(&["ps", process, "--json"]);
        let waiting = named(&whole, "waiter");
        let computing = named(&whole, "computes");
        let is_measured = |thread: &Value| thread["stack_peak_bytes"].as_u64() > Some(0);
        let is_settled = |it: &&&Value| it["state"] == "parked" && is_measured(it);
        let parked = waiting.iter().filter(is_settled).count();
        if parked == 3 && computing.iter().any(|thread| thread["cpu_ns"].as_u64() > Some(0)) {
            return whole;
        }
        assert!(Instant::now() < end, "{whole:#}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn living_threads_are_shown() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("watched");
    let program = built(&folder, "watched", &[]);
    let mut command = run(&[program.to_str().expect("a name")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut run = Ended(command.spawn().expect("the command starts"));
    let mut line = String::new();
    let mut answers = BufReader::new(run.0.stdout.take().expect("a pipe"));
    answers.read_line(&mut line).expect("a line");
    assert_eq!(line, "up\n");
    let process = program_of(&run.0);

    let whole = settled(&process);
    assert_eq!((&whole["source"], &whole["program"]), (&"table".into(), &"watched".into()));
    let workers = whole["workers"].as_array().expect("workers");
    assert!(!workers.is_empty() && workers.iter().all(|it| it["kind"] == "worker"), "{whole:#}");
    for (number, thread) in named(&whole, "waiter").into_iter().enumerate() {
        assert_eq!(thread["kind"], "full", "{thread}");
        assert_eq!(thread["name"], format!("waiter {number}"));
        assert_eq!((&thread["start"], &thread["class"]), (&"waits".into(), &"lazy".into()));
        let peak = thread["stack_peak_bytes"].as_u64().expect("bytes");
        assert!((20_000..60_000).contains(&peak), "{thread}");
    }
    let [computing] = named(&whole, "computes")[..] else { panic!("{whole:#}") };
    assert_eq!(computing["kind"], "full");
    assert!(["running", "ready"].contains(&computing["state"].as_str().expect("a state")));

    let lines = shown(&["ps", &process]);
    assert!(
        lines.lines().any(|it| it.contains(" parked ") && it.ends_with(" waiter 2")),
        "{lines}"
    );
    assert!(lines.starts_with(&format!("watched ({process}): ")), "{lines}");

    let look = told(&["top", "--once", "--json", "--interval", "0.3", &process]);
    let [computing] = named(&look, "computes")[..] else { panic!("{look:#}") };
    assert!(computing["cpu_permille"].as_u64() > Some(0), "{computing}");
    for thread in named(&look, "waiter") {
        assert_eq!((&thread["cpu_permille"], &thread["state"]), (&0.into(), &"parked".into()));
    }

    run.0.stdin.take().expect("a pipe").write_all(b"\n").expect("a line");
    assert!(run.0.wait().expect("a child").success());
    let gone = Command::new(heddle()).args(["ps", &process]).output().expect("heddle runs");
    assert_eq!(gone.status.code(), Some(1), "{}", text(&gone.stdout));
    std::fs::remove_dir_all(folder).expect("ours");
}
