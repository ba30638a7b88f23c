//! Unix-domain streams and listeners: std's types, whose blocking calls block only the thread.

use core::fmt;
use core::iter::FusedIterator;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::listener::Listener;
use super::socket::{Socket, owns_socket, reads_and_writes};

/// Connections that the kernel completes before they are accepted.
const BACKLOG: i32 = 4096;

/// A Unix-domain connection; std's `UnixStream`.
///
/// ```
/// use heddle::net::UnixStream;
/// use std::io::{Read, Write};
/// let (mut one, mut two) = UnixStream::pair()?;
/// one.write_all(b"across")?;
/// drop(one);
/// let mut text = String::new();
/// two.read_to_string(&mut text)?;
/// assert_eq!(text, "across");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UnixStream(Socket);

/// A Unix-domain socket that listens; std's `UnixListener`.
pub struct UnixListener(Listener);

owns_socket!(UnixStream, std::os::unix::net::UnixStream);
owns_socket!(UnixListener, std::os::unix::net::UnixListener);
reads_and_writes!(UnixStream);
reads_and_writes!(&UnixStream);

/// The address of a Unix-domain socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixAddr(pub(super) SocketAddrUnix);

impl UnixAddr {
    /// The address of the socket file `path`.
    ///
    /// # Errors
    /// `InvalidInput` for a path that is longer than 107 bytes or contains a zero byte.
    pub fn from_pathname(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(UnixAddr(SocketAddrUnix::new(path.as_ref())?))
    }

    /// An address in the abstract name space, which no file stands for.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is longer than 107 bytes.
    pub fn from_abstract_name(name: impl AsRef<[u8]>) -> io::Result<Self> {
        Ok(UnixAddr(SocketAddrUnix::new_abstract_name(name.as_ref())?))
    }

    /// The socket's file, if it has one.
    pub fn as_pathname(&self) -> Option<&Path> {
        let bytes = self.0.path_bytes()?;
        let text: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(bytes);
        Some(Path::new(text))
    }

    /// The name in the abstract name space, if it has one.
    pub fn as_abstract_name(&self) -> Option<&[u8]> {
        self.0.abstract_name()
    }

    /// Whether the socket was never bound.
    pub fn is_unnamed(&self) -> bool {
        self.0.is_unnamed()
    }

    pub(super) fn of(address: rustix::net::SocketAddrAny) -> io::Result<Self> {
        let address = SocketAddrUnix::try_from(address)?;
        // rustix reads an address without a name as one whose name is a zero byte.
        let unnamed = address.abstract_name().is_some_and(<[u8]>::is_empty);
        Ok(UnixAddr(if unnamed { SocketAddrUnix::new_unnamed() } else { address }))
    }

    /// The address of a peer, which a socket that was never bound does not have.
    pub(super) fn of_peer(address: Option<rustix::net::SocketAddrAny>) -> io::Result<Self> {
        match address {
            Some(address) => Self::of(address),
            None => Ok(UnixAddr(SocketAddrUnix::new_unnamed())),
        }
    }
}

/// A pair of sockets that are connected to each other.
pub(super) fn pair(kind: SocketType) -> io::Result<(Socket, Socket)> {
    let flags = SocketFlags::CLOEXEC;
    let (one, two) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
    Ok((one.into(), two.into()))
}

