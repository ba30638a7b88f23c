//! Conditional requests (RFC 9110, section 13): is the client's copy still good?
//!
//! Invariant: the order of precedence is the standard's, and a field that cannot be read is as if
//! it were not there, so the worst that a bad validator causes is a whole answer.

use crate::date;
use crate::request::Request;

/// What the conditions of a request come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Send the representation.
    Proceed,
    /// 304: the client has it.
    NotModified,
    /// 412: a condition of the client does not hold.
    Failed,
}

/// Judges the conditions against the selected representation.
pub fn judge(request: &Request<'_>, etag: &str, modified: u64) -> Verdict {
    if let Some(list) = present(request.if_match) {
        if !matches(list, etag, Comparison::Strong) {
            return Verdict::Failed;
        }
    } else if let Some(since) = present(request.if_unmodified_since).and_then(date::parse)
        && modified > since
    {
        return Verdict::Failed;
    }
    if let Some(list) = present(request.if_none_match) {
        return match matches(list, etag, Comparison::Weak) {
            true => Verdict::NotModified,
            false => Verdict::Proceed,
        };
    }
    match present(request.if_modified_since).and_then(date::parse) {
        Some(since) if modified <= since => Verdict::NotModified,
        _ => Verdict::Proceed,
    }
}

/// Does `If-Range` allow a partial answer? It needs a strong match, of the tag or of the date.
pub fn range_applies(request: &Request<'_>, etag: &str, modified: u64) -> bool {
    match request.if_range {
        None => true,
        Some(value) if value.starts_with(b"\"") => value == etag.as_bytes(),
        Some(value) => date::parse(value) == Some(modified),
    }
}

fn present(value: Option<&[u8]>) -> Option<&[u8]> {
    value.filter(|v| !v.is_empty())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Is `etag` (always strong) in a list of tags? A tag may contain commas, hence no split.
fn matches(list: &[u8], etag: &str, comparison: Comparison) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    while !rest.is_empty() {
        let weak = rest.starts_with(b"W/");
        let tag = if weak { &rest[2..] } else { rest };
        let Some(end) = tag.strip_prefix(b"\"").and_then(|t| t.iter().position(|&b| b == b'"'))
        else {
            return false;
        };
        let (tag, tail) = tag.split_at(end + 2);
        if tag == etag.as_bytes() && !(weak && comparison == Comparison::Strong) {
            return true;
        }
        let tail = tail.trim_ascii_start();
        rest = tail.strip_prefix(b",").unwrap_or_default().trim_ascii_start();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Limits, Parsed, parse};

    const NOW: u64 = 784_111_777;
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn with<T>(fields: &str, f: impl Fn(&Request<'_>) -> T) -> T {
        let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let limits = Limits { head_bytes: 4096, target_bytes: 99, fields: 9 };
        let mut request = Request::empty();
        match parse(text.as_bytes(), &limits, &mut request) {
            Parsed::Complete(_) => f(&request),
            other => panic!("{other:?}"),
        }
    }

    fn verdict(fields: &str) -> Verdict {
        with(fields, |request| judge(request, "\"a,b\"", NOW))
    }

    #[test]
    fn tags() {
        for list in ["\"a,b\"", "W/\"a,b\"", "*", "\"x\", \"a,b\"", "W/\"x\" ,W/\"a,b\""] {
            let field = format!("If-None-Match: {list}\r\n");
            assert_eq!(verdict(&field), Verdict::NotModified, "{list}");
        }
        for list in ["\"a\"", "a,b", "\"a,b", "", "W/", "\""] {
            let field = format!("If-None-Match: {list}\r\n");
            assert_eq!(verdict(&field), Verdict::Proceed, "{list}");
        }
        assert_eq!(verdict("If-Match: \"a,b\"\r\n"), Verdict::Proceed);
        assert_eq!(verdict("If-Match: W/\"a,b\"\r\n"), Verdict::Failed);
        assert_eq!(verdict("If-Match: \"x\"\r\n"), Verdict::Failed);
    }

    #[test]
    fn dates() {
        assert_eq!(verdict(&format!("If-Modified-Since: {DATE}\r\n")), Verdict::NotModified);
        assert_eq!(verdict(&format!("If-Modified-Since: {EARLIER}\r\n")), Verdict::Proceed);
        assert_eq!(verdict("If-Modified-Since: never\r\n"), Verdict::Proceed);
        assert_eq!(verdict(&format!("If-Unmodified-Since: {EARLIER}\r\n")), Verdict::Failed);
        assert_eq!(verdict(&format!("If-Unmodified-Since: {DATE}\r\n")), Verdict::Proceed);
    }

    #[test]
    fn a_tag_outranks_a_date() {
        let fields = format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {DATE}\r\n");
        assert_eq!(verdict(&fields), Verdict::Proceed);
    }

    #[test]
    fn if_range_needs_a_strong_match() {
        let applies =
            |v: &str| with(&format!("If-Range: {v}\r\n"), |r| range_applies(r, "\"a\"", NOW));
        assert!(applies("\"a\""));
        assert!(applies(DATE));
        assert!(!applies("W/\"a\""));
        assert!(!applies("\"b\""));
        assert!(!applies(EARLIER));
        assert!(!applies("junk"));
        assert!(with("", |r| range_applies(r, "\"a\"", NOW)));
    }
}
