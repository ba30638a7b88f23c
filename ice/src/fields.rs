//! The header fields of a request, one at a time.
//!
//! Invariant: what is noted of a field does not depend on the order of the fields. A field that
//! should stand once and stands twice is noted as empty, which means nothing; fields that frame
//! the request are noted as repeated, which is an error.

use crate::request::Request;

/// Presence of the fields whose repetition matters.
#[derive(Default)]
pub struct Framing<'b> {
    /// Times that `Host` stands.
    pub hosts: usize,
    /// `Content-Length`.
    pub length: Option<&'b [u8]>,
    /// `Transfer-Encoding`.
    pub coding: Option<&'b [u8]>,
    /// One of the two stands more than once.
    pub repeated: bool,
    /// `Connection: close`.
    pub close: bool,
    /// `Connection: keep-alive`.
    pub persist: bool,
}

/// Takes in one header field. The length of the name is looked at first: it alone tells almost
/// all fields apart, so a field that is of no interest costs one comparison.
#[inline]
pub fn read<'b>(request: &mut Request<'b>, framing: &mut Framing<'b>, name: &str, value: &'b [u8]) {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match name.len() {
        4 if is("host") => {
            framing.hosts += 1;
            request.host = Some(value);
        }
        5 if is("range") => once(&mut request.range, value, &mut request.special),
        6 if is("expect") => {
            request.special = true;
            match value.eq_ignore_ascii_case(b"100-continue") {
                true => request.expects_continue = true,
                false => request.expects_other = true,
            }
        }
        7 if is("referer") => request.referer = Some(value),
        8 if is("if-range") => once(&mut request.if_range, value, &mut request.special),
        8 if is("if-match") => once(&mut request.if_match, value, &mut request.special),
        9 if is("forwarded") => request.forwarded = true,
        10 if is("connection") => read_connection(framing, value),
        10 if is("user-agent") => request.user_agent = Some(value),
        13 if is("if-none-match") => once(&mut request.if_none_match, value, &mut request.special),
        14 if is("content-length") => {
            framing.repeated |= framing.length.replace(value).is_some();
        }
        15 if is("accept-encoding") => once(&mut request.accept_encoding, value, &mut false),
        15 if is("x-forwarded-for") => request.forwarded = true,
        17 if is("if-modified-since") => {
            once(&mut request.if_modified_since, value, &mut request.special);
        }
        17 if is("transfer-encoding") => {
            framing.repeated |= framing.coding.replace(value).is_some();
        }
        19 if is("if-unmodified-since") => {
            once(&mut request.if_unmodified_since, value, &mut request.special);
        }
        _ => {}
    }
}

/// Keeps a field that stands alone; `b""` marks one that was repeated and so means nothing.
fn once<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8], special: &mut bool) {
    *special = true;
    *slot = Some(if slot.is_some() { b"" } else { value });
}

fn read_connection(framing: &mut Framing<'_>, value: &[u8]) {
    for token in value.split(|&b| b == b',') {
        let token = token.trim_ascii();
        framing.close |= token.eq_ignore_ascii_case(b"close");
        framing.persist |= token.eq_ignore_ascii_case(b"keep-alive");
    }
}
