//! What is said of a failure in the middle of heddle: what it was doing, for which thread; and that
//! the process ends as it does without a word. Of the program's own failures nothing is said, also
//! where heddle or the C library has called the function that fails.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Output, Stdio};

use common::{built, can_run, folder, output, run, text};

mod common;

/// The program's end, and what heddle has said of a failure.
fn failed(program: &Path, words: &[&str]) -> (Output, Vec<String>) {
    let program = program.to_str().expect("a name");
    let output = output(run(&[&[program], words].concat()));
    let said = text(&output.stderr);
    let is_told = |line: &&str| line.contains("heddle: SIG") || line.contains("heddle: panic");
    let lines = said.lines().filter(is_told).map(str::to_owned).collect();
    (output, lines)
}

#[test]
fn a_fault_in_heddle_says_what_it_did_for_which_thread() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("failures");
    let program = built(&folder, "fails", &[]);
    for (wrong, signal, function, address) in [
        ("lock", libc::SIGSEGV, "pthread_mutex_lock", "at address 0x10"),
        ("unlock", libc::SIGSEGV, "pthread_mutex_unlock", "at address 0x10"),
        ("condition", libc::SIGSEGV, "pthread_cond_wait", "at address 0x10"),
        ("join", libc::SIGSEGV, "pthread_join", "at address 0x"),
        ("lock-file", libc::SIGBUS, "pthread_mutex_lock", "at address 0x"),
    ] {
        let told = if signal == libc::SIGBUS { "SIGBUS" } else { "SIGSEGV" };
        for (who, name) in [("thread", "\"baker\" (role \""), ("main", "main thread ")] {
            let (output, lines) = failed(&program, &[wrong, who]);
            assert_eq!(output.status.signal(), Some(signal), "{wrong}: {output:?}");
            let [line] = &lines[..] else { panic!("{wrong}: {output:?}") };
            let begin = format!("heddle: {told} in {function} (libheddle-user.so+0x");
            assert!(line.starts_with(&begin), "{wrong}: {line}");
            assert!(line.contains(address) && line.contains(name), "{wrong}: {line}");
        }
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_panic_in_heddle_says_so_and_aborts() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("panics");
    let program = built(&folder, "fails", &[]);
    for (who, name) in [("thread", "\"baker\" (role \""), ("main", "main thread ")] {
        let (output, lines) = failed(&program, &["barrier", who]);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
        let [line] = &lines[..] else { panic!("{output:?}") };
        assert!(line.starts_with("heddle: panic in pthread_barrier_wait ("), "{line}");
        assert!(line.contains("barrier.rs:") && line.contains(name), "{line}");
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_fault_ends_the_process_where_nobody_reads_that() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("unread-failures");
    let program = built(&folder, "fails", &[]);
    for who in ["thread", "main"] {
        let (reader, writer) = UnixStream::pair().expect("two ends");
        drop(reader);
        let mut command = run(&[program.to_str().expect("a name"), "lock", who]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(OwnedFd::from(writer));
        let status = command.status().expect("the command starts");
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{who}: {status}");
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn failures_of_the_program_are_its_own() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("own-failures");
    let program = built(&folder, "fails", &[]);
    for (wrong, signal) in [
        ("touch", libc::SIGSEGV),
        ("sort", libc::SIGSEGV),
        ("once", libc::SIGSEGV),
        ("call", libc::SIGSEGV),
        ("send", libc::SIGSEGV),
        ("touch-file", libc::SIGBUS),
        ("divide", libc::SIGFPE),
        ("trap", libc::SIGILL),
        ("send-bus", libc::SIGBUS),
        ("send-process", libc::SIGILL),
    ] {
        for who in ["thread", "main"] {
            let (output, lines) = failed(&program, &[wrong, who]);
            assert_eq!(output.status.signal(), Some(signal), "{wrong}: {output:?}");
            assert!(lines.is_empty(), "{wrong}: {lines:?}");
        }
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn what_a_handler_of_the_programs_takes_is_told_when_it_gives_up() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("handled-failures");
    let program = built(&folder, "fails", &[]);
    for (wrong, signal, told) in
        [("lock", libc::SIGSEGV, "SIGSEGV"), ("lock-file", libc::SIGBUS, "SIGBUS")]
    {
        for who in ["thread", "main"] {
            let (output, lines) = failed(&program, &[wrong, who, "ends"]);
            assert_eq!((output.status.code(), lines.len()), (Some(3), 0), "{output:?}");
            let (output, lines) = failed(&program, &[wrong, who, "default"]);
            assert_eq!(output.status.signal(), Some(signal), "{output:?}");
            let [line] = &lines[..] else { panic!("{output:?}") };
            let begin = format!("heddle: {told} in pthread_mutex_lock (");
            assert!(line.starts_with(&begin), "{line}");
        }
    }
    std::fs::remove_dir_all(folder).expect("ours");
}
