//! Rule `manual`: what users may type is in the manual.
//!
//! Invariant: each `--flag` that `heddle COMMAND --help` shows stands in that command's page under
//! cli/man; each `HEDDLE_*` variable that a source of the product names stands in heddle(7); each
//! function that heddle.h declares stands in the NAME line of a page under capi/man/man3.
//! The command's pages are generated, so the first also proves that the generator lost nothing.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

use super::Finding;
use super::lex::{Language, lex};
use crate::repo::{File, Repo};

const HEADER: &str = "capi/include/heddle.h";
const FUNCTION_PAGES: &str = "capi/man/man3/";
const CONCEPTS: &str = "capi/man/man7/heddle.7";
/// Layers whose variables users may set; tests and tools have their own.
const PRODUCT: [&str; 7] = [
    "record/src/",
    "runtime/src/",
    "capi/src/",
    "ice/src/",
    "preload/src/",
    "preload/c/",
    "cli/src/",
];

pub fn flags(repo: &Repo, files: &[File]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for command in commands(&help(repo, &[])?) {
        let shown = help(repo, &[&command])?;
        let path = format!("cli/man/heddle-{command}.1");
        let Some(page) = files.iter().find(|file| file.path == path) else {
            findings.push(Finding::new(&path, 0, "manual", "the command has no page"));
            continue;
        };
        for flag in missing(&shown, &page.text) {
            findings.push(Finding::new(&path, 0, "manual", format!("{flag} is not in the page")));
        }
    }
    Ok(findings)
}

fn help(repo: &Repo, command: &[&str]) -> Result<String> {
    let output = repo
        .cargo()
        .args(["run", "--quiet", "--locked", "-p", "heddle-cli", "--bin", "heddle", "--"])
        .args(command)
        .arg("--help")
        .output()
        .context("cannot run heddle --help")?;
    if !output.status.success() {
        bail!("heddle --help: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The names under `Commands:` in the help text.
fn commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| line.trim() != "Commands:").skip(1);
    listed
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn missing(help: &str, page: &str) -> Vec<String> {
    let page = page.replace('\\', "");
    long_flags(help).into_iter().filter(|flag| !page.contains(flag.as_str())).collect()
}

fn long_flags(help: &str) -> BTreeSet<String> {
    let starts = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    // Two spaces end the flags; what follows is their text.
    let flags = starts.map(|line| line.split("  ").next().unwrap_or(line));
    let words = flags.flat_map(|flags| flags.split([' ', ',', '=', '[']));
    words.filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned).collect()
}

pub fn environment(files: &[File]) -> Vec<Finding> {
    let manual = files.iter().find(|file| file.path == CONCEPTS);
    let manual = manual.map_or("", |file| file.text.as_str()).replace('\\', "");
    let product = files.iter().filter(|file| {
        ["rs", "c"].contains(&file.extension())
            && PRODUCT.iter().any(|layer| file.path.starts_with(layer))
    });
    let mut findings = Vec::new();
    for file in product {
        for name in variables(&file.text) {
            if !manual.contains(&name) {
                let text = format!("{name} is not in {CONCEPTS}");
                findings.push(Finding::new(&file.path, 0, "manual", text));
            }
        }
    }
    findings
}

/// Names of environment variables in string literals; those of unit tests are not the product's.
fn variables(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let starts = text.match_indices("\"HEDDLE_").map(|(at, _)| &text[at + 1..]);
    let names = starts.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name);
    names
        .filter(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
        .map(str::to_owned)
        .collect()
}

pub fn functions(files: &[File]) -> Vec<Finding> {
    let Some(header) = files.iter().find(|file| file.path == HEADER) else { return Vec::new() };
    let named: BTreeSet<String> = files
        .iter()
        .filter(|file| file.path.starts_with(FUNCTION_PAGES))
        .flat_map(|page| name_line(&page.text))
        .collect();
    let missing = declared(&header.text).into_iter().filter(|(_, name)| !named.contains(name));
    missing
        .map(|(line, name)| {
            let text = format!("{name} is in the NAME line of no page in {FUNCTION_PAGES}");
            Finding::new(HEADER, line, "manual", text)
        })
        .collect()
}

/// Line and name of each function that the header declares or defines.
fn declared(header: &str) -> Vec<(usize, String)> {
    let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let mut found = Vec::new();
    for (index, line) in lex(header, Language::C).iter().enumerate() {
        // A declaration starts at the margin; what is indented continues one, or is a body.
        let first = line.code.chars().next().unwrap_or(' ');
        if first.is_whitespace() || first == '#' {
            continue;
        }
        let Some((head, _)) = line.code.split_once('(') else { continue };
        let name = head.rsplit(|c| !part(c)).next().unwrap_or("");
        if name.starts_with("heddle_") && !line.code.starts_with("typedef") {
            found.push((index + 1, name.to_owned()));
        }
    }
    found
}

/// The names between `.SH NAME` and the dash.
fn name_line(page: &str) -> Vec<String> {
    let lines = page.lines().skip_while(|line| !line.starts_with(".SH NAME")).skip(1);
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with(".SH")).collect();
    let text = section.join(" ");
    let names = text.split("\\-").next().unwrap_or("").to_owned();
    names
        .split([',', ' '])
        .map(str::trim)
        .filter(|name| name.starts_with("heddle_"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Usage: x\n\nOptions:\n  -p, --port <PORT>  see --nothing\n      --json\n";

    #[test]
    fn flags_are_read_from_help() {
        let flags: Vec<_> = long_flags(HELP).into_iter().collect();
        assert_eq!(flags, ["--json", "--port"]);
    }

    #[test]
    fn a_flag_without_a_text_is_found() {
        assert!(missing(HELP, "\\fB\\-\\-port\\fR and \\fB\\-\\-json\\fR").is_empty());
        assert_eq!(missing(HELP, "\\fB\\-\\-port\\fR"), ["--json"]);
    }

    #[test]
    fn commands_are_read_from_help() {
        let help = "A\n\nCommands:\n  serve  Serve\n  ps     Table\n  help   Help\n\nOptions:\n";
        assert_eq!(commands(help), ["serve", "ps"]);
    }

    #[test]
    fn a_variable_without_a_text_is_found() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let source = file(
            "runtime/src/config.rs",
            "var(\"HEDDLE_IO\"); var(\"HEDDLE_NEW\")\n\
             #[cfg(test)]\nmod tests { var(\"HEDDLE_ODD\") }",
        );
        let library = file("preload/c/plan.c", "getenv(\"HEDDLE_OTHER\")");
        let found = environment(&[source, library, file(CONCEPTS, ".B HEDDLE_IO\n")]);
        assert_eq!(found.len(), 2);
        assert!(found[0].text.contains("HEDDLE_NEW") && found[1].text.contains("HEDDLE_OTHER"));
    }

    #[test]
    fn a_function_without_a_page_is_found() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let header = "int heddle_join(heddle_t t,\n    void (*heddle_not)(void));\n/* heddle_x() \
                      */\ntypedef int (*heddle_f)(int);\nvoid *heddle_new(void);\n";
        let page = ".SH NAME\nheddle_join, heddle_detach \\- wait\n.SH SYNOPSIS\nheddle_new\n";
        let files = [file(HEADER, header), file("capi/man/man3/heddle_join.3", page)];
        let found = functions(&files);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 5);
    }
}
