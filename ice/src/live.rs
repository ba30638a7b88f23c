//! The live page: what the threads of this process are doing, at `/heddle/`.
//!
//! Trust: the page tells about the machine, so it is for the machine's own users: the peer must
//! be loopback, the request must name a loopback host (a page elsewhere that makes a name point
//! here must not read it in somebody's browser), and it must not come through a proxy.
//!
//! Invariant: the figures are collected at most once per period for all who watch, and off the
//! workers; nobody watching means nothing collected.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::answer::Manner;
use crate::conns::Phase;
use crate::figures;
use crate::request::{Method, Request};
use crate::rt::{self, Mutex, lock};
use crate::server::Shared;
use crate::session::{Next, Session};
use crate::status::Status;
use crate::transport::Transport;

const PAGE: &str = include_str!("live.html");
/// Time between two events.
const PERIOD: Duration = Duration::from_secs(1);
/// A machine with very many threads spends at most a share of 1 in so many on looking at them.
const SHARE: u32 = 10;

/// The page may use what is in itself and fetch events from where it came from, no more.
const PAGE_LINES: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
Referrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'; \
style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";

/// The figures of this moment, shared by all who watch.
#[derive(Debug, Default)]
pub struct Live(Mutex<Option<Moment>>);

#[derive(Debug, Clone)]
struct Moment {
    good_until: Instant,
    text: Arc<String>,
}

impl Live {
    /// The figures as JSON, not older than a period.
    fn figures(&self, shared: &Arc<Shared>) -> Arc<String> {
        let now = Instant::now();
        if let Some(moment) = lock(&self.0).clone().filter(|m| now < m.good_until) {
            return moment.text;
        }
        let shared = shared.clone();
        let text = Arc::new(rt::blocking(move || figures::collect(&shared)));
        let took = now.elapsed();
        let good_until = now + (PERIOD - PERIOD / 20).max(took * SHARE);
        *lock(&self.0) = Some(Moment { good_until, text: text.clone() });
        text
    }
}

/// Does a path belong to the live page?
pub fn owns(path: &[u8]) -> bool {
    path == b"/heddle" || path.starts_with(b"/heddle/")
}

fn is_loopback_name(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    if let Some((address, _)) = host.strip_prefix('[').and_then(|h| h.split_once(']')) {
        return address.parse().is_ok_and(|a: Ipv6Addr| a.to_canonical().is_loopback());
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|a: IpAddr| a.to_canonical().is_loopback())
}

/// May this client see the page? If not, why.
fn admit(peer: IpAddr, request: &Request<'_>) -> Result<(), &'static str> {
    if !peer.to_canonical().is_loopback() {
        return Err("The live page is for clients on this machine.");
    }
    if request.forwarded {
        return Err("The live page is not for clients behind a proxy.");
    }
    // HTTP/1.0 may come without a host, but no browser does.
    if !request.host.is_none_or(is_loopback_name) {
        return Err("The live page is only at the address of this machine: use localhost.");
    }
    Ok(())
}

impl<T: Transport> Session<'_, T> {
    /// Answers for the live page.
    #[inline(never)]
    pub(crate) fn live(&mut self, request: &Request<'_>, manner: Manner) -> io::Result<Next> {
        let next = if manner.keep { Next::Keep } else { Next::Close };
        if let Err(reason) = admit(self.conn.peer.ip(), request) {
            self.explain(Status::FORBIDDEN, manner, "", reason);
            return Ok(next);
        }
        match request.path {
            b"/heddle/" => {
                self.page(manner, "text/html; charset=utf-8", PAGE_LINES, PAGE.as_bytes());
            }
            b"/heddle/now" => {
                let text = self.shared.live.figures(self.shared);
                let lines = "Cache-Control: no-store\r\n";
                self.page(manner, "application/json", lines, text.as_bytes());
            }
            b"/heddle/events" => return self.events(request, manner),
            b"/heddle" => {
                self.plain(Status::MOVED_PERMANENTLY, manner, "Location: /heddle/\r\n");
            }
            _ => self.plain(Status::NOT_FOUND, manner, ""),
        }
        Ok(next)
    }

    /// Server-sent events, one per period, until the client leaves or the server stops.
    fn events(&mut self, request: &Request<'_>, manner: Manner) -> io::Result<Next> {
        self.open(Status::OK, Manner { keep: false, ..manner });
        self.out.extend_from_slice(
            b"Content-Type: text/event-stream\r\nCache-Control: no-store\r\n\r\nretry: 1000\n\n",
        );
        self.flush()?;
        if request.method == Method::Head {
            return Ok(Next::Close);
        }
        self.conn.stream.set_read_timeout(Some(PERIOD))?;
        while !self.shared.stopping() {
            let text = self.shared.live.figures(self.shared);
            // Writing to a Vec cannot fail.
            let _ = write!(self.out, "data: {text}\n\n");
            self.body_bytes += text.len() as u64 + 8;
            self.flush()?;
            self.enter(Phase::Stream);
            // The wait for the next period is a read, so that it ends when the client leaves or
            // the server is shut down.
            match self.io.read(&mut [0; 64]) {
                Ok(0) => break,
                // What a client says now has no meaning; but it must not speed the events up.
                Ok(_) => rt::sleep(PERIOD),
                Err(e) if is_timeout(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Next::Close)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:8"]
        {
            assert!(is_loopback_name(host.as_bytes()), "{host}");
        }
        for host in
            ["", "evil.test", "localhost.evil.test", "127.0.0.1.evil.test", "10.0.0.1", "[::2]"]
        {
            assert!(!is_loopback_name(host.as_bytes()), "{host}");
        }
    }
}
