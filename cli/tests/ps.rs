//! `heddle ps` against tables that this test writes: good, foreign, broken and left behind.

#[path = "../../record/tests/support/image.rs"]
#[allow(dead_code)]
mod image;

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use heddle_record::{Class, Fields, Group, Kind, Options, Place, State, Table, Zone};
use serde_json::Value;

fn heddle(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heddle")).args(arguments).output().expect("heddle runs")
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("text")
}

fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("text")
}

/// A table of this test's own process. A memfd: it goes with the process, as statics do not.
fn own_table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let table = Options::new().capacity(4096).place(Place::Memfd).create().expect("a table");
        table.set_high_water(4).expect("room");
        let worker = Fields {
            kind: Kind::Worker,
            state: State::Ready,
            worker: 0,
            tid: 101,
            ..Fields::default()
        };
        table.record(0).publish(&worker);
        table.record(0).set_running(Some(2));
        let connection = Fields {
            kind: Kind::Light,
            state: State::Parked,
            worker: 0,
            role: table.intern_role("http connection"),
            name: table.intern("client\x1b[31m 7"),
            stack_size: 65536,
            stack_peak: 2900,
            zone: Zone::of(2900, 65536),
            cpu_ns: 1_500,
            switches: 12,
            ..Fields::default()
        };
        table.record(1).publish(&connection);
        let gas = Fields {
            generation: 3,
            state: State::Ready,
            class: Class::TimeCritical,
            priority: 80,
            group: Group::Urgent,
            role: table.intern_role("gas detection"),
            cpu_ns: 2_500_000,
            ..connection
        };
        table.record(2).publish(&gas);
        table
    })
}

fn own_pid() -> String {
    own_table();
    std::process::id().to_string()
}

/// A table in shared memory by the name of a process that is dead, removed at the end.
struct Left(PathBuf, String);

