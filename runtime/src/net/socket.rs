//! What all sockets share: the descriptor, the timeouts, and the blocking calls on both.
//!
//! Invariants:
//! 1. Timeouts are plain fields: the kernel knows nothing of them, so setting one costs nothing
//!    and each handle of a socket has its own.
//! 2. For the kernel a socket is in blocking mode, and every call asks not to block by itself
//!    (`MSG_DONTWAIT`). Calls that can't ask (`accept4`, `sendfile`) put it into non-blocking
//!    mode first ([`Socket::unblock`]); calls on kernel threads cope with either mode.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
    SocketType, sockopt,
};

use crate::io::Interest;
use crate::io::call::{self, Until};

/// Most bytes of a file that one system call sends: a slow disk delays others no longer.
const SEND_FILE_BYTES_MAX: u64 = 1 << 20;

/// A timeout in nanoseconds; 0 = none.
#[derive(Debug, Default)]
pub(crate) struct Timeout(AtomicU64);

impl Timeout {
    /// Sets it; a timeout of zero is refused as std does.
    pub fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        let ns = match timeout {
            None => 0,
            Some(Duration::ZERO) => {
                let text = "a timeout of zero; None means no timeout";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            Some(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        };
        self.0.store(ns, Relaxed);
        Ok(())
    }

    /// The timeout.
    pub fn get(&self) -> Option<Duration> {
        match self.0.load(Relaxed) {
            0 => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }

    /// When a call gives up.
    #[inline]
    pub fn until(&self) -> Until {
        match self.0.load(Relaxed) {
            0 => Until::Never,
            ns => Until::Timeout(ns),
        }
    }

    fn copy(&self) -> Self {
        Timeout(AtomicU64::new(self.0.load(Relaxed)))
    }
}

/// See the file's head.
pub(crate) struct Socket {
    fd: OwnedFd,
    /// How long a call waits to receive or accept.
    pub read_timeout: Timeout,
    /// How long a call waits to send or connect.
    pub write_timeout: Timeout,
    /// `set_nonblocking(true)`: calls fail instead of waiting.
    nonblocking: AtomicBool,
    /// The kernel has it in non-blocking mode, by us.
    unblocked: AtomicBool,
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Socket {
            fd,
            read_timeout: Timeout::default(),
            write_timeout: Timeout::default(),
            nonblocking: AtomicBool::new(false),
            unblocked: AtomicBool::new(false),
        }
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        let nonblocking = socket.nonblocking.load(Relaxed);
        if nonblocking != socket.unblocked.load(Relaxed) {
            // Whoever gets the descriptor finds the mode that was asked for.
            let _ = rustix::io::ioctl_fionbio(&socket.fd, nonblocking);
        }
        socket.fd
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Socket {
    /// Makes a socket.
    pub fn new(family: AddressFamily, kind: SocketType) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        Ok(Socket::from(rustix::net::socket_with(family, kind, flags, None)?))
    }

    /// The descriptor's number.
    #[inline]
    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Another descriptor of the same socket, with the same timeouts.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Socket {
            fd: self.fd.try_clone()?,
            read_timeout: self.read_timeout.copy(),
            write_timeout: self.write_timeout.copy(),
            nonblocking: AtomicBool::new(self.nonblocking.load(Relaxed)),
            unblocked: AtomicBool::new(self.unblocked.load(Relaxed)),
        })
    }

