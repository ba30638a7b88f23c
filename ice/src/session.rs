//! The life of one connection, as its thread lives it: read a head, answer, read the next.
//!
//! Two ways through here lead to the same answers. `fast` serves the common case, a whole small
//! file from the cache, with one receive, one send and no allocation, from a buffer on the stack;
//! everything else goes through `buffered`, which keeps what has arrived on the heap while there
//! is something to keep.
//!
//! Invariant: a thread that waits for its next request holds no heap buffer, and its stack is no
//! deeper than `run` and the read below it. That is why the other steps are not inlined.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::answer::Manner;
use crate::body::Drain;
use crate::conns::{Conn, Phase};
use crate::entry::Found;
use crate::log::Line;
use crate::request::{Body, Method, Parsed, Request, parse};
use crate::rt;
use crate::server::Shared;
use crate::stats::TIMED_ONE_IN;
use crate::status::Status;
use crate::transport::{Plain, Tls, Transport};

/// Bytes of the buffer on the stack: most requests fit, and so does the stack into one page.
const SMALL: usize = 1024;
/// Bytes asked for at a time once a request did not fit.
const MORE: usize = 4096;
/// Answers to pipelined requests are gathered up to so many bytes.
const GATHER: usize = 32 * 1024;
/// Bytes of a refused request that are read before the connection is closed.
const LINGER_BYTES: usize = 256 * 1024;

/// How a connection goes on after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// With the next request.
    Keep,
    /// Not at all.
    Close,
    /// Not at all, but the client may still be sending: closing at once would take the answer
    /// away from it.
    Linger,
}

/// One connection's thread.
pub struct Session<'a, T> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) conn: &'a Conn,
    pub(crate) io: T,
    /// What is to be sent with the next flush.
    pub(crate) out: Vec<u8>,
    /// Status and body bytes of the answer in progress.
    pub(crate) status: Status,
    pub(crate) body_bytes: u64,
}

/// Serves a connection until it ends.
pub fn serve(shared: &Arc<Shared>, conn: &Conn) {
    match &shared.tls {
        None => drop(Session::new(shared, conn, Plain(&conn.stream)).run()),
        Some(config) => serve_tls(shared, conn, config),
    }
}

#[inline(never)]
fn serve_tls(shared: &Arc<Shared>, conn: &Conn, config: &Arc<rustls::ServerConfig>) {
    conn.enter(Phase::Head, &shared.clock);
    let Ok(session) = rustls::ServerConnection::new(config.clone()) else { return };
    // A failed handshake has sent its alert; there is nobody to answer.
    if let Ok(tls) = Tls::accept(session, &conn.stream) {
        Session::new(shared, conn, tls).run();
    }
}

