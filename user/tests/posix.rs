//! Runs C programs that know nothing of heddle with libheddle-user.so loaded into them.
//!
//! The programs are those in `tests/`, each about one line of POSIX, and those of the C API in
//! `capi/tests/`, built against the C library: what they ask of POSIX holds here, too. Exit status
//! 0 holds, 77 skips with a reason, anything else or a timeout fails. Those in `tests/` are run
//! without the library first, which shows that they ask no more than POSIX promises. Arguments
//! that are no options select programs by part of their name.
//!
//! With `HEDDLE_NIGHTLY` set the programs are run many times instead, see `posix/nightly.rs`.
//!
//! Invariant: the run ends; every program has a time limit, and none outlives the run.

#[path = "posix/nightly.rs"]
mod nightly;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const TIME_LIMIT: Duration = Duration::from_secs(60);
const STATUS_SKIP: i32 = 77;

/// How a program is run: a label and what the environment says.
struct Way {
    label: &'static str,
    loaded: bool,
    env: &'static [(&'static str, &'static str)],
}

const NATIVE: Way = Way { label: "native", loaded: false, env: &[] };

const WAYS: &[Way] = &[
    Way { label: "user", loaded: true, env: &[] },
    Way { label: "one worker", loaded: true, env: &[("HEDDLE_WORKERS", "1")] },
    Way { label: "epoll", loaded: true, env: &[("HEDDLE_IO", "epoll")] },
];

/// Programs of the C API that ask for what the library does not do, and what that is.
const LEFT_OUT: &[(&str, &str)] = &[];

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
    repo: PathBuf,
    out: PathBuf,
    library: PathBuf,
}

/// A program: its source, and whether it is one of ours.
#[derive(Clone)]
struct Program {
    source: PathBuf,
    own: bool,
}

impl Program {
    fn name(&self) -> String {
        self.source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Suite {
    /// Builds the library with the test's profile.
    fn prepare() -> Result<Self, String> {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let repo = crate_folder.parent().ok_or("no repository")?.to_path_buf();
        let exe = std::env::current_exe().map_err(|e| e.to_string())?;
        let profile = exe.parent().and_then(Path::parent).ok_or("no target folder")?;
        let out = profile.join("user-programs");
        fs::create_dir_all(&out).map_err(|e| e.to_string())?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--package", "heddle-user", "--lib", "--target-dir"]);
        cargo.arg(profile.parent().ok_or("no target folder")?);
        if profile.file_name().is_some_and(|name| name == "release") {
            cargo.arg("--release");
        }
        succeed(cargo.current_dir(crate_folder))?;
        let archive = profile.join("libheddle_user.a");
        succeed(Command::new(crate_folder.join("link-shared.sh")).arg(&archive).arg(&out))?;
        let library = out.join("libheddle-user.so");
        Ok(Suite { repo, out, library })
    }

    fn programs(&self, filters: &[String]) -> Result<Vec<Program>, String> {
        let mut programs = Vec::new();
        for (folder, own) in
            [("user/tests", true), ("user/tests/calls", true), ("capi/tests", false)]
        {
            let Ok(entries) = fs::read_dir(self.repo.join(folder)) else { continue };
            let sources = entries.filter_map(|entry| Some(entry.ok()?.path()));
            programs.extend(
                sources
                    .filter(|path| path.extension().is_some_and(|e| e == "c" || e == "cpp"))
                    .map(|source| Program { source, own }),
            );
        }
        programs.retain(|program| {
            let name = program.name();
            let is_left_out = |(part, _): &(&str, &str)| name.starts_with(part);
            (program.own || !LEFT_OUT.iter().any(is_left_out))
                && (filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str())))
        });
        programs.sort_by_key(Program::name);
        Ok(programs)
    }

    fn executable(&self, program: &Program) -> PathBuf {
        self.out.join(if program.own { "own" } else { "capi" }).join(program.name())
    }

    /// Compiles a program unless what is there is newer than everything it is made from.
    fn compile(&self, program: &Program) -> Result<(), String> {
        let executable = self.executable(program);
        let include = self.repo.join("capi/tests");
        let mut inputs = vec![program.source.clone(), include.join("check.h")];
        // A program of several files has the others in a folder of its name.
        let parts = fs::read_dir(program.source.with_extension("")).into_iter().flatten();
        inputs.extend(parts.filter_map(|entry| Some(entry.ok()?.path())));
        let built = modified(&executable);
        if built.is_some() && inputs.iter().all(|input| modified(input) < built) {
            return Ok(());
        }
        fs::create_dir_all(executable.parent().unwrap()).map_err(|e| e.to_string())?;
        let cxx = program.source.extension().is_some_and(|end| end == "cpp");
        let mut compiler = Command::new(if cxx { "c++" } else { "cc" });
        compiler.arg(if cxx { "-std=gnu++17" } else { "-std=gnu11" });
        compiler.args(["-O1", "-g", "-Wall", "-Wextra", "-I"]).arg(&include);
        compiler.arg("-I").arg(self.repo.join("capi/include"));
        if program.name().starts_with("openmp") && has_openmp() {
            compiler.arg("-fopenmp");
        }
        compiler.arg(&program.source).arg("-o").arg(&executable).args(["-pthread", "-ldl", "-lm"]);
        succeed(&mut compiler)
    }

