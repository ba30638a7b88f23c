//! Rules `unsafe-place`, `safety`: unsafe code lies in five folders and says why it holds.
//!
//! Invariant: outside the five folders there are at most as many uses of `unsafe` in a file as
//! tidy.toml records for it (calls of the runtime's own unsafe functions, nothing else). And
//! everywhere: every `unsafe` block and impl has a `SAFETY:` comment on its line or within reach
//! above; every `unsafe fn` has `# Safety` (or `SAFETY:`) in the comment before it, or its file
//! states one `# Safety` for all of its functions in the `//!` header, as a C API does. A method
//! that a trait asks for has the trait's.
//! clippy checks blocks more strictly where it sees them; this rule also sees code that is
//! configured out.

use super::lex::{Language, has_word, word_at};
use super::{Finding, Source};

/// Folders that may hold unsafe code.
const FOLDERS: [&str; 5] = ["record", "runtime", "capi", "preload", "user"];
/// How far above an unsafe block its reason may stand: a multi-line statement and its comment.
const REACH_LINES: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Block,
    Function,
    /// A function pointer type or an attribute: nothing to justify.
    Mention,
}

/// `recorded`: how many uses tidy.toml lets be in this file, where there should be none.
pub fn check(source: &Source, recorded: usize) -> Vec<Finding> {
    if source.language != Language::Rust {
        return Vec::new();
    }
    let uses =
        (0..source.lines.len()).filter_map(|number| Some((number, unsafe_at(source, number)?)));
    let uses: Vec<_> = uses.filter(|(_, kind)| *kind != Kind::Mention).collect();
    let mut findings: Vec<Finding> =
        uses.iter().filter_map(|(number, kind)| unjustified(source, *number, *kind)).collect();
    let path = &source.file.path;
    if !FOLDERS.contains(&source.file.folder()) && uses.len() != recorded {
        let line = uses.first().map_or(0, |(number, _)| number + 1);
        let text = match uses.len() > recorded {
            true => format!("unsafe code lies only in {}", FOLDERS.join(", ")),
            false => format!("{recorded} uses recorded, {} left: lower it", uses.len()),
        };
        findings.push(Finding::new(path, line, "unsafe-place", text));
    }
    findings
}

fn unjustified(source: &Source, number: usize, kind: Kind) -> Option<Finding> {
    let (said, wanted) = match kind {
        Kind::Block => (block_says_why(source, number), "`// SAFETY:` above this block"),
        _ => (function_says_why(source, number), "`# Safety` above this function"),
    };
    let path = &source.file.path;
    (!said).then(|| Finding::new(path, number + 1, "safety", format!("write {wanted}")))
}

fn unsafe_at(source: &Source, number: usize) -> Option<Kind> {
    let code = &source.lines[number].code;
    let at = word_at(code, "unsafe")?;
    let following = source.lines.get(number + 1).map_or("", |line| line.code.as_str());
    let rest = format!("{} {}", &code[at + "unsafe".len()..], following);
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix("extern") {
        // The name of the ABI is blank here: `extern "   " fn name`.
        Some(rest) => rest.trim_start().trim_start_matches(['"', ' ']),
        None => rest,
    };
    Some(match rest.strip_prefix("fn") {
        Some(name) if name.trim_start().starts_with('(') => Kind::Mention,
        Some(_) => Kind::Function,
        None if rest.starts_with('(') => Kind::Mention,
        None => Kind::Block,
    })
}

fn block_says_why(source: &Source, number: usize) -> bool {
    let first = number.saturating_sub(REACH_LINES);
    source.lines[first..=number].iter().any(|line| line.comment.contains("SAFETY:"))
}

fn function_says_why(source: &Source, number: usize) -> bool {
    let says = |comment: &str| comment.contains("# Safety") || comment.contains("SAFETY:");
    let whole_file = source.lines.iter().take_while(|line| line.code.trim().is_empty());
    if whole_file.into_iter().any(|line| line.comment.contains("# Safety")) {
        return true;
    }
    if says(&source.lines[number].comment) || implements_a_trait(source, number) {
        return true;
    }
    let above = source.lines[..number].iter().rev();
    above
        .take_while(|line| !line.comment.is_empty() || line.code.trim_start().starts_with("#["))
        .any(|line| says(&line.comment))
}

/// Whether the block around this line is an `impl TRAIT for TYPE`; goes by rustfmt's indentation.
fn implements_a_trait(source: &Source, number: usize) -> bool {
    let indent = |code: &str| code.len() - code.trim_start().len();
    let own = indent(&source.lines[number].code);
    let around = source.lines[..number].iter().rev().map(|line| line.code.as_str());
    let head = around.into_iter().find(|code| {
        let text = code.trim_start();
        indent(code) < own && !text.is_empty() && !text.starts_with(['#', '}', 'w'])
    });
    head.is_some_and(|code| has_word(code, "impl") && has_word(code, "for"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime(text: &str) -> Vec<usize> {
        Source::check("runtime/src/x.rs", text, |source| check(source, 0))
    }

    #[test]
    fn reasons_within_reach_are_enough() {
        assert!(runtime("// SAFETY: p is live.\nlet a =\n    unsafe { *p };\n").is_empty());
        assert!(runtime("// SAFETY: no data.\nunsafe impl Send for A {}\n").is_empty());
        assert!(runtime("/// # Safety\n/// 1. p lives.\n#[inline]\nunsafe fn f() {}\n").is_empty());
        assert!(runtime("//! C API.\n//! # Safety\n\nunsafe extern \"C\" fn f() {}\n").is_empty());
    }

    #[test]
    fn a_method_of_a_trait_has_the_traits_reason() {
        let method = "    fn g() {}\n\n    unsafe fn f() {}\n}\n";
        assert!(runtime(&format!("impl FromRawFd for A {{\n{method}")).is_empty());
        assert_eq!(runtime(&format!("impl A {{\n{method}")), [4]);
    }

    #[test]
    fn mentions_need_no_reason() {
        assert!(runtime("type F = unsafe extern \"C\" fn(*mut u8);\n").is_empty());
        assert!(runtime("#[unsafe(no_mangle)]\nfn f() {} // unsafe to call\n").is_empty());
        assert!(runtime("let s = \"unsafe { }\";\n").is_empty());
    }

    #[test]
    fn silence_is_found() {
        assert_eq!(runtime("let a = unsafe { *p };\n"), [1]);
        assert_eq!(runtime("fn g() {}\nunsafe fn f() {}\n"), [2]);
        assert_eq!(runtime("unsafe extern \"C\" fn f() {}\n"), [1]);
        assert_eq!(runtime("unsafe impl Send for A {}\n"), [1]);
        let far = format!("// SAFETY: far.\n{}unsafe {{ f() }}\n", "g();\n".repeat(20));
        assert_eq!(runtime(&far), [22]);
    }

    #[test]
    fn other_folders_have_none() {
        let text = "// SAFETY: fine.\nunsafe { f() }\n";
        assert_eq!(Source::check("ice/src/x.rs", text, |source| check(source, 0)), [2]);
        assert!(Source::check("bench/src/x.rs", text, |source| check(source, 1)).is_empty());
        assert_eq!(Source::check("bench/src/x.rs", text, |source| check(source, 2)), [2]);
    }
}
