//! What the tests of `heddle run` share: a folder of their own, programs built for them, and the
//! command with a state and a cache that are nobody else's.

#![allow(dead_code)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Output};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

pub struct Scratch {
    root: PathBuf,
}

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let root = std::env::temp_dir().join(format!("heddle-run-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("cache")).expect("a folder");
        Scratch { root }
    }

    pub fn path(&self, name: &str) -> String {
        self.root.join(name).to_str().expect("text").to_owned()
    }

    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("a file");
        path
    }

    /// The environment of a program that is to leave nothing in the user's own folders.
    pub fn environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("XDG_STATE_HOME", self.root.join("state"))
            .env("XDG_CACHE_HOME", self.root.join("cache"))
            .env_remove("LD_PRELOAD")
    }

    /// `heddle run -- PROGRAM...`
    pub fn command(&self, program: &[&str]) -> Command {
        let mut command = with_default_signals(env!("CARGO_BIN_EXE_heddle"));
        command.args(["run", "--"]).args(program);
        self.environment(&mut command);
        command
    }

    pub fn run(&self, program: &[&str]) -> Output {
        self.command(program).output().expect("heddle runs")
    }

    pub fn run_with(&self, program: &[&str], set: &[(&str, &str)]) -> Output {
        self.command(program).envs(set.iter().copied()).output().expect("heddle runs")
    }

    /// The program without heddle, in the same environment.
    pub fn plain(&self, program: &[&str]) -> Output {
        self.plain_with(program, &[])
    }

    pub fn plain_with(&self, program: &[&str], set: &[(&str, &str)]) -> Output {
        let mut command = with_default_signals(program[0]);
        command.args(&program[1..]);
        self.environment(&mut command).envs(set.iter().copied()).output().expect("it runs")
    }

    /// Any command of heddle's.
    pub fn heddle(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
        self.environment(command.args(arguments)).output().expect("heddle runs")
    }

    /// The JSON report of a run with more flags.
    pub fn report_with(&self, flags: &[&str], program: &[&str]) -> Value {
        let file = self.path("report.json");
        let mut arguments = vec!["run", "--report", "json", "--report-to", &file];
        arguments.extend(flags);
        arguments.push("--");
        arguments.extend(program);
        let output = self.heddle(&arguments);
        let text = fs::read_to_string(&file).expect("a report");
        serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{error} in {text:?}, {}", stderr(&output));
        })
    }

    pub fn report(&self, program: &[&str]) -> Value {
        self.report_with(&[], program)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A command that ignores no signal, though this test may have been started so (by nohup, or as a
/// job in the background): what was ignored at its start a shell cannot trap.
fn with_default_signals(program: &str) -> Command {
    const FLAG: &str = "--default-signal";
    let can = Command::new("env").args([FLAG, "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command.args([FLAG, program]);
    command
}

/// Builds a program; none if there is no compiler for it.
pub fn compile(scratch: &Scratch, name: &str, source: &str, flags: &[&str]) -> Option<String> {
    compile_by("cc", "c", scratch, name, source, flags)
}

pub fn compile_cxx(scratch: &Scratch, name: &str, source: &str, flags: &[&str]) -> Option<String> {
    compile_by("c++", "cpp", scratch, name, source, flags)
}

fn compile_by(
    compiler: &str,
    ending: &str,
    scratch: &Scratch,
    name: &str,
    source: &str,
    flags: &[&str],
) -> Option<String> {
    let file = scratch.file(&format!("{name}.{ending}"), source);
    let program = scratch.path(name);
    let mut command = Command::new(compiler);
    command.args(["-pthread", "-g", "-Wl,--build-id", "-o", &program, &file]).args(flags);
    match command.output() {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            eprintln!("skip: {compiler} cannot build it: {}", stderr(&output));
            None
        }
        Err(error) => {
            eprintln!("skip: there is no {compiler}: {error}");
            None
        }
    }
}

/// The row of a report's first process whose start function has this name.
pub fn row<'a>(report: &'a Value, start: &str) -> &'a Value {
    let rows = report["processes"][0]["threads"].as_array().expect("rows");
    let found = rows.iter().find(|row| row["start"] == start);
    found.unwrap_or_else(|| panic!("no {start} in {rows:#?}"))
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Lines of a running program, one at a time, none of which is waited for without end.
pub struct Lines(Receiver<String>);

impl Lines {
    pub fn new(output: ChildStdout) -> Lines {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.into_iter().try_for_each(|line| sender.send(line))
        });
        Lines(receiver)
    }

    pub fn next(&mut self) -> String {
        self.0.recv_timeout(Duration::from_secs(60)).expect("a line within a minute")
    }
}

pub fn kill(pid: u32, signal: &str) {
    let status = Command::new("kill").args(["-s", signal, &pid.to_string()]).status();
    assert!(status.expect("kill").success());
}

/// The letter of a process's state.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    stat[stat.rfind(')')? + 2..].chars().next()
}
