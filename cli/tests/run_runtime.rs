//! `heddle run` on a program whose threads are heddle's own: what it tells of them, and that one
//! policy file serves them too.

#[path = "run_common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use common::Scratch;
use serde_json::Value;

/// `heddle run --policy POLICY heddle serve FOLDER`, once it serves.
fn serve(scratch: &Scratch, policy: &str) -> (Child, BufReader<ChildStderr>) {
    let heddle = env!("CARGO_BIN_EXE_heddle");
    let mut command = Command::new(heddle);
    command.args(["run", "--policy", policy, "--", heddle, "serve", &scratch.path("")]);
    command.args(["--port", "0"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = scratch.environment(&mut command).spawn().expect("heddle runs");
    let mut messages = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("serving") {
        line.clear();
        assert_ne!(messages.read_line(&mut line).expect("text"), 0, "it did not serve");
    }
    (child, messages)
}

/// The record of the one thread with this role.
fn thread_of(pid: u32, role: &str) -> Value {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let program = children.expect("a living process").trim().to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
    let output = command.args(["ps", &program, "--json"]).output().expect("heddle runs");
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let threads = shown["threads"].as_array().expect("threads").clone();
    threads.into_iter().find(|thread| thread["role"] == role).expect("a thread of this role")
}

#[test]
fn user_level_threads_are_told_and_ruled() {
    let scratch = Scratch::new("runtime");
    let rule = "[[thread]]\nname = \"http acceptor\"\nclass = \"time-critical\"\npriority = 33\n";
    let policy = scratch.file("policy.toml", rule);
    let mut said = String::new();
    // The run looks some four times a second, less often on a machine that is busy.
    for seconds in [1, 4, 16] {
        let (mut child, mut messages) = serve(&scratch, &policy);
        std::thread::sleep(Duration::from_secs(seconds));
        let acceptor = thread_of(child.id(), "http acceptor");
        assert_eq!(acceptor["class"], "time-critical", "{acceptor:#}");
        assert_eq!(acceptor["priority"], 33, "{acceptor:#}");
        common::kill(child.id(), "TERM");
        said.clear();
        messages.read_to_string(&mut said).expect("text");
        child.wait().expect("it ends");
        if said.contains("user-level threads at most at once") {
            break;
        }
    }
    assert!(said.contains("3 user-level threads at most at once"), "{said}");
    assert!(said.contains("http acceptor: at most 1 at once, stack 256 KiB"), "{said}");
    assert!(!said.contains("did not load the library"), "{said}");
}
