//! What the listeners share: how connections are accepted.
//!
//! Try, then arm. Unlike a receive, accepting does not yield before it tries: a thread that
//! accepts takes all connections that have come while it is its turn, not one per round of all
//! ready threads; but after [`ACCEPTS_IN_A_ROW`] it lets the others run.
//!
//! Deliberately not by multishot accept, though it saves 2 us of some 50 per connection when they
//! come one by one: it also accepts connections that nobody has asked for. A burst then takes as
//! many descriptors from the program as the backlog is long, and whoever calls `accept4` on the
//! same listener (a kernel thread, another process) may wait for ever.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net::SocketFlags;

use super::socket::Socket;
use crate::io::{Interest, call};

/// Connections that one handle accepts before its thread lets others run.
const ACCEPTS_IN_A_ROW: u8 = 16;

/// See the file's head.
pub(super) struct Listener {
    /// The socket; its read timeout is that of accepting.
    pub socket: Socket,
    /// Connections accepted without waiting.
    in_a_row: AtomicU8,
}

impl From<OwnedFd> for Listener {
    fn from(fd: OwnedFd) -> Self {
        Listener { socket: fd.into(), in_a_row: AtomicU8::new(0) }
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> Self {
        listener.socket.into()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Listener {
    /// A listener that this process has made.
    pub fn new(socket: Socket) -> Self {
        Listener { socket, in_a_row: AtomicU8::new(0) }
    }

    /// The descriptor's number.
    pub fn raw(&self) -> RawFd {
        self.socket.raw()
    }

    /// Another handle of the same listener.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Listener { socket: self.socket.try_clone()?, in_a_row: AtomicU8::new(0) })
    }

    /// Accepts a connection.
    pub fn accept(&self) -> io::Result<Socket> {
        let light = crate::thread::is_user_level();
        let until = self.socket.read_timeout.until();
        if light || !until.is_never() || self.socket.is_nonblocking() {
            self.socket.unblock()?;
        }
        if light && self.in_a_row.fetch_add(1, Relaxed) >= ACCEPTS_IN_A_ROW {
            self.in_a_row.store(0, Relaxed);
            crate::thread::give_way();
        }
        if self.socket.is_nonblocking() {
            return call::uninterrupted(|| self.accept_now());
        }
        if !call::has_ring() {
            return call::retry_unyielding(self.raw(), Interest::Read, until, |_| {
                let accepted = self.accept_now();
                if accepted.is_err() {
                    self.in_a_row.store(0, Relaxed);
                }
                accepted
            });
        }
        let mut deadline = 0;
        loop {
            call::check_cancelled()?;
            match self.accept_now() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            self.in_a_row.store(0, Relaxed);
            if deadline == 0 {
                deadline = until.deadline();
            }
            if let Some(socket) = self.accept_in_ring(deadline)? {
                return Ok(socket);
            }
        }
    }

    /// Waits for a connection in the ring; `None` = try again. By its operation for accepting:
    /// of many threads that wait, a connection wakes one (a poll would wake them all).
    fn accept_in_ring(&self, deadline: u64) -> io::Result<Option<Socket>> {
        match call::operate_for_fd(call::accept_entry(self.raw()), deadline) {
            Ok(fd) => Ok(Some(fd.into())),
            // Some kernels say so for a listener in non-blocking mode.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                call::wait_ready(self.raw(), Interest::Read, deadline)?;
                Ok(None)
            }
            Err(error) if is_transient(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn accept_now(&self) -> io::Result<Socket> {
        loop {
            let accepted = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC);
            match accepted.map_err(io::Error::from) {
                Err(error) if is_transient(&error) => {}
                other => return other.map(Socket::from),
            }
        }
    }
}

/// Errors of one connection that has gone, which say nothing about the listener.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ECONNABORTED | libc::EPROTO))
}