impl<'a, T: Transport> Session<'a, T> {
    pub(crate) fn new(shared: &'a Arc<Shared>, conn: &'a Conn, io: T) -> Session<'a, T> {
        Session { shared, conn, io, out: Vec::new(), status: Status::OK, body_bytes: 0 }
    }

    /// Serves until the connection ends, and gives the transport back.
    pub(crate) fn run(mut self) -> T {
        let mut small = [0; SMALL];
        let last = loop {
            self.enter(Phase::Idle);
            let got = match self.io.read(&mut small) {
                Ok(0) => break Next::Close,
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return self.io,
            };
            let next = match self.fast(&small[..got]) {
                Ok(true) => continue,
                Ok(false) => self.buffered(&small[..got]),
                Err(error) => Err(error),
            };
            match next {
                Ok(Next::Keep) => {}
                Ok(last) => break last,
                // The client is gone or was too slow; the socket says all there is to say.
                Err(_) => return self.io,
            }
        };
        self.close(last);
        self.io
    }

    #[inline]
    pub(crate) fn enter(&self, phase: Phase) {
        self.conn.enter(phase, &self.shared.clock);
    }

    /// Answers from the cache alone; false when that is not possible, and then nothing was sent.
    #[inline(never)]
    fn fast(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let shared = self.shared;
        let mut request = Request::empty();
        let Parsed::Complete(length) = parse(bytes, &shared.limits, &mut request) else {
            return Ok(false);
        };
        if length != bytes.len() || !request.is_plain() || shared.stopping() {
            return Ok(false);
        }
        let start = self.timed();
        let Some(entry) = shared.cached(request.path) else { return Ok(false) };
        let Found::File(file) = &entry.found else { return Ok(false) };
        let variant = file.choose(request.accept_encoding);
        let Some(body) = variant.body() else { return Ok(false) };
        self.enter(Phase::Send);
        self.io.write_all(variant.block())?;
        (self.status, self.body_bytes) = (Status::OK, body.len() as u64);
        self.account(Some(&request), start);
        Ok(true)
    }

    /// The time, if this request is one of those that are timed.
    #[inline]
    fn timed(&self) -> Option<Instant> {
        let number = self.conn.requests.get() + self.conn.number() as u64;
        number.is_multiple_of(TIMED_ONE_IN).then(Instant::now)
    }

    /// Counts and logs the answer that was given.
    #[inline]
    fn account(&self, request: Option<&Request<'_>>, start: Option<Instant>) {
        self.conn.requests.add(1);
        self.conn.bytes.add(self.body_bytes);
        self.shared.stats.count(self.status);
        if let Some(start) = start {
            self.shared.stats.latency.add(start.elapsed());
        }
        if self.shared.log.is_some() {
            self.log(request);
        }
    }

    #[inline(never)]
    fn log(&self, request: Option<&Request<'_>>) {
        let Some(log) = &self.shared.log else { return };
        log.append(
            rt::stripe(),
            &Line {
                peer: self.conn.peer.ip(),
                unix: self.shared.clock.unix(),
                request: request.map(|r| (r.method_text, r.target, r.minor)),
                status: self.status.code(),
                bytes: self.body_bytes,
                referer: request.and_then(|r| r.referer),
                user_agent: request.and_then(|r| r.user_agent),
            },
        );
    }

    /// Answers everything that starts with the bytes that have arrived, until nothing is left
    /// over. Pipelined requests are answered in order, their answers gathered.
    #[inline(never)]
    fn buffered(&mut self, first: &[u8]) -> io::Result<Next> {
        let mut input = Input::new(first);
        let mut waiting = false;
        loop {
            let mut request = Request::empty();
            let next = match parse(input.pending(), &self.shared.limits, &mut request) {
                Parsed::Complete(length) if request.body == Body::None => {
                    let next = self.respond(&request)?;
                    input.consume(length);
                    next
                }
                Parsed::Complete(length) => {
                    let head = input.pending()[..length].to_vec();
                    input.consume(length);
                    self.with_body(&head, &mut input)?
                }
                Parsed::Refused(status) => self.refuse(status)?,
                Parsed::Partial => {
                    // The time allowed is for the head as a whole: a line more is no new start.
                    if !std::mem::replace(&mut waiting, true) {
                        self.flush()?;
                        self.enter(Phase::Head);
                    }
                    match self.complete_line(&mut input)? {
                        true => continue,
                        false if self.conn.expired() => self.refuse(Status::REQUEST_TIMEOUT)?,
                        false => self.cut_off(input.pending())?,
                    }
                }
            };
            waiting = false;
            if next == Next::Keep && input.pending().is_empty() {
                self.flush()?;
                return Ok(next);
            }
            if next != Next::Keep {
                self.flush()?;
                // Closing over bytes that were not looked at would reset the connection.
                let unread = !input.pending().is_empty();
                return Ok(if unread { Next::Linger } else { next });
            }
            if self.out.len() > GATHER {
                self.flush()?;
            }
        }
    }

    /// The client ended within a head. If it was wrong already it is told so, as it would have
    /// been had the bytes come at once.
    fn cut_off(&mut self, head: &[u8]) -> io::Result<Next> {
        match parse(head, &self.shared.limits, &mut Request::empty()) {
            Parsed::Refused(status) => self.refuse(status),
            _ => Ok(Next::Close),
        }
    }

    /// Reads until a line ends: before that, no head can be complete, and looking for its end
    /// again after every byte would be work that a hostile client gets for nothing.
    fn complete_line(&mut self, input: &mut Input) -> io::Result<bool> {
        loop {
            let before = input.pending().len();
            if !input.read_more(&mut self.io)? || self.conn.expired() {
                return Ok(false);
            }
            let arrived = &input.pending()[before..];
            if arrived.contains(&b'\n') || input.pending().len() > self.shared.limits.head_bytes {
                return Ok(true);
            }
        }
    }

    fn respond(&mut self, request: &Request<'_>) -> io::Result<Next> {
        let start = self.timed();
        let keep = request.keep_alive && !self.shared.stopping();
        let manner = Manner { body: request.method != Method::Head, keep, minor: request.minor };
        let next = self.answer(request, manner)?;
        self.account(Some(request), start);
        Ok(next)
    }

    /// Refuses what could not be read as a request, or the connection as it is.
    fn refuse(&mut self, status: Status) -> io::Result<Next> {
        self.plain(status, Manner { body: true, keep: false, minor: 1 }, "");
        self.flush()?;
        self.account(None, None);
        Ok(Next::Linger)
    }

    /// A request with a body, which is dropped: nothing here takes one.
    fn with_body(&mut self, head: &[u8], input: &mut Input) -> io::Result<Next> {
        let mut request = Request::empty();
        let Parsed::Complete(_) = parse(head, &self.shared.limits, &mut request) else {
            return self.refuse(Status::BAD_REQUEST);
        };
        let bytes_max = self.shared.config.max_body_bytes;
        let drain = match request.body {
            Body::Length(length) if length > bytes_max => None,
            Body::Length(length) => Some(Drain::length(length)),
            Body::None | Body::Chunked => Some(Drain::chunked(bytes_max)),
        };
        let Some(drain) = drain else {
            return self.refuse_body(&request, Status::CONTENT_TOO_LARGE);
        };
        if request.expects_continue {
            if matches!(request.method, Method::Other | Method::Unknown) {
                // The client waits to hear whether it should send; it should not.
                self.respond(&request)?;
                self.flush()?;
                return Ok(Next::Linger);
            }
            self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.flush()?;
        self.enter(Phase::Body);
        match self.drain(drain, input)? {
            Ok(true) => self.respond(&request),
            Ok(false) if self.conn.expired() => self.refuse_body(&request, Status::REQUEST_TIMEOUT),
            Ok(false) => Ok(Next::Close),
            Err(status) => self.refuse_body(&request, status),
        }
    }

    fn refuse_body(&mut self, request: &Request<'_>, status: Status) -> io::Result<Next> {
        let body = request.method != Method::Head;
        self.plain(status, Manner { body, keep: false, minor: request.minor }, "");
        self.flush()?;
        self.account(Some(request), None);
        Ok(Next::Linger)
    }

    /// Takes the body in; false when the client ended before it did.
    fn drain(&mut self, mut drain: Drain, input: &mut Input) -> io::Result<Result<bool, Status>> {
        loop {
            match drain.feed(input.pending()) {
                Ok(consumed) => input.consume(consumed),
                Err(status) => return Ok(Err(status)),
            }
            if drain.done() {
                return Ok(Ok(true));
            }
            if !input.read_more(&mut self.io)? || self.conn.expired() {
                return Ok(Ok(false));
            }
        }
    }

    /// Sends what has been gathered.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.enter(Phase::Send);
            self.io.write_all(&self.out)?;
            // Not cleared: an idle connection should hold no buffer.
            self.out = Vec::new();
        }
        Ok(())
    }

    #[inline(never)]
    fn close(&mut self, how: Next) {
        self.enter(Phase::Linger);
        self.io.finish();
        if how != Next::Linger {
            return;
        }
        let mut dropped = 0;
        let mut buf = vec![0; MORE];
        while dropped < LINGER_BYTES {
            match self.io.read(&mut buf) {
                Ok(0) | Err(_) => break,
                Ok(got) => dropped += got,
            }
        }
    }
}

/// Bytes that have arrived and are not used up.
struct Input {
    bytes: Vec<u8>,
    start: usize,
}

impl Input {
    fn new(first: &[u8]) -> Input {
        Input { bytes: first.to_vec(), start: 0 }
    }

    fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// Reads once; false at the end.
    fn read_more(&mut self, io: &mut impl Transport) -> io::Result<bool> {
        self.bytes.drain(..std::mem::take(&mut self.start));
        let filled = self.bytes.len();
        self.bytes.resize(filled + MORE, 0);
        let got = loop {
            match io.read(&mut self.bytes[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.bytes.truncate(filled + *got.as_ref().unwrap_or(&0));
        Ok(got? > 0)
    }
}
