//! Builds the programs under measurement, on demand and once per run.
//!
//! Invariant: a program that cannot be built is a reason in the report, never an end of the run.
//! Everything is built with optimisation into `peers` in the target folder.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// A program that the harness can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// heddle's side of the micro, memory, class and echo suites.
    HeddlePeer,
    /// Ice.
    HeddleHttp,
    Pthread,
    Epoll,
    Uring,
    Load,
    Go,
    Tokio,
    May,
    BoostFiber,
    Nginx,
    /// The command itself, for what it does to programs that do not know it.
    Heddle,
    /// What a record and a measured stack cost (`src/bin/heddle-tek.rs`).
    HeddleTek,
    Response,
    Events,
    Threads,
    /// The same in 32 bits.
    Threads32,
    Churn,
    /// libheddle-preload's stack measurement, alone.
    Peak,
    /// libheddle-user.so, beside the command.
    UserLibrary,
    /// An echo server with a thread per connection, on plain pthreads.
    Tpc,
    /// Loops of create + join and of sched_yield, and late wakes, on plain pthreads.
    Loops,
}

/// The last two: a Debian with 32-bit libraries only keeps the kernel's headers under the name of
/// the 64-bit architecture.
const FLAGS_32: [&str; 4] = ["-m32", "-pthread", "-idirafter", "/usr/include/x86_64-linux-gnu"];

/// The built programs.
pub struct Programs {
    sources: PathBuf,
    target: PathBuf,
    built: RefCell<HashMap<Program, Result<PathBuf, String>>>,
}

impl Programs {
    /// The target folder is the one that this program was built into.
    pub fn new() -> std::io::Result<Self> {
        let exe = std::env::current_exe()?;
        let target = exe.ancestors().nth(2).unwrap_or(Path::new("target")).to_path_buf();
        std::fs::create_dir_all(target.join("peers"))?;
        let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        Ok(Programs { sources, target, built: RefCell::default() })
    }

    /// The program's path, or why there is none.
    pub fn get(&self, program: Program) -> Result<PathBuf, String> {
        if let Some(known) = self.built.borrow().get(&program) {
            return known.clone();
        }
        let outcome = self.build(program);
        self.built.borrow_mut().insert(program, outcome.clone());
        outcome
    }

    /// Space for files of a run: served folders, nginx's configuration.
    pub fn scratch(&self) -> PathBuf {
        self.target.join("peers")
    }

    fn build(&self, program: Program) -> Result<PathBuf, String> {
        match program {
            Program::HeddlePeer => self.cargo_own("heddle-peer", "peer"),
            Program::HeddleHttp => self.cargo_own("heddle-http", "http"),
            Program::Pthread => self.compile("cc", "c/pthread_peer.c", &["-pthread"]),
            Program::Epoll => self.compile("cc", "c/epoll_server.c", &["-pthread"]),
            Program::Uring => self.compile("cc", "c/uring_server.c", &["-pthread", "-luring"]),
            Program::Load => self.compile("cc", "c/load.c", &[]),
            Program::BoostFiber => self.compile(
                "c++",
                "cpp/boost_fiber.cpp",
                &["-pthread", "-lboost_fiber", "-lboost_context"],
            ),
            Program::Go => self.go(),
            Program::Tokio => self.cargo_peer("tokio-peer"),
            Program::May => self.cargo_peer("may-peer"),
            Program::Nginx => find("nginx"),
            Program::Heddle => self.cargo_command(),
            Program::HeddleTek => self.cargo_own("heddle-tek", "tek"),
            Program::Response => self.compile("cc", "tek/response.c", &["-pthread"]),
            Program::Events => self.compile("cc", "tek/events.c", &[]),
            Program::Threads => self.compile("cc", "tek/threads.c", &["-pthread"]),
            Program::Threads32 => self.compile_as("cc", "tek/threads.c", "threads32", &FLAGS_32),
            Program::Churn => self.compile("cc", "tek/churn.c", &["-pthread"]),
            Program::Peak => self.peak(),
            Program::UserLibrary => self.user_library(),
            Program::Tpc => self.compile("cc", "unmodified/tpc.c", &["-pthread"]),
            Program::Loops => self.compile("cc", "unmodified/loops.c", &["-pthread"]),
        }
    }

