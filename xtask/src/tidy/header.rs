//! Rule `header`: each source file opens with what it is.
//!
//! Invariant: the first thing of a .rs file is its `//!` text, of a C file a comment. Whether the
//! text is any good is for reviewers.

use super::lex::Language;
use super::{Finding, Source};

pub fn check(source: &Source) -> Vec<Finding> {
    let first = source.file.text.lines().map(str::trim).find(|line| !line.is_empty());
    let first = first.unwrap_or("");
    let (opens, wanted) = match source.language {
        Language::Rust => (first.starts_with("//!"), "`//!`: what it is, what it keeps true"),
        Language::C => (first.starts_with("/*") || first.starts_with("//"), "a comment"),
    };
    if opens {
        return Vec::new();
    }
    vec![Finding::new(&source.file.path, 1, "header", format!("open the file with {wanted}"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_it_is() {
        assert!(Source::check("a/src/x.rs", "//! Queue.\nfn f() {}\n", check).is_empty());
        assert!(Source::check("a/x.c", "/* Mutex test. */\nint x;\n", check).is_empty());
    }

    #[test]
    fn silence_is_found() {
        assert_eq!(Source::check("a/src/x.rs", "use std::io;\n", check), [1]);
        assert_eq!(Source::check("a/src/x.rs", "// Not a doc.\n", check), [1]);
        assert_eq!(Source::check("a/x.c", "#include <stdio.h>\n", check), [1]);
        assert_eq!(Source::check("a/src/x.rs", "", check), [1]);
    }
}
