//! Bodies of requests: read, measured and dropped.
//!
//! Invariant: exactly the bytes of the body are consumed, as the strictest reading of the chunked
//! coding has it (sizes in hexadecimal digits, CRLF everywhere), so the next request starts where
//! the client thinks it does. Everything about a body is bounded: its data and its framing.

use crate::status::Status;

/// Bytes of chunk sizes, extensions and trailers of one body.
const FRAMING_BYTES_MAX: usize = 16 * 1024;

/// Takes in a body piece by piece.
#[derive(Debug)]
pub struct Drain {
    state: State,
    /// Bytes of data that may still come.
    allowed: u64,
    framing: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So many bytes up to the end of the body.
    Plain(u64),
    /// In a chunk's size: its value and the number of its digits.
    Size(u64, u8),
    /// In a chunk's extension.
    Extension(u64),
    /// After the CR that ends a chunk's size.
    SizeEnd(u64),
    /// In a chunk's data.
    Data(u64),
    /// Before the CR that follows the data.
    DataCr,
    /// Before the LF that follows the data.
    DataLf,
    /// At the start of a trailer line.
    Trailer,
    /// Inside a trailer line.
    TrailerText,
    /// After the CR that ends a trailer line; the flag says the line was empty.
    TrailerEnd(bool),
    Done,
}

impl Drain {
    /// A body of a known length.
    pub fn length(bytes: u64) -> Drain {
        Drain { state: State::Plain(bytes), allowed: bytes, framing: 0 }
    }

    /// A chunked body of at most so many bytes.
    pub fn chunked(bytes_max: u64) -> Drain {
        Drain { state: State::Size(0, 0), allowed: bytes_max, framing: 0 }
    }

    /// The whole body was taken in.
    pub fn done(&self) -> bool {
        matches!(self.state, State::Done | State::Plain(0))
    }

    /// Takes in what belongs to the body and says how many bytes that was.
    ///
    /// # Errors
    /// 400 for a malformed body, 413 for one that is too long.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Status> {
        let mut at = 0;
        while at < bytes.len() && !self.done() {
            let rest = &bytes[at..];
            at += match &mut self.state {
                State::Plain(left) => take(left, rest),
                State::Data(left) => {
                    let taken = take(left, rest);
                    if *left == 0 {
                        self.state = State::DataCr;
                    }
                    taken
                }
                _ => {
                    self.state = self.step(rest[0])?;
                    self.framing += 1;
                    if self.framing > FRAMING_BYTES_MAX {
                        return Err(Status::CONTENT_TOO_LARGE);
                    }
                    1
                }
            };
        }
        Ok(at)
    }

    /// One byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, Status> {
        Ok(match (self.state, byte) {
            (State::Size(size, digits), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == 15 {
                    return Err(Status::CONTENT_TOO_LARGE);
                }
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                State::Size(size << 4 | u64::from(digit), digits + 1)
            }
            (State::Size(size, 1..), b'\r') => State::SizeEnd(size),
            (State::Size(size, 1..), b';' | b' ' | b'\t') => State::Extension(size),
            (State::Extension(size), b'\r') => State::SizeEnd(size),
            (State::Extension(size), 0x20.. | b'\t') => State::Extension(size),
            (State::SizeEnd(0), b'\n') => State::Trailer,
            (State::SizeEnd(size), b'\n') => {
                let left = self.allowed.checked_sub(size);
                self.allowed = left.ok_or(Status::CONTENT_TOO_LARGE)?;
                State::Data(size)
            }
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size(0, 0),
            (State::Trailer, b'\r') => State::TrailerEnd(true),
            (State::TrailerText, b'\r') => State::TrailerEnd(false),
            (State::Trailer | State::TrailerText, 0x20.. | b'\t') => State::TrailerText,
            (State::TrailerEnd(true), b'\n') => State::Done,
            (State::TrailerEnd(false), b'\n') => State::Trailer,
            _ => return Err(Status::BAD_REQUEST),
        })
    }
}

fn take(left: &mut u64, bytes: &[u8]) -> usize {
    let taken = (*left).min(bytes.len() as u64);
    *left -= taken;
    taken as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds in pieces of every size; the result must not depend on it.
    fn chunked(body: &str) -> Result<(usize, bool), u16> {
        let whole = feed(body, body.len().max(1));
        for step in 1..body.len() {
            assert_eq!(feed(body, step), whole, "{body:?} in steps of {step}");
        }
        whole
    }

    fn feed(body: &str, step: usize) -> Result<(usize, bool), u16> {
        let mut drain = Drain::chunked(100);
        let mut consumed = 0;
        for piece in body.as_bytes().chunks(step) {
            consumed += drain.feed(piece).map_err(|s| s.code())?;
        }
        Ok((consumed, drain.done()))
    }

    #[test]
    fn a_chunked_body_ends_where_it_ends() {
        assert_eq!(chunked("0\r\n\r\nGET"), Ok((5, true)));
        assert_eq!(chunked("3\r\nabc\r\n0\r\n\r\n"), Ok((13, true)));
        assert_eq!(chunked("A;x=\"y\"\r\n0123456789\r\n00\r\n\r\n."), Ok((27, true)));
        assert_eq!(chunked("0\r\nTrailer: x\r\nB: c\r\n\r\nrest"), Ok((23, true)));
        assert_eq!(chunked("3\r\nab"), Ok((5, false)));
    }

    #[test]
    fn malformed_bodies_are_refused() {
        for body in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "3\nabc",
            "3\r\nabcd\r\n",
            "3\r\nabc\n0",
            "0x3\r\n",
            ";a\r\n",
            "0\r\n\n",
            "0\r\na\nb",
            " 3\r\n",
            "3\r\r\n",
            "0\r\n\0",
        ] {
            assert_eq!(chunked(body), Err(400), "{body:?}");
        }
    }

    #[test]
    fn long_bodies_are_refused() {
        assert_eq!(chunked("65\r\n"), Err(413));
        assert_eq!(chunked("64\r\n"), Ok((4, false)));
        assert_eq!(chunked("fffffffffffffffff\r\n"), Err(413));
        let trailers = format!("0\r\n{}", "a: b\r\n".repeat(3000));
        assert_eq!(feed(&trailers, trailers.len()), Err(413));
    }

    #[test]
    fn a_plain_body_leaves_the_rest() {
        let mut drain = Drain::length(3);
        assert_eq!(drain.feed(b"ab"), Ok(2));
        assert!(!drain.done());
        assert_eq!(drain.feed(b"cGET"), Ok(1));
        assert!(drain.done());
    }
}
