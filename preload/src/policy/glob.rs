//! Patterns for names: `*`, `?`, `[...]`, `\`, as `fnmatch` of the C library has them without
//! flags, so that the library in the program and the tools agree on who is meant. (Collating
//! symbols, `[[.x.]]` and `[[=x=]]`, are not looked at.)
//!
//! Invariant: matching takes at most (pattern x text) steps and no memory.

use std::fmt;
use std::str::Chars;

/// Most bytes of a pattern.
pub const PATTERN_BYTES_MAX: usize = 256;

/// A pattern for names of threads or functions.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern with this text.
    ///
    /// # Errors
    /// What is wrong with it: it is empty, longer than 256 bytes, or holds a NUL.
    pub fn new(text: &str) -> Result<Pattern, String> {
        if text.is_empty() {
            return Err("an empty pattern fits no name".into());
        }
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("a pattern of {} bytes: at most 256", text.len()));
        }
        if text.contains('\0') {
            return Err("a pattern cannot hold a NUL".into());
        }
        Ok(Pattern(text.to_owned()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole of `name` fits.
    pub fn matches(&self, name: &str) -> bool {
        matches(&self.0, name)
    }

    /// Whether a function's name fits: as it is, without its parameters, or literally (names of
    /// Rust and C++ functions are full of characters that mean something in patterns).
    pub fn matches_function(&self, name: &str) -> bool {
        let bare = name.split('(').next().filter(|bare| !bare.is_empty()).unwrap_or(name);
        [name, bare].into_iter().any(|name| self.0 == name || self.matches(name))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Goes through both texts, and back to the last `*` where they part.
fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // After the last star: the pattern, and the text that the star has not swallowed yet.
    let mut star: Option<(Chars, Chars)> = None;
    // Each round takes from the pattern, or from the text behind the last star.
    loop {
        let mut rest = pattern.clone();
        match rest.next() {
            Some('*') => {
                star = Some((rest.clone(), text.clone()));
                pattern = rest;
                continue;
            }
            None if text.as_str().is_empty() => return true,
            Some(first) => {
                let mut tail = text.clone();
                if tail.next().is_some_and(|it| fits_one(first, &mut rest, it)) {
                    (pattern, text) = (rest, tail);
                    continue;
                }
            }
            None => {}
        }
        let Some((after, swallowed)) = &mut star else { return false };
        if swallowed.next().is_none() {
            return false;
        }
        (pattern, text) = (after.clone(), swallowed.clone());
    }
}

/// Whether `it` fits the pattern's element that starts with `first`; `rest` is left behind that.
fn fits_one(first: char, rest: &mut Chars, it: char) -> bool {
    match first {
        '?' => true,
        '\\' => rest.next().is_some_and(|quoted| quoted == it),
        '[' => match set(rest.clone(), it) {
            Some((fits, after)) => {
                *rest = after;
                fits
            }
            // A bracket that nothing closes is a character like others.
            None => it == '[',
        },
        literal => literal == it,
    }
}

/// Reads a set from behind its `[`: whether `it` is in it, and what follows the set.
fn set(mut rest: Chars<'_>, it: char) -> Option<(bool, Chars<'_>)> {
    let negated = rest.as_str().starts_with(['!', '^']);
    if negated {
        rest.next();
    }
    let (mut found, mut first) = (false, true);
    loop {
        if let Some(tail) = rest.as_str().strip_prefix("[:")
            && let Some((name, tail)) = tail.split_once(":]")
        {
            found |= class_has(name, it);
            rest = tail.chars();
        } else {
            match rest.next()? {
                ']' if !first => return Some((found != negated, rest)),
                '\\' => found |= range(rest.next()?, &mut rest)?.contains(&it),
                low => found |= range(low, &mut rest)?.contains(&it),
            }
        }
        first = false;
    }
}

/// The range that starts with `low`; just `low` where no other end follows.
fn range(low: char, rest: &mut Chars) -> Option<std::ops::RangeInclusive<char>> {
    let mut after = rest.clone();
    if after.next() != Some('-') || after.as_str().starts_with(']') {
        return Some(low..=low);
    }
    let high = match after.next()? {
        '\\' => after.next()?,
        high => high,
    };
    *rest = after;
    Some(low..=high)
}

/// Whether a named class of ASCII characters has `it`; names that mean nothing have none.
fn class_has(name: &str, it: char) -> bool {
    match name {
        "alnum" => it.is_ascii_alphanumeric(),
        "alpha" => it.is_ascii_alphabetic(),
        "blank" => matches!(it, ' ' | '\t'),
        "cntrl" => it.is_ascii_control(),
        "digit" => it.is_ascii_digit(),
        "graph" => it.is_ascii_graphic(),
        "lower" => it.is_ascii_lowercase(),
        "print" => it.is_ascii_graphic() || it == ' ',
        "punct" => it.is_ascii_punctuation(),
        "space" => it.is_ascii_whitespace() || it == '\x0b',
        "upper" => it.is_ascii_uppercase(),
        "xdigit" => it.is_ascii_hexdigit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_as_people_expect() {
        let fits = [
            ("worker", "worker"),
            ("mc-*", "mc-worker"),
            ("*", ""),
            ("*io*", "bio_aof"),
            ("io_thd_?", "io_thd_3"),
            ("w[0-9]", "w7"),
            ("w[!0-9]", "wx"),
            ("[]]", "]"),
            ("[a-]", "-"),
            ("\\*", "*"),
            ("[", "["),
            ("a[b", "a[b"),
            ("**a**b", "xaxb"),
            ("[[:digit:]_]*", "9x"),
            ("?", "ä"),
            ("[\\]]", "]"),
            ("x[^a]", "xb"),
        ];
        for (pattern, name) in fits {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        let others = [
            ("worker", "worker2"),
            ("mc-*", "mc"),
            ("?", ""),
            ("w[0-9]", "w"),
            ("\\", "\\"),
            ("[!a]", ""),
            ("*a", "ab"),
            ("[[:digit:]]", "x"),
            ("[[:nothing:]]", "x"),
            ("", "a"),
        ];
        for (pattern, name) in others {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let pattern = format!("{}b", "*a".repeat(100));
        assert!(!matches(&pattern, &"a".repeat(10_000)));
    }

    #[test]
    fn functions_fit_without_their_parameters_too() {
        let fits = |pattern, name| Pattern::new(pattern).expect("it").matches_function(name);
        assert!(fits("ns::worker", "ns::worker(void*)"));
        assert!(fits("ns::worker(void*)", "ns::worker(void*)"));
        assert!(fits("<T as Run>::run[1]", "<T as Run>::run[1]"), "literally");
        assert!(fits("*worker", "ns::worker(void*)") && !fits("work", "worker"));
        assert!(fits("(anonymous namespace)::w*", "(anonymous namespace)::work(int)"));
    }

    #[test]
    fn patterns_that_mean_nothing_are_refused() {
        for text in ["", "a\0b", &"x".repeat(257)] {
            assert!(Pattern::new(text).is_err());
        }
    }
}
