//! Unix-domain datagrams: std's `UnixDatagram`, whose blocking calls block only the thread.

use core::fmt;
use std::io;
use std::net::Shutdown;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};

use super::socket::{Socket, owns_socket};
use super::udp::{receive_flags, send_flags};
use super::unix::{UnixAddr, pair};

/// A Unix-domain datagram socket; std's `UnixDatagram`.
pub struct UnixDatagram(Socket);

owns_socket!(UnixDatagram, std::os::unix::net::UnixDatagram);

impl UnixDatagram {
    /// A socket without an address.
    ///
    /// # Errors
    /// The limit of descriptors.
    pub fn unbound() -> io::Result<Self> {
        Socket::new(AddressFamily::UNIX, SocketType::DGRAM).map(UnixDatagram)
    }

    /// A socket with the socket file `path`, which must not exist.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::bind_addr(&UnixAddr::from_pathname(path)?)
    }

    /// A socket with an address.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bind_addr(address: &UnixAddr) -> io::Result<Self> {
        let socket = Self::unbound()?;
        rustix::net::bind(&socket.0, &address.0)?;
        Ok(socket)
    }

    /// Two sockets that are connected to each other.
    ///
    /// # Errors
    /// The limit of descriptors.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, two) = pair(SocketType::DGRAM)?;
        Ok((UnixDatagram(one), UnixDatagram(two)))
    }

    /// Sends to and receives from the socket file `path` from now on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.connect_addr(&UnixAddr::from_pathname(path)?)
    }

    /// Sends to and receives from `address` from now on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn connect_addr(&self, address: &UnixAddr) -> io::Result<()> {
        // A datagram socket connects without waiting for anybody.
        Ok(rustix::net::connect(&self.0, &address.0)?)
    }

    /// Receives one datagram and its sender's address; what exceeds the buffer is lost.
    ///
    /// # Errors
    /// `TimedOut`, what the kernel says.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, UnixAddr)> {
        let (count, address) = self.0.retry_read(|nonblocking| {
            let flags = receive_flags(nonblocking);
            let (count, _, address) = rustix::net::recvfrom(&self.0, &mut *buffer, flags)?;
            Ok((count, address))
        })?;
        Ok((count, UnixAddr::of_peer(address)?))
    }

    /// Receives one datagram.
    ///
    /// # Errors
    /// `TimedOut`, what the kernel says.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer, 0)
    }

    /// Sends one datagram to the socket file `path`.
    ///
    /// # Errors
    /// `TimedOut`, what the kernel says.
    pub fn send_to(&self, buffer: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.send_to_addr(buffer, &UnixAddr::from_pathname(path)?)
    }

    /// Sends one datagram to `address`.
    ///
    /// # Errors
    /// `TimedOut`, what the kernel says.
    pub fn send_to_addr(&self, buffer: &[u8], address: &UnixAddr) -> io::Result<usize> {
        self.0.retry_write(|nonblocking| {
            Ok(rustix::net::sendto(&self.0, buffer, send_flags(nonblocking), &address.0)?)
        })
    }

    /// Sends one datagram to the connected address.
    ///
    /// # Errors
    /// `TimedOut`, what the kernel says.
    pub fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        self.0.send(buffer, 0)
    }

    /// The socket's own address.
    pub fn local_addr(&self) -> io::Result<UnixAddr> {
        UnixAddr::of(rustix::net::getsockname(&self.0)?)
    }

    /// The connected address.
    pub fn peer_addr(&self) -> io::Result<UnixAddr> {
        UnixAddr::of_peer(rustix::net::getpeername(&self.0)?)
    }

    /// Shuts one or both directions down.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        super::shutdown(&self.0, how)
    }

    /// Another handle of the same socket.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(UnixDatagram)
    }

    /// How long a receive may wait; `None` = for ever. No system call.
    ///
    /// # Errors
    /// `InvalidInput` for a timeout of zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.read_timeout.set(timeout)
    }

    /// How long a send may wait; `None` = for ever. No system call.
    ///
    /// # Errors
    /// `InvalidInput` for a timeout of zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.write_timeout.set(timeout)
    }

    /// The pending error of the socket, which is cleared.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Makes calls on this handle fail with `WouldBlock` instead of waiting.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking);
        Ok(())
    }
}

impl fmt::Debug for UnixDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixDatagram").field("fd", &self.0.raw()).finish_non_exhaustive()
    }
}
