//! Compiles and runs the C test programs, one per behaviour, in every way that heddle offers.
//!
//! Each program is built twice: against the C library's own threads, which shows that the test
//! asks no more than POSIX promises, and with `-include heddle/pthread.h` against libheddle, which
//! then runs it on each backend and on each kind of I/O. Arguments that are no options select
//! programs by part of their name.

mod common;
#[path = "common/programs.rs"]
mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use common::{Library, succeed};
use programs::{Outcome, Runs};

const TIME_LIMIT: Duration = Duration::from_secs(30);

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
            .filter(|path| programs::is_source(path))
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
        if programs::is_current(&executable, &inputs) {
            return Ok(());
        }
        fs::create_dir_all(executable.parent().unwrap()).map_err(|e| e.to_string())?;
        let mut compiler = programs::compiler(source);
        compiler.args(["-Werror", "-I"]).arg(&include);
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
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let log = self.out.join(format!("{name}.{}.log", way.label));
        let mut program = Command::new(executable);
        program.envs(way.env.iter().copied());
        programs::run_limited(program, &log, TIME_LIMIT)
    }
}

fn test_all() -> Result<bool, String> {
    let suite = Suite::prepare()?;
    let sources = suite.programs(&programs::filters())?;
    let builds = [Build::System, Build::Heddle];
    let jobs: Vec<_> =
        sources.iter().flat_map(|source| builds.map(|build| (source, build))).collect();
    programs::build_all(jobs, |(source, build)| suite.compile(source, build))?;
    let name =
        |source: &PathBuf| source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let runs: Vec<Runs<Way, PathBuf>> =
        WAYS.iter().map(|way| Runs { label: way.label, way, programs: sources.clone() }).collect();
    Ok(programs::run_all(&runs, name, |source, way| suite.run(source, way)))
}

fn main() -> ExitCode {
    programs::end(test_all)
}
