//! Rules `file-size`, `function-size`: STYLE's limits as a ratchet, and xtask/tidy.toml.
//!
//! Invariant: a file over the soft limit or a function over its limit is listed in tidy.toml with
//! its size, never grows past it, and its entry goes down when it does: an entry may be lowered
//! or removed, never raised or added. No file is over the hard limit, listed or not.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Finding;
use super::sizes::Measure;
use crate::repo::Repo;

pub const PATH: &str = "xtask/tidy.toml";
const FILE_LINES_SOFT: usize = 500;
const FILE_LINES_HARD: usize = 1000;
const FUNCTION_LINES_MAX: usize = 70;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Files over the soft limit, with their lines.
    #[serde(default)]
    pub files: BTreeMap<String, usize>,
    /// `path::function` over the limit, with its lines.
    #[serde(default)]
    pub functions: BTreeMap<String, usize>,
    /// Files outside the folders of unsafe code that use it, with how often.
    #[serde(default)]
    pub unsafe_uses: BTreeMap<String, usize>,
    /// Hosts that a text may name: fixed names of standards and licences.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// The crates from elsewhere that each folder may depend on.
    #[serde(default)]
    pub crates: BTreeMap<String, Vec<String>>,
}

impl Settings {
    pub fn read(repo: &Repo) -> Result<Self> {
        let text = fs::read_to_string(repo.root.join(PATH))
            .with_context(|| format!("cannot read {PATH}"))?;
        toml::from_str(&text).with_context(|| format!("{PATH} is malformed"))
    }

    pub fn compare(&self, measured: &[Measure]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for measure in measured {
            findings.extend(self.file(measure));
            for (name, line, lines) in longest(measure) {
                let key = format!("{}::{name}", measure.path);
                let told = verdict(self.functions.get(&key), lines, FUNCTION_LINES_MAX);
                let new = |text| Finding::new(&measure.path, line, "function-size", text);
                findings.extend(told.map(|told| new(format!("{name}: {told}"))));
            }
        }
        findings.extend(self.stale(measured));
        findings
    }

    fn file(&self, measure: &Measure) -> Option<Finding> {
        let text = if measure.lines > FILE_LINES_HARD {
            format!("{} lines, at most {FILE_LINES_HARD}: split it", measure.lines)
        } else {
            verdict(self.files.get(&measure.path), measure.lines, FILE_LINES_SOFT)?
        };
        Some(Finding::new(&measure.path, 0, "file-size", text))
    }

    /// Entries for what is gone would let it come back.
    fn stale(&self, measured: &[Measure]) -> Vec<Finding> {
        let is_there = |key: &str| {
            measured.iter().any(|measure| match key.split_once("::") {
                None => measure.path == key,
                Some((path, name)) => {
                    measure.path == path && measure.functions.iter().any(|f| f.0 == name)
                }
            })
        };
        let keys = self.files.keys().chain(self.functions.keys());
        keys.filter(|key| !is_there(key))
            .map(|key| Finding::new(PATH, 0, "ratchet", format!("{key} is gone: remove its entry")))
            .collect()
    }

    /// A working copy may not raise or add what the last commit records.
    pub fn compare_with_committed(&self, repo: &Repo) -> Vec<Finding> {
        let shown = Command::new("git")
            .current_dir(&repo.root)
            .args(["show", &format!("HEAD:{PATH}")])
            .output();
        let Ok(shown) = shown else { return Vec::new() };
        let Ok(text) = String::from_utf8(shown.stdout) else { return Vec::new() };
        match toml::from_str::<Settings>(&text) {
            Ok(committed) if shown.status.success() => self.raised_since(&committed),
            _ => Vec::new(),
        }
    }

    fn raised_since(&self, committed: &Settings) -> Vec<Finding> {
        let pairs = [
            (&self.files, &committed.files),
            (&self.functions, &committed.functions),
            (&self.unsafe_uses, &committed.unsafe_uses),
        ];
        let mut findings = Vec::new();
        for (now, then) in pairs {
            for (key, lines) in now {
                let before = then.get(key).copied().unwrap_or(0);
                if *lines > before {
                    let text = format!("{key} = {lines} was {before}: entries only shrink");
                    findings.push(Finding::new(PATH, 0, "ratchet", text));
                }
            }
        }
        findings
    }

