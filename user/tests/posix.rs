//! Runs C programs that know nothing of heddle with their threads on user-level threads.
//!
//! The programs are those in `tests/`, each about one line of POSIX, and those of the C API in
//! `capi/tests/`, built against the C library: what they ask of POSIX holds here, too. Those in
//! `tests/` are run without the library first, which shows that they ask no more than POSIX
//! promises. Then come the ways in which programs are run; the last ones take a third of the C
//! API's programs, by turns, and all of them with `HEDDLE_NIGHTLY=ways`:
//!
//! - libheddle-user alone, as it is, with one worker, and with rings;
//! - `heddle run --threads user`, so with both libraries and the plan;
//! - libheddle-user where it makes kernel threads alone, as when the runtime can't start (all but
//!   [`LIMITS`]);
//! - with the C libraries of other Debian releases, their loaders called directly
//!   (`scripts/c-libraries`).
//!
//! In the other ways a program that runs on kernel threads has failed. Arguments that are no
//! options select programs by part of their name. With `HEDDLE_NIGHTLY` set otherwise the programs
//! are run many times instead, see `posix/nightly.rs`.

mod common;
#[path = "posix/nightly.rs"]
mod nightly;
#[path = "../../capi/tests/common/programs.rs"]
mod programs;

use std::ffi::CStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use programs::{Outcome, Runs};

const TIME_LIMIT: Duration = Duration::from_secs(60);
/// How long a descriptor may be ready before who waits for it counts as forgotten.
const CHECK_MS: &str = "4000";
/// What the library or the command says when threads are the kernel's.
const REFUSAL: &str = "heddle: threads are kernel threads";
const LOADER: &str = "ld-linux-x86-64.so.2";
/// Releases of Debian whose C libraries programs are run with.
const SUITES: [&str; 3] = ["bookworm", "trixie", "sid"];

/// How a program is started.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Alone,
    /// With libheddle-user loaded into it.
    Loaded,
    /// By `heddle run --threads user`.
    Command,
}

/// How programs are run: a label, and what the environment says.
#[derive(Clone)]
struct Way {
    label: String,
    how: How,
    /// The folder of the C library, if it is not this system's.
    library: Option<PathBuf>,
    env: &'static [(&'static str, &'static str)],
}

impl Way {
    fn new(label: &str, how: How, env: &'static [(&'static str, &'static str)]) -> Way {
        Way { label: label.to_owned(), how, library: None, env }
    }

    /// Whether every program is run so, each time.
    fn takes_all(&self) -> bool {
        let is_quick = self.how != How::Command && self.library.is_none();
        is_quick || std::env::var(common::drawn::ASKED).is_ok_and(|text| text == nightly::WAYS)
    }

    fn native(&self) -> Way {
        Way { label: format!("{} native", self.label), how: How::Alone, ..self.clone() }
    }
}

/// Has the library make kernel threads.
const REFUSED: &[(&str, &str)] = &[("HEDDLE_BACKEND", "native")];
/// One that makes a thread, and leaves its standard error alone.
const SAYS: &str = "join_main";
/// Programs that ask for more than kernel threads do beside the library, and why.
const LIMITS: [(&str, &str); 2] = [
    ("sync_kinds", "a kernel thread that waits for a shared condition is not cancelled there"),
    ("thread_kernel_threads", "it counts kernel threads"),
];

/// With the library alone.
fn loaded_ways() -> [Way; 3] {
    [
        Way::new("user", How::Loaded, &[]),
        Way::new("one worker", How::Loaded, &[("HEDDLE_WORKERS", "1")]),
        Way::new("uring", How::Loaded, &[("HEDDLE_IO", "uring")]),
    ]
}

struct Suite {
    repo: PathBuf,
    out: PathBuf,
    /// The command, with the library beside it.
    command: PathBuf,
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
    /// Builds the command and the library with the test's profile.
    fn prepare() -> Result<Self, String> {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let repo = crate_folder.parent().ok_or("no repository")?.to_path_buf();
        let command = common::heddle().to_path_buf();
        let out = command.with_file_name("user-programs");
        fs::create_dir_all(&out).map_err(|e| e.to_string())?;
        let library = command.with_file_name("libheddle-user.so");
        Ok(Suite { repo, out, command, library })
    }

