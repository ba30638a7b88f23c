//! Tables under limits: each is met with a smaller table or another place, and says so.
//!
//! A limit holds for a process, so each test runs its body in a process of its own: this test
//! binary again, with the case's name in an environment variable.

#[path = "support/image.rs"]
mod image;

use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use heddle_record::{Fields, Kind, Options, Place, Reader, State, Table};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CASE: &str = "HEDDLE_RECORD_TEST_CASE";

/// Whether this process is the one that runs the body of `case`.
fn is_body(case: &str) -> bool {
    std::env::var(CASE).is_ok_and(|wanted| wanted == case)
}

/// Runs the body of `case` behind `prefix` (a command that sets its limits up).
fn run_body(case: &str, prefix: &[&str]) -> Output {
    let own = std::env::current_exe().expect("a path").into_os_string();
    let mut words: Vec<_> = prefix.iter().map(Into::into).collect::<Vec<std::ffi::OsString>>();
    words.push(own);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["--exact", case, "--nocapture", "--test-threads=1"]);
    command.env(CASE, case).output().expect("the test runs again")
}

/// Demands that the body ran and held.
fn expect_body(case: &str, prefix: &[&str]) {
    let output = run_body(case, prefix);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{text}\n{errors}", output.status);
    assert!(text.contains("1 passed"), "{text}");
}

fn limit(resource: Resource, bytes: u64) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: Some(bytes), maximum }).expect("a lower limit");
}

fn light() -> Fields {
    Fields { kind: Kind::Light, state: State::Parked, ..Fields::default() }
}

/// Uses the table up to `slots` and gives what a reader sees then.
fn fill(table: &Table, slots: u32) -> heddle_record::Snapshot {
    for slot in 0..slots {
        table.set_high_water(slot + 1).expect("room");
        table.record(slot).publish(&light());
    }
    table.reader().expect("a reader").snapshot().expect("a snapshot")
}

#[test]
fn a_file_size_limit_makes_the_table_smaller() {
    const NAME: &str = "a_file_size_limit_makes_the_table_smaller";
    if !is_body(NAME) {
        return expect_body(NAME, &["env"]);
    }
    limit(Resource::Fsize, 32 << 20);
    let table = Table::create(1 << 24).expect("a table");
    let report = table.report();
    assert_eq!(report.wanted, 1 << 24);
    assert!((1 << 17..1 << 18).contains(&report.capacity), "{report:?}");
    let snapshot = fill(&table, 5000);
    assert_eq!(snapshot.threads.len(), 5000);
}

#[test]
fn no_file_at_all_leaves_private_memory() {
    const NAME: &str = "no_file_at_all_leaves_private_memory";
    if !is_body(NAME) {
        return expect_body(NAME, &["env"]);
    }
    limit(Resource::Fsize, 1 << 20);
    let table = Table::create(1 << 16).expect("a table");
    assert_eq!(table.report().place, Place::Private);
    assert!(table.report().reason.is_some(), "it says why");
    assert!(table.reader().is_err() && Reader::open(std::process::id() as i32).is_err());
    table.set_high_water(1 << 16).expect("room");
    table.record(65535).publish(&light());
    assert_eq!(table.record(65535).read(), Some(light()));
    assert_ne!(table.intern_role("still works"), 0);
}

#[test]
fn an_address_space_limit_makes_the_table_smaller() {
    const NAME: &str = "an_address_space_limit_makes_the_table_smaller";
    if !is_body(NAME) {
        return expect_body(NAME, &["env"]);
    }
    limit(Resource::As, 400 << 20);
    let table = Table::create(1 << 24).expect("a table");
    assert!(table.report().capacity < 1 << 23, "{:?}", table.report());
    assert_eq!(fill(&table, 3000).threads.len(), 3000);
}

/// Runs `case` where /dev/shm is a file system of `size` bytes; says why if that cannot be.
fn with_small_shm(case: &str, size: &str) {
    let probe = ["--mount", "--propagation=private", "true"];
    let allowed = Command::new("unshare").args(probe).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("skip: this user may not make a mount namespace");
        return;
    }
    let script = format!("mount -t tmpfs -o size={size} tmpfs /dev/shm && exec \"$0\" \"$@\"");
    let prefix = ["unshare", "--mount", "--propagation=private", "sh", "-c", &script];
    expect_body(case, &prefix);
}

