//! Suite tek: unmodified programs under `heddle run`, beside themselves without it (the TEK paper).
//!
//! What threads cost (`cost`), how many can be had and what they lock (`limits`), what real
//! programs reserve and use (`stacks`), how soon time-critical threads react (`response`). Every
//! part runs the command itself, as a user would; what cannot be done here is skipped with its
//! reason.

mod cost;
mod drive;
mod limits;
mod overcommit;
pub mod plots;
mod real;
mod response;
pub mod scratch;
mod stacks;
pub mod tables;
mod under;

use std::cell::OnceCell;
use std::path::Path;
use std::time::Duration;

use super::child::{Job, Output};
use super::plan::Plan;
use super::programs::{Program, find};
use super::progress::Progress;
use super::result::SuiteResult;
pub use real::client;
use scratch::Scratch;
use under::Heddle;

/// What every part works with.
pub struct Tek<'a> {
    plan: &'a Plan,
    scratch: &'a Scratch,
    heddle: OnceCell<Result<Heddle, String>>,
}

const PARTS: [fn(&Tek<'_>, &mut SuiteResult); 4] =
    [cost::run, limits::run, stacks::run, response::run];

pub fn run(plan: &Plan) -> SuiteResult {
    let mut result = SuiteResult::new("tek", plan.quick);
    let scratch = match Scratch::new("tek") {
        Ok(scratch) => scratch,
        Err(reason) => {
            result.skip("all", "heddle", reason);
            return result;
        }
    };
    let tek = Tek { plan, scratch: &scratch, heddle: OnceCell::new() };
    result.versions.insert("auto".into(), plan.programs.version(Program::Heddle));
    PARTS.iter().for_each(|part| part(&tek, &mut result));
    result
}

impl Tek<'_> {
    /// The command, built when it is first needed.
    fn heddle(&self) -> Result<&Heddle, String> {
        let build = || {
            Progress::new("tek", 1).show("building heddle");
            Heddle::new(self.plan, self.scratch)
        };
        self.heddle.get_or_init(build).as_ref().map_err(Clone::clone)
    }

    /// Whether a row is asked for: by its metric, and by its implementation's name without what
    /// was done to it ("memcached" wants "memcached+auto", too).
    fn wants(&self, metric: &str, implementation: &str) -> bool {
        let name = implementation.split('+').next().unwrap_or(implementation);
        self.plan.wants(metric) && self.plan.names(name)
    }

    /// Runs a command line on all CPUs to its end.
    fn job(
        &self,
        line: &[String],
        env: Vec<(String, String)>,
        limit_s: u64,
    ) -> Result<Output, String> {
        job_on(line, env, self.plan.cpus.all(), limit_s)
    }
}

/// Runs a command line to its end.
fn job_on(
    line: &[String],
    env: Vec<(String, String)>,
    cpus: Vec<usize>,
    limit_s: u64,
) -> Result<Output, String> {
    let (program, args) = line.split_first().ok_or("an empty command line")?;
    let job = Job { program: Path::new(program), args: args.to_vec(), env, cpus };
    job.run(Duration::from_secs(limit_s))
}

/// The command line under a guard: what it starts is asked to end when this process dies.
pub fn guarded(line: Vec<String>) -> Vec<String> {
    match find("setpriv") {
        Ok(setpriv) => {
            let mut guarded = words(&[&setpriv.to_string_lossy(), "--pdeathsig", "TERM"]);
            guarded.extend(line);
            guarded
        }
        Err(_) => line,
    }
}

/// Words as a command line.
pub fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| word.to_string()).collect()
}