    fn programs(&self, filters: &[String]) -> Vec<Program> {
        let mut programs = Vec::new();
        for (folder, own) in [("user/tests", true), ("capi/tests", false)] {
            let Ok(entries) = fs::read_dir(self.repo.join(folder)) else { continue };
            let sources = entries.filter_map(|entry| Some(entry.ok()?.path()));
            let sources = sources.filter(|path| programs::is_source(path));
            programs.extend(sources.map(|source| Program { source, own }));
        }
        programs.retain(|program| {
            let name = program.name();
            filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str()))
        });
        programs.sort_by_key(Program::name);
        programs
    }

    fn executable(&self, program: &Program) -> PathBuf {
        self.out.join(if program.own { "own" } else { "capi" }).join(program.name())
    }

    /// Compiles a program unless what is there is newer than everything it is made from.
    fn compile(&self, program: &Program) -> Result<(), String> {
        let executable = self.executable(program);
        let include = self.repo.join("capi/tests");
        let mut inputs = vec![program.source.clone(), include.join("check.h")];
        // A program of several files has the others in a folder of its name: headers, and libraries
        // that it loads from where PARTS says.
        let parts = fs::read_dir(program.source.with_extension("")).into_iter().flatten();
        let parts: Vec<PathBuf> = parts.filter_map(|entry| Some(entry.ok()?.path())).collect();
        inputs.extend(parts.iter().cloned());
        inputs.extend(headers_beside(&program.source));
        if programs::is_current(&executable, &inputs) {
            return Ok(());
        }
        fs::create_dir_all(executable.parent().unwrap()).map_err(|e| e.to_string())?;
        let mut compiler = programs::compiler(&program.source);
        compiler.arg("-I").arg(&include).arg("-I").arg(self.repo.join("capi/include"));
        if program.name().starts_with("openmp") && has_openmp() {
            compiler.arg("-fopenmp");
        }
        if program.name().ends_with("_cxx20") {
            compiler.arg("-std=gnu++2a");
        }
        for part in parts.iter().filter(|part| programs::is_source(part)) {
            let name = part.file_stem().unwrap_or_default().to_string_lossy();
            let mut compiler = programs::compiler(part);
            let library = format!("{}-{name}.so", executable.display());
            build(compiler.args(["-shared", "-fPIC", "-o", &library]).arg(part))?;
        }
        compiler.arg(format!("-DPARTS=\"{}-\"", executable.display()));
        compiler.arg(&program.source).arg("-o").arg(&executable).args(["-pthread", "-ldl", "-lm"]);
        build(&mut compiler)
    }

    fn run(&self, program: &Program, way: &Way) -> Outcome {
        if let Some((_, why)) = LIMITS.iter().find(|(name, _)| *name == program.name())
            && way.env == REFUSED
        {
            return Outcome::Skip((*why).into());
        }
        let outcome = self.run_once(program, way);
        if let Outcome::Fail(why) = &outcome
            && way.library.is_some()
            && let Outcome::Fail(_) = self.run_once(program, &way.native())
        {
            // It asks for what that C library does not do.
            return Outcome::Skip(format!("nor does it hold without heddle: {why}"));
        }
        outcome
    }

    fn run_once(&self, program: &Program, way: &Way) -> Outcome {
        let executable = self.executable(program);
        let log = executable.with_extension(format!("{}.log", way.label.replace(' ', "-")));
        let mut command = match &way.library {
            None => Command::new(&executable),
            Some(folder) => {
                let mut loader = Command::new(folder.join(LOADER));
                loader.arg("--library-path").arg(folder).arg(&executable);
                loader
            }
        };
        match way.how {
            How::Alone => {}
            How::Loaded => {
                command.env("LD_PRELOAD", &self.library);
            }
            How::Command => {
                command = Command::new(&self.command);
                command.args(["run", "--threads", "user", "--report", "none", "--"]);
                command.arg(&executable).env("XDG_STATE_HOME", self.out.join("state"));
            }
        }
        // An event that is lost ends the program with a line that says so, not by the time limit.
        command.envs(way.env.iter().copied()).env("HEDDLE_CHECK", CHECK_MS);
        match programs::run_limited(command, &log, TIME_LIMIT) {
            Outcome::Pass if was_refused(&log) && way.env != REFUSED => {
                Outcome::Fail("it ran on kernel threads".into())
            }
            Outcome::Pass if way.env == REFUSED && program.name() == SAYS && !was_refused(&log) => {
                Outcome::Fail("it ran on user-level threads".into())
            }
            outcome => outcome,
        }
    }
}

