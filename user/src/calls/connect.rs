//! Connections to others.
//!
//! Nothing can ask the kernel not to sleep in `connect` but the descriptor's own mode, which others
//! share. To an address in this machine it hardly ever sleeps, and is called in place
//! (`in_place.rs`); a signal and a cancellation end it where it does. To any other it takes as long
//! as the way there and back: a kernel thread of the blocking pool calls it.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::net::{Ipv4Addr, Ipv6Addr};

use libc::{sa_family_t, sockaddr, sockaddr_in6, socklen_t};

use super::{
    Result, checked, deadline_of, exported, in_place, interruptible, is_nonblocking, known,
    made_int, sockets,
};
use crate::sys::{self, own_memory};

/// Those to addresses in this machine.
static NEAR: in_place::Kind = in_place::Kind::new();

fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> Result<isize> {
    known::forget(fd);
    // SAFETY: the caller's address.
    let plain = move || unsafe { libc::connect(fd, address, length) as isize };
    if !sockets::has_connections(fd) || is_nonblocking(fd) {
        return checked(plain());
    }
    // With a timeout of its own the kernel restarts it as little as a send.
    let has_timeout = || deadline_of(fd, libc::SO_SNDTIMEO).is_some_and(|deadline| deadline != 0);
    // SAFETY: the caller's address.
    let call = || unsafe { sys::interruptible::connect(fd, address, length) };
    is_near(address, length)
        .then(|| NEAR.make(has_timeout, || sockets::is_unconnected(fd), call))
        .flatten()
        .unwrap_or_else(|| interruptible(has_timeout(), plain))
}

/// Whether it is an address in this machine. The kernel connects to such a one before the call is
/// over, without sleeping, unless the other end has more connections waiting than it takes.
fn is_near(address: *const sockaddr, length: socklen_t) -> bool {
    // The start of any address that may be one: family, port, and that of IPv4 or IPv6.
    let mut bytes = [0; size_of::<sockaddr_in6>()];
    let known = bytes.len().min(length as usize);
    if own_memory::read_bytes(address.cast(), &mut bytes[..known]).is_err() {
        return false;
    }
    let family = sa_family_t::from_ne_bytes([bytes[0], bytes[1]]);
    match c_int::from(family) {
        libc::AF_UNIX => true,
        libc::AF_INET => Ipv4Addr::from([bytes[4], bytes[5], bytes[6], bytes[7]]).is_loopback(),
        libc::AF_INET6 => {
            let mut parts = [0; 16];
            parts.copy_from_slice(&bytes[8..24]);
            Ipv6Addr::from(parts).to_canonical().is_loopback()
        }
        _ => false,
    }
}

exported! {
    (heddle_user_connect, heddle_user___connect) (
        fd: c_int, address: *const sockaddr, length: socklen_t
    ) -> c_int {
        made_int(|| connect(fd, address, length))
    }
}
