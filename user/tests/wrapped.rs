//! Libraries that wrap functions of the C library, as those that redirect connections (proxychains,
//! socket_wrapper) or files (fakechroot) do: a thread's calls go through them as the main thread's,
//! or threads are kernel threads and a line says why.
//!
//! Invariant: every program has a time limit, and none outlives the run.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{can_run, folder, heddle, output, text};

const ON_USER_LEVEL: &str = "7 seen, right, on user-level threads\n";
const ON_KERNEL: &str = "7 seen, right, on kernel threads\n";

struct Case {
    folder: PathBuf,
}

impl Case {
    /// `None`, with the reason said, where there are no user-level threads.
    fn new(name: &str) -> Option<Case> {
        if !can_run(&["cc"]) {
            return None;
        }
        let case = Case { folder: folder(name) };
        case.compile("wraps.c", "libwraps.so", &["-shared", "-fPIC", "-ldl"]);
        let wraps = case.file("libwraps.so");
        case.compile("wrapped.c", "wrapped", &["-rdynamic"]);
        case.compile("wrapped.c", "linked", &["-Wl,--no-as-needed", &wraps]);
        Some(case)
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("a name").to_owned()
    }

    fn compile(&self, source: &str, into: &str, words: &[&str]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Wextra", "-pthread", "-o", &self.file(into)]).arg(source);
        let built = cc.args(words).output().expect("a compiler");
        assert!(built.status.success(), "{}", text(&built.stderr));
    }

    /// By the command, with this before the program.
    fn run(&self, before: &[&str], program: &str) -> Command {
        let mut command = Command::new(heddle());
        command.args(["run", "--threads", "user", "--workers", "1", "--report", "none", "--"]);
        command.args(before).arg(self.file(program));
        command
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What it has printed; nothing else was said.
fn silent(output: &Output) -> String {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    text(&output.stdout)
}

#[test]
fn what_the_environment_adds_wraps_threads_too() {
    let Some(case) = Case::new("wrapped-added") else { return };
    let wraps = case.file("libwraps.so");
    let mut native = Command::new(case.file("wrapped"));
    native.env("LD_PRELOAD", &wraps);
    assert_eq!(silent(&output(native)), ON_KERNEL);

    let mut outside = case.run(&[], "wrapped");
    outside.env("LD_PRELOAD", &wraps);
    assert_eq!(silent(&output(outside)), ON_USER_LEVEL);
    // Where a program that is run starts the one that it is for.
    let added = format!("LD_PRELOAD={wraps}");
    let inside = case.run(&["env", &added], "wrapped");
    assert_eq!(silent(&output(inside)), ON_USER_LEVEL);
}

#[test]
fn where_threads_would_pass_one_by_they_are_kernel_threads() {
    let Some(case) = Case::new("wrapped-linked") else { return };
    let linked = output(case.run(&[], "linked"));
    assert!(linked.status.success(), "{linked:?}");
    assert_eq!(text(&linked.stdout), ON_KERNEL);
    let told = text(&linked.stderr);
    let why = format!("heddle: threads are kernel threads: {} wraps ", case.file("libwraps.so"));
    assert!(told.starts_with(&why) && told.lines().count() == 1, "{told}");

    let own = heddle().with_file_name("libheddle-user.so");
    let mut behind = Command::new(case.file("wrapped"));
    behind.env("LD_PRELOAD", format!("{}:{}", own.display(), case.file("libwraps.so")));
    let behind = output(behind);
    assert_eq!(text(&behind.stdout), ON_KERNEL, "{behind:?}");
    assert!(text(&behind.stderr).starts_with(&why), "{behind:?}");
}
