//! Compiles and runs the C test programs, one per behaviour, in every way that heddle offers.
//!
//! Each program is built twice: against the C library's own threads, which shows that the test
//! asks no more than POSIX promises, and with `-include heddle/pthread.h` against libheddle, which
//! then runs it on each backend and on each kind of I/O. Exit status 0 holds, 77 skips with a
//! reason, anything else or a timeout fails. Arguments that are no options select programs by
//! part of their name.
//!
//! Invariant: the run ends; every program has a time limit, and none outlives the run.

mod common;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::{Library, succeed};

const TIME_LIMIT: Duration = Duration::from_secs(30);
const STATUS_SKIP: i32 = 77;

/// How a program is built.
#[derive(Clone, Copy, PartialEq)]
enum Build {
    System,
    Heddle,
}

/// How a built program is run: a label and what the environment says.
struct Way {
    label: &'static str,
    build: Build,
    env: &'static [(&'static str, &'static str)],
}

const WAYS: &[Way] = &[
    Way { label: "system", build: Build::System, env: &[] },
    Way {
        label: "uring",
        build: Build::Heddle,
        env: &[("HEDDLE_BACKEND", "user"), ("HEDDLE_IO", "uring")],
    },
    Way {
        label: "epoll",
        build: Build::Heddle,
        env: &[("HEDDLE_BACKEND", "user"), ("HEDDLE_IO", "epoll")],
    },
    Way {
        label: "full",
        build: Build::Heddle,
        env: &[("HEDDLE_BACKEND", "user"), ("HEDDLE_THREADS", "full")],
    },
    Way { label: "native", build: Build::Heddle, env: &[("HEDDLE_BACKEND", "native")] },
];

enum Outcome {
    Pass,
    Skip(String),
    Fail(String),
}

#[derive(Default)]
struct Tally {
    passed: usize,
    skipped: usize,
    failed: usize,
}

struct Suite {
    folder: PathBuf,
    out: PathBuf,
    library: PathBuf,
}

impl Suite {
    fn prepare() -> Result<Self, String> {
        let library = Library::build()?;
        let out = library.folder.clone();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf();
        Ok(Suite { folder, out, library: library.folder })
    }

    fn programs(&self, filters: &[String]) -> Result<Vec<PathBuf>, String> {
        let entries = fs::read_dir(self.folder.join("tests")).map_err(|e| e.to_string())?;
        let mut programs: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "c" || end == "cpp"))
            .filter(|path| {
                let name = path.to_string_lossy();
                filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
            })
            .collect();
        programs.sort();
        Ok(programs)
    }

    fn executable(&self, source: &Path, build: Build) -> PathBuf {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let folder = if build == Build::System { "system" } else { "heddle" };
        self.out.join(folder).join(&*name)
    }

    /// Compiles a program unless what is there is newer than everything it is made from.
    fn compile(&self, source: &Path, build: Build) -> Result<(), String> {
        let executable = self.executable(source, build);
        let include = self.folder.join("include");
        let inputs = [
            source.to_path_buf(),
            self.folder.join("tests/check.h"),
            include.join("heddle.h"),
            include.join("heddle/pthread.h"),
            include.join("heddle/types.h"),
        ];
        let built = modified(&executable);
        if built.is_some() && inputs.iter().all(|input| modified(input) < built) {
            return Ok(());
        }
        fs::create_dir_all(executable.parent().unwrap()).map_err(|e| e.to_string())?;
        let cxx = source.extension().is_some_and(|end| end == "cpp");
        let mut compiler = Command::new(if cxx { "c++" } else { "cc" });
        compiler.arg(if cxx { "-std=gnu++17" } else { "-std=gnu11" });
        compiler.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I"]).arg(&include);
        if build == Build::Heddle {
            compiler.args(["-include", "heddle/pthread.h"]);
        }
        compiler.arg(source).arg("-o").arg(&executable);
        match build {
            Build::System => compiler.arg("-pthread"),
            Build::Heddle => compiler
                .arg("-L")
                .arg(&self.library)
                .arg("-lheddle")
                .arg(format!("-Wl,-rpath,{}", self.library.display())),
        };
        succeed(&mut compiler)
    }

    fn run(&self, source: &Path, way: &Way) -> Outcome {
        let executable = self.executable(source, way.build);
        let log = self.out.join(format!(
            "{}.{}.log",
            source.file_stem().unwrap_or_default().to_string_lossy(),
            way.label
        ));
        match run_limited(&executable, way.env, &log) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Fail(error),
        }
    }
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    path.metadata().and_then(|meta| meta.modified()).ok()
}

