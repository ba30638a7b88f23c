//! The head of a request: parsed by httparse, judged here.
//!
//! Invariant: a `Request` has exactly one reading. Whatever two servers could read differently
//! (two lengths, a length beside a transfer coding, an unknown coding, a missing or double Host)
//! is an error and ends the connection, so no request can be smuggled behind another.
//!
//! A field that should stand once and stands twice is treated as absent: for every field that
//! is read here this is the safe reading (the whole file, uncompressed, unconditionally).

use std::mem::MaybeUninit;

use crate::fields::{self, Framing};
use crate::path;
use crate::status::Status;

/// Headers that are parsed without a heap allocation; most browsers send 8 to 16.
const FEW: usize = 16;

/// Limits of a request head.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the whole head.
    pub head_bytes: usize,
    /// Bytes of the target in the request line.
    pub target_bytes: usize,
    /// Number of header fields.
    pub fields: usize,
}

/// What follows the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    None,
    /// So many bytes.
    Length(u64),
    /// The chunked coding.
    Chunked,
}

/// The method, as far as Ice tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Method {
    Get,
    Head,
    Options,
    /// Known and not allowed here.
    Other,
    /// Never heard of.
    Unknown,
}

/// One request head, borrowed from the buffer that it arrived in.
#[derive(Debug)]
pub struct Request<'b> {
    /// The method.
    pub method: Method,
    /// The method as sent.
    pub method_text: &'b str,
    /// The target as sent.
    pub target: &'b [u8],
    /// Path and query of the target, absolute-form resolved; `*` has neither.
    pub path: &'b [u8],
    /// Query with its question mark, or empty.
    pub query: &'b [u8],
    /// Minor version: 0 or 1.
    pub minor: u8,
    /// The client is willing to send another request.
    pub keep_alive: bool,
    /// What follows the head.
    pub body: Body,
    /// `Expect: 100-continue`.
    pub expects_continue: bool,
    /// Another expectation, which cannot be met.
    pub expects_other: bool,
    /// Came through a proxy, or says so.
    pub forwarded: bool,
    /// Any of range, conditional or expectation fields is there.
    pub special: bool,
    /// `Host`.
    pub host: Option<&'b [u8]>,
    /// `Range`.
    pub range: Option<&'b [u8]>,
    /// `If-Range`.
    pub if_range: Option<&'b [u8]>,
    /// `If-Match`.
    pub if_match: Option<&'b [u8]>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'b [u8]>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'b [u8]>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'b [u8]>,
    /// `Accept-Encoding`.
    pub accept_encoding: Option<&'b [u8]>,
    /// `User-Agent`.
    pub user_agent: Option<&'b [u8]>,
    /// `Referer`.
    pub referer: Option<&'b [u8]>,
}

/// What a buffer holds.
#[derive(Debug)]
pub enum Parsed {
    /// A head of so many bytes.
    Complete(usize),
    /// The beginning of one.
    Partial,
    /// Something that is refused; the connection ends with this status.
    Refused(Status),
}

/// Parses the head at the start of `bytes` into a `request`, which is whole only if the answer
/// is `Complete`.
///
/// The request is the caller's and the function is never inlined, because the stack matters: it
/// is there once, and the array of fields is gone before the answer is written. Otherwise idle
/// connections would keep a second page.
#[inline(never)]
pub fn parse<'b>(bytes: &'b [u8], limits: &Limits, request: &mut Request<'b>) -> Parsed {
    let mut fields = [const { MaybeUninit::uninit() }; FEW];
    let few = limits.fields.min(FEW);
    match attempt(bytes, &mut fields[..few], limits, request) {
        Err(httparse::Error::TooManyHeaders) if limits.fields > FEW => {
            parse_many(bytes, limits, request)
        }
        Err(httparse::Error::TooManyHeaders) => Parsed::Refused(Status::HEADERS_TOO_LARGE),
        Err(error) => refusal(error, bytes, limits),
        Ok(parsed) => parsed,
    }
}

#[cold]
#[inline(never)]
fn parse_many<'b>(bytes: &'b [u8], limits: &Limits, request: &mut Request<'b>) -> Parsed {
    let mut fields = vec![MaybeUninit::uninit(); limits.fields];
    match attempt(bytes, &mut fields, limits, request) {
        Err(httparse::Error::TooManyHeaders) => Parsed::Refused(Status::HEADERS_TOO_LARGE),
        Err(error) => refusal(error, bytes, limits),
        Ok(parsed) => parsed,
    }
}

fn attempt<'b>(
    bytes: &'b [u8],
    fields: &mut [MaybeUninit<httparse::Header<'b>>],
    limits: &Limits,
    request: &mut Request<'b>,
) -> Result<Parsed, httparse::Error> {
    let mut raw = httparse::Request::new(&mut []);
    Ok(match raw.parse_with_uninit_headers(bytes, fields)? {
        httparse::Status::Partial => partial(bytes, limits),
        httparse::Status::Complete(length) => match judge(&raw, length, limits, request) {
            Ok(()) => Parsed::Complete(length),
            Err(status) => Parsed::Refused(status),
        },
    })
}

