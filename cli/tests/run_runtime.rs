//! `heddle run` on a program whose threads are heddle's own: what it tells of them, and that one
//! policy file serves them too.

#[path = "run_common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use common::Scratch;
use serde_json::Value;

/// Holds a server up between the library's constructor and its main(), so that the run sees the
/// library's table before the runtime's takes its name.
const SLOW: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

typedef int start_function(void *, int, char **, void *, void *, void *, void *);

int __libc_start_main(void *run, int count, char **words, void *a, void *b, void *c, void *d)
{
	start_function *next = (start_function *)dlsym(RTLD_NEXT, "__libc_start_main");

	if (count > 1 && strcmp(words[1], "serve") == 0)
		usleep(1500000);
	return next(run, count, words, a, b, c, d);
}
"#;

/// `heddle run --policy POLICY heddle serve FOLDER`, once it serves.
fn serve(scratch: &Scratch, policy: &str, preloaded: &str) -> (Child, BufReader<ChildStderr>) {
    let heddle = env!("CARGO_BIN_EXE_heddle");
    let mut command = Command::new(heddle);
    command.args(["run", "--policy", policy, "--", heddle, "serve", &scratch.path("")]);
    command.args(["--port", "0"]).stdout(Stdio::null()).stderr(Stdio::piped());
    scratch.environment(&mut command).env("LD_PRELOAD", preloaded);
    let mut child = command.spawn().expect("heddle runs");
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
    told_and_ruled(&Scratch::new("runtime"), "");
}

#[test]
fn a_runtime_that_starts_late_is_told_the_same() {
    let scratch = Scratch::new("late");
    let flags = ["-shared", "-fPIC", "-ldl"];
    if let Some(slow) = common::compile(&scratch, "slow.so", SLOW, &flags) {
        told_and_ruled(&scratch, &slow);
    }
}

fn told_and_ruled(scratch: &Scratch, preloaded: &str) {
    let rule = "[[thread]]\nname = \"http acceptor\"\nclass = \"time-critical\"\npriority = 33\n";
    let policy = scratch.file("policy.toml", rule);
    let mut said = String::new();
    // The run looks some four times a second, less often on a machine that is busy.
    for seconds in [1, 4, 16] {
        let (mut child, mut messages) = serve(scratch, &policy, preloaded);
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
    assert!(!said.contains("SOURCE"), "{said}");
}
