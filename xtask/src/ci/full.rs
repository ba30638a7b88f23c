//! The steps that only `ci full` has: every mode, every proof that this machine can run.
//!
//! Invariant: a public test of the runtime runs in three modes (io_uring, epoll, kernel threads);
//! the proofs of DESIGN's table follow: models, simulation, sanitizer, valgrind, debugger, the
//! other processor; then the product as a user meets it, installed and served. A step that needs
//! a tool says which one when it is not there.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::plan::{Call, Planner};
use crate::repo::{Repo, has_command};

const AARCH64: &str = "aarch64-unknown-linux-gnu";
const AARCH64_CC: &str = "aarch64-linux-gnu-gcc";
const QEMU: &str = "qemu-aarch64 -L /usr/aarch64-linux-gnu";
const VALGRIND: &str = "valgrind -q --error-exitcode=99 --fair-sched=yes \
    --suppressions=../scripts/valgrind.supp";
const FUZZ_FLAGS: &str = "--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";
/// What runs on threads of either kind: the runtime and what is written for it in Rust.
const ON_THREADS: &str = "-p heddle -p heddle-ice";

pub fn add(planner: &mut Planner) {
    tests(planner);
    documents(planner);
    models(planner);
    tools(planner);
    fuzz(planner);
    aarch64(planner);
    product(planner);
}

fn tests(planner: &mut Planner) {
    // Some tests run the examples, which cargo builds only when it is not told what to test.
    let examples = planner.cargo("build -p heddle --examples");
    // One build for both steps: the same packages, so the same features.
    let uring = planner.test(&format!("--workspace {}", all_but_programs(planner.repo)));
    let programs = planner.test("--workspace --test programs");
    // There threads that hibernate do so at once, elsewhere only when they are many.
    let epoll = planner.test(&format!("{ON_THREADS} --lib --test *")).env("HEDDLE_IO", "epoll");
    let epoll = epoll.env("HEDDLE_DROWSY", "0");
    let native =
        planner.test(&format!("{ON_THREADS} --lib --test *")).env("HEDDLE_BACKEND", "native");
    planner.add("tests", "integration tests, default mode", 15, vec![examples, uring]);
    planner.add("programs", "heddle run on real programs and hard ones", 10, vec![programs]);
    let user = planner.test("-p heddle-user --test *");
    planner.add("user", "unmodified programs on user-level threads", 20, vec![user]);
    planner.add("tests-epoll", "runtime and Ice on epoll", 10, vec![epoll]);
    let full = planner.test("-p heddle --lib --test *").env("HEDDLE_THREADS", "full");
    let step = planner.add("tests-full", "the runtime, every thread a full one", 10, vec![full]);
    step.beside = Some("tests-epoll");
    let step = planner.add("tests-native", "runtime and Ice on kernel threads", 10, vec![native]);
    step.beside = Some("tests-epoll");
}

/// Every integration test of the workspace but those that are steps of their own.
fn all_but_programs(repo: &Repo) -> String {
    let folders = ["record", "runtime", "capi", "ice", "preload", "cli", "bench", "xtask"];
    folders.map(|folder| integration_tests(repo, folder, &["loom", "sim", "programs"])).concat()
}

fn documents(planner: &mut Planner) {
    let examples = planner.test("--workspace --doc");
    planner.add("doc-tests", "examples in the documentation", 10, vec![examples]);
    let all = "exec sh scripts/check-man cli/man/*.1 capi/man/man3/*.3 capi/man/man7/*.7 \
               preload/man/man*/*";
    let manual = Call::new("sh").args(&["-c", all]);
    let step = planner.add(
        "manual",
        "groff has no warnings, no page names a missing one",
        2,
        vec![manual],
    );
    step.unless(missing("groff"));
}

