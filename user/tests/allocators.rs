//! Programs that have their allocator in them: it cannot be told from the rest of the program, so
//! that threads are preempted in its middle, too. It is right all the same, as its locks are waited
//! for like any, and its caches are the thread's own wherever that goes on.
//!
//! Invariant: every program has a time limit, and none outlives the run.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{can_run, folder, heddle, output, text};

const ROUNDS: &str = "1000";

/// Those of other people: the words that link one into a program, and a function that only it has.
const KNOWN: &[(&str, &[&str], &str)] = &[
    ("jemalloc", &["-l:libjemalloc.a", "-lm", "-lstdc++", "-ldl"], "malloc_stats_print"),
    ("gperftools", &["-l:libtcmalloc_minimal.a", "-lstdc++", "-lm"], "tc_malloc"),
];

/// The same as libraries, which take over the C library's functions by their inner names, too.
const LIBRARIES: &[(&str, &str)] = &[
    ("jemalloc", "-l:libjemalloc.so.2"),
    ("gperftools", "-l:libtcmalloc_minimal.so.4"),
    ("mimalloc", "-l:libmimalloc.so.2"),
    ("oneTBB", "-l:libtbbmalloc_proxy.so.2"),
];

/// A library that nobody may allocate from.
const TAKEN: &str = "
void abort(void);
void *__libc_malloc(unsigned long bytes) { (void)bytes; abort(); }
void *__libc_calloc(unsigned long count, unsigned long bytes) { (void)count; (void)bytes; abort(); }
void *__libc_realloc(void *old, unsigned long bytes) { (void)old; (void)bytes; abort(); }
void *__libc_memalign(unsigned long to, unsigned long bytes) { (void)to; (void)bytes; abort(); }
void __libc_free(void *old) { (void)old; abort(); }
";

/// The program with an allocator; `None`, with the reason said, where that is not installed.
fn program(folder: &Path, name: &str, words: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/allocates.c");
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-fno-builtin", "-pthread", "-o"]).arg(&program).arg(source).args(words);
    let built = cc.output().expect("a compiler");
    if !built.status.success() {
        println!("skip: {name} cannot be linked: {}", text(&built.stderr).trim());
        return None;
    }
    Some(program)
}

/// Where the C library leaves the area to the program.
const LEFT: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");

/// On few workers, with slices as short as can be.
fn keeps_what_is_written(program: &Path) {
    for (workers, slice) in [("1", "1"), ("2", "1"), ("3", "2")] {
        let mut command = Command::new(heddle());
        command.args(["run", "--threads", "user", "--workers", workers, "--report", "none", "--"]);
        command.arg(program).arg(ROUNDS).env("HEDDLE_SLICE", slice);
        let output = output(command);
        assert_eq!(text(&output.stdout), "kept\n", "{workers} workers: {output:?}");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn an_allocator_with_a_mutex_may_be_left_in_its_middle() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("allocators-mutex");
    keeps_what_is_written(&program(&folder, "mutex", &["-DOWN=1"]).expect("built"));
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn an_allocator_with_a_spinning_lock_may_be_left_in_its_middle() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("allocators-spin");
    keeps_what_is_written(&program(&folder, "spin", &["-DOWN=2"]).expect("built"));
    fs::remove_dir_all(folder).expect("ours");
}

/// As Google's tcmalloc: caches for each processor would be told apart by what the kernel writes
/// for a worker, whichever thread that runs.
#[test]
fn an_allocator_gets_no_caches_per_processor() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("allocators-processors");
    let program = program(&folder, "processors", &["-DOWN=3"]).expect("built");
    keeps_what_is_written(&program);
    let words = ["run", "--threads", "user", "--report", "none", "--"];
    let mut command = Command::new(heddle());
    command.args(words).arg(&program).arg(ROUNDS).env(LEFT.0, LEFT.1);
    let left = output(command);
    assert_eq!((text(&left.stdout).as_str(), text(&left.stderr).as_str()), ("kept\n", ""));
    // Natively it has them, or the test shows nothing.
    let mut command = Command::new(&program);
    command.arg(ROUNDS).env(LEFT.0, LEFT.1);
    match text(&output(command).stdout).as_str() {
        "kept\n" => println!("skip: no restartable sequences here, natively neither"),
        other => assert!(other.ends_with(" registered\nkept\n"), "{other:?}"),
    }
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn known_allocators_linked_into_a_program_are_right() {
    if !can_run(&["cc", "nm"]) {
        return;
    }
    let folder = folder("allocators-known");
    for (name, words, function) in KNOWN {
        let Some(program) = program(&folder, name, words) else { continue };
        let mut nm = Command::new("nm");
        let symbols = output({
            nm.arg(&program);
            nm
        });
        let is_in = |line: &str| line.contains(" T ") && line.ends_with(function);
        assert!(text(&symbols.stdout).lines().any(is_in), "{name} is not in the program");
        keeps_what_is_written(&program);
    }
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn known_allocators_as_libraries_are_right() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("allocators-libraries");
    for (name, word) in LIBRARIES {
        if let Some(program) = program(&folder, name, &["-Wl,--no-as-needed", word]) {
            keeps_what_is_written(&program);
        }
    }
    fs::remove_dir_all(folder).expect("ours");
}

/// The runtime's memory is not the program's, by whatever name that takes the C library's over.
#[test]
fn the_c_librarys_inner_names_may_be_taken_over() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("allocators-taken");
    let source = folder.join("taken.c");
    fs::write(&source, TAKEN).expect("a file");
    let library = folder.join("libtaken.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(cc.status().expect("a compiler").success());
    let library = library.to_str().expect("a name in ASCII");
    let program = program(&folder, "taken", &["-Wl,--no-as-needed", library]).expect("built");
    keeps_what_is_written(&program);
    fs::remove_dir_all(folder).expect("ours");
}
