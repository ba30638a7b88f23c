//! Measures files and functions; `ratchet` judges the figures.
//!
//! Invariant: a function's length is the number of lines from its `fn` (in C, from the line that
//! opens its body) to its closing brace, comments included: what a reader has to scroll.

use super::Source;
use super::lex::{Language, Line, has_word, word_at};

/// Lines of one file, and of its functions by name. Where a name occurs twice, the longest counts.
pub struct Measure {
    pub path: String,
    pub lines: usize,
    pub functions: Vec<(String, usize, usize)>,
}

pub fn measure(sources: &[Source]) -> Vec<Measure> {
    sources
        .iter()
        .map(|source| Measure {
            path: source.file.path.clone(),
            lines: source.lines.len(),
            functions: match source.language {
                Language::Rust => rust_functions(&source.lines),
                Language::C => c_functions(&source.lines),
            },
        })
        .collect()
}

/// Name, first line (from 1) and number of lines of each function with a body.
fn rust_functions(lines: &[Line]) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let mut from = 0;
        while let Some(at) = word_at(&line.code[from..], "fn") {
            let after = from + at + "fn".len();
            let name: String = line.code[after..]
                .trim_start()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if !name.is_empty()
                && let Some(last) = body_end(lines, number, after)
            {
                found.push((name, number + 1, last - number + 1));
            }
            from = after;
        }
    }
    found
}

/// The line that closes the body which starts after this place; None for a declaration.
fn body_end(lines: &[Line], first: usize, column: usize) -> Option<usize> {
    let (mut braces, mut brackets) = (0_i32, 0_i32);
    for (number, line) in lines.iter().enumerate().skip(first) {
        let code = if number == first { &line.code[column..] } else { &line.code[..] };
        for c in code.chars() {
            match c {
                '{' => braces += 1,
                '}' => braces -= 1,
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                ';' if braces == 0 && brackets == 0 => return None,
                _ => {}
            }
            if c == '}' && braces == 0 && brackets == 0 {
                return Some(number);
            }
        }
    }
    None
}

/// A body at depth 0 that follows a closing parenthesis; types, tables and `extern "C"` don't.
fn c_functions(lines: &[Line]) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    let mut depth = 0_i32;
    let mut open: Option<(String, usize)> = None;
    let mut head = String::new();
    for (number, line) in lines.iter().enumerate() {
        if line.code.trim_start().starts_with('#') {
            continue;
        }
        for c in line.code.chars() {
            match c {
                '{' => {
                    if depth == 0 && head.trim_end().ends_with(')') && !has_word(&head, "=") {
                        open = Some((c_name(&head), number));
                    }
                    depth += 1;
                }
                '}' => {
                    depth -= 1;
                    head.clear();
                    if depth == 0
                        && let Some((name, first)) = open.take()
                    {
                        found.push((name, first + 1, number - first + 1));
                    }
                }
                ';' if depth == 0 => head.clear(),
                _ if depth == 0 => head.push(c),
                _ => {}
            }
        }
    }
    found
}

/// The word before the first parenthesis of a function's head.
fn c_name(head: &str) -> String {
    let before = head.split('(').next().unwrap_or("").trim_end();
    let reversed = before.chars().rev().take_while(|c| c.is_alphanumeric() || *c == '_');
    let name: String = reversed.collect();
    name.chars().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::super::lex::lex;
    use super::*;

    #[test]
    fn rust_bodies_are_counted() {
        let text = "trait T { fn a(&self) -> [u8; 4]; }\nfn b<F: Fn() -> u8>(f: F)\nwhere\n    F: \
                    Send,\n{\n    let s = \"}\";\n    if x { y() }\n}\nfn c() {}\n";
        let found = rust_functions(&lex(text, Language::Rust));
        assert_eq!(found, [("b".to_owned(), 2, 7), ("c".to_owned(), 9, 1)]);
    }

    #[test]
    fn pointers_are_no_functions() {
        assert!(rust_functions(&lex("let f: fn(u8) = g; {}", Language::Rust)).is_empty());
    }

    #[test]
    fn c_bodies_are_counted() {
        let text = "struct s { int a; };\nint t[] = { 1 };\n#define F(x) { x }\nint main(int \
                    c)\n{\n    if (c) {\n    }\n}\n";
        let found = c_functions(&lex(text, Language::C));
        assert_eq!(found, [("main".to_owned(), 5, 4)]);
    }
}
