//! Rules `arrow`, `crate`, `lints`: which folder may depend on which, and on what from elsewhere.
//!
//! Invariant: dependencies point one way, as ARCHITECTURE.md draws them: record <- runtime <-
//! capi, user, ice; ice <- cli, bench; record <- preload <- cli, bench. Arrows may be followed (ice
//! may name record, as runtime does); nothing depends on cli, bench or xtask. A crate from
//! elsewhere is listed for its folder in tidy.toml: taking one is a decision, and record's list is
//! the shortest because everything links it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::Finding;
use super::ratchet::{PATH, Settings};
use crate::repo::Repo;

/// Folder and the folders that it may name.
const ARROWS: [(&str, &[&str]); 9] = [
    ("record", &[]),
    ("runtime", &["record"]),
    ("capi", &["runtime"]),
    ("ice", &["runtime"]),
    ("user", &["runtime"]),
    ("preload", &["record"]),
    ("cli", &["ice", "preload", "runtime", "record"]),
    ("bench", &["ice", "preload", "runtime", "record"]),
    ("xtask", &[]),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    path: Option<String>,
}

pub fn check(repo: &Repo, settings: &Settings) -> Result<Vec<Finding>> {
    let output = repo
        .cargo()
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("cargo metadata is malformed")?;
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let folder = folder_of(repo, &package.manifest_path);
        let manifest = format!("{folder}/Cargo.toml");
        findings.extend(judge(repo, &folder, package, &settings.crates));
        let text = std::fs::read_to_string(repo.root.join(&manifest))?;
        findings.extend(lints(&manifest, &text));
    }
    Ok(findings)
}

fn folder_of(repo: &Repo, path: &str) -> String {
    let path = path.trim_end_matches("/Cargo.toml");
    let root = repo.root.to_string_lossy();
    path.strip_prefix(&*root).unwrap_or(path).trim_start_matches('/').to_owned()
}

fn judge(
    repo: &Repo,
    folder: &str,
    package: &Package,
    crates: &BTreeMap<String, Vec<String>>,
) -> Vec<Finding> {
    let manifest = format!("{folder}/Cargo.toml");
    let told = |dependency: &Dependency| match &dependency.path {
        Some(path) => {
            let target = folder_of(repo, path);
            (!points_to(folder, &target)).then(|| {
                Finding::new(&manifest, 0, "arrow", format!("{folder} may not name {target}"))
            })
        }
        None => {
            let listed = crates.get(folder).is_some_and(|list| list.contains(&dependency.name));
            let text = format!("{} is not listed for {folder} in {PATH}", dependency.name);
            (!listed).then(|| Finding::new(&manifest, 0, "crate", text))
        }
    };
    package.dependencies.iter().filter_map(told).collect()
}

/// Whether a chain of arrows leads from one folder to the other.
fn points_to(from: &str, to: &str) -> bool {
    let arrows = ARROWS.iter().find(|(folder, _)| *folder == from);
    arrows.is_some_and(|(_, targets)| {
        targets.iter().any(|target| *target == to || points_to(target, to))
    })
}

/// The workspace's lints deny what STYLE denies; a crate that does not inherit them has none.
fn lints(manifest: &str, text: &str) -> Option<Finding> {
    let inherits = text.contains("[lints]\nworkspace = true");
    (!inherits).then(|| Finding::new(manifest, 0, "lints", "inherit: [lints] workspace = true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_are_followed() {
        assert!(points_to("runtime", "record"));
        assert!(points_to("ice", "record"));
        assert!(points_to("cli", "ice"));
    }

    #[test]
    fn arrows_point_one_way() {
        assert!(!points_to("record", "runtime"));
        assert!(!points_to("runtime", "ice"));
        assert!(!points_to("ice", "cli"));
        assert!(!points_to("capi", "ice"));
        assert!(!points_to("xtask", "record"));
        assert!(!points_to("unknown", "record"));
    }

    #[test]
    fn dependencies_are_judged() {
        let repo = Repo::open().expect("the repository");
        let local = |folder: &str| Dependency {
            name: folder.to_owned(),
            path: Some(repo.root.join(folder).to_string_lossy().into_owned()),
        };
        let foreign = |name: &str| Dependency { name: name.to_owned(), path: None };
        let dependencies = vec![local("cli"), local("record"), foreign("libc"), foreign("mio")];
        let package = Package { manifest_path: String::new(), dependencies };
        let crates = BTreeMap::from([("runtime".to_owned(), vec!["libc".to_owned()])]);
        let found = judge(&repo, "runtime", &package, &crates);
        let rules: Vec<_> = found.iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, ["arrow", "crate"]);
    }

    #[test]
    fn lints_are_inherited() {
        assert!(lints("a/Cargo.toml", "[lints]\nworkspace = true\n").is_none());
        assert!(lints("a/Cargo.toml", "[package]\n").is_some());
    }
}
