//! The gdb script shows a parked thread's frames.

use std::process::Command;

/// An example that parks two threads, built beside this test.
fn parked_example() -> std::path::PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples").join("deadlock")
}

#[test]
fn gdb_backtraces_a_parked_thread() {
    if std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        return println!("skip: kernel threads are gdb's own");
    }
    if !Command::new("gdb").arg("--version").output().is_ok_and(|out| out.status.success()) {
        return println!("skip: gdb is not installed");
    }
    let program = parked_example();
    if !program.exists() {
        return println!("skip: examples are built by cargo test without --test");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/gdb/heddle.py");
    // The program's alarm stops it when both threads are parked.
    let output = Command::new("gdb")
        .args(["-q", "-batch", "-nx", "-ex", "set debuginfod enabled off"])
        .args(["-ex", "handle SIGALRM stop nopass", "-ex", "run", "-ex"])
        .arg(format!("source {script}"))
        .args(["-ex", "heddle threads", "-ex", "heddle bt all", "-ex", "kill"])
        .arg(program)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("ptrace") || text.contains("Could not trace") {
        return println!("skip: this machine does not allow tracing: {errors}");
    }
    let kinds = ["light          parked", "full           parked"];
    let parked: usize = kinds.map(|kind| text.matches(kind).count()).iter().sum();
    assert_eq!(parked, 2, "{text}{errors}");
    let frames = text.split("other philosopher").last().unwrap();
    // Compilers write paths in more ways than one, with `<>` and hashes in between.
    for words in [["Semaphore", "::acquire"], ["deadlock", "::main"]] {
        let is_shown = |frame: &str| words.iter().all(|word| frame.contains(word));
        assert!(frames.lines().any(is_shown), "{words:?}: {text}{errors}");
    }
}
