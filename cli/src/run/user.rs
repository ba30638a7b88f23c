//! `--threads user`: whether the program's threads can be user-level threads, and what it takes.
//!
//! Invariant: only a library is named to the loader that belongs to this user or to root and that
//! nobody else may write. Whatever stands in the way is a reason in words, and the program's
//! threads are kernel threads then.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use heddle::doctor::{self, Verdict};

use super::prepare::Prepared;
use crate::userlevel;

/// The library's file name.
const FILE_NAME: &str = "libheddle-user.so";
/// Where it is, as seen from the command: beside it where both were built, else installed.
const FOLDERS: [&str; 2] = ["", "../lib/heddle"];

/// What the run needs for a program on user-level threads.
///
/// # Errors
/// Why its threads have to be kernel threads.
pub fn prepare(name: &OsStr, workers: Option<u16>) -> Result<Prepared, String> {
    if let Some(finding) = userlevel::judge(name).into_iter().find(|finding| !finding.fits) {
        return Err(format!("{}: {}", finding.name, finding.why));
    }
    let check = doctor::full_threads();
    if check.verdict != Verdict::Good {
        return Err(format!("{}: {}", check.name, check.value));
    }
    let library = library()?;
    let before = std::env::var_os("LD_PRELOAD").filter(|it| !it.is_empty());
    let parts = [Some(library.into_os_string()), before];
    let joined = parts.into_iter().flatten().collect::<Vec<_>>().join(OsStr::new(":"));
    let mut environment = vec![("LD_PRELOAD", joined)];
    if let Some(workers) = workers {
        environment.push(("HEDDLE_RUN_WORKERS", OsString::from(workers.to_string())));
    }
    Ok(Prepared::without_plan(environment))
}

/// The library's file.
fn library() -> Result<PathBuf, String> {
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
