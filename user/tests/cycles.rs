//! The report of threads that wait for each other while others go on: that it comes, beside a
//! handler, a timer and threads that compute, and names who waits for what that who holds; and that
//! none comes where a wait ends by itself, or may.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;

use common::{Ended, built, can_run, folder, output, run, text};

mod common;

/// How long a wait lasts that ends, ms: several looks, and less than a wait that is told of because
/// it is long.
const LATER_MS: &str = "4000";

/// As many lines, the first of which has `head` in it; they have to come before the program's
/// alarm.
fn report(program: &str, how: &str, head: &str, count: usize) -> Vec<String> {
    let mut command = run(&[program, how, "0"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = Ended(child.spawn().expect("the command starts"));
    let lines = BufReader::new(child.0.stderr.take().expect("a pipe")).lines();
    let lines = lines.map(|line| line.expect("a line"));
    let report: Vec<_> = lines.skip_while(|line| !line.contains(head)).take(count).collect();
    assert_eq!(report.len(), count, "{how}: {report:#?}");
    report
}

/// Whether one of `lines` has all of `words`.
fn says(lines: &[String], words: &[&str]) {
    let is_said = lines.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(is_said, "{words:?} in {lines:#?}");
}

#[test]
fn who_waits_for_each_other_is_told_while_others_go_on() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("cycle");
    let program = built(&folder, "cycle", &[]);
    let program = program.to_str().expect("a name");
    let lock = " waits in pthread_mutex_lock of 0x";
    thread::scope(|scope| {
        for how in ["stuck two", "busy two"] {
            scope.spawn(move || {
                let lines = report(program, how, "heddle: 2 threads wait for each other:", 3);
                for (name, other) in [("\"cook\"", "\"gardener\""), ("\"gardener\"", "\"cook\"")] {
                    let held = ", held by thread ";
                    says(&lines, &["  thread ", name, " (role ", lock, "(cycle+0x", held, other]);
                }
            });
        }
        scope.spawn(move || {
            let lines = report(program, "stuck lock", "2 threads wait for each other:", 3);
            says(&lines, &["\"writer\"", lock, ", held by thread ", "\"reader\""]);
            let read = " waits in pthread_rwlock_rdlock of 0x";
            says(&lines, &["\"reader\"", read, ", written by thread ", "\"writer\""]);
        });
        scope.spawn(move || {
            let lines = report(program, "busy main", "2 threads wait for each other:", 3);
            says(&lines, &["  main thread ", "waits in pthread_join of thread ", "\"cook\""]);
            says(&lines, &["\"cook\"", lock, ", held by main thread "]);
        });
        scope.spawn(move || {
            let lines = report(program, "stuck three", "3 threads wait for each other:", 5);
            says(&lines, &["  main thread ", "waits in pthread_join of thread ", "\"guest\""]);
            says(&lines, &["\"guest\"", " waits in pthread_join of thread ", "\"cook\""]);
            says(&lines, &["\"cook\"", lock, ", held by main thread "]);
            says(&lines[4..], &["  5 more wait behind"]);
        });
        scope.spawn(move || {
            let lines = report(program, "stuck joined", "2 threads wait for each other:", 3);
            says(&lines, &["  main thread ", lock, ", held by thread ", "\"cook\""]);
            says(&lines, &["\"cook\"", " waits in pthread_join of main thread "]);
        });
        scope.spawn(move || {
            let lines = report(program, "stuck itself", "a thread waits for what it holds:", 2);
            says(&lines, &["\"cook\"", lock, ", held by thread ", "\"cook\""]);
        });
        scope.spawn(move || {
            let head = "a thread waits for what one holds that has ended:";
            let lines = report(program, "stuck ended", head, 3);
            says(&lines, &["\"cook\"", lock, ", held by a thread that has ended"]);
            says(&lines, &["  1 more waits behind"]);
        });
    });
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn waits_that_end_are_not_told() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("no-cycle");
    let program = built(&folder, "cycle", &[]);
    thread::scope(|scope| {
        for how in ["deadline", "other", "turns", "bell"] {
            let program = &program;
            scope.spawn(move || {
                let mut command = run(&[]);
                command.arg(program).args([how, LATER_MS]);
                let output = output(command);
                assert_eq!(text(&output.stdout), "done\n", "{how}: {output:?}");
                assert!(output.status.success(), "{how}: {output:?}");
                let said = text(&output.stderr);
                let is_told = ["threads wait for each other", "a thread waits for what"];
                assert!(!is_told.iter().any(|head| said.contains(head)), "{how}: {said}");
            });
        }
    });
    std::fs::remove_dir_all(folder).expect("ours");
}
