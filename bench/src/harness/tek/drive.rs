//! Runs one real program under load and under `heddle run`, and returns what that reports.
//!
//! Invariant: a server is asked to end, and is gone when `run` returns, whatever happened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::child::Job;
use super::super::servers::free_port;
use super::real::{Load, Real};
use super::under::Report;
use super::{Tek, guarded};

/// A program's own folder and port.
pub struct Site<'a> {
    pub tek: &'a Tek<'a>,
    pub folder: PathBuf,
    pub port: u16,
}

const TO_END_S: u64 = 180;
const SHUTDOWN_S: u64 = 60;

/// One run; `stacks` is the mode of the Stack Tuner.
pub fn run(tek: &Tek<'_>, real: &Real, stacks: &str) -> Result<Report, String> {
    let heddle = tek.heddle()?;
    let port = free_port().map_err(|e| format!("no free port: {e}"))?;
    let site = Site { tek, folder: tek.scratch.folder(real.name)?, port };
    let program = (real.command)(&site)?;
    let report = tek.scratch.path("report.json");
    let line = guarded(heddle.line(&["--stacks", stacks], &report, &program));
    match real.load {
        Load::Itself => drop(tek.job(&line, heddle.env(), TO_END_S)?),
        Load::Clients(load) => {
            let (command, args) = line.split_first().ok_or("an empty command line")?;
            let job = Job {
                program: Path::new(command),
                args: args.to_vec(),
                env: heddle.env(),
                cpus: tek.plan.cpus.all(),
            };
            let server = job.serve(port)?;
            let loaded = load(&site);
            server.finish(Duration::from_secs(SHUTDOWN_S))?;
            loaded?;
        }
    }
    Report::read(&report)
}
