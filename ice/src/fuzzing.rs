//! The request path without sockets, for fuzzing and property tests.
//!
//! Invariant: what is run here is the server's own code from the bytes of a client to the bytes
//! of the answer; only the transport is different. What must hold for every input is asserted
//! here, so that the fuzzer and the property tests check the same.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::body::Drain;
use crate::config::Config;
use crate::conns::Conn;
use crate::error::Error;
use crate::path;
use crate::range::{self, Ranges};
use crate::request::{Limits, Parsed, Request, parse};
use crate::rt::TcpStream;
use crate::server::{Server, Shared};
use crate::session::Session;
use crate::transport::Transport;
use crate::{coding, conditional};

/// A client in memory: it sends these pieces, then closes.
struct Memory<'a> {
    pieces: &'a [&'a [u8]],
    at: usize,
    answers: Vec<u8>,
}

impl Transport for Memory<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(piece) = self.pieces.first() {
            let rest = &piece[self.at..];
            if !rest.is_empty() {
                let count = rest.len().min(buf.len());
                buf[..count].copy_from_slice(&rest[..count]);
                self.at += count;
                return Ok(count);
            }
            (self.pieces, self.at) = (&self.pieces[1..], 0);
        }
        Ok(0)
    }

    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        self.answers.extend_from_slice(buf);
        Ok(())
    }

    fn write_more(&mut self, buf: &[u8]) -> io::Result<()> {
        self.write_all(buf)
    }

    fn send_file(&mut self, file: &File, offset: u64, length: u64) -> io::Result<u64> {
        let mut buf = vec![0; length as usize];
        let got = file.read_at(&mut buf, offset)?;
        self.answers.extend_from_slice(&buf[..got]);
        Ok(got as u64)
    }

    fn finish(&mut self) {}
}

/// A server that is never run, with one connection that never carries a byte.
pub struct Target {
    shared: Arc<Shared>,
    conn: Arc<Conn>,
}

impl Target {
    /// A target that serves a folder.
    ///
    /// # Errors
    /// The folder cannot be served.
    pub fn new(folder: &Path) -> Result<Target, Error> {
        let mut config = Config::new(folder);
        config.port = 0;
        config.listing = true;
        config.live = false;
        config.max_body_bytes = 1000;
        let server = Server::bind(config)?;
        let addr = server.local_addr();
        let stream = TcpStream::connect(addr).map_err(|e| Error::Bind(addr, e))?;
        let shared = server.shared();
        let conn = shared.conns.insert(stream, addr, &shared.clock);
        Ok(Target { shared, conn })
    }

    /// What the server answers to these bytes, arriving in these pieces.
    pub fn answers(&self, pieces: &[&[u8]]) -> Vec<u8> {
        let io = Memory { pieces, at: 0, answers: Vec::new() };
        Session::new(&self.shared, &self.conn, io).run().answers
    }

    /// Sends the bytes at once and in two pieces: the answers must be well-formed and the same.
    pub fn check(&self, bytes: &[u8], split: usize) {
        let whole = self.answers(&[bytes]);
        let codes = statuses(&whole);
        assert!(codes.len() <= bytes.len() / 12 + 1, "more answers than requests: {codes:?}");
        let (first, second) = bytes.split_at(split.min(bytes.len()));
        let parts = self.answers(&[first, second]);
        assert_eq!(codes, statuses(&parts), "split at {split}");
    }
}

/// Reads a sequence of answers and gives their codes.
///
/// # Panics
/// When it is not a sequence of answers, each with as many bytes as its head says.
pub fn statuses(mut answers: &[u8]) -> Vec<u16> {
    let mut codes = Vec::new();
    while !answers.is_empty() {
        let end = answers.windows(4).position(|w| w == b"\r\n\r\n").expect("a whole head");
        let head = std::str::from_utf8(&answers[..end]).expect("a head in ASCII");
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default();
        assert!(line.starts_with("HTTP/1.1 "), "status line {line:?}");
        let code: u16 = line[9..12].parse().expect("a number");
        let fields: Vec<_> = lines.map(|l| l.split_once(": ").expect("name and value")).collect();
        assert!(fields.iter().all(|(n, _)| n.bytes().all(|b| b.is_ascii_graphic())));
        let length = fields.iter().find(|(n, _)| *n == "Content-Length").map(|(_, l)| l);
        let length: usize = length.map_or(0, |l| l.parse().expect("a number"));
        answers = &answers[end + 4..];
        codes.push(code);
        // Whether the body follows depends on the method: look whether it is there.
        if answers.len() >= length && !answers.starts_with(b"HTTP/1.1 ") {
            answers = &answers[length..];
        }
    }
    codes
}

/// Runs everything that reads a part of a request over the same bytes.
pub fn parts(bytes: &[u8]) {
    let limits = Limits { head_bytes: 4096, target_bytes: 1024, fields: 40 };
    let mut request = Request::empty();
    if let Parsed::Complete(length) = parse(bytes, &limits, &mut request) {
        assert!(length <= bytes.len());
        conditional::judge(&request, "\"etag\"", 784_111_777);
        conditional::range_applies(&request, "\"etag\"", 784_111_777);
        coding::choose(request.accept_encoding, |_| true);
    }
    if bytes.first() == Some(&b'/')
        && let Ok(at) = path::locate(bytes)
    {
        assert!(!at.path.contains(&0) && !at.path.starts_with(b"/") && !at.path.ends_with(b"/"));
        let mut names = at.path.split(|&b| b == b'/');
        assert!(at.path.is_empty() || names.all(|n| !matches!(n, b"" | b"." | b"..")));
    }
    for size in [0, 1, 1000, u64::MAX] {
        if let Ranges::Pieces(pieces) = range::parse(bytes, size) {
            assert!(pieces.iter().all(|p| p.length > 0 && p.last() < size));
            assert!(pieces.iter().map(|p| u128::from(p.length)).sum::<u128>() <= u128::from(size));
        }
    }
    let mut drain = Drain::chunked(1000);
    let mut byte_by_byte = Drain::chunked(1000);
    let whole = drain.feed(bytes);
    let single = bytes.iter().try_fold(0, |n, b| Ok(n + byte_by_byte.feed(&[*b])?));
    assert_eq!(whole, single);
}
