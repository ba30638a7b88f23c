//! What can be wrong with a policy file.
//!
//! Invariant: a message names the place as editors do, `FILE:LINE:COLUMN`, and what was expected.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a policy cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error {
    /// The file, if it came from one.
    pub path: Option<PathBuf>,
    /// Line, from 1; 0 if the file as a whole is meant.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl Error {
    /// Something about a file as a whole.
    pub(super) fn of_file(path: &Path, message: String) -> Error {
        Error { path: Some(path.to_owned()), line: 0, column: 0, message }
    }

    /// Something at a byte of the text.
    pub(super) fn at(text: &str, offset: usize, message: impl Into<String>) -> Error {
        let (line, column) = line_and_column(text, offset);
        Error { path: None, line, column, message: message.into() }
    }
}

/// Where the byte at `offset` is, both from 1, for people.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}:", path.display())?;
        }
        if self.line != 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        if self.path.is_some() || self.line != 0 {
            f.write_str(" ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters_from_one() {
        let text = "a\nüb\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, 4), (2, 2));
        assert_eq!(line_and_column(text, 6), (3, 1));
        assert_eq!(line_and_column(text, 99), (3, 1));
    }

    #[test]
    fn errors_start_with_their_place() {
        let error = Error::at("x\ny", 2, "no");
        assert_eq!(error.to_string(), "2:1: no");
        let error = Error { path: Some("p.toml".into()), ..error };
        assert_eq!(error.to_string(), "p.toml:2:1: no");
        assert_eq!(Error::of_file(Path::new("p"), "gone".into()).to_string(), "p: gone");
    }
}
