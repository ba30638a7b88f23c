//! The Open POSIX Test Suite, from the system's package sources: what holds natively holds under
//! heddle. It knows nothing of glibc, nor of Linux.
//!
//! Each program is a test, whose status says whether it held. One that differs is run again by
//! itself, on both.
//!
//! The first turn runs all of them, each further one a part.
//!
//! Invariant: every program has a time limit, a folder of its own, and a process group that is
//! ended with it. None that sets the system's clock is run.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::drawn::{Said, many, said};
use crate::common::{Ended, can_run, folder, heddle, output_within, text};
use crate::glibc::build::{at_once_each, source};
use crate::is_nightly;

const PACKAGE: &str = "posixtestsuite";
/// Folders of its source; what is beside them only compiles, or never ends.
const FOLDERS: [&str; 3] = ["conformance/interfaces", "conformance/behavior", "functional"];
/// Calls that set the system's clock; and those that make message queues, which tests leave behind
/// until the user may have no more.
const HARMFUL: [&str; 4] = ["clock_settime", "settimeofday", "stime(", "mq_open"];
/// What differs, and why.
const KNOWN: [(&str, &str); 8] = [
    ("pthread_attr_setstacksize-2-1", LARGER),
    ("pthread_create-1-5", LARGER),
    ("pthread_create-3-2", LARGER),
    ("pthread_cond_broadcast-1-2", "10 000 threads wait for what is shared: each has a worker"),
    ("pthread_cond_signal-1-1", "it counts on a thread to run 100 us after it was woken"),
    ("pthread_exit-6-1", "without optimization the smallest stack is too small"),
    ("pthread_rwlock_unlock-4-1", "a lock that nobody holds is not unlocked: EPERM"),
    ("sched_yield-1-1", "threads that are bound to one processor do not yield to each other"),
];
const LARGER: &str = "the stack is larger than the smallest that may be asked for";

/// More than one takes to compile on a busy machine, and to run.
const BUILD_LIMIT: Duration = Duration::from_secs(300);
const LIMIT: Duration = Duration::from_secs(90);
const LIMIT_KNOWN: Duration = Duration::from_secs(30);
/// How many at once for each processor: most of them sleep.
const EACH: usize = 2;
/// A turn after the first runs each so manieth test.
const PARTS: usize = 8;
/// So many are built and hold; where it is fewer, it is our way to build them that fails.
const BUILT_AT_LEAST: usize = 1300;
const HELD_AT_LEAST: usize = 1200;
const REFUSAL: &str = "threads are kernel threads";

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let all = paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    all.filter(|path| path.extension().is_some_and(|end| end == "c")).collect()
}

/// Whether a file is a program, and one that may be run.
fn may_run(file: &Path) -> bool {
    let source = text(&fs::read(file).unwrap_or_default());
    source.contains("main") && !HARMFUL.iter().any(|call| source.contains(call))
}

fn built(source: &Path, folder: &Path) -> Vec<PathBuf> {
    let all = FOLDERS.iter().flat_map(|part| files(&source.join(part)));
    let files: Vec<PathBuf> = all.filter(|file| may_run(file)).collect();
    let place = folder.join("built");
    fs::create_dir_all(&place).expect("ours");
    let mut built: Vec<PathBuf> = at_once_each(1, &files, |file| {
        let above = file.parent().expect("a folder");
        let group = above.file_name().expect("a name").to_string_lossy().into_owned();
        let program = place.join(format!("{group}-{}", file.file_stem()?.to_string_lossy()));
        let mut cc = Command::new("cc");
        cc.args(["-w", "-O1", "-D_POSIX_C_SOURCE=200112L", "-D_XOPEN_SOURCE=600", "-D_GNU_SOURCE"]);
        cc.arg("-I").arg(source.join("include")).arg("-o").arg(&program).arg(file);
        cc.args(["-pthread", "-lrt"]).current_dir(above);
        output_within(cc, BUILD_LIMIT).status.success().then_some(program)
    })
    .into_iter()
    .flatten()
    .collect();
    built.sort();
    println!("Open POSIX: {} of {} programs compiled", built.len(), files.len());
    built
}