    fn cargo_own(&self, name: &str, feature: &str) -> Result<PathBuf, String> {
        let mut cargo = Command::new(cargo());
        cargo.args(["build", "--release", "--quiet", "-p", "heddle-bench", "--bin", name]);
        cargo.args(["--no-default-features", "--features", feature]);
        cargo.arg("--target-dir").arg(&self.target).current_dir(&self.sources);
        finish(cargo, self.target.join("release").join(name))
    }

    /// The library's own source is compiled in, so that no copy of it is measured.
    fn peak(&self) -> Result<PathBuf, String> {
        let repo = self.sources.parent().unwrap_or(&self.sources);
        let include = |folder: &str| format!("-I{}", repo.join(folder).join("include").display());
        let source = |name: &str| repo.join("preload/c").join(name).display().to_string();
        let (record, preload) = (include("record"), include("preload"));
        let (peak, descriptor) = (source("peak.c"), source("descriptor.c"));
        let flags = [record.as_str(), &preload, &peak, &descriptor, "-pthread"];
        let built = self.target.join("peers/peak_cost");
        if modified(&built) < newest(&repo.join("preload/c")) {
            // Its peers' folder alone would not show that the library changed.
            let _ = std::fs::remove_file(&built);
        }
        self.compile("cc", "tek/peak_cost.c", &flags)
    }

    fn cargo_command(&self) -> Result<PathBuf, String> {
        let mut cargo = Command::new(cargo());
        cargo.args(["build", "--release", "--quiet", "-p", "heddle-cli", "--bin", "heddle"]);
        cargo.arg("--target-dir").arg(&self.target).current_dir(&self.sources);
        finish(cargo, self.target.join("release/heddle"))
    }

    /// The command looks for the library beside itself.
    fn user_library(&self) -> Result<PathBuf, String> {
        let folder = self.target.join("release");
        let mut cargo = Command::new(cargo());
        cargo.args(["build", "--release", "--quiet", "-p", "heddle-user"]);
        cargo.arg("--target-dir").arg(&self.target).current_dir(&self.sources);
        let archive = finish(cargo, folder.join("libheddle_user.a"))?;
        let repo = self.sources.parent().unwrap_or(&self.sources);
        let mut link = Command::new(repo.join("user/link-shared.sh"));
        link.arg(archive).arg(&folder);
        finish(link, folder.join("libheddle-user.so"))
    }

    fn cargo_peer(&self, name: &str) -> Result<PathBuf, String> {
        let target = self.target.join("peers/rust");
        let mut cargo = Command::new(cargo());
        cargo.args(["build", "--release", "--quiet", "--locked", "-p", name]);
        cargo.arg("--target-dir").arg(&target).current_dir(self.sources.join("peers/rust"));
        finish(cargo, target.join("release").join(name))
    }

    fn go(&self) -> Result<PathBuf, String> {
        let output = self.target.join("peers/go-peer");
        let mut go = Command::new(find("go")?);
        go.args(["build", "-o"]).arg(&output).arg(".").current_dir(self.sources.join("peers/go"));
        finish(go, output)
    }

    fn compile(&self, compiler: &str, source: &str, flags: &[&str]) -> Result<PathBuf, String> {
        let name = Path::new(source).file_stem().unwrap_or_default().to_string_lossy();
        self.compile_as(compiler, source, &name, flags)
    }

    fn compile_as(
        &self,
        compiler: &str,
        source: &str,
        name: &str,
        flags: &[&str],
    ) -> Result<PathBuf, String> {
        let source = self.sources.join("peers").join(source);
        let output = self.target.join("peers").join(name);
        // Headers lie beside the C sources; the C++ peer shares them.
        let folders = [source.parent().map(Path::to_path_buf), Some(self.sources.join("peers/c"))];
        let changed = folders.iter().flatten().filter_map(|folder| newest(folder)).max();
        if modified(&output).is_some_and(|built| Some(built) > changed) {
            return Ok(output);
        }
        // Built beside and renamed: another run of the harness may be using the old one.
        let fresh = output.with_extension(std::process::id().to_string());
        let mut command = Command::new(find(compiler)?);
        command.args(["-O2", "-g", "-Wall", "-o"]).arg(&fresh).arg(&source).args(flags);
        let fresh = finish(command, fresh)?;
        std::fs::rename(&fresh, &output).map_err(|e| format!("{}: {e}", output.display()))?;
        Ok(output)
    }

