//! TCP: std's `TcpListener` and `TcpStream`, whose blocking calls block only the thread.
//!
//! Differences to std: timeouts belong to the handle, not to the socket, and a call that runs into
//! one fails with `TimedOut`; `set_nonblocking` is a property of the handle too.

use core::fmt;
use core::iter::FusedIterator;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};

use super::listener::Listener;
use super::socket::{Socket, owns_socket, reads_and_writes};
use super::{ToSocketAddrs, each_address, to_std};
use crate::io::call;

/// Connections that the kernel completes before they are accepted (it takes the lesser of this
/// and `net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// A TCP connection; std's `TcpStream`.
///
/// ```
/// use heddle::net::{TcpListener, TcpStream};
/// use std::io::{Read, Write};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let server = heddle::thread::spawn(move || listener.accept()?.0.write_all(b"hello"));
/// let mut text = String::new();
/// TcpStream::connect(address)?.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// server.join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpStream(Socket);

/// A TCP socket that listens; std's `TcpListener`.
pub struct TcpListener(Listener);

owns_socket!(TcpStream, std::net::TcpStream);
owns_socket!(TcpListener, std::net::TcpListener);
reads_and_writes!(TcpStream);
reads_and_writes!(&TcpStream);

/// The family of an address.
pub(super) fn family(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

impl TcpStream {
    /// Connects to the first of the addresses that answers.
    ///
    /// # Errors
    /// That of the last address; what looking the name up said.
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<Self> {
        each_address(address, |address| Self::connect_until(address, 0))
    }

    /// Connects to `address` within `timeout`.
    ///
    /// # Errors
    /// `TimedOut`, `InvalidInput` for a timeout of zero, what the kernel says.
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        if timeout.is_zero() {
            let text = "a timeout of zero can't be kept";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Self::connect_until(address, call::deadline(Some(timeout)))
    }

    fn connect_until(address: &SocketAddr, deadline: u64) -> io::Result<Self> {
        let socket = Socket::new(family(address), SocketType::STREAM)?;
        socket.connect(address, deadline)?;
        Ok(TcpStream(socket))
    }

    /// The other side's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let address = rustix::net::getpeername(&self.0)?;
        to_std(address.ok_or(io::ErrorKind::NotConnected)?)
    }

    /// This side's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        to_std(rustix::net::getsockname(&self.0)?)
    }

    /// Shuts one or both directions down.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        super::shutdown(&self.0, how)
    }

    /// Another handle of the same connection.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(TcpStream)
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

    /// Receives without taking the bytes out of the kernel's queue.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer, libc::MSG_PEEK)
    }

    /// Whether small segments are sent at once (`TCP_NODELAY`).
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(&self.0, nodelay)?)
    }

    /// Whether small segments are sent at once.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_nodelay(&self.0)?)
    }

    /// Sets the time to live of packets sent.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_ttl(&self.0, ttl)?)
    }

    /// The time to live of packets sent.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(sockopt::ip_ttl(&self.0)?)
    }

    /// The pending error of the connection, which is cleared.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Makes calls on this handle fail with `WouldBlock` instead of waiting.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking);
        Ok(())
    }

    /// Sends `len` bytes of `file` from `offset` on without copying them through the process;
    /// returns how many were sent, which is less only when the file ends before.
    ///
    /// Blocks only the thread while the peer is slow. A page that is not in the page cache is
    /// read by the calling kernel thread.
    ///
    /// # Errors
    /// `TimedOut` when no progress was made within the write timeout; what the kernel says.
    /// Bytes may have been sent before.
    pub fn send_file(&self, file: &impl AsFd, offset: u64, len: u64) -> io::Result<u64> {
        self.0.send_file(file, offset, len)
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("TcpStream");
        if let Ok(address) = self.local_addr() {
            debug.field("addr", &address);
        }
        if let Ok(address) = self.peer_addr() {
            debug.field("peer", &address);
        }
        debug.field("fd", &self.0.raw()).finish()
    }
}

impl TcpListener {
    /// Listens on the first of the addresses that can be bound.
    ///
    /// # Errors
    /// That of the last address; what looking the name up said.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        each_address(address, |address| {
            let socket = Socket::new(family(address), SocketType::STREAM)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            bind_again(&socket, address)?;
            rustix::net::listen(&socket, BACKLOG)?;
            Ok(TcpListener(Listener::new(socket)))
        })
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        to_std(rustix::net::getsockname(&self.0)?)
    }

    /// Another handle of the same listener.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(TcpListener)
    }

    /// Waits for a connection. Any number of threads may wait on one listener.
    ///
    /// # Errors
    /// `TimedOut` after [`TcpListener::set_accept_timeout`]; the process's or the system's limit
    /// of descriptors: the connection then stays in the kernel's queue and a later call gets it.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let stream = TcpStream(self.0.accept()?);
        // A peer that has gone already has no address any more; its stream reads as ended.
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        let address = stream.peer_addr().unwrap_or(unspecified);
        Ok((stream, address))
    }

    /// How long [`TcpListener::accept`] may wait; `None` = for ever. No system call.
    ///
    /// # Errors
    /// `InvalidInput` for a timeout of zero.
    pub fn set_accept_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.socket.read_timeout.set(timeout)
    }

    /// The connections, one after the other, without end.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Sets the time to live of packets sent.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_ttl(&self.0, ttl)?)
    }

    /// The time to live of packets sent.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(sockopt::ip_ttl(&self.0)?)
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

/// Binds; waits up to a tenth of a second for an address in use to become free.
///
/// A process that has ended keeps its listeners for some 25 ms, until the kernel has taken its
/// ring apart: a server that is restarted would find its own address in use.
fn bind_again(socket: &Socket, address: &SocketAddr) -> io::Result<()> {
    for _ in 0..10 {
        match rustix::net::bind(socket, address) {
            Err(rustix::io::Errno::ADDRINUSE) => crate::thread::sleep(Duration::from_millis(10)),
            other => return Ok(other?),
        }
    }
    Ok(rustix::net::bind(socket, address)?)
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("TcpListener");
        if let Ok(address) = self.local_addr() {
            debug.field("addr", &address);
        }
        debug.field("fd", &self.0.raw()).finish()
    }
}

/// The connections of a listener; std's `Incoming`.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.0.accept().map(TcpStream))
    }
}

impl FusedIterator for Incoming<'_> {}
