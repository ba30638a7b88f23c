//! Compiles the small programs of `c/`, each once, with the compiler that a test asks for.
//!
//! Invariant: a program is compiled anew when its source or the header they share is newer than
//! what lies there; two tests that ask at once get the same file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

use crate::support::{find, source};

static BUSY: Mutex<()> = Mutex::new(());

/// How a source becomes a program.
pub struct Recipe<'a> {
    pub source: &'a str,
    /// Tells apart what one source is made into.
    pub name: &'a str,
    pub compiler: &'a str,
    pub flags: &'a [&'a str],
}

impl Recipe<'_> {
    /// The program, or why it cannot be made here.
    pub fn make(&self) -> Result<PathBuf, String> {
        if find(self.compiler).is_none() {
            return Err(format!("{} is not installed and could not be", self.compiler));
        }
        let _one_at_a_time = BUSY.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let (from, to) = (source(self.source), folder.join(self.name));
        let inputs = [modified(&from), modified(&source("c/program.h"))];
        if to.exists() && inputs.iter().all(|input| *input < modified(&to)) {
            return Ok(to);
        }
        let mut command = Command::new(self.compiler);
        command.args(self.flags).arg("-o").arg(&to).arg(&from);
        if !self.source.ends_with(".rs") {
            command.args(["-pthread", "-ldl"]);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(to),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

const C: [&str; 6] = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"];

/// A C program of `c/`, by the name of its source.
pub fn c(name: &str) -> PathBuf {
    let source = format!("c/{name}.c");
    Recipe { source: &source, name, compiler: "cc", flags: &C }.make().expect("it compiles")
}

/// The same, statically linked; or why not.
pub fn fixed(name: &str) -> Result<PathBuf, String> {
    let (source, name) = (format!("c/{name}.c"), format!("{name}-static"));
    let flags = [&C[..], &["-static"]].concat();
    Recipe { source: &source, name: &name, compiler: "cc", flags: &flags }.make()
}

pub fn cxx(name: &str) -> Result<PathBuf, String> {
    let source = format!("c/{name}.cpp");
    let flags = ["-std=gnu++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror"];
    Recipe { source: &source, name, compiler: "c++", flags: &flags }.make()
}

/// A shared library of `c/`.
pub fn library(name: &str) -> PathBuf {
    let (source, name) = (format!("c/{name}.c"), format!("lib{name}.so"));
    let flags = [&C[..], &["-shared", "-fPIC"]].concat();
    Recipe { source: &source, name: &name, compiler: "cc", flags: &flags }
        .make()
        .expect("it compiles")
}
