//! Byte ranges (RFC 9110, section 14): which pieces of a representation are asked for.
//!
//! Invariant: every piece lies inside the representation and is not empty, and together the
//! pieces are no longer than it. A request for more than that is answered with the whole, so
//! overlapping ranges cannot make the server send more than an ordinary request would.

use crate::request::decimal;

/// More pieces than this are not worth their headers; the whole is sent.
const PIECES_MAX: usize = 32;

/// A piece of a representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the first byte.
    pub start: u64,
    /// Number of bytes, at least one.
    pub length: u64,
}

impl Piece {
    /// Offset of the last byte.
    pub fn last(&self) -> u64 {
        self.start + self.length - 1
    }
}

/// What a `Range` field comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum Ranges {
    /// No range, or one to be ignored: send the whole.
    Whole,
    /// One or more pieces, in the order asked for.
    Pieces(Vec<Piece>),
    /// 416.
    Unsatisfiable,
}

/// Reads a `Range` field for a representation of `size` bytes.
pub fn parse(field: &[u8], size: u64) -> Ranges {
    let Some(set) = strip_unit(field) else { return Ranges::Whole };
    let mut pieces = Vec::new();
    let mut asked = 0;
    for spec in set.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
        if spec.is_empty() {
            continue;
        }
        asked += 1;
        match piece(spec, size) {
            None => return Ranges::Whole,
            Some(piece) => pieces.extend(piece),
        }
        if asked > PIECES_MAX {
            return Ranges::Whole;
        }
    }
    let total: u128 = pieces.iter().map(|p| u128::from(p.length)).sum();
    match pieces.len() {
        0 if asked == 0 => Ranges::Whole,
        0 => Ranges::Unsatisfiable,
        _ if total > u128::from(size) => Ranges::Whole,
        _ => Ranges::Pieces(pieces),
    }
}

fn strip_unit(field: &[u8]) -> Option<&[u8]> {
    let equals = field.iter().position(|&b| b == b'=')?;
    let (unit, set) = field.split_at(equals);
    unit.trim_ascii().eq_ignore_ascii_case(b"bytes").then_some(&set[1..])
}

/// One range: `None` when malformed, `Some(None)` when nothing of it exists.
fn piece(spec: &[u8], size: u64) -> Option<Option<Piece>> {
    let dash = spec.iter().position(|&b| b == b'-')?;
    let (first, last) = (spec[..dash].trim_ascii(), spec[dash + 1..].trim_ascii());
    if first.is_empty() {
        let length = decimal(last)?.min(size);
        return Some((length > 0).then(|| Piece { start: size - length, length }));
    }
    let start = decimal(first)?;
    let end = match last {
        b"" => u64::MAX,
        digits => decimal(digits)?,
    };
    if end < start {
        return None;
    }
    let length = |size: u64| end.min(size - 1) - start + 1;
    Some((start < size).then(|| Piece { start, length: length(size) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(field: &str, start: u64, length: u64) {
        let expected = Ranges::Pieces(vec![Piece { start, length }]);
        assert_eq!(parse(field.as_bytes(), 10), expected, "{field}");
    }

    #[test]
    fn single_ranges() {
        one("bytes=0-0", 0, 1);
        one("bytes=0-9", 0, 10);
        one("bytes=5-", 5, 5);
        one("bytes=-3", 7, 3);
        one("bytes=-99", 0, 10);
        one("bytes=8-99", 8, 2);
        one("Bytes = 1 - 2", 1, 2);
        one("bytes=20-30,1-2", 1, 2);
        one("bytes=9-18446744073709551615", 9, 1);
    }

    #[test]
    fn nothing_satisfiable() {
        for field in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=11-,12-"] {
            assert_eq!(parse(field.as_bytes(), 10), Ranges::Unsatisfiable, "{field}");
        }
        assert_eq!(parse(b"bytes=0-", 0), Ranges::Unsatisfiable);
    }

    #[test]
    fn malformed_or_excessive_ranges_are_ignored() {
        let many = format!("bytes={}", "0-0,".repeat(33));
        for field in [
            "",
            "0-1",
            "lines=0-1",
            "bytes=",
            "bytes=,",
            "bytes=2-1",
            "bytes=a-b",
            "bytes=1",
            "bytes=--1",
            "bytes=0-5,0-5",
            "bytes=0-99999999999999999999999",
            &many,
        ] {
            assert_eq!(parse(field.as_bytes(), 10), Ranges::Whole, "{field}");
        }
    }

    #[test]
    fn several_ranges_keep_their_order() {
        let expected = vec![Piece { start: 5, length: 2 }, Piece { start: 0, length: 1 }];
        assert_eq!(parse(b"bytes=5-6, 0-0", 10), Ranges::Pieces(expected));
    }
}
