//! `heddle run` as a wrapper: what the program is given and what becomes of its end.
//!
//! Programs are built with cc by the tests; without one they are skipped with a message.

#[path = "run_common/mod.rs"]
mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Scratch, compile, stderr, stdout};

const THREADED: &str = "
#include <pthread.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
static void *work(void *a) { char b[9000]; memset(b, 1, sizeof b); return b[17] ? a : 0; }
int main(int c, char **v)
{
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, v);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    if (c > 2) raise(atoi(v[2]));
    return c > 1 ? atoi(v[1]) : 0;
}";

#[test]
fn the_exit_status_is_the_programs() {
    let scratch = Scratch::new("status");
    for code in [0, 1, 2, 100, 125, 126, 127, 128, 255] {
        let output = scratch.run(&["sh", "-c", &format!("exit {code}")]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    }
    let Some(program) = compile(&scratch, "threaded", THREADED, &[]) else { return };
    let output = scratch.run(&[&program, "77"]);
    assert_eq!(output.status.code(), Some(77), "{}", stderr(&output));
    assert!(stderr(&output).contains("threaded: 3 threads created"), "{}", stderr(&output));
}

#[test]
fn a_program_that_a_signal_ends_ends_heddle_by_it() {
    let scratch = Scratch::new("signals");
    let Some(program) = compile(&scratch, "threaded", THREADED, &[]) else { return };
    for signal in [1, 2, 3, 6, 9, 10, 11, 13, 14, 15, 30, 35, 64] {
        let output = scratch.run(&[&program, "0", &signal.to_string()]);
        assert_eq!(output.status.signal(), Some(signal), "{}", stderr(&output));
        assert!(!output.status.core_dumped() || signal == 9, "no second core file");
        let said = stderr(&output);
        assert!(said.contains(&format!("ended by signal {signal}")), "{said}");
    }
}

#[test]
fn what_cannot_be_run_has_the_status_of_shells() {
    let scratch = Scratch::new("missing");
    let output = scratch.run(&["no-such-program-anywhere"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("no-such-program-anywhere"), "{}", stderr(&output));
    let output = scratch.run(&["/no/such/program"]);
    assert_eq!(output.status.code(), Some(127));
    let plain = scratch.file("plain", "text");
    let output = scratch.run(&[&plain]);
    assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
    let output = scratch.run(&["/"]);
    assert_eq!(output.status.code(), Some(126));
    // There, but not what it is run by.
    let script = scratch.file("script", "#!/no/such/interpreter -x\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("bits");
    let output = scratch.run(&[&script]);
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
    assert!(stderr(&output).contains("/no/such/interpreter"), "{}", stderr(&output));
    let output = scratch.heddle(&["run", "--threads", "user", &script]);
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    // Executable by its bits, but nothing that a kernel knows.
    let garbage = scratch.file("garbage", "\0\u{1}\u{2}");
    fs::set_permissions(&garbage, fs::Permissions::from_mode(0o755)).expect("bits");
    for threads in ["kernel", "user"] {
        let output = scratch.heddle(&["run", "--threads", threads, &garbage]);
        assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
}

/// The limit is the program's; heddle itself has the stack that it needs.
#[test]
fn a_small_stack_is_the_programs() {
    let scratch = Scratch::new("small");
    let Some(program) = compile(&scratch, "threaded", THREADED, &[]) else { return };
    for kilobytes in [24, 64, 512] {
        let line = format!("ulimit -s {kilobytes}; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_heddle"), "run", &program, "5"]);
        let output = scratch.environment(&mut command).output().expect("a shell");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(5), "{kilobytes}: {:?} {said}", output.status);
        assert!(said.contains("3 threads created"), "{kilobytes}: {said}");
        assert!(said.contains(&format!(" {kilobytes}K ")), "{kilobytes}: {said}");
    }
}

/// What a loader is called to load is the program.
#[test]
fn a_loader_called_by_its_name_is_looked_through() {
    let scratch = Scratch::new("loader");
    let Some(program) = compile(&scratch, "threaded", THREADED, &[]) else { return };
    let loader = "/lib64/ld-linux-x86-64.so.2";
    if !Path::new(loader).exists() {
        return println!("skip: no {loader} here");
    }
    for words in [&[][..], &["--inhibit-cache", "--library-path", "/lib/x86_64-linux-gnu"]] {
        let output = scratch.run(&[&[loader], words, &[&program, "5"]].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(5), "{said}");
        assert!(said.contains("3 threads created") && said.contains("  work "), "{said}");
    }
    // Nothing is run, or nothing that is known.
    for words in [&["--list", &program][..], &["--no-such-word", &program], &[]] {
        let output = scratch.run(&[&[loader], words].concat());
        assert!(stderr(&output).contains("is statically linked"), "{}", stderr(&output));
    }
}

const READS: &str = "
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *nothing(void *a) { return a; }
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, nothing, 0);
    pthread_join(thread, 0);
    printf(\"%d\\n\", (int)getpid());
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}";

