//! `heddle run --pid`: a policy on a running program, and everything back after a signal, after
//! the program's end, and after a kill.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use heddle_preload::sys::sched::{self, IDLE, OTHER, Scheduling};

const PATIENCE: Duration = Duration::from_secs(60);

/// The program that the Mediator's own tests use, and a policy for it.
fn files() -> Option<&'static (PathBuf, PathBuf)> {
    static FILES: OnceLock<Option<(PathBuf, PathBuf)>> = OnceLock::new();
    let build = || {
        let folder = std::env::temp_dir().join(format!("heddle-attach-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (program, policy) = (folder.join("regions"), folder.join("policy.toml"));
        // No bound: with one, a slice for those that starve is a change more, on a busy machine.
        let text = "[mediator]\nmeans = 'idle'\nhold_ms = 200\nlazy_bound_ms = 'off'\n\
                    [[thread]]\nname = 'critical'\nclass = 'time-critical'\n\
                    [[thread]]\nstart = 'hog'\nrole = 'work'\n";
        std::fs::write(&policy, text).expect("a file");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../preload/tests/programs/regions.c");
        let mut cc = Command::new("cc");
        match cc.args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status() {
            Ok(status) => assert!(status.success(), "the test's program does not compile"),
            Err(error) => {
                eprintln!("skip: no C compiler: {error}");
                return None;
            }
        }
        Some((program, policy))
    };
    FILES.get_or_init(build).as_ref()
}

/// Whether a thread of ours may come back from SCHED_IDLE, to a nice value of 0: the tests count
/// from there, and may be run under nice(1).
fn may_return() -> bool {
    let attempt = thread::spawn(|| {
        let before = Scheduling { nice: 0, ..sched::get(0)? };
        sched::set(0, &Scheduling { policy: IDLE, ..before })?;
        sched::set(0, &before)
    });
    let result = attempt.join().expect("no panic");
    if let Err(error) = &result {
        eprintln!("skip: no way back from SCHED_IDLE here: {error}");
    }
    result.is_ok()
}

struct Session {
    program: Child,
    input: ChildStdin,
    heddle: Child,
}

impl Session {
    /// The program, attached to and divided.
    fn start() -> Option<Session> {
        let (path, policy) = files().filter(|_| may_return())?;
        let own = sched::get(0).expect("our own");
        sched::set(0, &Scheduling { nice: 0, ..own }).expect("as was tried");
        let mut program = Command::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let mut output = BufReader::new(program.stdout.take().expect("a pipe"));
        output.read_line(&mut line).expect("an answer");
        thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let heddle = Command::new(env!("CARGO_BIN_EXE_heddle"))
            .args(["run", "--policy"])
            .arg(policy)
            .args(["--pid", &program.id().to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("heddle starts");
        let input = program.stdin.take().expect("a pipe");
        let mut session = Session { program, input, heddle };
        session.say("busy");
        session.wait_for(IDLE);
        Some(session)
    }

    fn say(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("it listens");
    }

    fn policies(&self) -> Vec<Scheduling> {
        let folder = format!("/proc/{}/task", self.program.id());
        let entries = std::fs::read_dir(folder).expect("it lives");
        let tids = entries.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok());
        tids.filter_map(|tid| sched::get(tid).ok()).collect()
    }

    /// Waits until four threads have this policy: the hogs and the main one, or, of OTHER, all.
    fn wait_for(&self, policy: u32) {
        let begin = Instant::now();
        let count = if policy == OTHER { 5 } else { 4 };
        while self.policies().iter().filter(|it| it.policy == policy).count() != count {
            assert!(begin.elapsed() < PATIENCE, "{:?}", self.policies());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.heddle.id().to_string();
        let status = Command::new("kill").args([name, &pid]).status().expect("kill runs");
        assert!(status.success());
    }

    /// What heddle said, and its exit status.
    fn end(mut self) -> (String, Option<i32>) {
        let heddle =
            std::mem::replace(&mut self.heddle, Command::new("true").spawn().expect("one"));
        let output = heddle.wait_with_output().expect("it ends");
        assert!(output.stdout.is_empty(), "standard output is the program's");
        (String::from_utf8(output.stderr).expect("text"), output.status.code())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for child in [&mut self.program, &mut self.heddle] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_signal_restores_and_tells_what_was_done() {
    for name in ["-INT", "-TERM", "-HUP"] {
        let Some(session) = Session::start() else { return };
        session.signal(name);
        session.wait_for(OTHER);
        assert!(session.policies().iter().all(|it| it.slice_ns == 0), "{:?}", session.policies());
        let (text, status) = session.end();
        assert_eq!(status, Some(0), "{text}");
        assert!(text.contains("mediating regions") && text.contains("by idle"), "{text}");
        assert!(text.contains("1 of 2 rules can hold"), "{text}");
        assert!(text.contains("goes on with what it had"), "{text}");
        assert!(text.contains("other -> idle: 4 x"), "{text}");
    }
}

#[test]
fn a_stopped_heddle_has_restored_and_goes_on_when_it_is_continued() {
    let Some(session) = Session::start() else { return };
    for _ in 0..2 {
        session.signal("-TSTP");
        session.wait_for(OTHER);
        let stat = format!("/proc/{}/stat", session.heddle.id());
        let begin = Instant::now();
        while !std::fs::read_to_string(&stat).expect("it lives").contains(") T ") {
            assert!(begin.elapsed() < PATIENCE, "it is not stopped");
            thread::sleep(Duration::from_millis(5));
        }
        session.signal("-CONT");
        session.wait_for(IDLE);
    }
    session.signal("-TERM");
    session.wait_for(OTHER);
    let (text, status) = session.end();
    assert_eq!(status, Some(0), "{text}");
}

#[test]
fn a_killed_heddle_restores_too() {
    let Some(session) = Session::start() else { return };
    session.signal("-KILL");
    session.wait_for(OTHER);
}

#[test]
fn the_end_of_the_program_is_the_end() {
    let Some(mut session) = Session::start() else { return };
    session.say("quit");
    // A child of this test: /proc has it until it is waited for.
    session.program.wait().expect("it ends");
    let (text, status) = session.end();
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(") ended"), "{text}");
}

#[test]
fn nobody_to_attach_to_is_one_clear_message() {
    let output = Command::new(env!("CARGO_BIN_EXE_heddle"))
        .args(["run", "--pid", "8388608"])
        .output()
        .expect("heddle runs");
    assert!(!output.status.success() && output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(text.lines().count() == 1 && text.contains("no process 8388608"), "{text}");
}
