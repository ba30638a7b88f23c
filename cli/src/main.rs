//! The `heddle` command: the front door of the stack.
//!
//! Invariants
//! - Each flag is defined once, in a command's `Args`; parser, help, man page and completions
//!   come from that definition.
//! - Standard output carries the result and nothing else; messages go to standard error.
//! - Exit status: 0 done, 1 could not be done (one message says why), 2 misused; of `run` the
//!   program's.
//! - A reader that closes the pipe early is no error.

mod attach;
mod doctor;
mod generate;
mod live;
mod ps;
mod report;
mod run;
mod serve;
mod stacks;
mod symbols;
mod text;
mod top;
mod userlevel;
mod which;

use std::io;
use std::process::ExitCode;
use std::thread;

use anyhow::Result;
use clap::{Parser, Subcommand};
use rustix::process::{Resource, getrlimit};

/// What the commands need of their stack, several times over.
const STACK_BYTES: usize = 4 << 20;
/// The main thread's stack is taken for large enough from here on.
const MAIN_STACK_BYTES: u64 = 1 << 20;

/// Threads for Linux that are known by their records: serve, look, diagnose.
#[derive(Parser)]
#[command(name = "heddle", version, subcommand_required = true, arg_required_else_help = true)]
#[command(max_term_width = 100, after_long_help = SECTIONS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const SECTIONS: &str = "\
Files:
  /dev/shm/heddle.PID    thread table of a process; mode 0600

See also:
  heddle(7) for the words used here and the environment variables.";

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Stacks(stacks::Args),
    Serve(serve::Args),
    Ps(ps::Args),
    Top(top::Args),
    Doctor(doctor::Args),
    #[command(hide = true)]
    Generate(generate::Args),
}

/// Below a small RLIMIT_STACK, which is meant for the program that is run, the main thread only
/// waits for another one.
fn main() -> ExitCode {
    let is_small = getrlimit(Resource::Stack).current.is_some_and(|it| it < MAIN_STACK_BYTES);
    if is_small && let Ok(other) = thread::Builder::new().stack_size(STACK_BYTES).spawn(obey) {
        // A panic has told of itself.
        return other.join().unwrap_or(ExitCode::FAILURE);
    }
    obey()
}

#[inline(never)]
fn obey() -> ExitCode {
    let result = run(Cli::parse().command);
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heddle: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Stacks(args) => stacks::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Ps(args) => ps::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Generate(args) => generate::run(&args),
    }
}

/// Whether the reader of our output has gone: `heddle ps | head` is done then, not wrong.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(|e| e.io_error_kind());
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}