/// An incomplete head is worth waiting for only while it can still fit.
fn partial(bytes: &[u8], limits: &Limits) -> Parsed {
    // 32 bytes are enough for the method, the version and two spaces.
    if request_line(bytes).0.len() > limits.target_bytes + 32 {
        return Parsed::Refused(Status::URI_TOO_LONG);
    }
    if bytes.len() >= limits.head_bytes {
        return Parsed::Refused(Status::HEADERS_TOO_LARGE);
    }
    Parsed::Partial
}

/// The first line that is not empty, and whether its end is there.
fn request_line(bytes: &[u8]) -> (&[u8], bool) {
    let start = bytes.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(bytes.len());
    let rest = &bytes[start..];
    match rest.iter().position(|&b| b == b'\n') {
        Some(end) => (rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]), true),
        None => (rest, false),
    }
}

/// What a head is that httparse refuses.
#[cold]
fn refusal(error: httparse::Error, bytes: &[u8], limits: &Limits) -> Parsed {
    let (line, ended) = request_line(bytes);
    if error != httparse::Error::Version {
        return Parsed::Refused(Status::BAD_REQUEST);
    }
    if !ended {
        // Which status is right, the rest of the line tells; the answer must not depend on how
        // the bytes arrive.
        return partial(bytes, limits);
    }
    let mut parts = line.split(|&b| b == b' ');
    let version = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(_), Some(version), None) => version,
        _ => return Parsed::Refused(Status::BAD_REQUEST),
    };
    let well_formed =
        matches!(version, [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'])
            && !matches!(version, b"HTTP/1.0" | b"HTTP/1.1");
    Parsed::Refused(match well_formed && line.len() <= limits.target_bytes + 32 {
        true => Status::VERSION_NOT_SUPPORTED,
        false => Status::BAD_REQUEST,
    })
}

fn method(text: &str) -> Method {
    match text {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "OPTIONS" => Method::Options,
        "POST" | "PUT" | "DELETE" | "PATCH" | "TRACE" | "CONNECT" => Method::Other,
        _ => Method::Unknown,
    }
}

fn judge<'b>(
    raw: &httparse::Request<'_, 'b>,
    length: usize,
    limits: &Limits,
    request: &mut Request<'b>,
) -> Result<(), Status> {
    let (Some(method_text), Some(target), Some(minor)) = (raw.method, raw.path, raw.version) else {
        return Err(Status::BAD_REQUEST);
    };
    if target.len() > limits.target_bytes {
        return Err(Status::URI_TOO_LONG);
    }
    if length > limits.head_bytes {
        return Err(Status::HEADERS_TOO_LARGE);
    }
    *request = Request::empty();
    request.method = method(method_text);
    request.method_text = method_text;
    request.target = target.as_bytes();
    request.minor = minor;
    let mut framing = Framing::default();
    for field in raw.headers.iter() {
        fields::read(request, &mut framing, field.name, field.value);
    }
    settle(request, &framing)
}

/// Checks what only all fields together tell: framing, host, target.
fn settle<'b>(request: &mut Request<'b>, framing: &Framing<'b>) -> Result<(), Status> {
    if framing.repeated || framing.hosts > 1 || (request.minor == 1 && framing.hosts == 0) {
        return Err(Status::BAD_REQUEST);
    }
    if request.host.is_some_and(|host| !is_authority(host)) {
        return Err(Status::BAD_REQUEST);
    }
    request.body = match (framing.length, framing.coding) {
        (Some(_), Some(_)) => return Err(Status::BAD_REQUEST),
        (None, Some(_)) if request.minor == 0 => return Err(Status::BAD_REQUEST),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Body::Chunked,
        (None, Some(_)) => return Err(Status::NOT_IMPLEMENTED),
        (Some(length), None) => match decimal(length).ok_or(Status::BAD_REQUEST)? {
            0 => Body::None,
            length => Body::Length(length),
        },
        (None, None) => Body::None,
    };
    request.keep_alive = !framing.close && (request.minor == 1 || framing.persist);
    request.special |= request.body != Body::None;
    // An expectation of HTTP/1.0 is none: that client would take the interim answer for the last.
    request.expects_continue &= request.minor == 1;
    request.expects_other &= request.minor == 1;
    settle_target(request)
}

fn settle_target(request: &mut Request<'_>) -> Result<(), Status> {
    // CONNECT names an authority and OPTIONS may name the server: no path to look up.
    let pathless = request.method_text == "CONNECT"
        || (request.method == Method::Options && request.target == b"*");
    if pathless {
        return Ok(());
    }
    let split = path::split(request.target)?;
    if split.authority.is_some_and(|authority| !is_authority(authority)) {
        return Err(Status::BAD_REQUEST);
    }
    (request.path, request.query) = (split.path, split.query);
    Ok(())
}

