//! Where the repository is, which files it has, how cargo is called in it.
//!
//! Invariant: a rule never looks at build output. Files come from `git ls-files` (tracked, plus
//! new ones that git does not ignore); in a tree without git (a release tarball) the folders are
//! walked and what cargo and the tests write is left out by name.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// One file of the repository, read once and shared by all rules.
pub struct File {
    /// Relative to the root, with `/`.
    pub path: String,
    pub text: String,
}

impl File {
    pub fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(OsStr::to_str).unwrap_or("")
    }

    /// The first folder of the path: the layer that the file belongs to.
    pub fn folder(&self) -> &str {
        self.path.split_once('/').map_or("", |(folder, _)| folder)
    }
}

pub struct Repo {
    pub root: PathBuf,
}

impl Repo {
    pub fn open() -> Result<Self> {
        // cargo says at run time where xtask lies; what was compiled in may name another checkout
        // that shares the target folder.
        let home = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let home = home.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
        let root = home.parent().context("xtask lies in no folder")?.to_path_buf();
        if !root.join("xtask/tidy.toml").is_file() {
            bail!("{} is not the repository: run `cargo xtask`", root.display());
        }
        Ok(Self { root })
    }

    /// The cargo that runs us, in the root.
    pub fn cargo(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.root);
        command
    }

    pub fn target(&self) -> PathBuf {
        match std::env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => self.root.join(folder),
            None => self.root.join("target"),
        }
    }

    /// Every text file of the tree, sorted by path. Files that are not UTF-8 are data, not text.
    pub fn files(&self) -> Result<Vec<File>> {
        let mut paths = self.listed_by_git().map_or_else(|| self.walked(), Ok)?;
        paths.sort();
        paths.dedup();
        let read = |path: String| {
            let bytes = fs::read(self.root.join(&path)).ok()?;
            let text = String::from_utf8(bytes).ok()?;
            Some(File { path, text })
        };
        Ok(paths.into_iter().filter_map(read).collect())
    }

    fn listed_by_git(&self) -> Option<Vec<String>> {
        let listing = Command::new("git")
            .current_dir(&self.root)
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .output()
            .ok()?;
        if !listing.status.success() {
            return None;
        }
        let text = String::from_utf8(listing.stdout).ok()?;
        Some(text.split_terminator('\0').map(str::to_owned).collect())
    }

    fn walked(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder)
                .with_context(|| format!("cannot list {}", folder.display()))?;
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name();
                let kind = entry.file_type()?;
                if kind.is_dir() && name != "target" && name != ".git" {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    let path = entry.path();
                    let relative = path.strip_prefix(&self.root)?;
                    found.push(relative.to_string_lossy().into_owned());
                }
            }
        }
        Ok(found)
    }
}

/// Whether a command of this name can be started, looked up as the shell does.
pub fn has_command(name: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else { return false };
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
