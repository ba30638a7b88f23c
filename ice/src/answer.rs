//! What a request is answered with.
//!
//! Invariant: an answer's length is known before its head is sent (streams of events excepted),
//! and exactly so many bytes follow it, or the connection ends. A client never takes part of a
//! body for the next answer.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cache::Lookup;
use crate::coding;
use crate::conditional::{self, Verdict};
use crate::conns::Phase;
use crate::date;
use crate::entry::{Entry, FileEntry, Found, Variant};
use crate::live;
use crate::path;
use crate::range::{self, Piece, Ranges};
use crate::request::{Method, Request};
use crate::rt;
use crate::server::Shared;
use crate::session::{Next, Session};
use crate::status::Status;
use crate::transport::Transport;

/// Bytes of a file after which the client must have taken the ones before.
const CHUNK_BYTES: u64 = 128 * 1024;

const ALLOW: &str = "Allow: GET, HEAD, OPTIONS\r\n";

/// How an answer is given, whatever it is.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// With its body: not for HEAD.
    pub body: bool,
    /// The connection stays open.
    pub keep: bool,
    /// Minor version of the request.
    pub minor: u8,
}

impl Manner {
    fn next(self) -> Next {
        if self.keep { Next::Keep } else { Next::Close }
    }

    /// A block from the cache says exactly this.
    fn is_plain(self) -> bool {
        self.keep && self.minor == 1
    }
}

impl FileEntry {
    /// The representation for a client that accepts these codings.
    #[inline]
    pub fn choose(&self, accept: Option<&[u8]>) -> &Variant {
        if accept.is_none() || !self.negotiable() {
            return &self.plain;
        }
        let coding = coding::choose(accept, |coding| self.coded(coding).is_some());
        coding.and_then(|coding| self.coded(coding)).unwrap_or(&self.plain)
    }
}

impl Shared {
    /// The entry at an encoded path, if the cache has one that is still true.
    #[inline]
    pub(crate) fn cached(&self, encoded: &[u8]) -> Option<Arc<Entry>> {
        let (stripe, second) = (rt::stripe(), self.clock.unix());
        match self.cache.get(stripe, encoded, second) {
            Lookup::Fresh(entry) => Some(entry),
            Lookup::Stale(entry) => self.renewed(stripe, encoded, entry, second),
            Lookup::Miss => None,
        }
    }

    /// Once per entry and second. Kept out of the common case, and shallow itself: sooner or
    /// later it happens on every connection's stack.
    #[inline(never)]
    fn renewed(
        &self,
        stripe: usize,
        encoded: &[u8],
        entry: Arc<Entry>,
        second: u64,
    ) -> Option<Arc<Entry>> {
        let valid = entry.still_valid(&self.root);
        valid.then(|| self.cache.renew(stripe, encoded, entry, second))
    }

    /// The entry at an encoded path.
    fn entry(&self, encoded: &[u8]) -> Result<Arc<Entry>, Status> {
        match self.cached(encoded) {
            Some(entry) if entry.intact() => Ok(entry),
            _ => self.found(encoded),
        }
    }

    /// Looks a path up on the disk.
    #[inline(never)]
    fn found(&self, encoded: &[u8]) -> Result<Arc<Entry>, Status> {
        let (stripe, second) = (rt::stripe(), self.clock.unix());
        let at = path::locate(encoded)?;
        let entry = Arc::new(Entry::build(&self.root, &at, self.config.listing, second));
        self.cache.put(stripe, encoded, entry.clone());
        Ok(entry)
    }
}

