//! The judgement of a program that a process of a run is about to start.
//!
//! Invariant: what is found out is about the files that are named with it: it holds until one of
//! them changes.

use std::path::{Path, PathBuf};

use super::{FILES, Finding, Inherited, Purpose, load, of_image};
use crate::run::program::Program;

/// What is to become of the program's threads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Nothing is said of them: it makes none, or is no program whose threads could be taken.
    Left,
    /// They are kernel threads, and why.
    Kernel(String),
    /// They are user-level threads.
    User,
}

/// Judges the file that exec is told, and names the files that were looked at, unless some could
/// not be. A script stands for what interprets it. One that gets other privileges is left alone,
/// and so is a loader that is called by its name, and what names its interpreter from where it is.
pub fn at_exec(path: &Path, inherited: &Inherited) -> (Verdict, Option<Vec<PathBuf>>) {
    let mut paths = vec![path.to_owned()];
    let program = Program::find(path.as_os_str()).ok();
    let found = program.as_ref().and_then(|program| Some((program, program.image.as_ref()?)));
    let Some((program, image)) = found else { return (Verdict::Left, Some(paths)) };
    let loaded = load(program, image, inherited);
    paths.extend(loaded.iter().flat_map(|loaded| loaded.paths()).map(Path::to_owned));
    let makes_threads = loaded.as_ref().is_some_and(|loaded| loaded.may_make_threads());
    let loader = image.head.interpreter.as_deref();
    let is_found_anywhere =
        image.path.is_absolute() && loader.is_none_or(|loader| loader.is_absolute());
    let is_left = program.is_privileged || image.head.is_loader() || !is_found_anywhere;
    if !makes_threads || is_left {
        return (Verdict::Left, Some(paths));
    }
    let mut findings = Vec::new();
    of_image(program, image, loaded.as_ref(), inherited, Purpose::Start, &mut findings);
    match findings.into_iter().find(|finding| !finding.fits) {
        None => (Verdict::User, Some(paths)),
        Some(Finding { name, why, .. }) => {
            let verdict = Verdict::Kernel(format!("{name}: {why}"));
            (verdict, (name != FILES).then_some(paths))
        }
    }
}