    fn run(&self, program: &Program, way: &Way) -> Outcome {
        let executable = self.executable(program);
        let log = executable.with_extension(format!("{}.log", way.label.replace(' ', "-")));
        let mut command = Command::new(&executable);
        command.envs(way.env.iter().copied());
        if way.loaded {
            command.env("LD_PRELOAD", &self.library);
        }
        outcome_of(command, &log, TIME_LIMIT)
    }
}

/// Whether the C compiler knows OpenMP; a program says by itself that it was built without.
fn has_openmp() -> bool {
    let mut asked = Command::new("cc");
    asked.args(["-fopenmp", "-x", "c", "-fsyntax-only", "/dev/null"]).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    path.metadata().and_then(|meta| meta.modified()).ok()
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{:?}: {}\n{errors}", command.get_program(), output.status))
}

fn outcome_of(program: Command, log: &Path, limit: Duration) -> Outcome {
    run_limited(program, log, limit).unwrap_or_else(Outcome::Fail)
}

/// Runs one program in its own process group; the whole group ends with it.
fn run_limited(mut program: Command, log: &Path, limit: Duration) -> Result<Outcome, String> {
    let output = File::create(log).map_err(|e| e.to_string())?;
    let errors = output.try_clone().map_err(|e| e.to_string())?;
    let mut child = program
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|e| format!("{program:?}: {e}"))?;
    let group = -i32::try_from(child.id()).unwrap_or(0);
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break Some(status),
            None if Instant::now() > end => break None,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    // SAFETY: kill has no memory effects; the group is the child's own, made above.
    unsafe { libc::kill(group, libc::SIGKILL) };
    let text = fs::read(log).map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&text).trim().to_string();
    let Some(status) = status else {
        let _ = child.wait();
        return Ok(Outcome::Fail(format!("no end within {limit:?}; {text}")));
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

/// Runs the programs in one way; whether all hold.
fn test_way(suite: &Suite, programs: &[Program], way: &Way) -> bool {
    let tally = Mutex::new(Tally::default());
    let start = Instant::now();
    in_parallel(programs.iter().collect(), |program: &Program| {
        let outcome = suite.run(program, way);
        let mut tally = tally.lock().unwrap();
        match outcome {
            Outcome::Pass => tally.passed += 1,
            Outcome::Skip(reason) => {
                tally.skipped += 1;
                println!("{:10} {}: {reason}", way.label, program.name());
            }
            Outcome::Fail(reason) => {
                tally.failed += 1;
                println!("{:10} {}: FAILED: {reason}", way.label, program.name());
            }
        }
    });
    let tally = tally.into_inner().unwrap();
    println!(
        "{:10} {} passed, {} skipped, {} failed in {:.1} s",
        way.label,
        tally.passed,
        tally.skipped,
        tally.failed,
        start.elapsed().as_secs_f64()
    );
    tally.failed == 0
}

fn test_all(filters: &[String]) -> Result<bool, String> {
    let suite = Suite::prepare()?;
    let programs = suite.programs(filters)?;
    let broken = Mutex::new(Vec::new());
    in_parallel(programs.iter().collect(), |program: &Program| {
        if let Err(error) = suite.compile(program) {
            broken.lock().unwrap().push(error);
        }
    });
    let broken = broken.into_inner().unwrap();
    if let Some(error) = broken.first() {
        return Err(format!("{} programs do not compile; the first: {error}", broken.len()));
    }
    if let Some(asked) = nightly::asked() {
        return Ok(nightly::run(&suite, &programs, asked));
    }
    for (part, what) in LEFT_OUT {
        println!("not run: {part} of the C API's programs: {what}");
    }
    let own: Vec<Program> = programs.iter().filter(|program| program.own).cloned().collect();
    let mut all_hold = test_way(&suite, &own, &NATIVE);
    for way in WAYS {
        all_hold &= test_way(&suite, &programs, way);
    }
    Ok(all_hold)
}

fn main() -> ExitCode {
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        println!("skip: programs are run on user-level threads on x86-64 with glibc alone");
        return ExitCode::SUCCESS;
    }
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