fn name(program: &Path) -> &str {
    program.file_name().and_then(|name| name.to_str()).expect("a name of ours")
}

fn known(program: &Path) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| *known == name(program)).map(|(_, why)| *why)
}

/// Whether a test holds, natively (`None`) or under heddle with this environment, and what it said.
fn outcome(program: &Path, user: Option<&Said>) -> (bool, String) {
    let folder = program.with_extension(if user.is_some() { "user" } else { "native" });
    let log = folder.with_extension("log");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("ours");
    let mut command = Command::new(program);
    if let Some(said) = user {
        command = Command::new(heddle());
        command.args(["run", "--threads", "user", "--report", "none", "--"]).arg(program);
        command.envs(said.iter().cloned());
    }
    let output = File::create(&log).expect("ours");
    command.stdin(Stdio::null()).stderr(output.try_clone().expect("open")).stdout(output);
    command.current_dir(&folder).env("XDG_STATE_HOME", &folder).process_group(0);
    let limit = if user.is_some() && known(program).is_some() { LIMIT_KNOWN } else { LIMIT };
    let start = Instant::now();
    let mut child = Ended(command.spawn().expect("it starts"));
    let group = child.0.id() as i32;
    let code = loop {
        match child.0.try_wait().expect("a child") {
            None if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
            status => break status.and_then(|status| status.code()),
        }
    };
    // SAFETY: no memory is involved; the group is this test's own.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    drop(child);
    let said = text(&fs::read(&log).unwrap_or_default());
    let _ = fs::remove_dir_all(&folder);
    (code == Some(0) && !said.contains(REFUSAL), format!("{code:?}: {said}"))
}

/// Those of `programs` that differ by themselves, too.
fn compare<'a>(programs: &[&'a Path]) -> Vec<&'a str> {
    let said = said();
    let outcomes =
        at_once_each(EACH, programs, |program| (*program, outcome(program, Some(&said))));
    let held = outcomes.iter().filter(|(_, (is_held, _))| *is_held).count();
    println!("Open POSIX: {held} of {} tests hold", outcomes.len());
    let mut different = Vec::new();
    for (program, (is_held, said)) in &outcomes {
        match (known(program), is_held) {
            (Some(_), true) => println!("  {} holds, though it is known to differ", name(program)),
            (Some(why), false) => println!("  {} differs, as is known: {why}", name(program)),
            (None, true) => {}
            (None, false) => {
                println!("  {} differs among others: {said}", name(program));
                different.push(*program);
            }
        }
    }
    assert!(different.len() < 20, "{different:?}");
    different.retain(|program| !outcome(program, Some(&said)).0 && outcome(program, None).0);
    different.into_iter().map(name).collect()
}

#[test]
fn the_open_posix_test_suite_holds() {
    if !is_nightly() {
        return println!("skip: the suite takes minutes; cargo xtask ci nightly runs it");
    }
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("open-posix");
    let Some(source) = source(PACKAGE, &folder) else {
        return fs::remove_dir_all(folder).expect("ours");
    };
    let programs = built(&source, &folder);
    assert!(programs.len() >= BUILT_AT_LEAST, "{} programs", programs.len());
    let programs: Vec<&Path> = programs.iter().map(PathBuf::as_path).collect();
    let native = at_once_each(EACH, &programs, |it| (*it, outcome(it, None).0));
    let mut held: Vec<&Path> = native.into_iter().filter(|it| it.1).map(|it| it.0).collect();
    held.sort();
    println!("Open POSIX: {} of {} tests hold natively", held.len(), programs.len());
    assert!(held.len() >= HELD_AT_LEAST);
    let mut turn = 0;
    many("open_posix", || {
        let is_part = |at: usize| turn == 0 || at % PARTS == turn % PARTS;
        let part: Vec<&Path> =
            (0..held.len()).filter(|it| is_part(*it)).map(|it| held[it]).collect();
        turn += 1;
        let different = compare(&part);
        assert!(different.is_empty(), "{different:?}");
    });
    fs::remove_dir_all(folder).expect("ours");
}
