//! What heddle says when something is wrong: each case runs in a child process of this very test
//! binary, whose output and end are looked at.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use heddle::thread::{self, Builder};

/// Runs the test `name` of this binary again, as the child.
fn child(name: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.env("HEDDLE_TEST_CHILD", "1").envs(environment.iter().copied());
    command.output().unwrap()
}

fn is_child() -> bool {
    std::env::var_os("HEDDLE_TEST_CHILD").is_some()
}

/// Whether user-level threads run here; the native backend has none of these reports.
fn native() -> bool {
    std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native")
}

fn full_threads() -> bool {
    std::env::var("HEDDLE_THREADS").as_deref() == Ok("full")
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if depth == 0 { 0 } else { recurse(depth - 1) + frame[(depth % 64) as usize] }
}

#[test]
fn an_overflow_names_the_thread_and_dies_by_the_fault() {
    if native() || cfg!(heddle_asan) {
        return println!("skip: kernel threads and sanitizers report overflows in their own way");
    }
    if is_child() {
        let builder = Builder::new().role("deep thinker").stack_size(56 << 10);
        let _ = builder.spawn(|| recurse(1_000_000)).unwrap().join();
        return;
    }
    let output = child("an_overflow_names_the_thread_and_dies_by_the_fault", &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    // A full thread's has room for its block and a signal's frame, large on some processors.
    let sizes: &[u32] = if full_threads() { &[64, 256] } else { &[64] };
    let is_said = |kib| text.contains(&format!("overflowed its stack of {kib} KiB"));
    assert!(sizes.iter().any(is_said), "{text}");
    assert!(text.contains("\"deep thinker\""), "{text}");
    assert_eq!(output.status.signal(), Some(11), "{text}");
}

/// The path of an example, built beside this test.
fn example(name: &str) -> std::path::PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples").join(name)
}

#[test]
fn a_deadlock_is_reported() {
    if native() {
        return println!("skip: the native backend has no monitor");
    }
    let program = example("deadlock");
    if !program.exists() {
        return println!("skip: examples are built by cargo test without --test");
    }
    // It stands still from then on; before that its alarm is the time limit.
    let mut child = Command::new(program).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let text: Vec<_> = lines.take(4).map(|line| line.unwrap()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let says = |it: &str| assert!(text.iter().any(|line| line.contains(it)), "{it}: {text:#?}");
    says("all 3 threads wait and nothing can wake them");
    says("(role \"other philosopher\") waits in a lock, semaphore");
    says("  main thread ");
}

const TRACEES: [&str; 3] = ["tracee 0", "tracee 1", "tracee 2"];

#[test]
fn a_trace_has_every_thread() {
    if native() {
        return println!("skip: kernel threads are traced by the kernel's tools");
    }
    if is_child() {
        let threads = TRACEES.map(|role| Builder::new().role(role).spawn(|| ()).unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // A worker writes what it has collected when it runs out of work; each had others of them.
        let path = std::env::var("HEDDLE_TRACE").unwrap();
        let has_all = |text: String| TRACEES.iter().all(|role| text.contains(role));
        let is_there = || std::fs::read_to_string(&path).is_ok_and(has_all);
        for _ in 0..400 {
            if is_there() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        return;
    }
    let path = std::env::temp_dir().join(format!("heddle-trace-{}.json", std::process::id()));
    let output = child("a_trace_has_every_thread", &[("HEDDLE_TRACE", path.to_str().unwrap())]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    for role in TRACEES {
        assert!(trace.contains(&format!("{{\"name\":\"{role}\",\"ph\":\"X\"")), "{trace}");
    }
}

#[test]
fn exhausted_threads_are_an_error_that_names_the_limit() {
    if native() || cfg!(heddle_asan) {
        return println!("skip: the kernel's own limit applies, or a sanitizer maps terabytes");
    }
    if is_child() {
        thread::spawn(|| ()).join().unwrap();
        let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
        // SAFETY: a plain libc call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) }, 0);
        let mut threads = Vec::new();
        let error = loop {
            match Builder::new().stack_size(8 << 20).spawn(thread::park) {
                Ok(thread) => threads.push(thread),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("RLIMIT_DATA"), "{error}");
        // The process goes on.
        threads.iter().for_each(|thread| thread.thread().unpark());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        thread::spawn(|| ()).join().unwrap();
        println!("went on after {error}");
        return;
    }
    let output = child("exhausted_threads_are_an_error_that_names_the_limit", &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("went on"), "{output:?}");
}

#[test]
fn a_backtrace_goes_through_a_switch() {
    if is_child() {
        let thread = thread::spawn(|| {
            (0..10).for_each(|_| thread::yield_now());
            inner_of_backtrace()
        });
        let text = thread.join().unwrap();
        assert!(text.contains("inner_of_backtrace"), "{text}");
        println!("complete");
        return;
    }
    let output = child("a_backtrace_goes_through_a_switch", &[("RUST_BACKTRACE", "1")]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("complete"), "{output:?}");
}

#[inline(never)]
fn inner_of_backtrace() -> String {
    std::backtrace::Backtrace::force_capture().to_string()
}
