//! Names to addresses: std's `ToSocketAddrs`, which looks names up away from the workers.
//!
//! Texts that are addresses already ("127.0.0.1:80") are parsed in place.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::{option, slice, vec};

/// What can be turned into addresses; std's trait of the same name.
///
/// A name is looked up as the C library does; the calling thread waits, its worker does not.
pub trait ToSocketAddrs {
    /// The addresses.
    type Iter: Iterator<Item = SocketAddr>;

    /// Looks the addresses up.
    ///
    /// # Errors
    /// `InvalidInput` for a text that is no address; what the look-up says.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter>;
}

macro_rules! one_address {
    ($($type:ty),*) => {$(
        impl ToSocketAddrs for $type {
            type Iter = option::IntoIter<SocketAddr>;

            fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                Ok(Some(SocketAddr::from(*self)).into_iter())
            }
        }
    )*};
}

one_address!(SocketAddr, SocketAddrV4, SocketAddrV6);
one_address!((IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl ToSocketAddrs for (&str, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        let (host, port) = *self;
        match host.parse::<IpAddr>() {
            Ok(ip) => Ok(vec![SocketAddr::new(ip, port)].into_iter()),
            Err(_) => look_up(self),
        }
    }
}

impl ToSocketAddrs for (String, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (self.0.as_str(), self.1).to_socket_addrs()
    }
}

impl ToSocketAddrs for str {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        match self.parse::<SocketAddr>() {
            Ok(address) => Ok(vec![address].into_iter()),
            Err(_) => look_up(self),
        }
    }
}

impl ToSocketAddrs for String {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        self.as_str().to_socket_addrs()
    }
}

impl<'a> ToSocketAddrs for &'a [SocketAddr] {
    type Iter = std::iter::Copied<slice::Iter<'a, SocketAddr>>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        Ok(self.iter().copied())
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    type Iter = T::Iter;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs()
    }
}

fn look_up<A>(name: &A) -> io::Result<vec::IntoIter<SocketAddr>>
where
    A: std::net::ToSocketAddrs<Iter = vec::IntoIter<SocketAddr>> + Sync + ?Sized,
{
    crate::blocking(|| name.to_socket_addrs())
}
