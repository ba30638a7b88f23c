//! The report of a deadlock in a program on user-level threads: that it comes, whatever the main
//! thread waits in, and names threads, what they wait for and who holds it; and that none comes
//! where something may still wake a thread.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use common::{Ended, built, can_run, folder, output, run, text};

mod common;

const HEAD: &str = "threads wait and nothing can wake them:";
/// How long what wakes a thread is waited for, ms: several times as long as a report takes.
const LATER_MS: &str = "2500";

/// The lines of a report, without what a run may change; it has to come before the program's alarm.
fn report(program: &str, how: &str) -> Vec<String> {
    let mut command = run(&[program, how, "0"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = Ended(child.spawn().expect("the command starts"));
    let mut lines = BufReader::new(child.0.stderr.take().expect("a pipe")).lines();
    let head = lines.find_map(|line| line.ok().filter(|it| it.contains(HEAD)));
    let head = head.unwrap_or_else(|| panic!("{how}: no report"));
    let count = head.split_ascii_whitespace().find_map(|word| word.parse::<usize>().ok());
    // One more says how many more there are.
    let listed = match count.expect("a number") {
        count @ ..=16 => count,
        _ => 17,
    };
    let told = lines.take(listed).map(|line| line.expect("a line"));
    [head].into_iter().chain(told).collect()
}

/// Whether one of `lines` has all of `words`.
fn says(lines: &[String], words: &[&str]) {
    let is_said = lines.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(is_said, "{words:?} in {lines:#?}");
}

#[test]
fn a_deadlock_is_told_whatever_the_main_thread_waits_in() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("stuck");
    let program = built(&folder, "stuck", &[]);
    let program = program.to_str().expect("a name");
    let ways = [
        ("join", "pthread_join of thread"),
        ("lock", "held by thread"),
        ("semaphore", "the C library or a futex call, for 0x"),
        ("condition", "pthread_cond_wait of 0x"),
        ("late", "pthread_join of thread"),
    ];
    thread::scope(|scope| {
        for (how, main) in ways {
            scope.spawn(move || {
                let lines = report(program, &format!("stuck {how}"));
                says(&lines, &["all 3 threads wait"]);
                says(&lines, &["  main thread ", "\"stuck\" waits in ", main]);
                for (name, other) in [("\"cook\"", "\"gardener\""), ("\"gardener\"", "\"cook\"")] {
                    let lock = "waits in pthread_mutex_lock of 0x";
                    let held = ", held by thread ";
                    says(&lines, &["  thread ", name, " (role ", lock, "(stuck+0x", held, other]);
                }
            });
        }
    });
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn each_kind_of_wait_is_told() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("kinds-of-waits");
    let program = built(&folder, "stuck", &[]);
    let program = program.to_str().expect("a name");
    let lines = report(program, "stuck others");
    for (name, wait) in [
        ("reader", "pthread_cond_wait of 0x"),
        ("porter", "sem_wait of 0x"),
        ("guest", "pthread_barrier_wait of 0x"),
        ("scribe", "pthread_rwlock_wrlock of 0x"),
    ] {
        says(&lines, &[&format!("\"{name}\" (role "), " waits in ", wait, "(stuck+0x"]);
    }
    says(&lines, &["\"scribe\"", ", read by 1"]);
    let lines = report(program, "stuck many");
    says(&lines, &["all 43 threads wait"]);
    says(&lines, &["\"pupil\"", "pthread_rwlock_rdlock of 0x", ", written by main thread "]);
    assert_eq!(lines.last().map(String::as_str), Some("  ... and 27 more"), "{lines:#?}");
    std::fs::remove_dir_all(folder).expect("ours");
}

/// In the C library's own waits each keeps a worker, which is blocked.
#[test]
fn those_that_block_their_workers_are_told() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("blocked");
    let program = built(&folder, "stuck", &[]);
    let program = program.to_str().expect("a name");
    let wait = "waits in the C library or a futex call, for 0x";
    let lines = report(program, "stuck robust");
    says(&lines, &["all 4 threads wait"]);
    says(&lines, &["  main thread ", " waits in pthread_join of thread "]);
    for name in ["\"cook\"", "\"gardener\"", "\"late\""] {
        says(&lines, &["  thread ", name, " (role ", wait, "(stuck+0x"]);
    }
    let lines = report(program, "stuck file");
    says(&lines, &["all 5 threads wait"]);
    says(&lines, &["  thread ", "\"crier\" (role ", wait]);
    says(&lines, &["  thread ", "\"herald\" (role ", " waits in sem_wait of 0x"]);
    for name in ["\"cook\"", "\"gardener\""] {
        says(
            &lines,
            &["  thread ", name, " waits in pthread_mutex_lock of 0x", ", held by thread "],
        );
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_wait_for_what_is_gone_is_told() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("gone");
    let program = built(&folder, "stuck", &[]);
    let lines = report(program.to_str().expect("a name"), "stuck gone");
    says(&lines, &["all 4 threads wait"]);
    says(&lines, &["\"loser\"", "waits in pthread_mutex_lock of 0x", ", whose memory is gone"]);
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn who_has_ended_is_not_taken_for_who_came_later() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("ended-owners");
    let program = built(&folder, "stuck", &[]);
    let lines = report(program.to_str().expect("a name"), "stuck orphan");
    says(&lines, &["all 9 threads wait"]);
    let heirs: Vec<_> = lines.iter().filter(|line| line.contains("\"heir\"")).collect();
    assert_eq!(heirs.len(), 6, "{lines:#?}");
    for line in heirs {
        let is_told = ["held by a thread that has ended", "written by a thread that has ended"];
        assert!(is_told.iter().any(|words| line.contains(words)), "{line}");
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

/// What the program says where something comes after a while, on standard error too.
fn said(mut command: Command, program: &Path, how: &str) -> String {
    command.arg(program).args([how, LATER_MS]);
    let output = output(command);
    assert_eq!(text(&output.stdout), "done\n", "{how}: {output:?}");
    assert!(output.status.success(), "{how}: {output:?}");
    text(&output.stderr)
}

#[test]
fn what_may_still_be_woken_is_no_deadlock() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("not-stuck");
    let program = built(&folder, "stuck", &[]);
    let ways = [
        "sleep",
        "main sleep",
        "socket",
        "main socket",
        "handler",
        "urgent handler",
        "timer",
        "sigwait",
        "main sigwait",
        "pause",
        "child",
        "main child",
        "memory",
        "hidden memory",
        "shared mutex",
        "main shared mutex",
        "shared semaphore",
        "unseen read",
        "file",
        "file and socket",
        "file and time",
    ];
    thread::scope(|scope| {
        for how in ways {
            let program = &program;
            scope.spawn(move || {
                let said = said(run(&[]), program, how);
                assert!(!said.contains(HEAD), "{how}: {said}");
            });
        }
    });
    std::fs::remove_dir_all(folder).expect("ours");
}
