//! What the tests share: building the library, running tools.
#![allow(dead_code)] // Each test uses its part.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library, built as the test was.
pub struct Library {
    /// `libheddle_capi.a`.
    pub archive: PathBuf,
    /// Where `libheddle.so` lies; for the tests' own files, too.
    pub folder: PathBuf,
}

impl Library {
    /// Builds the static library with the test's profile, and links the shared one from it.
    pub fn build() -> Result<Self, String> {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let exe = std::env::current_exe().map_err(|e| e.to_string())?;
        let profile = exe.parent().and_then(Path::parent).ok_or("no target folder")?;
        let test = exe.file_stem().ok_or("no name")?;
        let folder = profile.join("c-programs").join(test);
        fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--package", "heddle-capi", "--lib", "--target-dir"]);
        cargo.arg(profile.parent().ok_or("no target folder")?);
        if profile.file_name().is_some_and(|name| name == "release") {
            cargo.arg("--release");
        }
        succeed(cargo.current_dir(crate_folder))?;
        let archive = profile.join("libheddle_capi.a");
        succeed(Command::new(crate_folder.join("link-shared.sh")).arg(&archive).arg(&folder))?;
        Ok(Library { archive, folder })
    }
}

/// Runs a tool that must succeed; its output is the error otherwise.
pub fn succeed(command: &mut Command) -> Result<(), String> {
    output_of(command).map(drop)
}

/// What a tool that must succeed writes to its standard output.
pub fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{:?}: {}\n{text}{errors}", command.get_program(), output.status))
}
