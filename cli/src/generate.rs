//! `heddle generate`: what installing puts beside the command: man pages and completions, from the
//! definitions of the flags, and the libraries for `heddle run`, which are part of the command.
//!
//! Invariant: what it writes depends on nothing but the source: no date, no terminal width.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use heddle_preload::library::Library;

use crate::Cli;

/// Write man pages, shell completions or the preload libraries into a folder
#[derive(clap::Args)]
pub struct Args {
    /// What to write
    kind: Kind,
    /// Where to
    dir: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Man,
    Completions,
    Library,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let dir = &args.dir;
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    match args.kind {
        Kind::Man => man(dir)?,
        Kind::Completions => completions(dir)?,
        Kind::Library => drop(
            Library::in_folder(dir).with_context(|| format!("cannot fill {}", dir.display()))?,
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// `heddle.1` and a page for each command that is not hidden.
fn man(dir: &Path) -> Result<()> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    write_page(dir, root.clone())?;
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_page(dir, command.clone().version(env!("CARGO_PKG_VERSION")))?;
    }
    Ok(())
}

fn write_page(dir: &Path, command: clap::Command) -> Result<()> {
    // A page's name is the command as one word, by the custom of git and cargo: "heddle-ps".
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = dir.join(format!("{name}.1"));
    let sections = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let version = concat!("heddle ", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.clone()).source(version).manual("heddle");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    // Each part is rendered as a page of its own, with the title's first lines again.
    let title = String::from_utf8_lossy(&page);
    let preamble = title.lines().take(2).map(|line| format!("{line}\n")).collect::<String>();
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let page = String::from_utf8(page)?.replace(&preamble, "");
    let page = preamble + &page + &sections_as_roff(&sections);
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// The help's last part, "Examples:" and the like, as sections of a page. Paragraphs start with
/// their title and a colon; their lines stay as they are.
fn sections_as_roff(text: &str) -> String {
    let mut roff = String::new();
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let (title, lines) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        let title = title.trim_end_matches(':').to_uppercase();
        roff += &format!(".SH {}\n.nf\n", escape(&title));
        for line in lines.lines() {
            // A period or quote that begins a line would be a request.
            roff += &format!("\\&{}\n", escape(line.strip_prefix("  ").unwrap_or(line)));
        }
        roff += ".fi\n";
    }
    roff
}

fn escape(line: &str) -> String {
    line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq")
}

fn completions(dir: &Path) -> Result<()> {
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut Cli::command(), "heddle", dir)
            .with_context(|| format!("cannot write the completions for {shell}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_keep_their_lines() {
        let roff =
            sections_as_roff("Examples:\n  heddle ps --json\n  .x 'y' \\\n\nExit status:\n  0");
        let examples = ".SH EXAMPLES\n.nf\n\\&heddle ps \\-\\-json\n\\&.x \\(aqy\\(aq \\e\n.fi\n";
        assert_eq!(roff, format!("{examples}.SH EXIT STATUS\n.nf\n\\&0\n.fi\n"));
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}