    /// What the report says about a peer's version; empty where nothing sensible is known.
    pub fn version(&self, program: Program) -> String {
        match program {
            Program::Go => line_of(Command::new("go").arg("version")),
            Program::Nginx => line_of(Command::new("nginx").arg("-v")),
            Program::Pthread | Program::Epoll | Program::Uring => {
                line_of(Command::new("cc").arg("--version"))
            }
            Program::BoostFiber => boost_version(),
            Program::Tokio => self.locked("tokio"),
            Program::May => self.locked("may"),
            Program::HeddlePeer | Program::HeddleHttp | Program::Heddle | Program::HeddleTek => {
                env!("CARGO_PKG_VERSION").to_string()
            }
            Program::Load
            | Program::Response
            | Program::Events
            | Program::Threads
            | Program::Threads32
            | Program::Churn
            | Program::Peak
            | Program::UserLibrary
            | Program::Tpc
            | Program::Loops => String::new(),
        }
    }

    fn locked(&self, package: &str) -> String {
        let lock = self.sources.join("peers/rust/Cargo.lock");
        let text = std::fs::read_to_string(lock).unwrap_or_default();
        let mut lines = text.lines().skip_while(|line| *line != format!("name = \"{package}\""));
        let version = lines.nth(1).unwrap_or_default();
        format!("{package} {}", version.trim_start_matches("version = ").trim_matches('"'))
    }
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Looks a program up as the shell would, and where distributions put daemons and Go.
pub fn find(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let extra = ["/usr/sbin", "/usr/local/go/bin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(extra);
    let found = folders.find(|folder| folder.join(name).is_file());
    found.map(|folder| folder.join(name)).ok_or_else(|| format!("{name} is not installed"))
}

/// The distribution's own program rather than a wrapper of the same name earlier in PATH.
pub fn installed(name: &str) -> Result<String, String> {
    let own = ["/usr/sbin", "/usr/bin"].map(|folder| PathBuf::from(folder).join(name));
    let found = own.into_iter().find(|path| path.is_file());
    let path = found.map_or_else(|| find(name), Ok)?;
    Ok(path.to_string_lossy().into_owned())
}

fn finish(mut command: Command, output: PathBuf) -> Result<PathBuf, String> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|e| format!("cannot start {tool}: {e}"))?;
    if done.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&done.stderr);
    let mut lines = stderr.lines();
    let error = lines.clone().find(|line| line.contains("undefined reference"));
    let error = error.or_else(|| lines.find(|line| line.contains("error")));
    let error = error.unwrap_or("no error message");
    // Results are kept: a path in them is the repository's, not one machine's.
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let error = error.trim().replace(here.trim_end_matches("bench/"), "");
    Err(format!("does not build here: {error}"))
}

fn modified(file: &Path) -> Option<SystemTime> {
    file.metadata().ok()?.modified().ok()
}

fn newest(folder: &Path) -> Option<SystemTime> {
    let files = std::fs::read_dir(folder).ok()?.flatten();
    files.filter_map(|file| modified(&file.path())).max()
}

pub fn line_of(command: &mut Command) -> String {
    let Ok(output) = command.output() else { return String::new() };
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_string()
}

fn boost_version() -> String {
    let header = std::fs::read_to_string("/usr/include/boost/version.hpp").unwrap_or_default();
    let mut lines = header.lines().filter(|line| line.starts_with("#define BOOST_LIB_VERSION"));
    let version = lines.next().and_then(|line| line.split('"').nth(1)).unwrap_or_default();
    format!("Boost {}", version.replace('_', "."))
}