impl Left {
    fn behind(change: impl FnOnce(&mut Vec<u8>)) -> Option<Left> {
        let mut child = Command::new("true").spawn().expect("a process");
        let pid = child.id();
        child.wait().expect("it ends");
        let mut bytes = image::honest();
        bytes[64..68].copy_from_slice(&pid.to_le_bytes());
        change(&mut bytes);
        let path = PathBuf::from(format!("/dev/shm/heddle.{pid}"));
        if let Err(error) = std::fs::write(&path, bytes) {
            eprintln!("skip: no shared memory file here: {error}");
            return None;
        }
        Some(Left(path, pid.to_string()))
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn the_table_shows_workers_and_threads() {
    let output = heddle(&["ps", &own_pid()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines: Vec<_> = stdout(&output).lines().collect();
    assert!(lines[0].ends_with(": 1 worker, 2 threads: 1 running, 1 parked"), "{}", lines[0]);
    let columns = "ID KIND STATE CLASS GROUP ROLE WORKER TID STACK PEAK ZONE CPU SWITCHES NAME";
    assert!(lines[1].split_whitespace().eq(columns.split(' ')), "{}", lines[1]);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(lines[2]), "0.0 worker running - - - 0 101 - - - 0 0 -");
    let connection = "1.0 light parked lazy normal http connection 0 - 64K 2.8K low 1.50us 12";
    assert_eq!(words(lines[3]), format!("{connection} client\\u{{1b}}[31m 7"));
    assert!(words(lines[4]).starts_with("2.3 light running time-critical:80 urgent gas detection"));
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[1].find("ROLE"), lines[3].find("http"), "columns line up");
}

#[test]
fn json_has_units_and_words() {
    let output = heddle(&["ps", "--json", &own_pid()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let process: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(process["pid"], std::process::id());
    assert_eq!(process["alive"], true);
    assert_eq!(process["workers"][0]["runs"], 2);
    let thread = &process["threads"][1];
    assert_eq!(thread["id"], "2.3");
    assert_eq!(thread["state"], "running");
    assert_eq!(thread["class"], "time-critical");
    assert_eq!(thread["role"], "gas detection");
    assert_eq!(thread["stack_size_bytes"], 65536);
    assert_eq!(thread["zone"], "low");
    assert_eq!(thread["tid"], 101);
    assert_eq!(process["threads"][0]["name"], "client\x1b[31m 7");
    assert_eq!(process["faults"], Value::Array(Vec::new()));
}

#[test]
fn filters_sorting_and_roles_work() {
    let ids = |arguments: &[&str]| {
        let output = heddle(&[&["ps", "--json", &own_pid()], arguments].concat());
        let process: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let threads = process["threads"].as_array().expect("threads").clone();
        threads.iter().map(|it| it["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--sort", "cpu"]), ["2.3", "1.0"]);
    assert_eq!(ids(&["--state", "parked"]), ["1.0"]);
    assert_eq!(ids(&["--role", "gas detection"]), ["2.3"]);
    assert_eq!(ids(&["--role", "gas"]), [""; 0]);
    let output = heddle(&["ps", "--by-role", &own_pid()]);
    let text = stdout(&output);
    assert!(text.lines().count() == 4 && text.contains("gas detection"), "{text}");
}

/// `heddle` where no other program's table is: other people's may be huge. `None` where this user
/// may not make such a place.
fn heddle_alone(arguments: &[&str]) -> Option<Output> {
    let script = "mount -t tmpfs tmpfs /dev/shm && exec \"$0\" \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "--propagation=private", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_heddle"))
        .args(arguments)
        .output();
    match output {
        Ok(output) if output.status.success() => Some(output),
        other => {
            eprintln!("skip: this user may not make a mount namespace: {other:?}");
            None
        }
    }
}

#[test]
fn without_a_pid_every_process_is_shown() {
    own_pid();
    let Some(output) = heddle_alone(&["ps", "--json"]) else { return };
    let processes: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut pids = processes.as_array().expect("an array").iter().map(|process| &process["pid"]);
    assert!(pids.any(|pid| *pid == std::process::id()), "{processes}");
    let Some(output) = heddle_alone(&["ps"]) else { return };
    assert!(stdout(&output).contains("gas detection"), "{}", stdout(&output));
}

#[test]
fn a_process_without_a_table_is_shown_from_proc() {
    let mut child = Command::new("sleep").arg("60").spawn().expect("a process");
    let pid = child.id().to_string();
    let output = heddle(&["ps", &pid]);
    let json = heddle(&["ps", "--json", &pid]);
    child.kill().expect("it ends");
    child.wait().expect("it ended");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("no thread table"), "{}", stderr(&output));
    let lines: Vec<_> = stdout(&output).lines().collect();
    assert!(lines[0].contains(&format!("({pid}): 1 thread: 1 ")), "{}", lines[0]);
    let columns = "TID STATE SCHEDULING CPU SWITCHES NAME";
    assert!(lines[1].split_whitespace().eq(columns.split(' ')), "{}", lines[1]);
    assert!(lines[2].contains(&pid) && lines.len() == 3, "{}", lines[2]);
    let process: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(process["source"], "proc");
    assert_eq!(process["threads"][0]["kind"], "kernel thread");
    assert_eq!(process["threads"][0]["stack_size_bytes"], 0);
}

#[test]
fn a_table_that_is_being_made_is_none_yet() {
    for bytes in [0, 8192] {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a process");
        let pid = child.id().to_string();
        let left = Left(PathBuf::from(format!("/dev/shm/heddle.{pid}")), pid);
        let made = std::fs::write(&left.0, vec![0; bytes]);
        let output = heddle(&["ps", &left.1]);
        child.kill().expect("it ends");
        child.wait().expect("it ended");
        if let Err(error) = made {
            return eprintln!("skip: no shared memory file here: {error}");
        }
        assert!(output.status.success(), "{bytes}: {}", stderr(&output));
        assert!(stdout(&output).contains("1 thread"), "{bytes}: {}", stdout(&output));
    }
}

/// Two processes of one program that no other test runs, or the reason why not.
fn two_named() -> Option<(String, [Child; 2])> {
    let name = format!("napping-{}", std::process::id());
    let path = std::env::temp_dir().join(&name);
    std::fs::copy("/bin/sleep", &path).expect("a copy of sleep");
    let start = || Command::new(&path).arg("60").spawn();
    let started = [start(), start()];
    let _ = std::fs::remove_file(&path);
    match started {
        [Ok(one), Ok(two)] => {
            // A process is let go before it has its new name.
            let is_named = |child: &Child| {
                let line = std::fs::read(format!("/proc/{}/cmdline", child.id()));
                line.is_ok_and(|line| String::from_utf8_lossy(&line).contains(&name))
            };
            let end = Instant::now() + Duration::from_secs(10);
            while ![&one, &two].into_iter().all(is_named) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            Some((name, [one, two]))
        }
        _ => {
            println!("skip: a copy of sleep does not run (one program for many names?)");
            None
        }
    }
}

#[test]
fn a_name_stands_for_its_processes() {
    let Some((name, mut children)) = two_named() else { return };
    let text = heddle(&["ps", &name]);
    let json = heddle(&["ps", "--json", &name]);
    let top = heddle(&["top", "--once", &name]);
    let pids = children.each_ref().map(Child::id);
    for child in &mut children {
        child.kill().and_then(|()| child.wait()).expect("its end");
    }
    let none = heddle(&["ps", &name]);
    let processes: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let found = processes.as_array().expect("an array").iter().map(|it| &it["pid"]);
    assert!(found.eq(&pids.map(Value::from)), "{processes}");
    for pid in pids {
        assert!(stdout(&text).contains(&format!("({pid}): 1 thread")), "{}", stdout(&text));
        assert!(stderr(&top).contains(&pid.to_string()), "which of them? {}", stderr(&top));
    }
    assert_eq!((top.status.code(), none.status.code()), (Some(1), Some(1)));
    assert!(stderr(&none).contains("there is no process called"), "{}", stderr(&none));
}

#[test]
fn no_process_is_one_clear_message() {
    // Pids end at 2^22.
    let output = heddle(&["ps", "8388608"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let text = stderr(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("there is no process 8388608"), "{text}");
    assert_eq!(heddle(&["ps", "-5"]).status.code(), Some(2));
    assert_eq!(heddle(&["ps", "0"]).status.code(), Some(2));
}

#[test]
fn the_table_of_a_dead_process_is_its_last_word() {
    let Some(left) = Left::behind(|_| ()) else { return };
    let output = heddle(&["ps", &left.1]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("dead process ("), "{text}");
    assert!(text.contains("http connection"), "{text}");
}

#[test]
fn a_lying_table_is_one_message_and_exit_1() {
    let lies: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes[0] = b'X',
        |bytes| bytes[23] = 0xff,
        |bytes| bytes.truncate(5000),
        |bytes| bytes.clear(),
    ];
    for lie in lies {
        let Some(left) = Left::behind(lie) else { return };
        let output = heddle(&["ps", &left.1]);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let text = stderr(&output);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("thread table"), "{text}");
    }
}

#[test]
fn a_lying_record_is_a_warning_and_the_rest_is_shown() {
    let Some(left) = Left::behind(|bytes| bytes[image::RECORDS_AT + 5 * 64 + 14] = 99) else {
        return;
    };
    let output = heddle(&["ps", &left.1]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("record 5: state 99 means nothing"), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 2 + 19);
}

#[test]
fn a_closed_pipe_is_quiet() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_heddle"))
        .args(["ps", &own_pid()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("heddle runs");
    drop(child.stdout.take());
    let mut text = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut text).expect("text");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(text, "");
}
