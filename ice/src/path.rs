//! From a request target to a path beneath the root.
//!
//! Invariant: a `Location` holds a relative path without empty, `.` or `..` components and
//! without NUL, so it can be handed to the kernel as it is; what a symlink may then do to it is
//! the business of `root`. Decoding happens exactly once, before the components are looked at.

use crate::status::Status;

/// Where in the site a target points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Path relative to the root; empty for the root itself.
    pub path: Vec<u8>,
    /// The target ended in a slash: it names a directory.
    pub directory: bool,
}

/// Splits a target into path and query; an absolute-form target loses scheme and authority.
///
/// The authority is returned for the check that a request names its host.
pub fn split(target: &[u8]) -> Result<Split<'_>, Status> {
    if target.first() == Some(&b'/') {
        return Ok(Split { authority: None, ..query(target) });
    }
    let rest = strip_scheme(target).ok_or(Status::BAD_REQUEST)?;
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.is_empty() {
        return Err(Status::BAD_REQUEST);
    }
    let mut split = query(path);
    if split.path.is_empty() {
        split.path = b"/";
    }
    Ok(Split { authority: Some(authority), ..split })
}

/// A target in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split<'a> {
    /// Host and port of an absolute-form target.
    pub authority: Option<&'a [u8]>,
    /// The path, still encoded, starting with a slash.
    pub path: &'a [u8],
    /// The query with its question mark; empty without one.
    pub query: &'a [u8],
}

fn query(path: &[u8]) -> Split<'_> {
    let at = path.iter().position(|&b| b == b'?').unwrap_or(path.len());
    Split { authority: None, path: &path[..at], query: &path[at..] }
}

fn strip_scheme(target: &[u8]) -> Option<&[u8]> {
    let length = [&b"http://"[..], b"https://"]
        .iter()
        .find(|s| target.len() >= s.len() && target[..s.len()].eq_ignore_ascii_case(s))?
        .len();
    Some(&target[length..])
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|d| d as u8)
}

/// Decodes and normalises an encoded path that starts with a slash.
///
/// # Errors
/// 400 for an incomplete or non-hexadecimal escape, for NUL, for a fragment, and for a path that
/// climbs above the root.
pub fn locate(encoded: &[u8]) -> Result<Location, Status> {
    let mut path = Vec::with_capacity(encoded.len());
    let mut component = 0;
    let mut at = 1;
    let mut directory = true;
    while at <= encoded.len() {
        let mut byte = encoded.get(at).copied().unwrap_or(b'/');
        let ended = at == encoded.len();
        at += 1;
        if byte == b'%' {
            let digits = encoded.get(at..at + 2).ok_or(Status::BAD_REQUEST)?;
            let (high, low) = hex(digits[0]).zip(hex(digits[1])).ok_or(Status::BAD_REQUEST)?;
            byte = high << 4 | low;
            at += 2;
        } else if byte == b'#' {
            return Err(Status::BAD_REQUEST);
        }
        match byte {
            0 => return Err(Status::BAD_REQUEST),
            b'/' => {
                directory = close_component(&mut path, component)? || !ended;
                component = path.len();
            }
            other => path.push(other),
        }
    }
    if path.last() == Some(&b'/') {
        path.pop();
    }
    Ok(Location { path, directory })
}

/// Ends the component that starts at `start`; true when it named a directory (nothing, `.`, `..`).
fn close_component(path: &mut Vec<u8>, start: usize) -> Result<bool, Status> {
    match &path[start..] {
        b"" | b"." => path.truncate(start),
        b".." => {
            let parent = start.checked_sub(1).ok_or(Status::BAD_REQUEST)?;
            let cut = path[..parent].iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
            path.truncate(cut);
        }
        _ => {
            path.push(b'/');
            return Ok(false);
        }
    }
    Ok(true)
}

/// Encodes a path so that it can stand in a `Location` field or in HTML.
pub fn encode(path: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"/-._~@+,=".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Result<(String, bool), u16> {
        locate(path.as_bytes())
            .map(|l| (String::from_utf8_lossy(&l.path).into_owned(), l.directory))
            .map_err(|s| s.code())
    }

    fn ok(path: &str, directory: bool) -> Result<(String, bool), u16> {
        Ok((path.to_owned(), directory))
    }

    #[test]
    fn plain_paths() {
        assert_eq!(at("/"), ok("", true));
        assert_eq!(at("/a"), ok("a", false));
        assert_eq!(at("/a/b.txt"), ok("a/b.txt", false));
        assert_eq!(at("/a/"), ok("a", true));
    }

    #[test]
    fn dots_and_empty_components_vanish() {
        assert_eq!(at("//a///b"), ok("a/b", false));
        assert_eq!(at("/./a/./b/."), ok("a/b", true));
        assert_eq!(at("/a/../b"), ok("b", false));
        assert_eq!(at("/a/b/c/../../d"), ok("a/d", false));
        assert_eq!(at("/a/.."), ok("", true));
        assert_eq!(at("/..."), ok("...", false));
        assert_eq!(at("/..a"), ok("..a", false));
    }

    #[test]
    fn climbing_is_refused_however_it_is_spelt() {
        for path in
            ["/..", "/../a", "/a/../../b", "/%2e%2e/a", "/%2E./a", "/a/..%2f..%2fb", "/.%2e"]
        {
            assert_eq!(at(path), Err(400), "{path}");
        }
    }

    #[test]
    fn escapes_are_decoded_once() {
        assert_eq!(at("/a%20b"), ok("a b", false));
        assert_eq!(at("/a%2Fb"), ok("a/b", false));
        assert_eq!(at("/%252e%252e/x"), ok("%2e%2e/x", false));
        assert_eq!(at("/a%2f"), ok("a", true));
        for path in ["/%", "/%4", "/%zz", "/%00", "/a%", "/%+1", "/a#b"] {
            assert_eq!(at(path), Err(400), "{path}");
        }
    }

    #[test]
    fn targets_are_split() {
        let s = split(b"/a?b?c").unwrap();
        assert_eq!((s.path, s.query, s.authority), (&b"/a"[..], &b"?b?c"[..], None));
        let s = split(b"HTTP://h:1/a?q").unwrap();
        assert_eq!((s.path, s.query, s.authority), (&b"/a"[..], &b"?q"[..], Some(&b"h:1"[..])));
        assert_eq!(split(b"http://h").unwrap().path, b"/");
        assert_eq!(split(b"http://h?q").unwrap().path, b"/");
        for bad in [&b""[..], b"*", b"a/b", b"ftp://h/", b"http:///a", b"http://"] {
            assert_eq!(split(bad), Err(Status::BAD_REQUEST));
        }
    }

    #[test]
    fn encoding_round_trips() {
        let name = b"a b/\xff%?#\"<&'";
        let mut text = vec![b'/'];
        encode(name, &mut text);
        assert_eq!(locate(&text).unwrap().path, name);
    }
}
