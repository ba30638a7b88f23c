//! Rules `columns`, `marker`, `machine`, `ignore`: what may not stand in any text of the tree.
//!
//! Invariant: no line over 100 columns (tables, code blocks and long links of Markdown, generated
//! files and licences are let be); no marker of unfinished work; no path of somebody's machine
//! and no host, except loopback, reserved example names and the fixed names that tidy.toml lists:
//! packages come from the sources that the user's system has configured; an ignored test says why.

use super::ratchet::Settings;
use super::{Finding, lex};
use crate::repo::File;

const COLUMNS_MAX: usize = 100;
/// Split, so that this file does not break its own rule.
const MARKERS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const MACHINE_PATHS: [&str; 4] =
    [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];

pub fn check(file: &File, settings: &Settings) -> Vec<Finding> {
    if file.path.ends_with("Cargo.lock") || file.extension() == "svg" {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut in_block = false;
    let mut before = "";
    for (index, line) in file.text.lines().enumerate() {
        let mut found = |rule, text: String| {
            findings.push(Finding::new(&file.path, index + 1, rule, text));
        };
        in_block = match line.trim() {
            ".nf" | ".EX" => true,
            ".fi" | ".EE" => false,
            other => in_block != other.starts_with("```"),
        };
        let columns = line.chars().count();
        let is_name = before.starts_with(".SH NAME");
        if columns > COLUMNS_MAX && !is_name && !may_be_wide(file, line, in_block) {
            found("columns", format!("{columns} columns, at most {COLUMNS_MAX}"));
        }
        before = line;
        for marker in MARKERS.iter().filter(|marker| lex::has_word(line, marker)) {
            found("marker", format!("{marker}: do it, or write an issue"));
        }
        for path in MACHINE_PATHS.iter().filter(|path| names_path(line, path)) {
            found("machine", format!("{path}: a path of one machine"));
        }
        for host in hosts(line).filter(|host| !is_allowed(host, &settings.hosts)) {
            found("machine", format!("{host}: a host (see hosts in xtask/tidy.toml)"));
        }
        if file.extension() == "rs" && line.trim() == concat!("#[ig", "nore]") {
            found("ignore", "say why: #[ignore = \"reason\"]".to_owned());
        }
    }
    findings
}

/// Tables, samples of output and a manual's requests cannot be wrapped; results and snapshots are
/// written by tools.
fn may_be_wide(file: &File, line: &str, in_block: bool) -> bool {
    let generated = file.path.starts_with("cli/man/")
        || file.path.starts_with("cli/completions/")
        || file.path.starts_with("bench/results/");
    let data = matches!(file.extension(), "json" | "snap" | "stdout" | "stderr" | "trycmd");
    let request = matches!(file.extension(), "3" | "7") && (in_block || line.starts_with('.'));
    let markdown = file.extension() == "md"
        && (in_block || line.starts_with('|') || line.trim_start().starts_with('['));
    generated
        || data
        || request
        || markdown
        || file.path.contains("LICENSE")
        || !line.trim().contains(' ')
}

/// A path that starts here, not one in the middle of another (`/usr/share/...`).
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '}'))
    })
}

/// The host of each URL in the line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("://").filter_map(move |(at, mark)| {
        let scheme = &line[..at];
        if !["http", "https", "git", "ssh", "ftp"].iter().any(|name| scheme.ends_with(name)) {
            return None;
        }
        let rest = &line[at + mark.len()..];
        let part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']' | '@');
        let host = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        (!host.is_empty()).then_some(host)
    })
}

fn is_allowed(host: &str, listed: &[String]) -> bool {
    let host = host.trim_end_matches(['.', ':', ']', '[']);
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let reserved = ["example", "test", "invalid", "localhost"];
    let top = name.rsplit('.').next().unwrap_or("");
    name.is_empty()
        || name.starts_with("127.")
        || name.contains("::")
        || reserved.contains(&top)
        || name.contains("example.")
        || !name.contains('.')
        || name.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        || listed.iter().any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        let settings = Settings { hosts: vec!["www.w3.org".to_owned()], ..Settings::default() };
        check(&file, &settings).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn wide_lines_are_found() {
        let words = "word ".repeat(21);
        assert_eq!(rules("a.rs", &words), ["columns"]);
        assert_eq!(rules("a.md", &words), ["columns"]);
        assert!(rules("a.md", &format!("| {words} |")).is_empty());
        assert!(rules("a.md", &format!("```\n{words}\n```")).is_empty());
        assert!(rules("a.rs", &"é".repeat(100)).is_empty());
        assert!(rules("a.3", &format!(".SH NAME\n{words}\n.BI {words}")).is_empty());
        assert_eq!(rules("a.3", &format!(".PP\n{words}")), ["columns"]);
    }

    #[test]
    fn markers_are_found() {
        assert_eq!(rules("a.rs", concat!("// TO", "DO: later")), ["marker"]);
        assert_eq!(rules("a.c", concat!("/* FIX", "ME */")), ["marker"]);
        assert!(rules("a.c", "mkstemp(\"/tmp/aXXXXXX\")").is_empty());
    }

    #[test]
    fn machines_are_found() {
        assert_eq!(rules("a.sh", concat!("cd /ho", "me/me/src")), ["machine"]);
        assert_eq!(rules("a.sh", concat!("curl https:", "//packages.mirror.org/x")), ["machine"]);
        assert!(rules("a.sh", "curl http://127.0.0.1:8080/ http://[::1]:80/").is_empty());
        assert!(rules("a.sh", "curl http://localhost:80/ http://a.example/").is_empty());
        assert!(rules("a.html", "xmlns=\"http://www.w3.org/1999/xhtml\"").is_empty());
        assert!(rules("a.rs", "format!(\"http://{host}/\")").is_empty());
    }

    #[test]
    fn ignored_tests_say_why() {
        assert_eq!(rules("a.rs", concat!("#[ig", "nore]")), ["ignore"]);
        assert!(rules("a.rs", "#[ignore = \"needs 10 GB\"]").is_empty());
    }
}