/// Runs the program above, which waits for the end of its input: the run, and the program's number.
fn start_reader(scratch: &Scratch, program: &str) -> (std::process::Child, String) {
    let mut command = scratch.command(&[program]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("heddle runs");
    let mut pid = String::new();
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut pid).expect("a line");
    (child, pid)
}

#[test]
fn who_has_few_descriptors_takes_nobody_for_dead() {
    let scratch = Scratch::new("few");
    let Some(program) = compile(&scratch, "reads", READS, &[]) else { return };
    let (mut child, pid) = start_reader(&scratch, &program);
    let table = Path::new("/dev/shm").join(format!("heddle.{}", pid.trim()));
    let is_there = table.exists();
    for most in 4..16 {
        let line = format!("ulimit -n {most}; exec \"$@\"");
        let mut other = Command::new("sh");
        other.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_heddle"), "run", "--", "true"]);
        scratch.environment(&mut other).output().expect("a shell");
        assert_eq!(table.exists(), is_there, "{most} descriptors: {}", table.display());
    }
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    if !is_there {
        println!("skip: no table of a name in shared memory");
    }
}

#[test]
fn input_and_output_are_untouched() {
    let scratch = Scratch::new("streams");
    let mut child = scratch
        .command(&["cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("heddle runs");
    let mut input = child.stdin.take().expect("a pipe");
    let bytes: Vec<u8> = (0..300_000u32).map(|it| (it % 251) as u8).collect();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || input.write_all(&sent));
    let mut got = Vec::new();
    child.stdout.take().expect("a pipe").read_to_end(&mut got).expect("output");
    writer.join().expect("no panic").expect("all is read");
    assert!(child.wait().expect("it ends").success());
    assert!(got == bytes, "{} bytes came back of {}", got.len(), bytes.len());
}

#[test]
fn the_environment_is_the_programs_own() {
    let scratch = Scratch::new("environment");
    let plain = scratch.plain(&["env", "-0"]);
    let wrapped = scratch.run(&["env", "-0"]);
    assert!(plain.status.success() && wrapped.status.success());
    assert_eq!(stdout(&plain), stdout(&wrapped), "order included");
    // A program that preloads something itself sees that, and it works.
    let set = [("LD_PRELOAD", "libpthread.so.0"), ("EMPTY", "")];
    let plain = scratch.plain_with(&["env"], &set);
    let wrapped = scratch.run_with(&["env"], &set);
    assert_eq!(stdout(&plain), stdout(&wrapped));
    assert!(stdout(&plain).contains("LD_PRELOAD=libpthread.so.0"));
}

#[test]
fn signal_dispositions_and_descriptors_are_inherited() {
    let scratch = Scratch::new("dispositions");
    let look = "trap '' HUP PIPE USR1; exec \"$@\"";
    let show = ["grep", "-E", "SigIgn|SigBlk", "/proc/self/status"];
    let heddle = env!("CARGO_BIN_EXE_heddle");
    let direct = Command::new("sh").args(["-c", look, "sh"]).args(show).output().expect("sh");
    let mut through = Command::new("sh");
    through.args(["-c", look, "sh", heddle, "run", "--report", "none", "--"]).args(show);
    let through = scratch.environment(&mut through).output().expect("sh");
    assert_eq!(stdout(&direct), stdout(&through), "{}", stderr(&through));
    let plain = scratch.plain(&show);
    let wrapped = scratch.run(&show);
    assert_eq!(stdout(&plain), stdout(&wrapped), "and what is not ignored is not");

    let close = "exec \"$@\" <&-";
    let show = ["sh", "-c", "[ -e /proc/self/fd/0 ] && echo open || echo closed"];
    let mut through = Command::new("sh");
    through.args(["-c", close, "sh", heddle, "run", "--report", "none", "--"]).args(show);
    let through = scratch.environment(&mut through).output().expect("sh");
    assert_eq!(stdout(&through), "closed\n", "{}", stderr(&through));
}

#[test]
fn arguments_arrive_as_they_are() {
    let scratch = Scratch::new("arguments");
    let output = scratch.run(&["printf", "%s|", "a b", "", "--policy", "-x", "--", "é\\n"]);
    assert_eq!(stdout(&output), "a b||--policy|-x|--|é\\n|");
    let output = scratch.run(&["sh", "-c", "echo $0 $1", "zero", "one"]);
    assert_eq!(stdout(&output), "zero one\n");
}

#[test]
fn scripts_run_and_are_followed() {
    let scratch = Scratch::new("scripts");
    let Some(program) = compile(&scratch, "threaded", THREADED, &[]) else { return };
    for first in ["#!/bin/sh\n", "#! /usr/bin/env -S sh\n", ""] {
        let script = scratch.file("script", &format!("{first}{program} 5\nexit $(($? + 1))\n"));
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("bits");
        let output = scratch.run(&[&script]);
        assert_eq!(output.status.code(), Some(6), "{first:?} {}", stderr(&output));
        assert!(stderr(&output).contains("3 threads created"), "{}", stderr(&output));
    }
}

#[test]
fn a_static_program_runs_and_is_told() {
    let scratch = Scratch::new("static");
    let Some(program) = compile(&scratch, "static", THREADED, &["-static"]) else { return };
    let output = scratch.run(&[&program, "4"]);
    assert_eq!(output.status.code(), Some(4));
    let said = stderr(&output);
    let lines: Vec<_> = said.lines().filter(|line| line.contains("statically linked")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    let env = scratch.run(&[&program, "0"]);
    assert!(env.status.success());
}

#[test]
fn a_privileged_program_runs_and_is_told() {
    let scratch = Scratch::new("privileged");
    if !rustix::process::getuid().is_root() {
        eprintln!("skip: only root can give a file away");
        return;
    }
    let Some(program) = compile(&scratch, "suid", THREADED, &[]) else { return };
    let status = Command::new("chown").args(["65534", &program]).status().expect("chown");
    assert!(status.success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("bits");
    let output = scratch.run(&[&program, "4"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("changes its privileges"), "{}", stderr(&output));
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let scratch = Scratch::new("mistakes");
    let marker = scratch.path("marker");
    let policy = scratch.file("policy.toml", "[mediator]\nmeanz = \"rr\"\n");
    let output = scratch.heddle(&["run", "--policy", &policy, "--", "touch", &marker]);
    assert_eq!(output.status.code(), Some(125));
    let said = stderr(&output);
    assert!(said.contains("meanz") && said.contains(":2:"), "{said}");
    let output = scratch.heddle(&["run", "--policy", "/no/such/file", "--", "touch", &marker]);
    assert_eq!(output.status.code(), Some(125));
    let output = scratch.heddle(&["run", "--report-to", "/no/such/file", "--", "touch", &marker]);
    assert_eq!(output.status.code(), Some(125));
    let output = scratch.heddle(&["run", "--stacks", "some", "--", "touch", &marker]);
    assert_eq!(output.status.code(), Some(2));
    let output = scratch.heddle(&["run"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!fs::exists(&marker).expect("a folder"), "nothing ran");
}

#[test]
fn a_state_folder_that_cannot_be_written_is_no_obstacle() {
    let scratch = Scratch::new("state");
    let Some(program) = compile(&scratch, "threaded", THREADED, &[]) else { return };
    let file = scratch.file("file", "");
    for state in [file.as_str(), "/proc/nowhere"] {
        let output = scratch.run_with(&[&program, "3"], &[("XDG_STATE_HOME", state)]);
        assert_eq!(output.status.code(), Some(3));
        let said = stderr(&output);
        assert!(
            said.contains("not remembered") || said.contains("nothing is remembered"),
            "{said}"
        );
        assert!(said.contains("3 threads created"), "{said}");
    }
}

#[test]
fn nothing_is_left_behind() {
    let scratch = Scratch::new("left");
    let Some(program) = compile(&scratch, "threaded", THREADED, &[]) else { return };
    for end in ["0", "11"] {
        let child = scratch
            .command(&[&program, "0", end])
            .stderr(Stdio::piped())
            .spawn()
            .expect("heddle runs");
        let pid = child.id();
        let output = child.wait_with_output().expect("it ends");
        let said = stderr(&output);
        assert!(said.contains("3 threads created"), "{said}");
        let names = fs::read_dir("/dev/shm").expect("shared memory");
        let names = names.filter_map(|it| it.ok()?.file_name().into_string().ok());
        let is_plan =
            |name: &String| name.starts_with("heddle-plan.") && name.ends_with(&format!(".{pid}"));
        assert_eq!(names.filter(is_plan).collect::<Vec<_>>(), [""; 0]);
        let json = scratch.report(&[&program, "0", end]);
        let ran = json["processes"][0]["pid"].as_i64().expect("a process");
        let table = format!("/dev/shm/heddle.{ran}");
        assert!(!fs::exists(&table).expect("shared memory"), "{table}");
    }
}

/// Starts three processes that nobody waits for, and says which are still there when they have
/// ended and a while has passed.
const ORPHANS: &str = "
for i in 1 2 3; do (sh -c 'echo $$ >>orphans' &); done
until [ \"$(grep -c . orphans)\" = 3 ]; do sleep 0.05; done 2>/dev/null
for orphan in $(cat orphans); do
    looks=0
    while [ -d /proc/$orphan ] && [ $looks -lt 200 ]; do sleep 0.05; looks=$((looks + 1)); done
    if [ -d /proc/$orphan ]; then echo left $orphan; fi
done
echo process $$, child of $PPID";

/// The words that start a program in a pid namespace of its own, if that can be.
fn container() -> Option<&'static [&'static str]> {
    const OWN_ROOT: &[&str] = &["unshare", "--pid", "--fork", "--mount-proc"];
    const USER_ROOT: &[&str] =
        &["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let may = |words: &&&[&str]| {
        let tried = Command::new(words[0]).args(&words[1..]).arg("true").output();
        tried.is_ok_and(|it| it.status.success())
    };
    let found = [OWN_ROOT, USER_ROOT].iter().find(may).copied();
    if found.is_none() {
        eprintln!("skip: no process namespace can be made here");
    }
    found
}

#[test]
fn what_runs_in_a_container_takes_nobody_outside_for_dead() {
    let scratch = Scratch::new("outside");
    let Some(container) = container() else { return };
    let Some(program) = compile(&scratch, "reads", READS, &[]) else { return };
    let (mut child, pid) = start_reader(&scratch, &program);
    let ours = || {
        let names = fs::read_dir("/dev/shm").expect("shared memory");
        let names = names.filter_map(|it| it.ok()?.file_name().into_string().ok());
        let plan = format!(".{}", child.id());
        let is_ours = |name: &String| {
            *name == format!("heddle.{}", pid.trim())
                || name.starts_with("heddle-plan.") && name.ends_with(&plan)
        };
        let mut names: Vec<String> = names.filter(is_ours).collect();
        names.sort();
        names
    };
    let before = ours();
    for words in [&["run", "--", "true"][..], &["ps", "--sweep"]] {
        let mut other = Command::new(container[0]);
        other.args(&container[1..]).arg(env!("CARGO_BIN_EXE_heddle")).args(words);
        let output = scratch.environment(&mut other).output().expect("it runs");
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        assert_eq!(ours(), before, "{words:?}");
    }
    let mut other = Command::new(container[0]);
    other.args(&container[1..]).args([env!("CARGO_BIN_EXE_heddle"), "ps", pid.trim()]);
    let output = scratch.environment(&mut other).output().expect("it runs");
    assert!(stderr(&output).contains("nor a table of it"), "{}", stderr(&output));
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    if before.len() < 2 {
        println!("skip: no table and plan in shared memory: {before:?}");
    }
}

#[test]
fn the_first_process_of_a_container_waits_for_orphans() {
    let scratch = Scratch::new("container");
    let Some(container) = container() else { return };
    let mut command = Command::new(container[0]);
    command.args(&container[1..]).arg(env!("CARGO_BIN_EXE_heddle"));
    command.args(["run", "--", "sh", "-c", ORPHANS]).current_dir(scratch.path("."));
    let output = scratch.environment(&mut command).output().expect("it runs");
    assert_eq!(stdout(&output), "process 2, child of 1\n", "{}", stderr(&output));
    assert!(output.status.success());
    // The kernel lets no signal of its own end such a process: the shell's status for it remains.
    let mut command = Command::new(container[0]);
    command.args(&container[1..]).arg(env!("CARGO_BIN_EXE_heddle"));
    command.args(["run", "--", "sh", "-c", "kill -TERM $$"]);
    let output = scratch.environment(&mut command).output().expect("it runs");
    assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
}
