//! Programs that a program under `heddle run --threads user` becomes and starts: each is judged as
//! the first one is, and is started as it would be without heddle.
//!
//! Invariant: every program has a time limit, and none outlives the run.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{built, can_run, folder, heddle, output, run, text};

const ON_USER_LEVEL_THREADS: &str = "36, user\n";
const ON_KERNEL_THREADS: &str = "36, kernel\n";
const REFUSAL: &str = ": threads are kernel threads: ";

/// The command without a report, in this folder.
fn quiet(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(heddle());
    command.args(["run", "--threads", "user", "--report", "none", "--"]).args(words);
    command.current_dir(folder).envs(common::drawn::said());
    command
}

fn said(output: &Output) -> (String, String) {
    (text(&output.stdout), text(&output.stderr))
}

fn script(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, content).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    path
}

#[test]
fn what_a_wrapper_starts_has_user_level_threads() {
    if !can_run(&["cc", "sh", "env", "nice", "timeout"]) {
        return;
    }
    let folder = folder("wrapped");
    built(&folder, "threads", &[]);
    script(&folder, "wrapper", "#!/bin/sh\nexec ./threads \"$@\"\n");
    script(&folder, "outer", "#!/usr/bin/env sh\nX=1 ./wrapper\n:\n");
    script(&folder, "plain", "exec ./threads\n");
    let wrappers: [&[&str]; 10] = [
        &["sh", "-c", "exec ./threads"],
        &["sh", "-c", "./threads; true"],
        &["sh", "-c", "(./threads) & wait"],
        &["sh", "-c", "sh -c 'sh -c ./threads; true'; true"],
        &["env", "X=1", "./threads"],
        &["nice", "./threads"],
        &["timeout", "60", "./threads"],
        &["./wrapper"],
        &["./outer"],
        &["./plain"],
    ];
    for words in wrappers {
        let output = output(quiet(&folder, words));
        let expected = (ON_USER_LEVEL_THREADS.to_owned(), String::new());
        assert_eq!(said(&output), expected, "{words:?}");
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn every_start_is_as_it_is_without_heddle() {
    if !can_run(&["cc", "sh"]) {
        return;
    }
    let folder = folder("starts");
    let program = built(&folder, "starts", &[]);
    let mut plain = Command::new(&program);
    // The shell's and heddle's own, in each.
    plain.env_remove("LD_PRELOAD");
    let plain = output(plain);
    let judged = output(quiet(&folder, &[program.to_str().expect("a name")]));
    assert!(judged.status.success(), "{judged:?}");
    let expected = text(&plain.stdout).replace("threads: kernel", "threads: user");
    assert_eq!(expected.matches("threads: user").count(), 30, "{expected}");
    assert_eq!(text(&judged.stdout), expected);
    assert_eq!(text(&judged.stderr), text(&plain.stderr));
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn one_that_cannot_says_why_once() {
    if !can_run(&["cc", "sh"]) {
        return;
    }
    let folder = folder("refused-later");
    built(&folder, "threads", &[]);
    let line = "ulimit -v 8000000; ./threads; ./threads; exec ./threads";
    let (out, err) = said(&output(quiet(&folder, &["sh", "-c", line])));
    assert_eq!(out, ON_KERNEL_THREADS.repeat(3));
    let why = format!("heddle: {}/threads{REFUSAL}address space: ", folder.display());
    assert!(err.starts_with(&why) && err.lines().count() == 1, "{err}");
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn below_a_filter_of_its_own_nothing_is_asked() {
    if !can_run(&["cc", "sh"]) {
        return;
    }
    let folder = folder("filtered");
    built(&folder, "threads", &[]);
    built(&folder, "filtered", &[]);
    let kill = format!("kill={}", libc::SYS_socket);
    let filtered = output(quiet(&folder, &["./filtered", &kill, "./threads"]));
    if filtered.status.code() == Some(2) {
        return println!("skip: no filters on system calls here");
    }
    assert_eq!(said(&filtered).0, ON_KERNEL_THREADS, "{filtered:?}");
    // As in a container: heddle is below the filter, too.
    let mut guarded = Command::new(folder.join("filtered"));
    guarded.args(["none".as_ref(), heddle().as_os_str()]).current_dir(&folder);
    guarded.args(["run", "--threads", "user", "--report", "none", "--"]);
    guarded.args(["sh", "-c", "exec ./threads"]).envs(common::drawn::said());
    assert_eq!(said(&output(guarded)), (ON_USER_LEVEL_THREADS.to_owned(), String::new()));
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn another_folders_program_is_not_judged_by_this_ones() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("moves");
    let threads = built(&folder, "threads", &[]);
    built(&folder, "moves", &[]);
    fs::create_dir(folder.join("other")).expect("ours");
    fs::copy(&threads, folder.join("other/threads")).expect("a copy");
    let whole = threads.to_str().expect("a name");
    for (name, expected) in [("threads", ON_KERNEL_THREADS), (whole, ON_USER_LEVEL_THREADS)] {
        let output = output(quiet(&folder, &["./moves", name, "other"]));
        assert_eq!(said(&output), (expected.to_owned(), String::new()), "{name}");
    }
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn without_the_command_nobody_is_waited_for() {
    if !can_run(&["cc", "sh"]) {
        return;
    }
    let folder = folder("gone");
    built(&folder, "threads", &[]);
    // What the command left may be there still, or be removed by the next run.
    let line = "kill -KILL $PPID; while kill -0 $PPID 2>&-; do sleep 0.01; done
        ./threads
        env -u LD_PRELOAD -u HEDDLE_PLAN \"$HEDDLE\" run --report none -- true
        exec ./threads";
    let mut command = quiet(&folder, &["sh", "-c", line]);
    command.env("HEDDLE", heddle());
    assert_eq!(said(&output(command)), (ON_KERNEL_THREADS.repeat(2), String::new()));
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_file_that_changed_is_judged_anew() {
    if !can_run(&["cc", "sh", "cp"]) {
        return;
    }
    let folder = folder("changed");
    let threads = built(&folder, "threads", &[]);
    let still = folder.join("still.c");
    fs::write(&still, "int __asan_init;\n#include \"threads.c\"\n").expect("a file");
    let mut cc = Command::new("cc");
    cc.args(["-pthread", "-rdynamic", "-o"]).arg(folder.join("other")).arg(&still);
    cc.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs"));
    assert!(cc.status().expect("a compiler").success());
    fs::copy(&threads, folder.join("one")).expect("a copy");
    let line = "./one; cp other one; ./one; cp threads one; ./one";
    let (out, err) = said(&output(quiet(&folder, &["sh", "-c", line])));
    assert_eq!(out, [ON_USER_LEVEL_THREADS, ON_KERNEL_THREADS, ON_USER_LEVEL_THREADS].concat());
    assert!(err.contains("sanitizer: ") && err.lines().count() == 1, "{err}");
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn one_without_threads_has_no_library_for_them() {
    if !can_run(&["cat", "sh"]) {
        return;
    }
    let folder = folder("without");
    let (maps, err) = said(&output(quiet(&folder, &["sh", "-c", "cat /proc/self/maps; true"])));
    assert!(maps.contains("libheddle-preload.so") && err.is_empty(), "{maps}{err}");
    assert!(!maps.contains("libheddle-user.so"), "{maps}");
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn the_number_of_workers_is_passed_on() {
    if !can_run(&["sh", "cc"]) {
        return;
    }
    let folder = folder("workers");
    let source = folder.join("workers.c");
    let content = "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
        static void *f(void *it) { return it; }\n\
        int main(void) { pthread_t t[64]; char name[99], comm[16]; int workers = 0;\n\
        for (int i = 0; i < 64; i++) if (pthread_create(&t[i], 0, f, 0)) return 1;\n\
        for (int i = 0; i < 64; i++) pthread_join(t[i], 0);\n\
        if (getenv(\"HEDDLE_RUN_WORKERS\")) return 2;\n\
        FILE *names = popen(\"cat /proc/$PPID/task/*/comm\", \"r\");\n\
        while (fgets(name, sizeof name, names)) workers += sscanf(name, \"heddle-%[0-9]\", comm);\n\
        return pclose(names) || printf(\"%d\\n\", workers) < 0; }\n";
    fs::write(&source, content).expect("a file");
    let program = folder.join("workers");
    let built = Command::new("cc").arg("-pthread").arg("-o").args([&program, &source]).status();
    assert!(built.expect("a compiler").success());
    let counted = |workers: &str, words: &[&str]| {
        let mut command = Command::new(heddle());
        command.args(["run", "--threads", "user", "--report", "none", "--workers", workers, "--"]);
        command.args(words).current_dir(&folder);
        let (out, err) = said(&output(command));
        assert!(err.is_empty(), "{err}");
        out.trim().parse::<usize>().expect("a number")
    };
    let by_shell = ["sh", "-c", "./workers; true"];
    assert_eq!(counted("1", &by_shell), counted("1", &["./workers"]));
    assert!(counted("7", &by_shell) >= 7);
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn the_report_has_its_threads() {
    if !can_run(&["sh", "cc"]) {
        return;
    }
    let folder = folder("reported");
    built(&folder, "threads", &[]);
    for line in ["exec ./threads", "./threads; true"] {
        let mut command = run(&["sh", "-c", line]);
        command.current_dir(&folder);
        let (out, err) = said(&output(command));
        assert_eq!(out, ON_USER_LEVEL_THREADS);
        assert!(err.contains("threads"), "{err}");
        println!("{err}");
    }
    fs::remove_dir_all(folder).expect("ours");
}