#[test]
fn a_full_shm_makes_the_table_partial_and_kills_nobody() {
    const NAME: &str = "a_full_shm_makes_the_table_partial_and_kills_nobody";
    if !is_body(NAME) {
        return with_small_shm(NAME, "1m");
    }
    let table = Table::create(1 << 20).expect("a table");
    assert_eq!(table.report().place, Place::Shared);
    let snapshot = fill(&table, 100_000);
    assert!(snapshot.partial);
    assert!((5_000..16_384).contains(&snapshot.threads.len()), "{}", snapshot.threads.len());
    assert_eq!(table.record(99_999).read(), Some(light()), "the program's own view is whole");
    // Texts find no memory either, and say so instead of raising a signal.
    let lost = (0..100_000).filter(|n| table.intern(&format!("name {n}")) == 0).count();
    assert!(lost > 0);
    let snapshot = table.reader().expect("a reader").snapshot().expect("a snapshot");
    assert!(snapshot.texts_full);
}

#[test]
fn a_tiny_shm_sends_the_table_to_a_memfd() {
    const NAME: &str = "a_tiny_shm_sends_the_table_to_a_memfd";
    if !is_body(NAME) {
        return with_small_shm(NAME, "64k");
    }
    let table = Table::create(1 << 20).expect("a table");
    assert_eq!(table.report().place, Place::Memfd);
    assert!(table.report().reason.is_some());
    assert_eq!(std::fs::read_dir("/dev/shm").expect("it").count(), 0, "no half-made file stays");
    assert_eq!(fill(&table, 2000).threads.len(), 2000);
    // Other processes find it as well.
    let pid = std::process::id() as i32;
    assert_eq!(Reader::open(pid).expect("a reader").snapshot().expect("it").threads.len(), 2000);
    assert!(heddle_record::table_pids().expect("a list").contains(&pid));
}

/// Makes the table of `pid` one of a run, written `age` ago.
fn set_run(pid: i32, run: u64, age: Duration) {
    let offset = std::mem::offset_of!(heddle_record::layout::TableHeader, run);
    let path = format!("/dev/shm/heddle.{pid}");
    let file = std::fs::File::options().write(true).open(path).expect("the table");
    file.write_all_at(&run.to_le_bytes(), offset as u64).expect("written");
    file.set_modified(SystemTime::now() - age).expect("an old file");
}

#[test]
fn a_crash_leaves_its_table_until_it_is_swept() {
    const NAME: &str = "a_crash_leaves_its_table_until_it_is_swept";
    if is_body(NAME) {
        let table = Table::create(1 << 12).expect("a table");
        assert_eq!(table.report().place, Place::Shared);
        table.set_high_water(1).expect("room");
        table.record(0).publish(&Fields { role: table.intern_role("last words"), ..light() });
        std::process::abort();
    }
    let own = std::env::current_exe().expect("a path");
    let mut child = Command::new(own)
        .args(["--exact", NAME])
        .env(CASE, NAME)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the test runs again");
    let pid = child.id() as i32;
    child.wait().expect("it dies");
    if Options::new().place(Place::Shared).create().is_ok_and(|own| own.path().is_none()) {
        eprintln!("skip: no /dev/shm here");
        return;
    }
    let snapshot = Reader::open(pid).expect("its table").snapshot().expect("a snapshot");
    assert!(!snapshot.alive);
    assert_eq!(snapshot.threads[0].role.as_deref(), Some("last words"));

    // Ages beyond any real table's: this test sweeps only what it made.
    const DECADE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    heddle_record::sweep(DECADE).expect("a list");
    assert!(Reader::open(pid).is_ok(), "too young to be swept");
    let living = Options::new().capacity(256).create().expect("a table");
    for path in [format!("/dev/shm/heddle.{pid}").into(), living.path().expect("a path")] {
        let file = std::fs::File::options().write(true).open(path).expect("the table");
        file.set_modified(SystemTime::now() - 2 * DECADE).expect("an old file");
    }
    // While the run that ordered it lives, the table is that run's.
    set_run(pid, heddle_record::process::own_run(), 2 * DECADE);
    assert_eq!(Reader::open(pid).expect("it").run(), heddle_record::process::own_run());
    assert_eq!(heddle_record::sweep(DECADE).expect("a list"), 0);
    let own = heddle_record::run_pids(heddle_record::process::own_run()).expect("a list");
    assert_eq!(own, [pid]);
    set_run(pid, heddle_record::process::own_run() ^ 1 << 63, 2 * DECADE);
    assert_eq!(heddle_record::sweep(DECADE).expect("a list"), 1);
    assert!(Reader::open(pid).is_err());
    assert!(living.path().expect("a path").exists(), "a living process's table stays");
}

