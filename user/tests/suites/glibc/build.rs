//! The programs: glibc's source from the system's package sources, compiled outside of its build.
//!
//! The headers in `tests/programs/glibc/` and those of the unpacked source, where the system has
//! none of that name, are enough for most files; one that asks for more of the build is left out.
//!
//! Invariant: nothing of what is tested comes from the source; the programs use the system's glibc.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use super::lists::{FOLDERS, HARMFUL};
use crate::common::{output_within, text};

/// More than one file takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
/// Where glibc looks for headers on this system, the first ones first, those of the test excepted.
const HEADERS: &[&str] = &[
    "support",
    "sysdeps/unix/sysv/linux/x86_64/64",
    "sysdeps/unix/sysv/linux/x86_64",
    "sysdeps/unix/sysv/linux/x86",
    "sysdeps/x86/nptl",
    "sysdeps/unix/sysv/linux/wordsize-64",
    "sysdeps/x86_64/nptl",
    "sysdeps/unix/sysv/linux/include",
    "sysdeps/unix/sysv/linux",
    "sysdeps/nptl",
    "sysdeps/pthread",
    "sysdeps/unix/sysv",
    "sysdeps/unix/x86_64",
    "sysdeps/unix",
    "sysdeps/posix",
    "sysdeps/x86_64/64",
    "sysdeps/x86_64",
    "sysdeps/x86",
    "sysdeps/wordsize-64",
    "sysdeps/generic",
    "include",
    "nptl",
    "",
];
/// Beginnings of the names of files that are programs.
const PROGRAMS: &[&str] = &["tst-", "bug-", "test-"];
/// Ends of names: of programs that are others once more here, and of what is no program.
const NO_PROGRAMS: &[&str] = &["-static.c", "-time64.c", "mod.c", "-skeleton.c"];
/// Files of its support library that are for other programs than tests.
const NO_SUPPORT: &[&str] = &[
    "README-testing",
    "echo-container",
    "links-dso-program-c",
    "shell-container",
    "support_quote_blob_main",
    "support_test_compare_string_main",
    "test-container",
    "test-driver",
    "test-run-command",
    "true-container",
];

/// Does `work` for each item, as many at once as there are processors.
fn at_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    at_once_each(1, items, work)
}

/// As [`at_once`], `each` for every processor.
pub fn at_once_each<T: Sync, R: Send>(
    each: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let (next, done) = (Mutex::new(items.iter()), Mutex::new(Vec::new()));
    let processors = std::thread::available_parallelism().map_or(1, |it| it.get());
    std::thread::scope(|scope| {
        for _ in 0..each * processors {
            scope.spawn(|| {
                loop {
                    let Some(item) = next.lock().unwrap().next() else { return };
                    let result = work(item);
                    done.lock().unwrap().push(result);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

/// The source of a package, if it is to be had; says so if not.
pub fn source(package: &str, folder: &Path) -> Option<PathBuf> {
    let place = folder.join("source");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/package-source");
    let mut fetch = Command::new(script);
    fetch.arg(package).arg(&place);
    let fetched = output_within(fetch, LIMIT);
    if !fetched.status.success() {
        println!("skip: {package}'s source is not to be had: {}", text(&fetched.stderr).trim());
        return None;
    }
    Some(place)
}

/// The compiler with what it is told about every file.
fn compiler(source: &Path, file: &Path) -> Command {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/glibc");
    let mut cc = Command::new("cc");
    cc.args(["-w", "-O1", "-g", "-std=gnu11", "-fgnu89-inline", "-pthread"]);
    cc.args(["-DMODULE_NAME=testsuite", "-include"]).arg(ours.join("all.h")).arg("-I").arg(ours);
    cc.arg("-idirafter").arg(file.parent().expect("a folder"));
    for folder in HEADERS {
        cc.arg("-idirafter").arg(source.join(folder));
    }
    cc.arg(file);
    cc
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".c")).collect()
}

/// The library that the tests share, but for what cannot be compiled.
fn support(source: &Path, folder: &Path) -> PathBuf {
    let (objects, library) = (folder.join("support"), folder.join("libsupport.a"));
    fs::create_dir_all(&objects).expect("ours");
    let is_part = |name: &String| {
        let stem = name.trim_end_matches(".c");
        !stem.starts_with("tst-") && !NO_SUPPORT.contains(&stem)
    };
    let all = source.join("support");
    let files: Vec<String> = names(&all).into_iter().filter(is_part).collect();
    let built = at_once(&files, |name| {
        let mut cc = compiler(source, &all.join(name));
        let object = objects.join(name).with_extension("o");
        cc.arg("-c").arg("-o").arg(&object);
        output_within(cc, LIMIT).status.success().then_some(object)
    });
    let built: Vec<PathBuf> = built.into_iter().flatten().collect();
    println!("glibc: {} of {} files of its support library compiled", built.len(), files.len());
    let mut ar = Command::new("ar");
    ar.arg("rcs").arg(&library).args(&built);
    assert!(output_within(ar, LIMIT).status.success());
    library
}

/// Tests that glibc runs in a root folder of their own: they would change this system's.
fn in_containers(source: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for folder in FOLDERS {
        let file = fs::read_to_string(source.join(folder).join("Makefile")).unwrap_or_default();
        let joined = file.replace("\\\n", " ");
        let lists = joined.lines().filter(|line| line.trim().starts_with("tests-container"));
        found.extend(lists.flat_map(str::split_whitespace).map(str::to_owned));
    }
    found
}

/// Builds every test of [`FOLDERS`] that may be run and can be built.
pub fn programs(source: &Path, folder: &Path) -> Vec<PathBuf> {
    let support = support(source, folder);
    let contained = in_containers(source);
    let may_run = |name: &str| {
        let stem = name.trim_end_matches(".c");
        PROGRAMS.iter().any(|start| name.starts_with(start))
            && !NO_PROGRAMS.iter().any(|end| name.ends_with(end))
            && !HARMFUL.iter().any(|(harmful, _)| *harmful == stem)
            && !contained.contains(stem)
    };
    // A few have the name of another; the first folder's stays.
    let mut files = BTreeMap::new();
    for part in FOLDERS.iter().map(|part| source.join(part)) {
        for name in names(&part).into_iter().filter(|name| may_run(name)) {
            files.entry(name.clone()).or_insert_with(|| part.join(name));
        }
    }
    let files: Vec<PathBuf> = files.into_values().collect();
    let built = folder.join("built");
    fs::create_dir_all(&built).expect("ours");
    let programs = at_once(&files, |file| {
        let program = built.join(file.file_stem().expect("a name"));
        let mut cc = compiler(source, file);
        cc.arg(&support).args(["-ldl", "-lm", "-lrt", "-lanl", "-lresolv", "-o"]).arg(&program);
        output_within(cc, LIMIT).status.success().then_some(program)
    });
    let programs: BTreeSet<PathBuf> = programs.into_iter().flatten().collect();
    println!("glibc: {} of {} tests compiled", programs.len(), files.len());
    programs.into_iter().collect()
}