/// Runs one program in its own process group; the whole group ends with it.
fn run_limited(program: &Path, env: &[(&str, &str)], log: &Path) -> Result<Outcome, String> {
    let output = File::create(log).map_err(|e| e.to_string())?;
    let errors = output.try_clone().map_err(|e| e.to_string())?;
    let mut child = Command::new(program)
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    let group = -i32::try_from(child.id()).unwrap_or(0);
    let end = Instant::now() + TIME_LIMIT;
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break Some(status),
            None if Instant::now() > end => break None,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    // SAFETY: kill has no memory effects; the group is the child's own, made above.
    unsafe { libc::kill(group, libc::SIGKILL) };
    let mut text = String::new();
    if let Ok(mut file) = File::open(log) {
        let mut bytes = Vec::new();
        let _ = file.read_to_end(&mut bytes);
        text = String::from_utf8_lossy(&bytes).trim().to_string();
    }
    let Some(status) = status else {
        let _ = child.wait();
        return Ok(Outcome::Fail(format!("no end within {TIME_LIMIT:?}; {text}")));
    };
    Ok(match status.code() {
        Some(0) => Outcome::Pass,
        Some(STATUS_SKIP) => Outcome::Skip(text),
        Some(code) => Outcome::Fail(format!("exit {code}; {text}")),
        None => Outcome::Fail(format!("signal {}; {text}", status.signal().unwrap_or(0))),
    })
}

/// Calls `work` for each item on a few kernel threads; the programs mostly wait.
fn in_parallel<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    let width = std::thread::available_parallelism().map_or(2, usize::from) * 2;
    let queue = Mutex::new(VecDeque::from(items));
    std::thread::scope(|scope| {
        for _ in 0..width {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().pop_front();
                    match next {
                        Some(item) => work(item),
                        None => break,
                    }
                }
            });
        }
    });
}

fn test_all(filters: &[String]) -> Result<bool, String> {
    let suite = Suite::prepare()?;
    let programs = suite.programs(filters)?;
    let jobs: Vec<_> = programs
        .iter()
        .flat_map(|source| [(source, Build::System), (source, Build::Heddle)])
        .collect();
    let broken = Mutex::new(Vec::new());
    in_parallel(jobs, |(source, build)| {
        if let Err(error) = suite.compile(source, build) {
            broken.lock().unwrap().push(error);
        }
    });
    let broken = broken.into_inner().unwrap();
    if let Some(error) = broken.first() {
        return Err(format!("{} programs do not compile; the first: {error}", broken.len()));
    }
    let mut all_hold = true;
    for way in WAYS {
        let tally = Mutex::new(Tally::default());
        let start = Instant::now();
        in_parallel(programs.iter().collect(), |source: &PathBuf| {
            let outcome = suite.run(source, way);
            let name = source.file_name().unwrap_or_default().to_string_lossy();
            let mut tally = tally.lock().unwrap();
            match outcome {
                Outcome::Pass => tally.passed += 1,
                Outcome::Skip(reason) => {
                    tally.skipped += 1;
                    println!("{:6} {name}: {reason}", way.label);
                }
                Outcome::Fail(reason) => {
                    tally.failed += 1;
                    println!("{:6} {name}: FAILED: {reason}", way.label);
                }
            }
        });
        let tally = tally.into_inner().unwrap();
        println!(
            "{:6} {} passed, {} skipped, {} failed in {:.1} s",
            way.label,
            tally.passed,
            tally.skipped,
            tally.failed,
            start.elapsed().as_secs_f64()
        );
        all_hold &= tally.failed == 0;
    }
    Ok(all_hold)
}

fn main() -> ExitCode {
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if Command::new("cc").arg("--version").output().is_err() {
        println!("skip: the C programs need a C compiler (cc), and there is none");
        return ExitCode::SUCCESS;
    }
    match test_all(&filters) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
