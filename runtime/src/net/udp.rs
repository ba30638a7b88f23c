//! UDP: std's `UdpSocket`, whose blocking calls block only the thread.

use core::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, SocketType, sockopt};

use super::socket::{Socket, owns_socket};
use super::tcp::family;
use super::{ToSocketAddrs, each_address, to_std};

/// A UDP socket; std's `UdpSocket`.
///
/// ```
/// use heddle::net::UdpSocket;
/// let (one, two) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
/// one.send_to(b"ping", two.local_addr()?)?;
/// let mut buffer = [0; 16];
/// assert_eq!(two.recv_from(&mut buffer)?, (4, one.local_addr()?));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UdpSocket(Socket);

owns_socket!(UdpSocket, std::net::UdpSocket);

/// `MSG_DONTWAIT` if the call must not block.
pub(super) fn receive_flags(nonblocking: bool) -> RecvFlags {
    if nonblocking { RecvFlags::DONTWAIT } else { RecvFlags::empty() }
}

/// As [`receive_flags`]; never raises SIGPIPE.
pub(super) fn send_flags(nonblocking: bool) -> SendFlags {
    let flags = SendFlags::NOSIGNAL;
    if nonblocking { flags | SendFlags::DONTWAIT } else { flags }
}

impl UdpSocket {
    /// A socket with the first of the addresses that can be bound.
    ///
    /// # Errors
    /// That of the last address; what looking the name up said.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        each_address(address, |address| {
            let socket = Socket::new(family(address), SocketType::DGRAM)?;
            rustix::net::bind(&socket, address)?;
            Ok(UdpSocket(socket))
        })
    }

    /// Receives one datagram and its sender's address; what exceeds the buffer is lost.
    ///
    /// # Errors
    /// `TimedOut`, what the kernel says.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receive_from(buffer, RecvFlags::empty())
    }

    /// As [`UdpSocket::recv_from`]; the datagram stays in the kernel's queue.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receive_from(buffer, RecvFlags::PEEK)
    }

    fn receive_from(&self, buffer: &mut [u8], flags: RecvFlags) -> io::Result<(usize, SocketAddr)> {
        let (count, address) = self.0.retry_read(|nonblocking| {
            let flags = flags | receive_flags(nonblocking);
            let (count, _, address) = rustix::net::recvfrom(&self.0, &mut *buffer, flags)?;
            Ok((count, address))
        })?;
        Ok((count, to_std(address.ok_or(io::ErrorKind::InvalidData)?)?))
    }

    /// Sends one datagram to the first of the addresses.
    ///
    /// # Errors
    /// `TimedOut`, `InvalidInput` for a name without an address, what the kernel says.
    pub fn send_to(&self, buffer: &[u8], address: impl ToSocketAddrs) -> io::Result<usize> {
        let Some(address) = address.to_socket_addrs()?.next() else {
            let text = "the name has no address";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        self.0.retry_write(|nonblocking| {
            Ok(rustix::net::sendto(&self.0, buffer, send_flags(nonblocking), &address)?)
        })
    }

    /// Sends to and receives from one address from now on.
    ///
    /// # Errors
    /// That of the last address; what looking the name up said.
    pub fn connect(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        // A datagram socket connects without waiting for anybody.
        each_address(address, |address| Ok(rustix::net::connect(&self.0, address)?))
    }

    /// Receives one datagram.
    ///
    /// # Errors
    /// `TimedOut`, what the kernel says.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer, 0)
    }

    /// As [`UdpSocket::recv`]; the datagram stays in the kernel's queue.
    ///
    /// # Errors
    /// As [`UdpSocket::recv`].
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer, libc::MSG_PEEK)
    }

    /// Sends one datagram to the connected address.
    ///
    /// # Errors
    /// `TimedOut`, what the kernel says.
    pub fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        self.0.send(buffer, 0)
    }

    /// The connected address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let address = rustix::net::getpeername(&self.0)?;
        to_std(address.ok_or(io::ErrorKind::NotConnected)?)
    }

    /// The socket's own address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        to_std(rustix::net::getsockname(&self.0)?)
    }

    /// Another handle of the same socket.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(UdpSocket)
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

    /// How long a receive may wait.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.read_timeout.get())
    }

    /// How long a send may wait.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.write_timeout.get())
    }

    /// Whether datagrams may be sent to a broadcast address.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_broadcast(&self.0, broadcast)?)
    }

    /// Whether datagrams may be sent to a broadcast address.
    pub fn broadcast(&self) -> io::Result<bool> {
        Ok(sockopt::socket_broadcast(&self.0)?)
    }

    /// Sets the time to live of packets sent.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_ttl(&self.0, ttl)?)
    }

    /// The time to live of packets sent.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(sockopt::ip_ttl(&self.0)?)
    }

    /// Joins a group of IPv4 receivers.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        Ok(sockopt::set_ip_add_membership(&self.0, group, interface)?)
    }

    /// Joins a group of IPv6 receivers.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        Ok(sockopt::set_ipv6_add_membership(&self.0, group, interface)?)
    }

    /// Leaves a group of IPv4 receivers.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        Ok(sockopt::set_ip_drop_membership(&self.0, group, interface)?)
    }

    /// Leaves a group of IPv6 receivers.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        Ok(sockopt::set_ipv6_drop_membership(&self.0, group, interface)?)
    }

    /// Whether datagrams to a group come back to this machine.
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        Ok(sockopt::set_ip_multicast_loop(&self.0, on)?)
    }

    /// The time to live of datagrams to a group.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_multicast_ttl(&self.0, ttl)?)
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

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("UdpSocket");
        if let Ok(address) = self.local_addr() {
            debug.field("addr", &address);
        }
        debug.field("fd", &self.0.raw()).finish()
    }
}
