//! What the steps are: name, commands, time limit, and what must be there to run them.
//!
//! Invariant: the plan is made once, before anything runs, and says of every step either how to
//! run it or why it cannot run here. Order: what fails fastest and tells most comes first; steps
//! that share compiler flags share a target folder and stand together.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Level, full, target_for};
use crate::repo::Repo;

/// Where cargo builds.
const OWN_FOLDER: &str = "CARGO_TARGET_DIR";

/// A command before it is started.
#[derive(Clone)]
pub struct Call {
    program: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    folder: Option<PathBuf>,
}

impl Call {
    pub fn new(program: &str) -> Self {
        let (args, env) = (Vec::new(), BTreeMap::new());
        Self { program: program.to_owned(), args, env, folder: None }
    }

    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    fn at(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_path_buf());
        self
    }

    pub fn program(&self) -> &str {
        &self.program
    }

    /// What builds what this runs, if it is cargo with a folder of its own for that.
    fn build(&self) -> Option<Call> {
        self.env.get(OWN_FOLDER)?;
        let (subcommand, rest) = self.args.split_first()?;
        let mut args = match subcommand.as_str() {
            "test" => vec!["test".to_owned(), "--no-run".to_owned()],
            "run" | "build" => vec!["build".to_owned()],
            _ => return None,
        };
        // What follows is for the program.
        args.extend(rest.iter().take_while(|arg| *arg != "--").cloned());
        Some(Call { args, ..self.clone() })
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(&self.env);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }
}

/// As a person would type it, so that a failed step can be repeated by hand.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}='{value}' ")?;
        }
        write!(f, "{} {}", self.program, self.args.join(" "))
    }
}

#[derive(Clone)]
pub struct Step {
    pub name: &'static str,
    pub what: &'static str,
    pub commands: Vec<Call>,
    /// What may be built before the step is reached, beside what its commands build in folders of
    /// their own.
    pub builds: Vec<Call>,
    pub limit: Duration,
    /// Why the step cannot run on this machine.
    pub absent: Option<String>,
    /// The first of the steps that it runs beside: steps that mostly wait, or that use one
    /// processor.
    pub beside: Option<&'static str>,
}

/// Makes steps that run in one repository.
pub struct Planner<'a> {
    pub repo: &'a Repo,
    pub steps: Vec<Step>,
}

impl Planner<'_> {
    pub fn add(
        &mut self,
        name: &'static str,
        what: &'static str,
        minutes: u64,
        calls: Vec<Call>,
    ) -> &mut Step {
        let root = &self.repo.root;
        let commands = calls.into_iter().map(|call| call.at(root)).collect();
        let limit = Duration::from_secs(minutes * 60);
        let builds = Vec::new();
        let step = Step { name, what, commands, builds, limit, absent: None, beside: None };
        self.steps.push(step);
        self.steps.last_mut().expect("just pushed")
    }

    /// cargo with these words; `--locked`, so that a check never changes Cargo.lock.
    pub fn cargo(&self, words: &str) -> Call {
        let words: Vec<&str> = words.split_whitespace().collect();
        let (subcommand, rest) = words.split_first().expect("a subcommand");
        let call = Call::new("cargo").args(&[subcommand]);
        let call = if *subcommand == "fmt" { call } else { call.args(&["--locked"]) };
        call.args(rest)
    }

    /// For a step that builds in a way of its own.
    pub fn build_ahead(&mut self, call: Call) {
        let call = call.at(&self.repo.root);
        if let Some(step) = self.steps.last_mut() {
            step.builds.push(call);
        }
    }

    /// Tests whose captured output is shown, for the reasons of those that skip themselves.
    pub fn test(&self, words: &str) -> Call {
        self.cargo(&format!("test --no-fail-fast {words} -- --show-output"))
    }

    /// A target folder of its own, for compiler flags of its own.
    pub fn apart(&self, call: Call, name: &str, flags: &str) -> Call {
        let folder = target_for(self.repo, name);
        call.env(OWN_FOLDER, &folder.to_string_lossy()).env("RUSTFLAGS", flags)
    }
}

impl Step {
    /// Whether it runs at the same time as the one before it. Not every step is there when some
    /// were asked for.
    pub fn is_beside(&self, before: &Self) -> bool {
        self.beside.is_some_and(|first| first == before.name || Some(first) == before.beside)
    }

    pub fn unless(&mut self, reason: Option<String>) {
        if self.absent.is_none() {
            self.absent = reason;
        }
    }

    /// What can be built before the step is reached; see `ahead.rs`.
    pub fn ahead(&self) -> Vec<Call> {
        self.commands.iter().filter_map(Call::build).chain(self.builds.iter().cloned()).collect()
    }
}

pub fn steps(repo: &Repo, level: Level) -> Vec<Step> {
    let mut planner = Planner { repo, steps: Vec::new() };
    if level == Level::Nightly {
        nightly(&mut planner);
        return planner.steps;
    }
    quick(&mut planner);
    if level == Level::Full {
        full::add(&mut planner);
    }
    planner.steps
}

fn quick(planner: &mut Planner) {
    let xtask = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let fmt = planner.cargo("fmt --all --check -- --color never");
    let clippy = planner.cargo("clippy --workspace --all-targets --keep-going -- -D warnings");
    let tidy = Call::new(&xtask.to_string_lossy()).args(&["tidy"]);
    // heddle-user has names that only its own link script makes, and no unit tests.
    let unit = planner.test("--workspace --exclude heddle-user --lib --bins");
    let without = "--exclude heddle-cli --exclude heddle-capi --exclude heddle-user";
    let pages = planner
        .cargo(&format!("doc --workspace --no-deps {without}"))
        .env("RUSTDOCFLAGS", "-D warnings");
    planner.add("fmt", "rustfmt changes nothing", 2, vec![fmt]);
    planner.add("clippy", "no warnings", 10, vec![clippy]);
    planner.add("tidy", "the repository's own rules", 10, vec![tidy]);
    planner.add("doc-pages", "rustdoc has no warnings", 10, vec![pages]);
    planner.add("unit", "unit tests of all crates", 10, vec![unit]);
}

/// `HEDDLE_NIGHTLY=brief`: of each step a little, which shows within the hour whether what it needs
/// is there.
fn nightly(planner: &mut Planner) {
    let is_brief = std::env::var_os("HEDDLE_NIGHTLY").is_some_and(|it| it == "brief");
    let asked = |whole, brief| if is_brief { brief } else { whole };
    let call = |planner: &Planner, test: &str, asked: &str| {
        planner.test(&format!("-p heddle-user --test {test}")).env("HEDDLE_NIGHTLY", asked)
    };
    let suites = call(planner, "suites", asked("programs", "0"));
    planner.add("user-suites", "programs' own tests, each 50 times otherwise", 900, vec![suites]);
    let many = call(planner, "posix", asked("programs", "2"));
    planner.add("user-programs", "conformance programs, each 50 times otherwise", 240, vec![many]);
    let long = call(planner, "posix", asked("long", "long:20"));
    planner.add("user-long", "10^6 threads, 10 000 connections for 10 minutes", 70, vec![long]);
    let wakes = call(planner, "posix", asked("wakes", "wakes:20"));
    planner.add("user-wakes", "every wait against every waker, three hours", 210, vec![wakes]);
    let ways = call(planner, "posix", asked("ways", "0"));
    planner.add("user-ways", "each conformance program in every way", 60, vec![ways]);
}