    /// Lowers each entry to today's size and drops those that are within the limits.
    pub fn shrink(&self, repo: &Repo, measured: &[Measure]) -> Result<()> {
        let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
        for measure in measured {
            sizes.insert(measure.path.clone(), measure.lines);
            for (name, _, lines) in longest(measure) {
                sizes.insert(format!("{}::{name}", measure.path), lines);
            }
        }
        let text = fs::read_to_string(repo.root.join(PATH))?;
        let kept: Vec<String> = text.lines().filter_map(|line| shrunk(line, &sizes)).collect();
        fs::write(repo.root.join(PATH), kept.join("\n") + "\n")?;
        Ok(())
    }
}

/// One line of tidy.toml after shrinking; None drops it. Lines that are no entry stay as they are.
fn shrunk(line: &str, sizes: &BTreeMap<String, usize>) -> Option<String> {
    let entry = line.split_once(" = ").and_then(|(key, lines)| {
        Some((key.strip_prefix('"')?.strip_suffix('"')?, lines.parse::<usize>().ok()?))
    });
    let Some((key, recorded)) = entry else { return Some(line.to_owned()) };
    let limit = if key.contains("::") { FUNCTION_LINES_MAX } else { FILE_LINES_SOFT };
    let today = *sizes.get(key)?;
    (today > limit).then(|| format!("\"{key}\" = {}", today.min(recorded)))
}

fn verdict(recorded: Option<&usize>, lines: usize, limit: usize) -> Option<String> {
    match recorded {
        None if lines > limit => Some(format!("{lines} lines, at most {limit}: split it")),
        Some(recorded) if lines > *recorded => {
            Some(format!("{lines} lines, {recorded} recorded: it may only shrink"))
        }
        Some(recorded) if lines < *recorded => {
            Some(format!("shrunk from {recorded} to {lines}: run `cargo xtask tidy --shrink`"))
        }
        _ => None,
    }
}

fn longest(measure: &Measure) -> Vec<(&str, usize, usize)> {
    let mut by_name: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (name, line, lines) in &measure.functions {
        let entry = by_name.entry(name).or_insert((*line, *lines));
        if entry.1 < *lines {
            *entry = (*line, *lines);
        }
    }
    by_name.into_iter().map(|(name, (line, lines))| (name, line, lines)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(files: &[(&str, usize)], functions: &[(&str, usize)]) -> Settings {
        let map = |pairs: &[(&str, usize)]| {
            pairs.iter().map(|(key, lines)| ((*key).to_owned(), *lines)).collect()
        };
        Settings { files: map(files), functions: map(functions), ..Settings::default() }
    }

    fn measured(lines: usize, function: usize) -> Vec<Measure> {
        let functions = vec![("f".to_owned(), 3, function)];
        vec![Measure { path: "a.rs".to_owned(), lines, functions }]
    }

    #[test]
    fn within_the_limits_is_fine() {
        assert!(settings(&[], &[]).compare(&measured(500, 70)).is_empty());
        assert!(settings(&[("a.rs", 600)], &[]).compare(&measured(600, 1)).is_empty());
        assert!(settings(&[], &[("a.rs::f", 90)]).compare(&measured(99, 90)).is_empty());
    }

    #[test]
    fn over_the_limits_is_found() {
        assert_eq!(settings(&[], &[]).compare(&measured(501, 71)).len(), 2);
        assert_eq!(settings(&[("a.rs", 2000)], &[]).compare(&measured(1001, 1)).len(), 1);
    }

    #[test]
    fn entries_follow_downwards_only() {
        assert_eq!(settings(&[("a.rs", 600)], &[]).compare(&measured(601, 1)).len(), 1);
        assert_eq!(settings(&[("a.rs", 600)], &[]).compare(&measured(599, 1)).len(), 1);
        assert_eq!(settings(&[("gone.rs", 600)], &[]).compare(&measured(1, 1)).len(), 1);
        let before = settings(&[("a.rs", 600)], &[]);
        assert_eq!(settings(&[("a.rs", 601)], &[]).raised_since(&before).len(), 1);
        assert_eq!(settings(&[], &[("a.rs::f", 71)]).raised_since(&before).len(), 1);
        assert!(settings(&[("a.rs", 550)], &[]).raised_since(&before).is_empty());
    }

    #[test]
    fn shrinking_rewrites_entries_alone() {
        let sizes = BTreeMap::from([("a.rs".to_owned(), 550), ("b.rs".to_owned(), 10)]);
        assert_eq!(shrunk("\"a.rs\" = 600", &sizes).as_deref(), Some("\"a.rs\" = 550"));
        assert_eq!(shrunk("\"b.rs\" = 600", &sizes), None);
        assert_eq!(shrunk("[files]", &sizes).as_deref(), Some("[files]"));
    }
}
