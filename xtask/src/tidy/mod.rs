//! `cargo xtask tidy`: the rules of the repository that the compiler does not know.
//!
//! Invariant: a rule reads the tree and returns findings; it changes nothing and prints nothing.
//! Each rule that looks at text is a plain function from text to findings, with unit tests on a
//! good and a bad snippet: a rule that cannot fail is a defect like a test that cannot.
//! Rules that the compiler or clippy check well (unused code, names, formatting) are not here.

mod arrows;
mod header;
mod lex;
mod links;
mod manual;
mod places;
mod prose;
mod ratchet;
mod sizes;
mod unsafety;

use anyhow::Result;

use crate::generated;
use crate::repo::{File, Repo};
use lex::{Language, Line};
use ratchet::Settings;

/// One place that breaks one rule, and what to do about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: String,
    /// Counted from 1; 0 where the finding is about the whole file.
    pub line: usize,
    pub rule: &'static str,
    pub text: String,
}

impl Finding {
    pub fn new(path: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, text: text.into() }
    }
}

/// A source file with its comments split off.
pub struct Source<'a> {
    pub file: &'a File,
    pub language: Language,
    pub lines: Vec<Line>,
}

impl<'a> Source<'a> {
    fn of(file: &'a File) -> Option<Self> {
        let language = match file.extension() {
            "rs" => Language::Rust,
            "c" | "h" | "cc" | "cpp" | "hpp" => Language::C,
            _ => return None,
        };
        Some(Self { file, language, lines: lex::lex(&file.text, language) })
    }

    #[cfg(test)]
    fn check(path: &str, text: &str, rule: fn(&Source) -> Vec<Finding>) -> Vec<usize> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        let source = Source::of(&file).expect("a source file");
        rule(&source).into_iter().map(|finding| finding.line).collect()
    }
}

/// True when nothing was found.
pub fn run(repo: &Repo, text_only: bool, shrink: bool) -> Result<bool> {
    let files = repo.files()?;
    let settings = Settings::read(repo)?;
    let sources: Vec<Source> = files.iter().filter_map(Source::of).collect();
    let measured = sizes::measure(&sources);
    if shrink {
        return settings.shrink(repo, &measured).map(|()| true);
    }

    let mut findings = Vec::new();
    for source in &sources {
        findings.extend(header::check(source));
        let recorded = settings.unsafe_uses.get(&source.file.path).copied().unwrap_or(0);
        findings.extend(unsafety::check(source, recorded));
        findings.extend(places::check(source));
    }
    for file in &files {
        findings.extend(prose::check(file, &settings));
    }
    findings.extend(links::check(repo, &files));
    findings.extend(settings.compare(&measured));
    findings.extend(settings.compare_with_committed(repo));
    findings.extend(arrows::check(repo, &settings)?);
    findings.extend(manual::environment(&files));
    findings.extend(manual::functions(&files));
    if !text_only {
        findings.extend(generated::check(repo)?);
        findings.extend(manual::flags(repo, &files)?);
        findings.extend(layouts(repo)?);
    }
    Ok(report(findings, files.len()))
}

/// The headers that more than one language reads, with the test that compiles each of them and
/// compares every offset with the Rust mirror.
const LAYOUTS: [(&str, &str, &str); 2] = [
    ("record/include/heddle/record.h", "heddle-record", "layout"),
    ("preload/include/heddle/plan.h", "heddle-preload", "plan"),
];

fn layouts(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (header, package, test) in LAYOUTS {
        let call = ["test", "--quiet", "--locked", "-p", package, "--test", test];
        let output = repo.cargo().args(call).output()?;
        if !output.status.success() {
            print!("{}", String::from_utf8_lossy(&output.stdout));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            let text = "the C header and the Rust mirror differ: see the test's output above";
            findings.push(Finding::new(header, 0, "layout", text));
        }
    }
    Ok(findings)
}

fn report(mut findings: Vec<Finding>, files: usize) -> bool {
    findings.sort();
    for Finding { path, line, rule, text } in &findings {
        match line {
            0 => println!("{path}: {rule}: {text}"),
            _ => println!("{path}:{line}: {rule}: {text}"),
        }
    }
    println!("tidy: {files} files, {} findings", findings.len());
    findings.is_empty()
}
