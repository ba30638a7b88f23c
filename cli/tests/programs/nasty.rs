//! Programs that treat their threads and processes in every lawful way: the same output and end
//! plainly, observed and tuned, and a report that counts right.
//!
//! Invariant: nothing here knows how libheddle-preload does it.

use std::ffi::OsStr;
use std::path::Path;

use crate::build::{Recipe, c, cxx, library};
use crate::report::Report;
use crate::support::{Folder, skip};

/// Runs it plainly and under heddle, twice; gives the report of the observed run.
fn same(folder: &Folder, program: &Path, words: &[&OsStr]) -> Report {
    let plain = folder.run(with(folder.plain(program), words));
    let observed = folder.run(with(folder.under(&[], program), words));
    observed.same_as(&plain);
    assert_eq!(observed.messages(), "", "a message without a reason");
    let report = folder.report();
    let tuned = folder.run(with(folder.under(&["--stacks", "auto"], program), words));
    tuned.same_as(&plain);
    folder.report().check();
    let forced = folder.run(with(folder.under(&["--stacks", "force"], program), words));
    if program.file_name() != Some(OsStr::new("sizes")) {
        forced.same_as(&plain);
    }
    report
}

fn with(mut command: std::process::Command, words: &[&OsStr]) -> std::process::Command {
    command.args(words);
    command
}

fn same_c(name: &str, words: &[&str], threads: u64) -> Report {
    let folder = Folder::new(name);
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    let report = same(&folder, &c(name), &words);
    report.check();
    assert_eq!(report.created(), threads, "{}", report.0);
    report
}

#[test]
fn fork_in_a_threaded_program() {
    // Three that wait and eight at the end; four in each of five children.
    let report = same_c("fork_threaded", &[], 31);
    assert_eq!(report.processes().len(), 6, "{}", report.0);
}

#[test]
fn fork_before_the_first_thread() {
    let report = same_c("fork_first", &[], 11);
    assert_eq!(report.processes().len(), 3, "{}", report.0);
}

#[test]
fn exec_replaces_a_threaded_program() {
    let folder = Folder::new("exec");
    let report = same(&folder, &c("exec"), &[]);
    // Three images: 3 threads each, and what waits or replaces in the first two.
    assert_eq!(report.created(), 11, "{}", report.0);
}

#[test]
fn vfork_and_exec() {
    same_c("vfork_exec", &[], 7);
}

#[test]
fn spawned_programs_see_just_their_environment() {
    same_c("spawn", &[], 4);
}

#[test]
fn system_and_popen() {
    same_c("shell", &[], 1);
}

#[test]
fn a_loaded_library_starts_threads() {
    let folder = Folder::new("dlopen");
    let plugin = library("plugin");
    let report = same(&folder, &c("dlopen"), &[plugin.as_os_str()]);
    // Per load 3 at load, 5 called, 2 at unload; four loads, one of them in a thread.
    assert_eq!(report.created(), 41, "{}", report.0);
    assert!(report.kinds().iter().any(|kind| kind.text("module").contains("plugin")));
}

/// While the loader runs a constructor it holds its lock: nothing that a thread calls may need it.
#[test]
fn a_library_waits_for_its_threads_while_it_is_loaded() {
    let folder = Folder::new("waits-at-load");
    let plugin = library("waits_at_load");
    let report = same(&folder, &c("dlopen"), &[plugin.as_os_str()]);
    report.check();
    // Per load 4 at load and 5 called; four loads, one of them in a thread.
    assert_eq!(report.created(), 37, "{}", report.0);
}

#[test]
fn libraries_that_follow_each_other() {
    let folder = Folder::new("reload");
    let plugin = |name: &str, used: &str| {
        let defines = [format!("-DNAME={name}"), format!("-DUSED={used}")];
        let flags = ["-O1", "-g", "-shared", "-fPIC", &defines[0], &defines[1]];
        let recipe = Recipe { source: "c/named_plugin.c", name, compiler: "cc", flags: &flags };
        recipe.make().expect("it compiles")
    };
    let (first, second) = (plugin("run_first", "1000"), plugin("run_second", "9000"));
    let words = [first.as_os_str(), second.as_os_str()];
    let report = same(&folder, &c("reload"), &words);
    let peak = |name| {
        let told = report.told(name);
        assert_eq!((told.len(), told[0].number("created")), (1, 3), "{told:?}");
        told[0].number("stack_peak_bytes")
    };
    assert!(peak("run_first") < 9000 && peak("run_second") >= 9000, "{}", report.0);
}