/// A decimal number as HTTP writes it: digits, nothing else.
pub fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, &digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// Host and port in the characters that they may have; empty is allowed by the standard.
fn is_authority(text: &[u8]) -> bool {
    text.iter().all(|b| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(b))
}

impl Request<'_> {
    /// A request of which nothing is known, to parse one into.
    pub const fn empty() -> Self {
        Request {
            method: Method::Unknown,
            method_text: "",
            target: b"",
            path: b"",
            query: b"",
            minor: 1,
            keep_alive: false,
            body: Body::None,
            expects_continue: false,
            expects_other: false,
            forwarded: false,
            special: false,
            host: None,
            range: None,
            if_range: None,
            if_match: None,
            if_none_match: None,
            if_modified_since: None,
            if_unmodified_since: None,
            accept_encoding: None,
            user_agent: None,
            referer: None,
        }
    }

    /// Nothing but the file itself, whole, on a connection that stays: the fast path's case.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.method == Method::Get && self.minor == 1 && self.keep_alive && !self.special
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { head_bytes: 4096, target_bytes: 1024, fields: 40 };

    fn complete(text: &str) -> Request<'_> {
        let mut request = Request::empty();
        match parse(text.as_bytes(), &LIMITS, &mut request) {
            Parsed::Complete(length) => {
                assert_eq!(length, text.len());
                request
            }
            other => panic!("{other:?} for {text:?}"),
        }
    }

    fn refused(text: &str) -> u16 {
        match parse(text.as_bytes(), &LIMITS, &mut Request::empty()) {
            Parsed::Refused(status) => status.code(),
            other => panic!("{other:?} for {text:?}"),
        }
    }

    #[test]
    fn a_plain_request_is_plain() {
        let request = complete("GET /a?b HTTP/1.1\r\nHost: h\r\nUser-Agent: u\r\n\r\n");
        assert!(request.is_plain());
        assert_eq!((request.path, request.query), (&b"/a"[..], &b"?b"[..]));
        assert!(!complete("GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=0-\r\n\r\n").is_plain());
        assert!(!complete("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").is_plain());
        assert!(!complete("GET / HTTP/1.0\r\n\r\n").is_plain());
        assert!(!complete("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n").is_plain());
        assert!(complete("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n").is_plain());
    }

    #[test]
    fn persistence_follows_version_and_connection() {
        assert!(complete("GET / HTTP/1.1\r\nHost: h\r\n\r\n").keep_alive);
        assert!(!complete("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n").keep_alive);
        assert!(!complete("GET / HTTP/1.0\r\n\r\n").keep_alive);
        assert!(complete("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        let with = |fields: &str| refused(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        assert_eq!(with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400);
        assert_eq!(with("Content-Length: 1\r\nContent-Length: 1\r\n"), 400);
        assert_eq!(with("Content-Length: +1\r\n"), 400);
        assert_eq!(with("Content-Length: 1, 1\r\n"), 400);
        assert_eq!(with("Content-Length: 0x1\r\n"), 400);
        assert_eq!(with("Content-Length: 99999999999999999999\r\n"), 400);
        assert_eq!(with("Content-Length:\r\n"), 400);
        assert_eq!(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
        assert_eq!(with("Transfer-Encoding: gzip, chunked\r\n"), 501);
        assert_eq!(with("Transfer-Encoding: identity\r\n"), 501);
        assert_eq!(with("Content-Length : 1\r\n"), 400);
        assert_eq!(with("X: a\r\n b\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    }

    #[test]
    fn hosts() {
        assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400);
        assert_eq!(refused("GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
        complete("GET / HTTP/1.1\r\nHost:\r\n\r\n");
        complete("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n");
    }

    #[test]
    fn versions_and_garbage() {
        assert_eq!(refused("GET / HTTP/2.0\r\n\r\n"), 505);
        assert_eq!(refused("GET / HTTP/1.2\r\n\r\n"), 505);
        assert_eq!(refused("GET / HTTQ/1.1\r\n\r\n"), 400);
        assert_eq!(refused("GET /\r\n\r\n"), 400);
        assert_eq!(refused("G\0T / HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(refused("GET a HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
        assert_eq!(refused("GET * HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    }

    #[test]
    fn limits_hold() {
        let long = "a".repeat(1025);
        assert_eq!(refused(&format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n")), 414);
        assert_eq!(refused(&format!("GET /{long}{long}")), 414);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}", "b".repeat(4096))), 431);
        let many = "X: y\r\n".repeat(40);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n")), 431);
        let fits = "X: y\r\n".repeat(39);
        complete(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fits}\r\n"));
        let mut request = Request::empty();
        assert!(matches!(parse(b"GET / HT", &LIMITS, &mut request), Parsed::Partial));
        assert!(matches!(parse(b"", &LIMITS, &mut request), Parsed::Partial));
    }

    #[test]
    fn a_repeated_field_means_nothing() {
        let text = "GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\nRange: bytes=2-3\r\n\r\n";
        assert_eq!(complete(text).range, Some(&b""[..]));
    }
}