impl UnixStream {
    /// Connects to the socket file `path`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::connect_addr(&UnixAddr::from_pathname(path)?)
    }

    /// Connects to `address`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn connect_addr(address: &UnixAddr) -> io::Result<Self> {
        let socket = Socket::new(AddressFamily::UNIX, SocketType::STREAM)?;
        socket.connect_unix(&address.0)?;
        Ok(UnixStream(socket))
    }

    /// Two ends of one connection.
    ///
    /// # Errors
    /// The limit of descriptors.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, two) = pair(SocketType::STREAM)?;
        Ok((UnixStream(one), UnixStream(two)))
    }

    /// This side's address.
    pub fn local_addr(&self) -> io::Result<UnixAddr> {
        UnixAddr::of(rustix::net::getsockname(&self.0)?)
    }

    /// The other side's address.
    pub fn peer_addr(&self) -> io::Result<UnixAddr> {
        UnixAddr::of_peer(rustix::net::getpeername(&self.0)?)
    }

    /// Shuts one or both directions down.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        super::shutdown(&self.0, how)
    }

    /// Another handle of the same connection.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(UnixStream)
    }

    /// How long a read may wait; `None` = for ever. No system call.
    ///
    /// # Errors
    /// `InvalidInput` for a timeout of zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.read_timeout.set(timeout)
    }

    /// How long a write may wait; `None` = for ever. No system call.
    ///
    /// # Errors
    /// `InvalidInput` for a timeout of zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.write_timeout.set(timeout)
    }

    /// How long a read may wait.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.read_timeout.get())
    }

    /// How long a write may wait.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.write_timeout.get())
    }

    /// The pending error of the connection, which is cleared.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// The credentials of the process at the other side, as it connected: pid, uid, gid.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn peer_credentials(&self) -> io::Result<(u32, u32, u32)> {
        let credentials = sockopt::socket_peercred(&self.0)?;
        let pid = credentials.pid.as_raw_nonzero().get() as u32;
        Ok((pid, credentials.uid.as_raw(), credentials.gid.as_raw()))
    }

    /// Makes calls on this handle fail with `WouldBlock` instead of waiting.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking);
        Ok(())
    }

    /// As [`super::TcpStream::send_file`].
    ///
    /// # Errors
    /// As [`super::TcpStream::send_file`].
    pub fn send_file(&self, file: &impl AsFd, offset: u64, len: u64) -> io::Result<u64> {
        self.0.send_file(file, offset, len)
    }
}

impl UnixListener {
    /// Listens on the socket file `path`, which must not exist.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::bind_addr(&UnixAddr::from_pathname(path)?)
    }

    /// Listens on `address`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bind_addr(address: &UnixAddr) -> io::Result<Self> {
        let socket = Socket::new(AddressFamily::UNIX, SocketType::STREAM)?;
        rustix::net::bind(&socket, &address.0)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(UnixListener(Listener::new(socket)))
    }

    /// Waits for a connection. Any number of threads may wait on one listener.
    ///
    /// # Errors
    /// As [`super::TcpListener::accept`].
    pub fn accept(&self) -> io::Result<(UnixStream, UnixAddr)> {
        let stream = UnixStream(self.0.accept()?);
        let address =
            stream.peer_addr().unwrap_or_else(|_| UnixAddr(SocketAddrUnix::new_unnamed()));
        Ok((stream, address))
    }

    /// How long [`UnixListener::accept`] may wait; `None` = for ever. No system call.
    ///
    /// # Errors
    /// `InvalidInput` for a timeout of zero.
    pub fn set_accept_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.socket.read_timeout.set(timeout)
    }

    /// The connections, one after the other, without end.
    pub fn incoming(&self) -> UnixIncoming<'_> {
        UnixIncoming { listener: self }
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> io::Result<UnixAddr> {
        UnixAddr::of(rustix::net::getsockname(&self.0)?)
    }

    /// Another handle of the same listener.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(UnixListener)
    }

    /// The pending error of the socket, which is cleared.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.socket.take_error()
    }

    /// Makes calls on this handle fail with `WouldBlock` instead of waiting.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.socket.set_nonblocking(nonblocking);
        Ok(())
    }
}

/// The connections of a listener.
#[derive(Debug)]
pub struct UnixIncoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for UnixIncoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.0.accept().map(UnixStream))
    }
}

impl FusedIterator for UnixIncoming<'_> {}

impl fmt::Debug for UnixStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixStream").field("fd", &self.0.raw()).finish_non_exhaustive()
    }
}

impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixListener").field("fd", &self.0.raw()).finish_non_exhaustive()
    }
}