#[test]
fn constructors_and_destructors_start_threads() {
    let folder = Folder::new("constructors");
    let report = same(&folder, &c("constructors"), &[]);
    // Before libc itself has begun (.preinit_array) there is nothing to count with.
    assert!((9..=11).contains(&report.created()), "{}", report.0);
}

#[test]
fn ten_thousand_short_threads() {
    let report = same_c("short_threads", &[], 10_000);
    let ended: u64 = report.kinds().iter().map(|kind| kind.number("ended")).sum();
    // A detached thread may still be on its last instructions when the process ends.
    assert!(ended >= 9_990, "{}", report.0);
}

#[test]
fn cancellation() {
    same_c("cancel", &[], 64);
}

#[test]
fn main_ends_first() {
    let report = same_c("main_exits", &[], 4);
    let main = &report.0["processes"][0]["threads"][0];
    assert_eq!(main["main"], true);
    assert!(main["stack_peak_bytes"].as_u64().is_some_and(|it| it > 0), "{main}");
}

#[test]
fn detached_threads() {
    same_c("detach", &[], 300);
}

#[test]
fn threads_of_the_c_standard() {
    let report = same_c("c11", &[], 16);
    assert_eq!(report.told("work").len(), 1);
}

#[test]
fn every_join_and_keys_with_destructors() {
    same_c("join_kinds", &[], 6);
}

#[test]
fn coroutines_on_stacks_of_their_own() {
    same_c("context", &[], 5);
}

#[test]
fn a_thread_that_no_library_hears_of() {
    same_c("raw_clone", &[], 2);
}

#[test]
fn handlers_of_the_programs_own() {
    same_c("handler", &[], 6);
}

#[test]
fn explicit_sizes_stay() {
    let report = same_c("sizes", &[], 12);
    let kinds: Vec<_> = report.kinds().into_iter().filter(|kind| kind.is("explicit")).collect();
    let count = |field| kinds.iter().map(|kind| kind.number(field)).sum::<u64>();
    assert_eq!((count("created"), count("failed")), (8, 1), "{kinds:?}");
}

#[test]
fn a_default_of_the_programs_own() {
    let report = same_c("default_size", &[], 2);
    let told = report.told("size");
    // What the last one asked for, which is no size of its own.
    assert_eq!((told[0].number("stack_asked_bytes"), told[0].is("explicit")), (1 << 20, false));
}

#[test]
fn all_descriptors_closed() {
    same_c("close_all", &[], 29);
}

#[test]
fn cxx_threads() {
    let folder = Folder::new("cxx");
    match cxx("cxx") {
        Err(reason) => skip!("{reason}"),
        Ok(program) => {
            let report = same(&folder, &program, &[]);
            report.check();
            // Eight, one by async, one by the first thread_local's destructor.
            assert_eq!(report.created(), 10, "{}", report.0);
            // One trampoline starts them all; they are told apart all the same.
            assert!(report.kinds().len() >= 3, "{}", report.0);
            assert!(!report.told("main").is_empty(), "a lambda of main's");
        }
    }
}

#[test]
fn rust_threads() {
    let folder = Folder::new("rust");
    let flags = ["--edition=2021", "-O", "-g"];
    let recipe = Recipe {
        source: "rust/threads.rs",
        name: "rust_threads",
        compiler: "rustc",
        flags: &flags,
    };
    match recipe.make() {
        Err(reason) => skip!("{reason}"),
        Ok(program) => {
            let report = same(&folder, &program, &[]);
            report.check();
            assert_eq!(report.created(), 12, "{}", report.0);
            report.told("counter");
            assert!(report.kinds().len() >= 2, "{}", report.0);
        }
    }
}