#[test]
fn another_file_by_the_name_is_no_table() {
    const NAME: &str = "another_file_by_the_name_is_no_table";
    if !is_body(NAME) {
        return expect_body(NAME, &["env"]);
    }
    let pid = std::process::id() as i32;
    let path = format!("/dev/shm/heddle.{pid}");
    if std::os::unix::fs::symlink("/etc/passwd", &path).is_err() {
        eprintln!("skip: no /dev/shm here");
        return;
    }
    assert!(matches!(Reader::open(pid), Err(heddle_record::Error::Impostor { .. })));
    let table = Table::create(256).expect("a table");
    assert_eq!(table.report().place, Place::Shared, "a stale link is replaced, not followed");
    assert!(std::fs::symlink_metadata(&path).expect("it").is_file());
    drop(table);
    std::fs::write(&path, "not a table, but long enough to be looked at: ".repeat(100)).unwrap();
    assert!(matches!(Reader::open(pid), Err(heddle_record::Error::NotATable { .. })));
    std::fs::remove_file(&path).unwrap();

    let table = Table::create(256).expect("a table");
    if std::os::unix::fs::chown(&path, Some(1_234_567), None).is_err() {
        eprintln!("skip: only root can give a file away");
        return;
    }
    assert!(matches!(Reader::open(pid), Err(heddle_record::Error::Impostor { .. })));
    drop(table);
}

/// A process that drops its privileges to the user 65534 and stays until its input ends.
fn dropped_process() -> Option<std::process::Child> {
    let script = "$( = 65534; $) = 65534; $< = 65534; $> = 65534; $| = 1; print qq{x\\n}; <STDIN>";
    let mut command = Command::new("perl");
    command.args(["-e", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut line = [0];
    child.stdout.as_mut()?.read_exact(&mut line).ok()?;
    Some(child)
}

#[test]
fn a_process_without_privileges_speaks_for_itself_and_root_for_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skip: only root has privileges to drop");
        return;
    }
    let Some(mut child) = dropped_process() else {
        eprintln!("skip: no perl on this machine");
        return;
    };
    let pid = child.id().cast_signed();
    let path = format!("/dev/shm/heddle.{pid}");
    let mut table = image::honest();
    table[64..68].copy_from_slice(&pid.to_le_bytes());
    image::check(&table).expect("an honest one");
    std::fs::write(&path, table).expect("a table");
    let read_as = |owner: u32| {
        std::os::unix::fs::chown(&path, Some(owner), None).expect("root may");
        Reader::open(pid).map(|reader| reader.run())
    };
    let (root, itself, another) = (read_as(0), read_as(65534), read_as(65533));
    std::fs::remove_file(&path).expect("removed");
    drop(child.stdin.take());
    child.wait().expect("it ends");
    assert_eq!(root.expect("made before it dropped them"), image::RUN);
    assert_eq!(itself.expect("made afterwards"), image::RUN);
    assert!(matches!(another, Err(heddle_record::Error::Impostor { .. })));
}

/// A table in shared memory of a process that has ended, from libheddle-preload or not.
fn left_table(flags: u32, run: u64) -> i32 {
    let mut child = Command::new("true").spawn().expect("it starts");
    let pid = child.id().cast_signed();
    child.wait().expect("it ends");
    let mut table = image::honest();
    table[64..68].copy_from_slice(&pid.to_le_bytes());
    table[68..72].copy_from_slice(&flags.to_le_bytes());
    table[112..120].copy_from_slice(&run.to_le_bytes());
    std::fs::write(format!("/dev/shm/heddle.{pid}"), table).expect("a table");
    pid
}

#[test]
fn what_nobody_waits_for_is_swept_at_once() {
    const NAME: &str = "what_nobody_waits_for_is_swept_at_once";
    if !is_body(NAME) {
        return with_small_shm(NAME, "8m");
    }
    let (own, gone) = (heddle_record::process::own_run(), 1 << 33 | 1);
    let tables = [left_table(8, 0), left_table(8, gone), left_table(8, own), left_table(0, 0)];
    assert_eq!(heddle_record::sweep_left().expect("a list"), 2);
    let there = tables.map(|pid| Path::new(&format!("/dev/shm/heddle.{pid}")).exists());
    assert_eq!(there, [false, false, true, true]);
    assert_eq!(heddle_record::sweep_left().expect("a list"), 0);
}
