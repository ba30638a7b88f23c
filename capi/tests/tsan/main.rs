//! C programs with ThreadSanitizer: it finds a race between user-level threads of two workers, and
//! none in programs that lock, though it knows of locks and switches only what libheddle tells it.
//!
//! In builds with `--cfg heddle_tsan` alone (`cargo xtask ci full --only tsan`).
//!
//! Invariant: every program has a time limit, and none outlives the run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[path = "../common/programs.rs"]
#[allow(dead_code)]
mod programs;

use programs::{Outcome, Runs};

const LIMIT: Duration = Duration::from_secs(120);
/// How often the race is run for one to happen.
const RACES_MAX: u32 = 20;
/// The beginnings of programs' names that run so. Others are about signals, forks and the like,
/// which the sanitizer has its own mind of; or free what somebody else has just locked.
const FAMILIES: [&str; 5] = ["cond_", "rwlock_", "sem_", "barrier_", "spin_"];
const BUT: [&str; 2] = ["sem_free_after_wait", "sem_named"];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The folder of the profile: this program is in `deps` below it.
fn folder() -> PathBuf {
    let exe = std::env::current_exe().expect("this test");
    exe.parent().and_then(Path::parent).expect("a folder").to_owned()
}

/// libheddle as it was built beside this test.
fn library() -> PathBuf {
    let folder = folder();
    let target = folder.parent().and_then(Path::parent).expect("a target folder");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet", "-p", "heddle-capi", "--target", "x86_64-unknown-linux-gnu"]);
    cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(cargo.status().expect("cargo").success());
    folder.join("libheddle_capi.a")
}

/// Compiles a program; the C compiler may have no sanitizer.
fn compile(program: &Path, library: &Path) -> Result<PathBuf, String> {
    let name = program.file_stem().expect("a name");
    let into = folder().join("tsan-programs").join(name);
    std::fs::create_dir_all(into.parent().expect("a folder")).map_err(|e| e.to_string())?;
    let mut compiler = programs::compiler(program);
    compiler.arg("-fsanitize=thread").args(["-include", "heddle/pthread.h"]);
    compiler.arg("-I").arg(source("../include")).arg("-I").arg(source(""));
    compiler.args([program, &source("tsan/names.c"), library]).arg("-o").arg(&into);
    compiler.args(["-pthread", "-ldl", "-lm"]);
    let output = compiler.output().map_err(|e| e.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(into).ok_or(errors)
}

fn run(program: &Path, words: &[&str]) -> Outcome {
    let mut command = Command::new(program);
    let known = source("../../scripts/tsan.supp");
    command.args(words).env("HEDDLE_WORKERS", "2");
    command.env("TSAN_OPTIONS", format!("suppressions={}", known.display()));
    programs::run_limited(command, &program.with_extension("log"), LIMIT)
}

#[test]
fn races_of_c_programs_are_told_and_none_is_made_up() {
    if !cfg!(heddle_tsan) {
        return println!("skip: not built with ThreadSanitizer: cargo xtask ci full --only tsan");
    }
    let library = library();
    let race = match compile(&source("tsan/race.c"), &library) {
        Ok(race) => race,
        Err(errors) => return println!("skip: no ThreadSanitizer for C here: {errors}"),
    };
    // On a busy machine its threads may run one after the other.
    let is_told = |_| match run(&race, &["race"]) {
        Outcome::Fail(said) => said.contains("data race"),
        _ => false,
    };
    assert!((0..RACES_MAX).any(is_told), "a race was not told");
    assert!(matches!(run(&race, &[]), Outcome::Pass), "a race was made up");
    let is_asked = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_one = FAMILIES.iter().any(|family| name.starts_with(family));
        is_one && !BUT.contains(&&*name) && programs::is_source(path)
    };
    let entries = std::fs::read_dir(source("")).expect("the programs");
    let all: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_asked).collect();
    assert!(all.len() > 20, "where are the programs?");
    let hold = programs::run_all(
        &[Runs { label: "tsan", way: &(), programs: all }],
        |path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        |path, ()| match compile(path, &library) {
            Ok(program) => run(&program, &[]),
            Err(errors) => Outcome::Fail(errors),
        },
    );
    assert!(hold, "see above");
}
