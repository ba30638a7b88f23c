//! The access log, in the combined format.
//!
//! Invariant: a request's thread appends to a buffer in memory and never waits for the file; the
//! log's own thread writes. When the file cannot keep up, lines are dropped, counted, and the
//! count is written as a line of its own: the log never claims to be complete when it is not.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bell::Bell;
use crate::config::AccessLog;
use crate::date;
use crate::error::Error;
use crate::rt::{self, Mutex, lock};

/// Bytes that may wait in one stripe for the file.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// The access log.
#[derive(Debug)]
pub struct Log {
    target: AccessLog,
    file: Mutex<Arc<Sink>>,
    stripes: Box<[Mutex<Vec<u8>>]>,
    dropped: AtomicU64,
    /// Rings when there is something to write.
    pub bell: Bell,
}

#[derive(Debug)]
enum Sink {
    Stdout,
    File(File),
}

/// One answer, as the log shows it.
#[derive(Debug)]
pub struct Line<'a> {
    /// The client.
    pub peer: IpAddr,
    /// When, in seconds since 1970.
    pub unix: u64,
    /// Method and target and minor version; none of a request that could not be read.
    pub request: Option<(&'a str, &'a [u8], u8)>,
    /// The status code.
    pub status: u16,
    /// Bytes of the body that were sent.
    pub bytes: u64,
    /// `Referer`.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
}

impl Log {
    /// Opens the log, if there is to be one.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn open(target: &AccessLog, stripes: usize) -> Result<Option<Log>, Error> {
        let Some(sink) = open_sink(target)? else { return Ok(None) };
        Ok(Some(Log {
            target: target.clone(),
            file: Mutex::new(Arc::new(sink)),
            stripes: (0..stripes.max(1)).map(|_| Mutex::default()).collect(),
            dropped: AtomicU64::new(0),
            bell: Bell::default(),
        }))
    }

    /// Opens the file anew, after it was renamed.
    ///
    /// # Errors
    /// The file cannot be opened; the old one stays in use.
    pub fn reopen(&self) -> Result<(), Error> {
        if let Some(sink) = open_sink(&self.target)? {
            *lock(&self.file) = Arc::new(sink);
        }
        Ok(())
    }

    /// Notes an answer.
    pub fn append(&self, stripe: usize, line: &Line<'_>) {
        let first = {
            let mut buffer = lock(&self.stripes[stripe % self.stripes.len()]);
            if buffer.len() > WAITING_BYTES_MAX {
                self.dropped.fetch_add(1, Relaxed);
                return;
            }
            let first = buffer.is_empty();
            write_line(line, &mut buffer);
            first
        };
        if first {
            self.bell.ring();
        }
    }

    /// Writes what waits.
    pub fn flush(&self) -> io::Result<()> {
        let mut waiting = Vec::new();
        for stripe in &self.stripes {
            let taken = std::mem::take(&mut *lock(stripe));
            match waiting.is_empty() {
                true => waiting = taken,
                false => waiting.extend_from_slice(&taken),
            }
        }
        let dropped = self.dropped.swap(0, Relaxed);
        if dropped > 0 {
            // Writing to a Vec cannot fail.
            let _ = writeln!(waiting, "# {dropped} lines are missing: the log was too slow");
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let sink = lock(&self.file).clone();
        rt::blocking(move || match &*sink {
            Sink::Stdout => io::stdout().lock().write_all(&waiting),
            Sink::File(file) => { file }.write_all(&waiting),
        })
    }
}

fn open_sink(target: &AccessLog) -> Result<Option<Sink>, Error> {
    match target {
        AccessLog::Off => Ok(None),
        AccessLog::Stdout => Ok(Some(Sink::Stdout)),
        AccessLog::File(path) => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.map(|f| Some(Sink::File(f))).map_err(|e| Error::Log(path.clone(), e))
        }
    }
}

fn write_line(line: &Line<'_>, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{} - - [", line.peer);
    out.extend_from_slice(&date::format_log(line.unix));
    out.extend_from_slice(b"] \"");
    match line.request {
        None => out.push(b'-'),
        Some((method, target, minor)) => {
            quote(method.as_bytes(), out);
            out.push(b' ');
            quote(target, out);
            let _ = write!(out, " HTTP/1.{minor}");
        }
    }
    let _ = write!(out, "\" {} {} \"", line.status, line.bytes);
    quote(line.referer.unwrap_or(b"-"), out);
    out.extend_from_slice(b"\" \"");
    quote(line.user_agent.unwrap_or(b"-"), out);
    out.extend_from_slice(b"\"\n");
}

/// Writes a client's text so that it can end neither its quotes nor its line.
fn quote(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x20..=0x7e => out.push(byte),
            // Writing to a Vec cannot fail.
            _ => drop(write!(out, "\\x{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(request: Option<(&str, &[u8], u8)>, user_agent: Option<&[u8]>) -> String {
        let mut out = Vec::new();
        let line = Line {
            peer: IpAddr::from([127, 0, 0, 1]),
            unix: 784_111_777,
            request,
            status: 200,
            bytes: 12,
            referer: None,
            user_agent,
        };
        write_line(&line, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_combined_format() {
        assert_eq!(
            written(Some(("GET", b"/a?b", 1)), Some(b"curl/8")),
            "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \
             \"GET /a?b HTTP/1.1\" 200 12 \"-\" \"curl/8\"\n"
        );
        assert!(written(None, None).contains("\"-\" 200 12"));
    }

    #[test]
    fn a_client_cannot_forge_a_line() {
        let text = written(Some(("GET", b"/\xff", 0)), Some(b"x\" 200\n\t\\"));
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.contains(r#"GET /\xFF HTTP/1.0"#), "{text}");
        assert!(text.contains(r#""x\" 200\x0A\x09\\""#), "{text}");
    }
}
