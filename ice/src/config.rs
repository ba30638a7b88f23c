//! What a server is told before it starts.
//!
//! Invariant: every limit has a value; nothing in Ice is unbounded.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::request::Limits;

/// Where the access log goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AccessLog {
    /// Nowhere.
    #[default]
    Off,
    /// To standard output.
    Stdout,
    /// To a file, opened for appending.
    File(PathBuf),
}

/// Certificate chain and private key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// Configuration of a server.
///
/// ```
/// let mut config = heddle_ice::Config::new("/srv/www");
/// config.port = 0; // any free port
/// config.listing = true;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The folder that is served.
    pub root: PathBuf,
    /// Address to listen on (127.0.0.1).
    pub addr: IpAddr,
    /// Port to listen on (8080); 0 takes a free one.
    pub port: u16,
    /// Show what is in a folder without `index.html` (no: 403).
    pub listing: bool,
    /// Show the live page of the threads at `/heddle/` to clients on this machine (yes).
    pub live: bool,
    /// Speak TLS with these files (no).
    pub tls: Option<TlsFiles>,
    /// Access log in the combined format (off).
    pub access_log: AccessLog,
    /// Connections at a time; more get 503. Never above what the limit on open files leaves
    /// (100 000).
    pub max_connections: usize,
    /// Bytes of a request's head (16 KiB); more get 431.
    pub max_head_bytes: usize,
    /// Bytes of a request's target (8 KiB); more get 414.
    pub max_target_bytes: usize,
    /// Header fields of a request (100); more get 431.
    pub max_fields: usize,
    /// Bytes of a request's body, which is read and dropped (1 MiB); more get 413.
    pub max_body_bytes: u64,
    /// From the first byte of a request's head to its last, and the same for a body and for a
    /// TLS handshake (10 s); longer gets 408.
    pub head_timeout: Duration,
    /// From one answer to the next request (60 s).
    pub idle_timeout: Duration,
    /// For the client to take 128 KiB of an answer, or the rest of it (30 s).
    pub send_timeout: Duration,
    /// For answers in progress when the server is shut down (10 s).
    pub grace: Duration,
    /// Bytes of the cache of heads and small files (64 MiB).
    pub cache_bytes: usize,
    /// Large files that the cache keeps open (1024).
    pub cache_files: usize,
    /// Stack of a connection's thread; address space, not memory (64 KiB, with TLS 256 KiB).
    pub stack_bytes: Option<usize>,
}

impl Config {
    /// The defaults, for a folder.
    pub fn new(root: impl Into<PathBuf>) -> Config {
        Config {
            root: root.into(),
            addr: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 8080,
            listing: false,
            live: true,
            tls: None,
            access_log: AccessLog::Off,
            max_connections: 100_000,
            max_head_bytes: 16 * 1024,
            max_target_bytes: 8 * 1024,
            max_fields: 100,
            max_body_bytes: 1024 * 1024,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            send_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(10),
            cache_bytes: 64 * 1024 * 1024,
            cache_files: 1024,
            stack_bytes: None,
        }
    }

    /// Address and port.
    pub fn socket_addr(&self) -> SocketAddr {
        SocketAddr::new(self.addr, self.port)
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            head_bytes: self.max_head_bytes.max(256),
            target_bytes: self.max_target_bytes,
            fields: self.max_fields,
        }
    }

    pub(crate) fn stack(&self) -> usize {
        let default = if self.tls.is_some() { 256 * 1024 } else { 64 * 1024 };
        // An unoptimised build's frames are several times larger.
        let default = if cfg!(debug_assertions) { default * 4 } else { default };
        self.stack_bytes.unwrap_or(default)
    }
}
