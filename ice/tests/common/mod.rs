//! A site in a temporary folder with a server on it, and a client that reads raw answers.
//!
//! Invariant: every wait of a test is bounded, and a site leaves neither threads nor files.

#![allow(dead_code)] // Each test binary uses its own part.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use heddle_ice::{Config, Error, Handle, Server};

/// Longest that a client waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Site {
    pub dir: PathBuf,
    pub addr: SocketAddr,
    pub handle: Handle,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// A folder for one test, beside which there is a secret that must never be served.
pub fn folder() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let base = std::env::temp_dir().join(format!("ice-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&base);
    std::fs::create_dir_all(base.join("site")).unwrap();
    std::fs::write(base.join("secret"), "TOP SECRET").unwrap();
    base.join("site")
}

impl Site {
    pub fn new() -> Site {
        Site::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Config)) -> Site {
        let dir = folder();
        let mut config = Config::new(&dir);
        config.port = 0;
        config.grace = Duration::from_secs(5);
        change(&mut config);
        let server = Server::bind(config).unwrap();
        let (addr, handle) = (server.local_addr(), server.handle());
        let thread = Some(std::thread::spawn(move || server.run()));
        Site { dir, addr, handle, thread }
    }

    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Site {
        let path = self.dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub fn client(&self) -> Client {
        Client::to(self.addr)
    }

    /// Asks for a path on a new connection, with extra header lines.
    pub fn get_with(&self, path: &str, lines: &str) -> Response {
        let mut client = self.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
        client.response()
    }

    pub fn get(&self, path: &str) -> Response {
        self.get_with(path, "")
    }

    /// The status of the answer to these bytes, which must be the last on their connection.
    pub fn refused(&self, bytes: impl AsRef<[u8]>) -> u16 {
        let mut client = self.client();
        client.send(bytes);
        let response = client.response();
        assert_eq!(response.header("connection"), Some("close"));
        assert!(client.ended(), "the connection goes on after {}", response.status);
        response.status
    }

    /// Shuts the server down and waits for it.
    pub fn stop(&mut self) -> Duration {
        let start = Instant::now();
        self.handle.shutdown();
        self.thread.take().unwrap().join().unwrap().unwrap();
        start.elapsed()
    }

    pub fn running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
        let _ = std::fs::remove_dir_all(self.dir.parent().unwrap_or(Path::new("/nonexistent")));
    }
}

pub struct Client {
    pub stream: TcpStream,
    pub buffer: Vec<u8>,
}

impl Client {
    pub fn to(addr: SocketAddr) -> Client {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, buffer: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    fn more(&mut self) -> usize {
        let mut buf = [0; 16384];
        let got = self.stream.read(&mut buf).unwrap();
        self.buffer.extend_from_slice(&buf[..got]);
        got
    }

    /// The server has closed, and nothing unread came before.
    pub fn ended(&mut self) -> bool {
        self.buffer.is_empty() && matches!(self.stream.read(&mut [0; 64]), Ok(0))
    }

    pub fn response(&mut self) -> Response {
        self.read_response(false)
    }

    pub fn head_response(&mut self) -> Response {
        self.read_response(true)
    }

    pub fn read_head(&mut self) -> Response {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break at;
            }
            let got = self.more();
            let so_far = String::from_utf8_lossy(&self.buffer);
            assert!(got > 0, "the connection ended within a head: {so_far:?}");
        };
        let head = String::from_utf8(self.buffer[..end].to_vec()).unwrap();
        self.buffer.drain(..end + 4);
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap();
        assert!(first.starts_with("HTTP/1.1 ") && first.len() > 13, "status line {first:?}");
        let status = first[9..12].parse().unwrap();
        let headers: Vec<_> = lines
            .map(|line| {
                let (name, value) = line.split_once(": ").expect("header line");
                (name.to_ascii_lowercase(), value.to_owned())
            })
            .collect();
        for (n, (name, _)) in headers.iter().enumerate() {
            assert!(!headers[..n].iter().any(|(other, _)| other == name), "{name} stands twice");
        }
        let interim = status == 100;
        let response = Response { status, headers, body: Vec::new() };
        assert!(interim || response.header("date").is_some_and(|d| d.len() == 29));
        assert!(interim || response.header("server") == Some("Ice"));
        response
    }

    fn read_response(&mut self, head_only: bool) -> Response {
        let mut response = self.read_head();
        let length = response.header("content-length").map(|l| l.parse::<usize>().unwrap());
        let bodiless = head_only || matches!(response.status, 100 | 204 | 304);
        if bodiless {
            return response;
        }
        let length = length.expect("a length");
        while self.buffer.len() < length {
            assert!(self.more() > 0, "ended {} bytes early", length - self.buffer.len());
        }
        response.body = self.buffer.drain(..length).collect();
        response
    }
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Waits, not for ever, until something holds.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Bytes that differ from place to place, so that a wrong offset shows. They repeat, but at a
/// prime distance, which no buffer's length is a multiple of.
pub fn pattern(length: usize) -> Vec<u8> {
    const PERIOD: u32 = 65_521;
    let block: Vec<u8> = (0..PERIOD).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut all = block.repeat(length.div_ceil(block.len()));
    all.truncate(length);
    all
}
