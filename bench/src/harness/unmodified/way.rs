//! The two ways to run a program: by itself, and under `heddle run --threads user`.
//!
//! Invariant: a run under the command counts only if the command did not say that it took kernel
//! threads, and, for a server, if the library was found in the process; CPU time is that of the
//! program's own processes. No program outlives its run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::child::{Job, Output, Server, kill};
use super::super::impls::Impl;
use super::super::programs::Program;
use super::super::tek::{guarded, words};
use super::Bench;

const LIBRARY: &str = "libheddle-user.so";
const SHUTDOWN_S: u64 = 60;

/// One implementation's way.
pub struct Way<'a> {
    bench: &'a Bench<'a>,
    under_heddle: bool,
}

impl<'a> Way<'a> {
    pub fn new(bench: &'a Bench<'a>, one: &Impl) -> Self {
        Way { bench, under_heddle: one.name == "heddle" }
    }

    fn line(&self, program: &[String]) -> Result<Vec<String>, String> {
        if !self.under_heddle {
            return Ok(program.to_vec());
        }
        let command = self.bench.plan.programs.get(Program::Heddle)?;
        self.bench.plan.programs.get(Program::UserLibrary)?;
        let mut line = words(&[&command.to_string_lossy(), "run", "--threads", "user"]);
        line.extend(words(&["--report", "none", "--"]));
        line.extend_from_slice(program);
        Ok(line)
    }

    /// Profiles go to the suite's own folder, never into the user's state.
    fn env(&self) -> Vec<(String, String)> {
        let state = self.bench.scratch.path("state");
        vec![("XDG_STATE_HOME".into(), state.to_string_lossy().into_owned())]
    }

    /// Runs a program to its end.
    pub fn run(
        &self,
        program: &[String],
        cpus: Vec<usize>,
        limit_s: u64,
    ) -> Result<Output, String> {
        let line = self.line(program)?;
        let (command, args) = line.split_first().ok_or("an empty command line")?;
        let (args, env) = (args.to_vec(), self.env());
        let job = Job { program: Path::new(command), args, env, cpus };
        let output = job.run(Duration::from_secs(limit_s))?;
        match self.fell_back(&output.errors) {
            Some(words) => Err(words),
            None => Ok(output),
        }
    }

    /// Starts a server that listens on `port`.
    pub fn serve(
        &self,
        program: &[String],
        port: u16,
        cpus: Vec<usize>,
    ) -> Result<Running<'_>, String> {
        let line = guarded(self.line(program)?);
        let (command, args) = line.split_first().ok_or("an empty command line")?;
        let (args, env) = (args.to_vec(), self.env());
        let job = Job { program: Path::new(command), args, env, cpus };
        let server = job.serve(port)?;
        let executable =
            fs::canonicalize(&program[0]).map_err(|e| format!("{}: {e}", program[0]))?;
        let running = Running { way: self, server: Some(server), executable };
        if self.under_heddle && !running.pids().iter().any(|&pid| has_library(pid)) {
            // What the command said is the better reason.
            running.finish()?;
            return Err(format!("the program ran without {LIBRARY}, and no word about it"));
        }
        Ok(running)
    }

    /// What the command said when it took kernel threads.
    fn fell_back(&self, stderr: &str) -> Option<String> {
        if self.under_heddle { said_kernel_threads(stderr) } else { None }
    }
}

fn said_kernel_threads(stderr: &str) -> Option<String> {
    let mut said = stderr.lines().filter_map(|line| line.trim().strip_prefix("heddle: "));
    said.find(|line| line.contains("kernel thread")).map(String::from)
}

fn has_library(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains(LIBRARY))
}

/// A server at work.
pub struct Running<'a> {
    way: &'a Way<'a>,
    server: Option<Server>,
    executable: PathBuf,
}

impl Running<'_> {
    /// The program's own processes, without the command that started them.
    pub fn pids(&self) -> Vec<u32> {
        let all = self.server.as_ref().map(Server::pids).unwrap_or_default();
        all.into_iter().filter(|&pid| self.is_program(pid)).collect()
    }

    fn is_program(&self, pid: u32) -> bool {
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == self.executable)
    }

    /// Ends it; an error if it was no server on user-level threads after all.
    pub fn finish(mut self) -> Result<(), String> {
        let Some(server) = self.server.take() else { return Ok(()) };
        let said = server.finish(Duration::from_secs(SHUTDOWN_S))?;
        self.way.fell_back(&said).map_or(Ok(()), Err)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let pids = self.pids();
        drop(self.server.take());
        // The command may have been killed, and with it whoever would have told the program.
        pids.into_iter().filter(|&pid| self.is_program(pid)).for_each(kill);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_back_is_found_in_what_the_command_says() {
        let said = "[Note] ready\nheddle: /bin/x runs on kernel threads: it is static\n";
        let reason = "/bin/x runs on kernel threads: it is static";
        assert_eq!(said_kernel_threads(said).as_deref(), Some(reason));
        let own = "the program's own line about kernel threads\nheddle: wrote the report\n";
        assert_eq!(said_kernel_threads(own), None);
    }
}