fn models(planner: &mut Planner) {
    let sim = planner.test("-p heddle --features sim --test sim --test sim_lot");
    planner.add("sim", "the scheduler under seeded simulation", 10, vec![sim]);
    let model = |package: &str, preemptions: &str| {
        let loom = planner.test(&format!("-p {package} --release --test loom"));
        planner.apart(loom, "loom", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", preemptions)
    };
    let looms = vec![model("heddle", "2"), model("heddle-user", "3")];
    planner.add(
        "loom",
        "models of queue, inbox, idle, mutex, lot, migration, compensation, signals",
        10,
        looms,
    );
}

fn tools(planner: &mut Planner) {
    const HERE: &str = "--target x86_64-unknown-linux-gnu";
    // The other tests of record set RLIMIT_AS, which a sanitizer's shadow memory cannot live with.
    let sanitized = [
        planner.cargo(&format!("build -p heddle --examples {HERE}")),
        planner.test(&format!("-p heddle-record --lib --test hostile --test table {HERE}")),
        planner.test(&format!("-p heddle --lib --test * {HERE}")),
    ];
    let sanitized = sanitized.map(|call| {
        planner
            .apart(call, "asan", "-Zsanitizer=address --cfg heddle_asan")
            .env("RUSTC_BOOTSTRAP", "1")
            .env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0")
    });
    let step = planner.add("asan", "address sanitizer", 10, sanitized.into());
    step.unless(other_processor("x86_64"));

    // valgrind knows no io_uring.
    let memcheck = planner
        .test(&format!("-p heddle --test basic --test net --test sync {HERE}"))
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", VALGRIND)
        .env("HEDDLE_IO", "epoll");
    let step = planner.add("valgrind", "memcheck, told of every stack", 10, vec![memcheck]);
    // It runs one thread at a time.
    step.beside = Some("asan");
    step.unless(other_processor("x86_64"));
    step.unless(missing("valgrind"));

    // std is built with it, too: else what lies behind its locks looks like races wherever somebody
    // has waited for one, which is a matter of chance.
    let known = planner.repo.root.join("scripts/tsan.supp");
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg heddle_tsan";
    let runtime = "--test basic --test net --test sync --test sync_priority";
    let raced = [
        planner.test(&format!("-p heddle {runtime} {HERE}")),
        planner.test(&format!("-p heddle-capi --test tsan {HERE}")),
    ];
    let raced = raced.map(|call| {
        planner
            .apart(call, "tsan", flags)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_UNSTABLE_BUILD_STD", "std,test,panic_unwind")
            .env("TSAN_OPTIONS", &format!("suppressions={}", known.display()))
    });
    let step = planner.add("tsan", "thread sanitizer, told of every switch", 30, raced.into());
    step.unless(other_processor("x86_64"));
    step.unless(missing_std());
}

/// A short run of each fuzz target, with the flags that cargo-fuzz would pass. The seed is fixed:
/// this proves that the targets live and the obvious holds; long runs are for people.
fn fuzz(planner: &mut Planner) {
    let findings = planner.repo.target().join("ci");
    // A fuzzer uses one processor.
    let targets = [
        ("fuzz-record", "record", "table", None),
        ("fuzz-ice", "ice", "session", Some("fuzz-record")),
        ("fuzz-policy", "preload", "policy", None),
        ("fuzz-profile", "preload", "profile", Some("fuzz-policy")),
        ("fuzz-plan", "preload", "plan", None),
    ];
    for (name, folder, target, beside) in targets {
        let run = planner.cargo(&format!(
            "run --manifest-path {folder}/fuzz/Cargo.toml --bin {target} \
             --target x86_64-unknown-linux-gnu -- -max_total_time=10 -seed=1 \
             -rss_limit_mb=4096 -artifact_prefix={}/",
            findings.display()
        ));
        let run = planner.apart(run, "fuzz", FUZZ_FLAGS).env("RUSTC_BOOTSTRAP", "1");
        let step = planner.add(name, "bytes from a fuzzer, for 10 s", 10, vec![run]);
        step.beside = beside;
        step.unless(other_processor("x86_64"));
        step.unless(missing("c++"));
    }
}

fn aarch64(planner: &mut Planner) {
    // These start themselves or others as programs, which the emulator cannot, or look at the
    // memory of the process, which is mostly the emulator's.
    let record = integration_tests(planner.repo, "record", &["layout", "limits"]);
    let mut not_here = vec!["decay", "decay_caches", "full_memory", "gdb", "net_limits"];
    not_here.extend(["process", "reports", "sync_priority"]);
    // These fork beside other threads: the emulator's own locks stay held in the child.
    not_here.extend(["lot_fork", "fork_light"]);
    // Of their own flags; and minutes of it.
    not_here.extend(["loom", "sim", "sim_lot", "stress"]);
    let runtime = integration_tests(planner.repo, "runtime", &not_here);
    let triple = AARCH64.to_uppercase().replace('-', "_");
    let calls = [("heddle-record", record), ("heddle", runtime)].map(|(package, tests)| {
        let call = planner.test(&format!("-p {package} --lib {tests} --target {AARCH64}"));
        planner
            .apart(call, "aarch64", "")
            // What is built ahead costs no time; what is emulated does.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env(&format!("CARGO_TARGET_{triple}_LINKER"), AARCH64_CC)
            .env(&format!("CARGO_TARGET_{triple}_RUNNER"), QEMU)
    });
    let step = planner.add("aarch64", "record and runtime on aarch64, emulated", 15, calls.into());
    step.unless(other_processor("x86_64"));
    step.unless(missing("qemu-aarch64"));
    step.unless(missing(AARCH64_CC));
    step.unless(missing_target(AARCH64));
}

/// `--test NAME` for each integration test of a folder, but for some.
fn integration_tests(repo: &Repo, folder: &str, but: &[&str]) -> String {
    let Ok(entries) = fs::read_dir(repo.root.join(folder).join("tests")) else {
        return String::new();
    };
    let names = entries.filter_map(|entry| test_name(&entry.ok()?.path()));
    let mut names: Vec<String> = names.filter(|name| !but.contains(&name.as_str())).collect();
    names.sort();
    names.iter().map(|name| format!("--test {name} ")).collect()
}

/// As cargo finds tests: a file `NAME.rs`, or a folder with a `main.rs` in it.
fn test_name(path: &Path) -> Option<String> {
    let name = match path.join("main.rs").is_file() {
        true => path.file_name(),
        false => path.file_name().filter(|_| path.extension().is_some_and(|it| it == "rs")),
    };
    let name = name?.to_str()?;
    Some(name.trim_end_matches(".rs").to_owned())
}

fn product(planner: &mut Planner) {
    let staged = planner.repo.target().join("ci").join("staged");
    let staged = staged.to_string_lossy();
    let clear = Call::new("rm").args(&["-rf", &staged]);
    let install = Call::new("make").args(&["install", "PREFIX=/usr", &format!("DESTDIR={staged}")]);
    let check = Call::new("sh").args(&["scripts/check-install", &staged]);
    let xtask = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let smoke = Call::new(&xtask.to_string_lossy()).args(&["smoke"]);
    planner.add("make-run", "make run serves; an interrupt ends it", 15, vec![smoke]);
    planner.build_ahead(planner.cargo("build --release -p heddle-cli --bin heddle"));
    planner.add(
        "make-install",
        "make install, then use what it installed",
        15,
        vec![clear, install, check],
    );
    planner.build_ahead(Call::new("make").args(&["build"]));
}

fn missing(command: &str) -> Option<String> {
    (!has_command(command)).then(|| format!("{command} is not installed and could not be"))
}

fn missing_target(triple: &str) -> Option<String> {
    let listed = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let there = listed.is_ok_and(|text| text.lines().any(|line| line == triple));
    (!there).then(|| format!("the Rust target {triple} is not installed and could not be"))
}

/// std can be built here: its source is there, and the crates that it names were fetched.
fn missing_std() -> Option<String> {
    let rustc = Command::new("rustc").args(["--print", "sysroot"]).output();
    let root = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let manifest =
        Path::new(&root.unwrap_or_default()).join("lib/rustlib/src/rust/library/Cargo.toml");
    let mut fetch = Command::new("cargo");
    fetch.args(["fetch", "--quiet", "--locked", "--offline", "--manifest-path"]).arg(manifest);
    let fetched = fetch.env("RUSTC_BOOTSTRAP", "1").output();
    let there = fetched.is_ok_and(|output| output.status.success());
    (!there)
        .then(|| "the source of std (rust-src) is not there and could not be fetched".to_owned())
}

fn other_processor(wanted: &str) -> Option<String> {
    (std::env::consts::ARCH != wanted)
        .then(|| format!("set up for {wanted}, this is {}", std::env::consts::ARCH))
}