impl<T: Transport> Session<'_, T> {
    /// Answers a request whose body, if any, is out of the way.
    pub(crate) fn answer(&mut self, request: &Request<'_>, manner: Manner) -> io::Result<Next> {
        match request.method {
            Method::Unknown => self.plain(Status::NOT_IMPLEMENTED, manner, ""),
            Method::Other => self.plain(Status::METHOD_NOT_ALLOWED, manner, ALLOW),
            _ if request.expects_other => self.plain(Status::EXPECTATION_FAILED, manner, ""),
            Method::Options => {
                self.open(Status::NO_CONTENT, manner);
                self.out.extend_from_slice(ALLOW.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
            Method::Get | Method::Head if self.shared.config.live && live::owns(request.path) => {
                return self.live(request, manner);
            }
            Method::Get | Method::Head => self.entry(request, manner)?,
        }
        Ok(manner.next())
    }

    fn entry(&mut self, request: &Request<'_>, manner: Manner) -> io::Result<()> {
        let entry = match self.shared.entry(request.path) {
            Ok(entry) => entry,
            Err(status) => {
                self.plain(status, manner, "");
                return Ok(());
            }
        };
        match &entry.found {
            Found::File(file) => return self.file(request, manner, file),
            Found::Redirect(to) => self.redirect(request, manner, to),
            Found::Page(page) => self.page(manner, "text/html; charset=utf-8", "", page),
            Found::Refused(status) => self.plain(*status, manner, ""),
        }
        Ok(())
    }

    fn redirect(&mut self, request: &Request<'_>, manner: Manner, to: &[u8]) {
        let mut line = b"Location: ".to_vec();
        line.extend_from_slice(to);
        line.extend_from_slice(request.query);
        line.extend_from_slice(b"\r\n");
        // Both parts are ASCII: the path is encoded, and httparse lets no other byte through.
        self.plain(Status::MOVED_PERMANENTLY, manner, &String::from_utf8_lossy(&line));
    }

    fn file(&mut self, request: &Request<'_>, manner: Manner, file: &FileEntry) -> io::Result<()> {
        let variant = file.choose(request.accept_encoding);
        let (etag, modified) = (&variant.etag, variant.modified());
        match conditional::judge(request, etag, modified) {
            Verdict::Failed => {
                self.plain(Status::PRECONDITION_FAILED, manner, "");
                return Ok(());
            }
            Verdict::NotModified => {
                self.open(Status::NOT_MODIFIED, manner);
                self.out.extend_from_slice(variant.shared_lines());
                return Ok(());
            }
            Verdict::Proceed => {}
        }
        let ranges = match request.range {
            Some(field)
                if request.method == Method::Get
                    && conditional::range_applies(request, etag, modified) =>
            {
                range::parse(field, variant.size())
            }
            _ => Ranges::Whole,
        };
        match ranges {
            Ranges::Whole => self.whole(manner, variant),
            Ranges::Unsatisfiable => {
                let line = format!("Content-Range: bytes */{}\r\n", variant.size());
                self.plain(Status::RANGE_NOT_SATISFIABLE, manner, &line);
                Ok(())
            }
            Ranges::Pieces(pieces) => match pieces[..] {
                [piece] => self.piece(manner, variant, piece),
                _ => self.pieces(manner, variant, &pieces),
            },
        }
    }

    fn whole(&mut self, manner: Manner, variant: &Variant) -> io::Result<()> {
        if manner.is_plain() {
            self.begin(Status::OK, 0);
            self.out.extend_from_slice(variant.head());
        } else {
            self.open(Status::OK, manner);
            self.length(variant.size());
            self.out.extend_from_slice(variant.type_line());
            self.out.extend_from_slice(variant.shared_lines());
        }
        match manner.body {
            true => self.send(variant, Piece { start: 0, length: variant.size() }),
            false => Ok(()),
        }
    }

    fn piece(&mut self, manner: Manner, variant: &Variant, piece: Piece) -> io::Result<()> {
        self.open(Status::PARTIAL_CONTENT, manner);
        self.length(piece.length);
        content_range(&mut self.out, piece, variant.size());
        self.out.extend_from_slice(variant.type_line());
        self.out.extend_from_slice(variant.shared_lines());
        self.send(variant, piece)
    }

    /// Several pieces, each with a head of its own, between boundaries.
    fn pieces(&mut self, manner: Manner, variant: &Variant, pieces: &[Piece]) -> io::Result<()> {
        let boundary = boundary(self.shared);
        let heads: Vec<Vec<u8>> = pieces
            .iter()
            .map(|&piece| {
                let mut head = format!("\r\n--{boundary}\r\n").into_bytes();
                head.extend_from_slice(variant.type_line());
                content_range(&mut head, piece, variant.size());
                head.extend_from_slice(b"\r\n");
                head
            })
            .collect();
        let end = format!("\r\n--{boundary}--\r\n");
        let framing = heads.iter().map(Vec::len).sum::<usize>() + end.len();
        self.open(Status::PARTIAL_CONTENT, manner);
        self.length(pieces.iter().map(|p| p.length).sum::<u64>() + framing as u64);
        let line = format!("Content-Type: multipart/byteranges; boundary={boundary}\r\n");
        self.out.extend_from_slice(line.as_bytes());
        self.out.extend_from_slice(variant.shared_lines());
        for (head, &piece) in heads.iter().zip(pieces) {
            self.out.extend_from_slice(head);
            self.send(variant, piece)?;
        }
        self.out.extend_from_slice(end.as_bytes());
        self.body_bytes += framing as u64;
        Ok(())
    }

    /// Sends a piece of a representation after what has been gathered.
    fn send(&mut self, variant: &Variant, piece: Piece) -> io::Result<()> {
        self.body_bytes += piece.length;
        if let Some(file) = variant.file() {
            return self.send_file(file, piece);
        }
        let body = variant.body().unwrap_or_default();
        let (start, end) = (piece.start as usize, (piece.start + piece.length) as usize);
        self.out.extend_from_slice(&body[start..end]);
        Ok(())
    }

    fn send_file(&mut self, file: &File, piece: Piece) -> io::Result<()> {
        self.enter(Phase::Send);
        if !self.out.is_empty() {
            self.io.write_more(&self.out)?;
            self.out.clear();
        }
        let mut sent = 0;
        while sent < piece.length {
            self.enter(Phase::Send);
            let step = (piece.length - sent).min(CHUNK_BYTES);
            match self.io.send_file(file, piece.start + sent, step)? {
                // The file became shorter; only the end of the connection can tell the client.
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => sent += count,
            }
        }
        Ok(())
    }

    fn begin(&mut self, status: Status, body_bytes: u64) {
        (self.status, self.body_bytes) = (status, body_bytes);
    }

    /// Opens the head of an answer: status, server, date, connection.
    pub(crate) fn open(&mut self, status: Status, manner: Manner) {
        self.begin(status, 0);
        self.out.extend_from_slice(status.line().as_bytes());
        self.out.extend_from_slice(b"\r\nServer: Ice\r\nDate: ");
        self.out.extend_from_slice(&date::format(self.shared.clock.unix()));
        self.out.extend_from_slice(match (manner.keep, manner.minor) {
            (false, _) => b"\r\nConnection: close\r\n",
            (true, 0) => b"\r\nConnection: keep-alive\r\n",
            (true, _) => b"\r\n",
        });
    }

    fn length(&mut self, bytes: u64) {
        // Writing to a Vec cannot fail.
        let _ = write!(self.out, "Content-Length: {bytes}\r\n");
    }

    /// A whole answer with a body from memory.
    pub(crate) fn page(&mut self, manner: Manner, kind: &str, lines: &str, body: &[u8]) {
        self.open(Status::OK, manner);
        self.rest(manner, kind, lines, body);
    }

    fn rest(&mut self, manner: Manner, kind: &str, lines: &str, body: &[u8]) {
        self.length(body.len() as u64);
        // Writing to a Vec cannot fail.
        let _ = write!(self.out, "Content-Type: {kind}\r\n{lines}\r\n");
        if manner.body {
            self.out.extend_from_slice(body);
            self.body_bytes = body.len() as u64;
        }
    }

    /// An answer that says its status and no more.
    pub(crate) fn plain(&mut self, status: Status, manner: Manner, lines: &str) {
        self.explain(status, manner, lines, "");
    }

    /// An answer that says its status and why.
    pub(crate) fn explain(&mut self, status: Status, manner: Manner, lines: &str, why: &str) {
        let phrase = status.phrase();
        let body = format!(
            "<!doctype html><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
             <meta name=color-scheme content=\"light dark\"><title>{phrase}</title>\
             <body style=\"font:1.1rem/1.6 system-ui;margin:3rem\"><h1>{phrase}</h1><p>{why}\n"
        );
        self.open(status, manner);
        self.rest(manner, "text/html; charset=utf-8", lines, body.as_bytes());
    }
}

fn content_range(out: &mut Vec<u8>, piece: Piece, size: u64) {
    let (first, last) = (piece.start, piece.last());
    // Writing to a Vec cannot fail.
    let _ = write!(out, "Content-Range: bytes {first}-{last}/{size}\r\n");
}

/// A line that no file holds, except by an accident that takes 2^64 tries.
fn boundary(shared: &Shared) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("ice-{:016x}-{:x}", shared.secret, NEXT.fetch_add(1, Relaxed))
}
