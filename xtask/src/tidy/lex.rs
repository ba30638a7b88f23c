//! Splits Rust and C source into code and comments, line by line.
//!
//! Invariant: for each line, `code` holds no character of a comment and no content of a string or
//! character literal (quotes stay, contents become spaces), and `comment` holds nothing but
//! comments. So a rule that looks for a word in code cannot be fooled by prose, nor the reverse.
//! This is not a parser: macros are text, and a rule must be content with words and braces.

/// What differs between the two languages, as far as comments and literals go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Rust,
    C,
}

#[derive(Default, Debug, PartialEq, Eq)]
pub struct Line {
    pub code: String,
    pub comment: String,
}

enum State {
    Code,
    /// Depth of nested block comments; C's do not nest and stay at 1.
    Block(usize),
    Text,
    /// A raw string that ends at a quote and this many `#`.
    Raw(usize),
}

struct Lexer {
    language: Language,
    state: State,
    line: Line,
}

pub fn lex(source: &str, language: Language) -> Vec<Line> {
    let mut lexer = Lexer { language, state: State::Code, line: Line::default() };
    source
        .lines()
        .map(|line| {
            lexer.take(&line.chars().collect::<Vec<_>>());
            std::mem::take(&mut lexer.line)
        })
        .collect()
}

impl Lexer {
    fn take(&mut self, chars: &[char]) {
        let mut at = 0;
        while at < chars.len() {
            let rest = &chars[at..];
            at += match self.state {
                State::Code => self.code(rest),
                State::Block(depth) => self.block(rest, depth),
                State::Text => self.text(rest),
                State::Raw(hashes) => self.raw(rest, hashes),
            };
        }
        // A C string ends with its line unless the line is continued.
        if self.language == Language::C
            && matches!(self.state, State::Text)
            && chars.last() != Some(&'\\')
        {
            self.state = State::Code;
        }
    }

    fn code(&mut self, rest: &[char]) -> usize {
        match rest {
            ['/', '/', ..] => {
                self.line.comment.extend(rest);
                rest.len()
            }
            ['/', '*', ..] => {
                self.state = State::Block(1);
                self.line.comment.push_str("/*");
                2
            }
            ['"', ..] => {
                self.state = match self.raw_hashes() {
                    Some(hashes) => State::Raw(hashes),
                    None => State::Text,
                };
                self.push('"', 1)
            }
            ['\'', ..] => self.quote(rest),
            [first, ..] => self.push(*first, 1),
            [] => 0,
        }
    }

    fn push(&mut self, kept: char, taken: usize) -> usize {
        self.line.code.push(kept);
        taken
    }

    /// A quote opens a character literal or, in Rust, a lifetime or label.
    fn quote(&mut self, rest: &[char]) -> usize {
        let length = match rest {
            ['\'', '\\', _, tail @ ..] => {
                tail.iter().position(|c| *c == '\'').map_or(rest.len(), |end| end + 4)
            }
            ['\'', _, '\'', ..] => 3,
            _ if self.language == Language::C => {
                rest.iter().skip(1).position(|c| *c == '\'').map_or(rest.len(), |end| end + 2)
            }
            _ => return self.push('\'', 1),
        };
        self.line.code.push_str("' '");
        length
    }

    /// Some when the code before a quote is the `r`, `br` or `cr` of a raw string.
    fn raw_hashes(&self) -> Option<usize> {
        if self.language == Language::C {
            return None;
        }
        let before = self.line.code.trim_end_matches('#');
        let hashes = self.line.code.len() - before.len();
        let prefix = before.strip_suffix('r')?;
        let prefix = prefix.strip_suffix(['b', 'c']).unwrap_or(prefix);
        let word_goes_on = prefix.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        (!word_goes_on).then_some(hashes)
    }

    fn block(&mut self, rest: &[char], depth: usize) -> usize {
        let (next, taken) = match rest {
            ['*', '/', ..] => (depth - 1, 2),
            ['/', '*', ..] if self.language == Language::Rust => (depth + 1, 2),
            _ => (depth, 1),
        };
        self.line.comment.extend(&rest[..taken]);
        self.state = if next == 0 { State::Code } else { State::Block(next) };
        taken
    }

    fn text(&mut self, rest: &[char]) -> usize {
        match rest {
            ['\\', _, ..] => {
                self.line.code.push_str("  ");
                2
            }
            ['"', ..] => {
                self.state = State::Code;
                self.push('"', 1)
            }
            _ => self.push(' ', 1),
        }
    }

    fn raw(&mut self, rest: &[char], hashes: usize) -> usize {
        let closes = rest[0] == '"'
            && rest.len() > hashes
            && rest[1..=hashes].iter().all(|mark| *mark == '#');
        if !closes {
            return self.push(' ', 1);
        }
        self.state = State::Code;
        self.push('"', 1 + hashes)
    }
}

/// Whether `word` stands in `code` with no letter, digit or `_` next to it.
pub fn has_word(code: &str, word: &str) -> bool {
    word_at(code, word).is_some()
}

pub fn word_at(code: &str, word: &str) -> Option<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .map(|(at, _)| at)
        .find(|&at| !code[..at].ends_with(part) && !code[at + word.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> Vec<String> {
        lex(source, Language::Rust).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn comments_are_not_code() {
        let lines = lex("let a = 1; // unsafe\n/* x /* y */ z */ b", Language::Rust);
        assert_eq!(lines[0].code, "let a = 1; ");
        assert_eq!(lines[0].comment, "// unsafe");
        assert_eq!(lines[1].code, " b");
    }

    #[test]
    fn string_contents_are_blank() {
        assert_eq!(code(r#"f("un\"safe") + 'x'"#), [r#"f("        ") + ' '"#]);
        assert_eq!(code("r#\"a\"b\"# + c"), ["r#\"   \" + c"]);
        assert_eq!(code("\"two\nlines\" d"), ["\"   ", "     \" d"]);
    }

    #[test]
    fn a_lifetime_is_no_literal() {
        assert_eq!(code("fn f<'a>(x: &'a str) { '{' }"), ["fn f<'a>(x: &'a str) { ' ' }"]);
        assert_eq!(code(r"'\'' '\u{41}' '\\'"), ["' ' ' ' ' '"]);
    }

    #[test]
    fn c_comments_do_not_nest() {
        let lines = lex("/* a /* b */ c \"//\"", Language::C);
        assert_eq!(lines[0].code, " c \"  \"");
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("x = asm!(y)", "asm"));
        assert!(!has_word("naked_asm!()", "asm"));
        assert!(!has_word("unsafety", "unsafe"));
    }
}
