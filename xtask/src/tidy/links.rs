//! Rule `link`: every Markdown link to a file of the repository leads to one.
//!
//! Invariant: a relative target exists, and its `#anchor`, in a Markdown file, is the slug of a
//! heading there. Links to elsewhere are not followed: tidy needs no network.

use std::path::{Component, Path, PathBuf};

use super::Finding;
use crate::repo::{File, Repo};

pub fn check(repo: &Repo, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.extension() == "md") {
        for (line, target) in targets(&file.text) {
            let told = broken(repo, files, file, &target);
            findings.extend(told.map(|text| Finding::new(&file.path, line, "link", text)));
        }
    }
    findings
}

fn broken(repo: &Repo, files: &[File], from: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let path = if path.is_empty() { from.path.clone() } else { resolve(&from.path, path)? };
    let known = files.iter().any(|file| file.path == path);
    if !known && !repo.root.join(&path).exists() {
        return Some(format!("{target}: there is no {path}"));
    }
    let anchor = anchor?;
    let page = files.iter().find(|file| file.path == path && file.extension() == "md")?;
    (!slugs(&page.text).iter().any(|slug| slug == anchor))
        .then(|| format!("{target}: {path} has no heading #{anchor}"))
}

/// The target's path from the root; `..` is taken textually, as a browser does.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut path = match target.strip_prefix('/') {
        Some(_) => PathBuf::new(),
        None => Path::new(from).parent()?.to_path_buf(),
    };
    for part in Path::new(target.trim_start_matches('/')).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    Some(path.to_string_lossy().into_owned())
}

/// Line and target of each `](target)`, `[name]: target`, `src="target"` outside code.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose_lines(text) {
        let line = without_code(line);
        let inline = line.match_indices("](").map(|(at, mark)| (at + mark.len(), ')'));
        let source = line.match_indices("src=\"").map(|(at, mark)| (at + mark.len(), '"'));
        for (start, end) in inline.chain(source) {
            let rest = &line[start..];
            let target = rest.split([end, ' ']).next().unwrap_or("");
            found.push((number, target.to_owned()));
        }
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((_, target)) = definition {
            found.push((number, target.trim().to_owned()));
        }
    }
    found
}

/// The lines outside fenced code, numbered from 1.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            return None;
        }
        (!in_block).then_some((index + 1, line))
    })
}

fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 0 { part } else { "" }).collect()
}

/// Headings as anchors: lower case, spaces to `-`, other marks dropped.
fn slugs(text: &str) -> Vec<String> {
    let headings = prose_lines(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.trim())
    });
    let slug = |title: &str| {
        title
            .to_lowercase()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || matches!(c, '-' | '_') => Some(c),
                _ => None,
            })
            .collect()
    };
    headings.map(slug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let repo = Repo::open().expect("the repository");
        let files = vec![
            File { path: "README.md".to_owned(), text: text.to_owned() },
            File { path: "xtask/x.md".to_owned(), text: "see [up](../README.md)".to_owned() },
        ];
        check(&repo, &files).len()
    }

    #[test]
    fn good_links_pass() {
        assert_eq!(found("# A b\n[x](Cargo.toml) [y](#a-b) [z](https://a.example/q)"), 0);
        assert_eq!(found("```\n[x](nowhere)\n```\nand `[y](nowhere)`"), 0);
    }

    #[test]
    fn broken_links_are_found() {
        assert_eq!(found("[x](nowhere.md)"), 1);
        assert_eq!(found("# A\n[x](#b)"), 1);
        assert_eq!(found("[x]: nowhere.md"), 1);
        assert_eq!(found("<img src=\"nowhere.svg\">"), 1);
        assert_eq!(found("[x](xtask/nowhere/)"), 1);
    }
}
