//! Sockets: std's types and methods; a call that has to wait blocks only the calling thread.
//!
//! What is not here: std's own types are not wrapped but replaced; they convert into each other
//! (`From` both ways), and a std socket used on a worker blocks the whole worker.

mod address;
mod datagram;
mod listener;
mod socket;
mod tcp;
mod udp;
mod unix;

pub use address::ToSocketAddrs;
pub use datagram::UnixDatagram;
pub use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6};
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixAddr, UnixIncoming, UnixListener, UnixStream};

use std::io;

use rustix::net::SocketAddrAny;

use socket::Socket;

/// Calls `call` with each address until one succeeds.
fn each_address<T>(
    address: impl ToSocketAddrs,
    mut call: impl FnMut(&SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for address in address.to_socket_addrs()? {
        match call(&address) {
            Ok(value) => return Ok(value),
            Err(error) if crate::is_cancelled(&error) => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last
        .unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name has no address")))
}

fn to_std(address: SocketAddrAny) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(address)?)
}

fn shutdown(socket: &Socket, how: Shutdown) -> io::Result<()> {
    let how = match how {
        Shutdown::Read => rustix::net::Shutdown::Read,
        Shutdown::Write => rustix::net::Shutdown::Write,
        Shutdown::Both => rustix::net::Shutdown::Both,
    };
    Ok(rustix::net::shutdown(socket, how)?)
}
