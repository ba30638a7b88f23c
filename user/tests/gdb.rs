//! The gdb script in a program that `heddle run --threads user` runs: every thread with what it
//! waits for and its frames, in the living process, in what `heddle gcore` writes of it, and in
//! its core file.

#![cfg(target_arch = "x86_64")]

mod common;

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Ended, can_run, folder, heddle, output, text};

/// Name, start function, state, what it waits for, and functions of its backtrace.
const THREADS: &[(&str, &str, &str, &str, &[&str])] = &[
    ("sleeper", "sleeps", "parked", "sleep", &["heddle_user_sleep", "in sleeps ("]),
    ("reader", "reads", "parked", "I/O", &["heddle_user_read", "in reads ("]),
    ("locker", "locks", "parked", "(held)", &["in deep_lock (depth=depth@entry=5)", "in locks ("]),
    ("joiner", "joins", "parked", "address", &["heddle_user_pthread_join", "in joins ("]),
    ("condition", "waits", "parked", "(never)", &["pthread_cond_wait", "in waits ("]),
    ("semaphore", "counts_down", "parked", "(nothing)", &["sem_wait", "in counts_down ("]),
    ("computer", "computes", "running", "", &["computes ("]),
];

/// What gcore writes of seven threads with stacks of 8 MiB, twice over.
const CORE_BYTES_MAX: u64 = 512 << 20;

/// The command that loads the script.
fn sources() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/gdb/heddle.py");
    format!("source {}", script.display())
}

fn gdb(arguments: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-batch", "-nx", "-iex", "set debuginfod enabled off"]).args(arguments);
    gdb.args(["-ex", &sources()]);
    gdb.args(["-ex", "heddle threads", "-ex", "heddle bt all"]).process_group(0);
    let output = output(gdb);
    text(&output.stdout) + &text(&output.stderr)
}

/// The program in `tests/programs`, compiled.
fn program(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/debugged.c");
    let program = folder.join("debugged");
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O1", "-fno-optimize-sibling-calls", "-pthread", "-o"]).arg(&program);
    assert!(compiler.arg(source).status().expect("a compiler").success());
    program
}

fn assert_shows_all(shown: &str) {
    for (name, start, state, wait, frames) in THREADS {
        let line = shown.lines().find(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.get(1) == Some(&"full") && words.contains(name)
        });
        let line = line.unwrap_or_else(|| panic!("no {name} in {shown}"));
        assert!(line.contains(state) && line.contains(wait) && line.contains(start), "{line}");
        let title = format!("\"{name}\" ({start}): full, {state}");
        let trace = shown.split(&title).nth(1).unwrap_or_else(|| panic!("no {title} in {shown}"));
        let trace = trace.split("\nthread ").next().unwrap();
        for frame in *frames {
            assert!(trace.contains(frame), "no {frame} in {title} {trace}");
        }
        let last = trace.trim_end().lines().rfind(|line| line.starts_with('#')).unwrap_or("");
        assert!(last.contains("trampoline"), "{title} ends in {last}: {trace}");
    }
}

#[test]
fn threads_are_found_alive_and_in_a_core() {
    if !can_run(&["gdb", "cc"]) {
        return;
    }
    let folder = folder("gdb");
    let program = program(&folder);
    let mut command = Command::new(heddle());
    command.args(["run", "--threads", "user", "--workers", "2", "--report", "none", "--"]);
    command.arg(&program).current_dir(&folder).process_group(0);
    // Address space that the C library reserves is in what gcore writes, natively too.
    command.env("MALLOC_ARENA_MAX", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // SAFETY: between fork and exec, one system call.
    unsafe {
        command.pre_exec(|| {
            let most = libc::rlimit { rlim_cur: 1 << 36, rlim_max: 1 << 36 };
            // Without it there is no core file, which is seen below.
            let _ = libc::setrlimit(libc::RLIMIT_CORE, &most);
            Ok(())
        });
    }
    let mut child = Ended(command.spawn().expect("the command"));
    let mut line = [0; 16];
    let count = child.0.stdout.as_mut().unwrap().read(&mut line).expect("its number");
    let pid = text(&line[..count]).trim().to_owned();

    let alive = gdb(&["-p", &pid]);
    if alive.contains("ptrace") && !alive.contains("full") {
        return println!("skip: this machine does not allow tracing: {alive}");
    }
    assert_shows_all(&alive);
    let program = program.to_str().expect("a name");
    assert_shows_all(&gdb(&[program, &gcore(&folder, &pid)]));

    // SAFETY: no memory is involved; the process is the child's.
    unsafe { libc::kill(pid.parse().expect("a number"), libc::SIGABRT) };
    let Some(core) = core_file(&folder, &pid) else {
        return println!("skip: this machine writes no core files into the working directory");
    };
    let core = core.to_str().expect("a name").to_owned();
    assert_shows_all(&gdb(&[program, &core]));
    fs::remove_dir_all(folder).expect("ours");
}

/// A core file of the process, which goes on. It has stacks that threads have got, not all that is
/// reserved for more: gcore writes even what cannot be read, unless it is told not to.
fn gcore(folder: &Path, pid: &str) -> String {
    let core = folder.join("alive").to_str().expect("a name").to_owned();
    let limited = format!("ulimit -f {}; exec gdb \"$@\"", CORE_BYTES_MAX / 512);
    let mut gdb = Command::new("sh");
    gdb.args(["-c", &limited, "sh", "-q", "-batch", "-nx", "-iex", "set debuginfod enabled off"]);
    gdb.args(["-p", pid, "-ex", &sources()]).args(["-ex", &format!("heddle gcore {core}")]);
    let said = output(gdb);
    let said = text(&said.stdout) + &text(&said.stderr);
    assert!(said.contains("has 7 threads, with "), "{said}");
    let bytes = fs::metadata(&core).map_or(0, |file| file.len());
    assert!((1..CORE_BYTES_MAX).contains(&bytes), "{bytes} bytes: {said}");
    core
}

/// The core file, when it is complete: the command ends after it was written.
fn core_file(folder: &Path, pid: &str) -> Option<PathBuf> {
    let end = Instant::now() + Duration::from_secs(20);
    while Path::new("/proc").join(pid).exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let names = ["core".to_owned(), format!("core.{pid}")];
    names.map(|name| folder.join(name)).into_iter().find(|path| path.exists())
}
