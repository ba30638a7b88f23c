//! Why a server cannot start or go on.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server cannot start or go on: what was tried, and what the system said.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The folder cannot be served.
    Root(PathBuf, io::Error),
    /// The address cannot be listened on.
    Bind(SocketAddr, io::Error),
    /// Certificate or key cannot be used.
    Tls(PathBuf, String),
    /// The access log cannot be opened.
    Log(PathBuf, io::Error),
    /// A thread of the server itself cannot be started.
    Thread(&'static str, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Root(path, error) => write!(f, "cannot serve {}: {error}", path.display()),
            Error::Bind(addr, error) => write!(f, "cannot listen on {addr}: {error}"),
            Error::Tls(path, error) => write!(f, "cannot use {} for TLS: {error}", path.display()),
            Error::Log(path, error) => {
                write!(f, "cannot write the access log {}: {error}", path.display())
            }
            Error::Thread(role, error) => write!(f, "cannot start the thread \"{role}\": {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Root(_, error) | Error::Bind(_, error) => Some(error),
            Error::Log(_, error) | Error::Thread(_, error) => Some(error),
            Error::Tls(..) => None,
        }
    }
}
