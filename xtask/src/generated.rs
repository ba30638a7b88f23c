//! Files that a tool writes and the repository keeps: man pages and completions of the command,
//! and README's table of figures.
//!
//! Invariant: what is committed is what `heddle generate` and the benchmarks' results say today,
//! file by file; `cargo xtask gen` makes it so and tidy checks it. They are kept so that
//! installing needs no second build and a reader none at all.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::figures;
use crate::repo::Repo;
use crate::tidy::Finding;

/// What `heddle generate KIND DIR` writes, and where it is kept.
const KINDS: [(&str, &str); 2] = [("man", "cli/man"), ("completions", "cli/completions")];

pub fn write(repo: &Repo) -> Result<()> {
    for (kind, home) in KINDS {
        let folder = repo.root.join(home);
        let fresh = generate(repo, kind)?;
        for name in contents(&folder)?.keys().filter(|name| !fresh.contains_key(*name)) {
            fs::remove_file(folder.join(name))?;
        }
        fs::create_dir_all(&folder)?;
        for (name, text) in fresh {
            fs::write(folder.join(&name), text)
                .with_context(|| format!("cannot write {home}/{name}"))?;
        }
    }
    let (page, _) = figures::page(repo)?;
    fs::write(repo.root.join(figures::PAGE), page)?;
    Ok(())
}

pub fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (kind, home) in KINDS {
        let fresh = generate(repo, kind)?;
        let kept = contents(&repo.root.join(home))?;
        findings.extend(differences(home, &kept, &fresh));
    }
    let (fresh, kept) = figures::page(repo)?;
    if fresh != kept {
        findings.push(outdated(figures::PAGE));
    }
    Ok(findings)
}

type Texts = BTreeMap<String, Vec<u8>>;

fn differences(home: &str, kept: &Texts, fresh: &Texts) -> Vec<Finding> {
    let mut names: Vec<&String> = kept.keys().chain(fresh.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| kept.get(*name) != fresh.get(*name))
        .map(|name| outdated(&format!("{home}/{name}")))
        .collect()
}

fn outdated(path: &str) -> Finding {
    Finding::new(path, 0, "generated", "out of date: run `cargo xtask gen`")
}

fn generate(repo: &Repo, kind: &str) -> Result<Texts> {
    let folder = repo.target().join("xtask-generated").join(kind);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let output = repo
        .cargo()
        .args(["run", "--quiet", "--locked", "-p", "heddle-cli", "--bin", "heddle", "--"])
        .args(["generate", kind])
        .arg(&folder)
        .output()
        .context("cannot run heddle generate")?;
    if !output.status.success() {
        bail!("heddle generate {kind}: {}", String::from_utf8_lossy(&output.stderr));
    }
    contents(&folder)
}

fn contents(folder: &Path) -> Result<Texts> {
    let mut texts = Texts::new();
    if !folder.exists() {
        return Ok(texts);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let name = entry.file_name().to_string_lossy().into_owned();
            texts.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_found() {
        let texts = |pairs: &[(&str, &str)]| -> Texts {
            pairs
                .iter()
                .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
                .collect()
        };
        let kept = texts(&[("same.1", "a"), ("old.1", "b"), ("changed.1", "c")]);
        let fresh = texts(&[("same.1", "a"), ("new.1", "b"), ("changed.1", "d")]);
        let found: Vec<_> = differences("m", &kept, &fresh).into_iter().map(|f| f.path).collect();
        assert_eq!(found, ["m/changed.1", "m/new.1", "m/old.1"]);
        assert!(differences("m", &kept, &kept).is_empty());
    }
}
