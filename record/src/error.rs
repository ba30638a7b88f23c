//! Everything that can go wrong with a table, as one type.
//!
//! Invariant: a message says what was tried and why it failed; what a foreign file claims is
//! repeated only as numbers, so that it cannot write to a terminal.

use std::{fmt, io, path::PathBuf};

/// Why a table could not be made, filled or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    Io {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The process has no table (it does not run heddle, or it is over and was swept).
    NoTable {
        /// The process.
        pid: i32,
    },
    /// The table of the process may be read by its owner and root only.
    Denied {
        /// The process.
        pid: i32,
    },
    /// The file does not belong to the process that its name speaks of, or is no plain file.
    Impostor {
        /// The file.
        path: PathBuf,
    },
    /// The file does not start with a table's magic number.
    NotATable {
        /// What it starts with.
        magic: u64,
    },
    /// The table has a version that this build does not know.
    Version {
        /// The two digits.
        version: [u8; 2],
    },
    /// A number in the header contradicts another one, or the file.
    Header {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// The file ends before the table does.
    Truncated {
        /// Bytes that the table needs.
        need: u64,
        /// Bytes that the file has.
        have: u64,
    },
    /// A slot beyond the table's capacity was asked for.
    Full {
        /// Records that the table has room for.
        capacity: u32,
    },
    /// This process has a table in shared memory already.
    Exists,
}

impl Error {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
        move |errno| Error::Io { doing, source: errno.into() }
    }

    pub(crate) fn std_io(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { doing, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
            Error::NoTable { pid } => write!(f, "process {pid} has no thread table"),
            Error::Denied { pid } => {
                write!(f, "the thread table of process {pid} belongs to another user")
            }
            Error::Impostor { path } => {
                write!(f, "{} was not written by the process it names", path.display())
            }
            Error::NotATable { magic } => {
                write!(f, "not a thread table: it starts with {magic:#018x}")
            }
            Error::Version { version: [tens, ones] } => {
                let digit = |byte: &u8| if byte.is_ascii_digit() { *byte as char } else { '?' };
                write!(f, "thread table of unknown version {}{}", digit(tens), digit(ones))
            }
            Error::Header { field, value } => {
                write!(f, "broken thread table: its {field} says {value}")
            }
            Error::Truncated { need, have } => {
                write!(f, "broken thread table: {have} bytes where it needs {need}")
            }
            Error::Full { capacity } => {
                write!(f, "the thread table is full: {capacity} records")
            }
            Error::Exists => f.write_str("this process has a thread table already"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::Io { source, .. } => source.kind(),
            Error::NoTable { .. } => io::ErrorKind::NotFound,
            Error::Denied { .. } | Error::Impostor { .. } => io::ErrorKind::PermissionDenied,
            Error::Full { .. } => io::ErrorKind::OutOfMemory,
            Error::Exists => io::ErrorKind::AlreadyExists,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}
