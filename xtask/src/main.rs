//! Project tasks: `cargo xtask ci | tidy | gen | bench`.
//!
//! Invariant: whatever a person or a machine checks of this repository is one of these commands,
//! so that "it passes" means the same everywhere. xtask stands outside the stack: it depends on
//! no crate of heddle and no crate of heddle depends on it; it reads the tree and runs tools.

mod ci;
mod figures;
mod generated;
mod processes;
mod repo;
mod smoke;
mod tidy;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use repo::Repo;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project tasks of heddle")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the tree: `quick` before each commit, `full` is what `make test` runs
    Ci {
        #[arg(value_enum)]
        level: ci::Level,
        /// Run only the steps whose name contains one of these texts
        #[arg(long, value_name = "TEXT", value_delimiter = ',')]
        only: Vec<String>,
        /// List the steps, run none
        #[arg(long)]
        list: bool,
    },
    /// Check the rules that the compiler doesn't know: layout, sizes, comments, links
    Tidy {
        /// Read the files only: skip the rules that build and run something
        #[arg(long)]
        text: bool,
        /// Lower the recorded exceptions in xtask/tidy.toml to today's sizes
        #[arg(long)]
        shrink: bool,
    },
    /// Write the generated files anew: man pages, completions, README's figures
    Gen,
    /// Start `make run`, look at what it serves, interrupt it
    Smoke,
    /// Build and run heddle-bench with these arguments
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// False means that the task ran and found something wrong.
fn run(args: Args) -> Result<bool> {
    let repo = Repo::open()?;
    match args.task {
        Task::Ci { level, only, list } => ci::run(&repo, level, &only, list),
        Task::Tidy { text, shrink } => tidy::run(&repo, text, shrink),
        Task::Gen => generated::write(&repo).map(|()| true),
        Task::Smoke => smoke::run(&repo).map(|()| true),
        Task::Bench { args } => bench(&repo, &args),
    }
}

/// The harness alone; it builds heddle's side and the peers itself, when a suite needs them.
fn bench(repo: &Repo, args: &[String]) -> Result<bool> {
    let status = repo
        .cargo()
        .args(["run", "--release", "--locked", "-p", "heddle-bench", "--bin", "heddle-bench"])
        .arg("--no-default-features")
        .arg("--")
        .args(args)
        .status()
        .context("cannot start cargo to build heddle-bench")?;
    Ok(status.success())
}