/// What programs of a folder may share.
fn headers_beside(source: &Path) -> impl Iterator<Item = PathBuf> {
    let beside = source.parent().and_then(|folder| fs::read_dir(folder).ok());
    let paths = beside.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|end| end == "h"))
}

fn build(compiler: &mut Command) -> Result<(), String> {
    let output = compiler.output().map_err(|e| format!("{compiler:?}: {e}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("{compiler:?}: {errors}"))
}

fn was_refused(log: &Path) -> bool {
    fs::read(log).is_ok_and(|text| String::from_utf8_lossy(&text).contains(REFUSAL))
}

/// Whether the C compiler knows OpenMP; a program says by itself that it was built without.
fn has_openmp() -> bool {
    let mut asked = Command::new("cc");
    asked.args(["-fopenmp", "-x", "c", "-fsyntax-only", "/dev/null"]).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}

/// Ways with the C libraries of other releases, which are unpacked below `folder`; says which are
/// left out, and why.
fn other_libraries(repo: &Path, folder: &Path) -> Vec<Way> {
    let mut fetch = Command::new(repo.join("scripts/c-libraries"));
    if let Err(error) = fetch.arg(folder).args(SUITES).status() {
        println!("skip: scripts/c-libraries: {error}");
    }
    let version = |text: &str| -> Vec<u32> {
        text.split(['.', '-']).take(2).map_while(|part| part.parse().ok()).collect()
    };
    // SAFETY: a text of the C library's own.
    let own = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy();
    let mut ways = Vec::new();
    for suite in SUITES {
        let Ok(text) = fs::read_to_string(folder.join(suite).join("version")) else {
            println!("skip: the C library of {suite} is not to be had here");
            continue;
        };
        let text = text.trim();
        if version(text) <= version(&own) {
            println!("skip: {suite} has glibc {text}; programs are built here for {own}");
            continue;
        }
        let number = text.split('-').next().unwrap_or_default();
        let mut way = Way::new(&format!("glibc {number}"), How::Loaded, &[]);
        way.library = Some(folder.join(suite).join("lib"));
        ways.push(way);
    }
    ways
}

/// Those of the programs that are run in this way, which has this place among all ways.
fn chosen(programs: &[Program], way: &Way, place: usize) -> Vec<Program> {
    let by_turns =
        |(index, program): &(usize, &Program)| program.own || (index + place).is_multiple_of(3);
    let all = programs.iter().enumerate();
    let chosen = all.filter(|it| way.takes_all() || by_turns(it));
    chosen.map(|(_, program)| program.clone()).collect()
}

fn test_all() -> Result<bool, String> {
    let filters = programs::filters();
    let suite = Suite::prepare()?;
    let programs = suite.programs(&filters);
    programs::build_all(programs.iter().collect(), |program| suite.compile(program))?;
    if let Some(asked) = nightly::asked() {
        return Ok(nightly::run(&suite, &programs, asked));
    }
    let own: Vec<Program> = programs.iter().filter(|program| program.own).cloned().collect();
    let mut ways = vec![Way::new("native", How::Alone, &[])];
    ways.extend(loaded_ways());
    ways.push(Way::new("heddle run", How::Command, &[]));
    // As where the runtime can't start.
    ways.push(Way::new("kernel threads", How::Loaded, REFUSED));
    let target = suite.command.parent().and_then(Path::parent).ok_or("no target folder")?;
    ways.extend(other_libraries(&suite.repo, &target.join("c-libraries")));
    let runs: Vec<Runs<Way, Program>> = ways
        .iter()
        .enumerate()
        .map(|(place, way)| {
            let programs = match way.how {
                How::Alone => own.clone(),
                // What was asked for by name is run in every way.
                _ if filters.is_empty() => chosen(&programs, way, place),
                _ => programs.clone(),
            };
            Runs { label: &way.label, way, programs }
        })
        .collect();
    Ok(programs::run_all(&runs, Program::name, |it, way| suite.run(it, way)))
}

fn main() -> ExitCode {
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        println!("skip: programs are run on user-level threads on x86-64 with glibc alone");
        return ExitCode::SUCCESS;
    }
    programs::end(test_all)
}