    /// Whether calls fail with `WouldBlock` instead of waiting.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Relaxed);
    }

    /// Whether [`Socket::set_nonblocking`] asked for it.
    #[inline]
    pub fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Relaxed)
    }

    /// Puts the socket into non-blocking mode for the kernel, once.
    pub fn unblock(&self) -> io::Result<()> {
        if !self.unblocked.load(Relaxed) {
            rustix::io::ioctl_fionbio(&self.fd, true)?;
            self.unblocked.store(true, Relaxed);
        }
        Ok(())
    }

    /// The pending error, which is cleared.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(sockopt::socket_error(&self.fd)?.err().map(io::Error::from))
    }

    /// Receives into one buffer.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        if self.is_nonblocking() {
            return call::receive_now(self.raw(), buffer, flags | libc::MSG_DONTWAIT);
        }
        call::receive_until(self.raw(), buffer, flags, self.read_timeout.until())
    }

    /// Sends from one buffer; never raises SIGPIPE.
    #[inline]
    pub fn send(&self, buffer: &[u8], flags: libc::c_int) -> io::Result<usize> {
        if self.is_nonblocking() {
            return call::send_now(self.raw(), buffer, flags | libc::MSG_DONTWAIT);
        }
        call::send_until(self.raw(), buffer, flags, self.write_timeout.until())
    }

    /// Runs `operation` until it need not wait to read; see [`call::retry_until`].
    pub fn retry_read<T>(&self, operation: impl FnMut(bool) -> io::Result<T>) -> io::Result<T> {
        self.retry(Interest::Read, &self.read_timeout, operation)
    }

    /// Runs `operation` until it need not wait to write; see [`call::retry_until`].
    pub fn retry_write<T>(&self, operation: impl FnMut(bool) -> io::Result<T>) -> io::Result<T> {
        self.retry(Interest::Write, &self.write_timeout, operation)
    }

    fn retry<T>(
        &self,
        interest: Interest,
        timeout: &Timeout,
        mut operation: impl FnMut(bool) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.is_nonblocking() {
            return call::uninterrupted(|| operation(true));
        }
        call::retry_until(self.raw(), interest, timeout.until(), operation)
    }

    /// Receives into several buffers.
    pub fn receive_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let count = buffers.len().min(VECTORS_MAX);
        self.retry_read(|nonblocking| {
            let flags = if nonblocking { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
            let mut control = RecvAncillaryBuffer::default();
            let buffers = &mut buffers[..count];
            Ok(rustix::net::recvmsg(&self.fd, buffers, &mut control, flags)?.bytes)
        })
    }

    /// Sends from several buffers; never raises SIGPIPE.
    pub fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let buffers = &buffers[..buffers.len().min(VECTORS_MAX)];
        self.retry_write(|nonblocking| {
            let flags = if nonblocking { SendFlags::DONTWAIT } else { SendFlags::empty() };
            let flags = flags | SendFlags::NOSIGNAL;
            let mut control = SendAncillaryBuffer::default();
            Ok(rustix::net::sendmsg(&self.fd, buffers, &mut control, flags)?)
        })
    }

    /// Sends a piece of a file; see [`super::TcpStream::send_file`].
    pub fn send_file(&self, file: &impl AsFd, offset: u64, len: u64) -> io::Result<u64> {
        if crate::thread::is_user_level() || self.write_timeout.get().is_some() {
            self.unblock()?;
        }
        let mut position = offset;
        let end = offset.saturating_add(len);
        while position < end {
            let bytes = (end - position).min(SEND_FILE_BYTES_MAX) as usize;
            let sent = self.retry_write(|_| {
                Ok(rustix::fs::sendfile(&self.fd, file, Some(&mut position), bytes)?)
            })?;
            if sent == 0 {
                break;
            }
        }
        Ok(position - offset)
    }

    /// Connects to a Unix-domain listener.
    ///
    /// The kernel connects at once unless the listener's queue is full, and then it has no event
    /// to wait for: a user-level thread tries again every millisecond.
    pub fn connect_unix(&self, address: &rustix::net::SocketAddrUnix) -> io::Result<()> {
        if !crate::thread::is_user_level() {
            return call::in_call(|| Ok(rustix::net::connect(&self.fd, address)?));
        }
        self.unblock()?;
        loop {
            match rustix::net::connect(&self.fd, address) {
                Err(rustix::io::Errno::AGAIN) => crate::thread::sleep(TRY_AGAIN),
                other => return Ok(other?),
            }
            if crate::thread::is_cancelled() {
                return Err(crate::error::cancelled());
            }
        }
    }

    /// Connects to `address`; the call times out at `deadline` (ns, 0 = never).
    pub fn connect(
        &self,
        address: &impl rustix::net::addr::SocketAddrArg,
        deadline: u64,
    ) -> io::Result<()> {
        if call::has_ring() {
            // SAFETY: the address is valid until the closure returns, which is after the
            // operation has completed; the kernel reads within its length.
            return unsafe {
                address.with_sockaddr(|pointer, length| {
                    let entry = call::connect_entry(self.raw(), pointer.cast(), length as _);
                    call::operate(entry, deadline).map(drop)
                })
            };
        }
        if deadline == 0 && !crate::thread::is_user_level() && !self.unblocked.load(Relaxed) {
            // After an interruption the kernel goes on connecting: the second call tells how.
            return match call::in_call(|| Ok(rustix::net::connect(&self.fd, address)?)) {
                Err(error) if error.raw_os_error() == Some(libc::EISCONN) => Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EALREADY) => {
                    self.wait_connected(0)
                }
                other => other,
            };
        }
        self.unblock()?;
        match rustix::net::connect(&self.fd, address) {
            Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
        self.wait_connected(deadline)
    }

    /// Waits for the end of a connect that goes on.
    fn wait_connected(&self, deadline: u64) -> io::Result<()> {
        call::wait_ready(self.raw(), Interest::Write, deadline)?;
        match self.take_error()? {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// Time between two tries to connect to a Unix-domain listener whose queue is full.
const TRY_AGAIN: Duration = Duration::from_millis(1);
/// Most buffers that the kernel takes at once (`UIO_MAXIOV`).
const VECTORS_MAX: usize = 1024;

/// The traits of a type that owns a descriptor, for types that are a struct around [`Socket`] or
/// [`super::listener::Listener`].
macro_rules! owns_socket {
    ($type:ident, $std:path) => {
        impl std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $type {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.0.raw()
            }
        }

        impl std::os::fd::IntoRawFd for $type {
            fn into_raw_fd(self) -> std::os::fd::RawFd {
                std::os::fd::OwnedFd::from(self.0).into_raw_fd()
            }
        }

        impl std::os::fd::FromRawFd for $type {
            unsafe fn from_raw_fd(fd: std::os::fd::RawFd) -> Self {
                // SAFETY: the caller owns the descriptor.
                $type(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) }.into())
            }
        }

        impl From<std::os::fd::OwnedFd> for $type {
            fn from(fd: std::os::fd::OwnedFd) -> Self {
                $type(fd.into())
            }
        }

        impl From<$type> for std::os::fd::OwnedFd {
            fn from(socket: $type) -> Self {
                socket.0.into()
            }
        }

        impl From<$std> for $type {
            fn from(socket: $std) -> Self {
                std::os::fd::OwnedFd::from(socket).into()
            }
        }

        impl From<$type> for $std {
            fn from(socket: $type) -> Self {
                std::os::fd::OwnedFd::from(socket).into()
            }
        }
    };
}

/// std's `Read` and `Write` for a stream and for a shared reference to it.
macro_rules! reads_and_writes {
    ($type:ty) => {
        impl std::io::Read for $type {
            #[inline]
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0.receive(buffer, 0)
            }

            fn read_vectored(
                &mut self,
                buffers: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                self.0.receive_vectored(buffers)
            }
        }

        impl std::io::Write for $type {
            #[inline]
            fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
                self.0.send(buffer, 0)
            }

            fn write_vectored(
                &mut self,
                buffers: &[std::io::IoSlice<'_>],
            ) -> std::io::Result<usize> {
                self.0.send_vectored(buffers)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    };
}

pub(crate) use {owns_socket, reads_and_writes};
