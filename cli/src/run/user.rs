//! `--threads user`: whether the program's threads can be user-level threads, and what it takes.
//!
//! Invariant: only a library is named to the loader that belongs to this user or to root and that
//! nobody else may write. Whatever stands in the way is a reason in words, and the program's
//! threads are kernel threads then.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::prepare::Prepared;
use crate::userlevel::{self, Purpose};

/// The library's file name.
const FILE_NAME: &str = "libheddle-user.so";
/// That of the library that keeps the account.
const ACCOUNT: &str = "libheddle-preload.so";
/// Where it is, as seen from the command: beside it where both were built, else installed.
const FOLDERS: [&str; 2] = ["", "../lib/heddle"];

/// Adds to what the run needs what it takes to have the program on user-level threads: the library
/// that makes them comes before the one that keeps the account, and behind all others: what wraps
/// the C library's functions (proxychains, socket_wrapper) wraps its functions then.
pub fn add(prepared: &mut Prepared, library: PathBuf, workers: Option<u16>) {
    let library = library.into_os_string();
    let name = "LD_PRELOAD";
    let known = prepared.environment.iter_mut().find(|(it, _)| *it == name);
    match known {
        Some((_, all)) => *all = with_last(library, all),
        None => {
            let others = std::env::var_os(name).unwrap_or_default();
            prepared.environment.push((name, with_last(library, &others)));
        }
    }
    if let Some(workers) = workers {
        prepared.environment.push(("HEDDLE_RUN_WORKERS", OsString::from(workers.to_string())));
    }
}

/// A list of libraries with this one and the one that keeps the account at its end.
fn with_last(library: OsString, list: &OsStr) -> OsString {
    let parts = list.as_bytes().split(|byte| b": ".contains(byte)).filter(|it| !it.is_empty());
    let (account, others): (Vec<_>, Vec<_>) =
        parts.map(OsStr::from_bytes).partition(|it| Path::new(it).ends_with(ACCOUNT));
    let all = others.into_iter().chain([&*library]).chain(account);
    all.collect::<Vec<_>>().join(OsStr::new(":"))
}

/// Why the program cannot be run so, if it cannot.
pub fn refusal(words: &[OsString]) -> Option<String> {
    let mut findings = userlevel::judge(words, Purpose::Start).into_iter();
    let finding = findings.find(|finding| !finding.fits)?;
    Some(format!("{}: {}", finding.name, finding.why))
}

/// The library's file.
///
/// # Errors
/// Why there is none to use.
pub fn library() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("this command's file: {error}"))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let paths = FOLDERS.map(|it| folder.join(it).join(FILE_NAME));
    let Some(path) = paths.iter().find_map(|it| it.canonicalize().ok()) else {
        return Err(format!("there is no {FILE_NAME} beside this command or in ../lib/heddle"));
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !is_trusted(&path) || !is_trusted(folder) {
        return Err(format!("{}: not used, for others may write there", path.display()));
    }
    if path.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte)) {
        return Err(format!("{}: the loader would split this name", path.display()));
    }
    Ok(path)
}

/// Nobody but this user, or root, can have put something there.
fn is_trusted(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    path.metadata()
        .is_ok_and(|meta| (meta.uid() == own || meta.uid() == 0) && meta.mode() & 0o022 == 0)
}
