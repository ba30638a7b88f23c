//! What a connection is read from and written to: a plain socket, or TLS over one.
//!
//! Invariant: every call returns when it is done, failed, or the socket was shut down; nothing is
//! left buffered between calls.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::FileExt;

use rustix::net::SendFlags;
use rustls::ServerConnection;

use crate::rt::{self, TcpStream};

/// A byte stream to a client.
pub trait Transport {
    /// Reads some bytes; 0 at the end.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes all bytes.
    fn write_all(&mut self, buf: &[u8]) -> io::Result<()>;
    /// Writes all bytes, saying that more will follow at once.
    fn write_more(&mut self, buf: &[u8]) -> io::Result<()>;
    /// Sends a piece of a file; fewer bytes only where the file ends.
    fn send_file(&mut self, file: &File, offset: u64, length: u64) -> io::Result<u64>;
    /// Tells the client that nothing more will come.
    fn finish(&mut self);
}

/// A plain socket.
pub struct Plain<'a>(pub &'a TcpStream);

impl Transport for Plain<'_> {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }

    #[inline]
    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        self.0.write_all(buf)
    }

    fn write_more(&mut self, buf: &[u8]) -> io::Result<()> {
        // Head and file share packets only if the kernel knows that a file comes. Where the
        // socket is full the ordinary write waits, and the packets are full anyway.
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = rustix::net::send(self.0, buf, flags).unwrap_or(0);
        match &buf[sent..] {
            [] => Ok(()),
            rest => self.0.write_all(rest),
        }
    }

    fn send_file(&mut self, file: &File, offset: u64, length: u64) -> io::Result<u64> {
        rt::send_file(self.0, file, offset, length)
    }

    fn finish(&mut self) {
        // Fails only where the client has gone first.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

/// TLS over a socket.
pub struct Tls<'a> {
    session: Box<ServerConnection>,
    stream: &'a TcpStream,
}

/// Bytes of a file that are encrypted at a time: one TLS record.
const RECORD_BYTES: u64 = 16 * 1024;

impl<'a> Tls<'a> {
    /// Shakes hands.
    pub fn accept(session: ServerConnection, stream: &'a TcpStream) -> io::Result<Tls<'a>> {
        let mut tls = Tls { session: Box::new(session), stream };
        while tls.session.is_handshaking() {
            tls.session.complete_io(&mut tls.stream)?;
        }
        Ok(tls)
    }

    fn stream(&mut self) -> rustls::Stream<'_, ServerConnection, &'a TcpStream> {
        rustls::Stream::new(&mut self.session, &mut self.stream)
    }
}

impl Transport for Tls<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.stream().read(buf) {
            // Common clients close without saying so; requests carry their own length.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }

    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        let mut stream = self.stream();
        stream.write_all(buf)?;
        stream.flush()
    }

    fn write_more(&mut self, buf: &[u8]) -> io::Result<()> {
        self.write_all(buf)
    }

    fn send_file(&mut self, file: &File, offset: u64, length: u64) -> io::Result<u64> {
        let mut buf = vec![0; length.min(RECORD_BYTES) as usize];
        let mut sent = 0;
        while sent < length {
            let step = (length - sent).min(RECORD_BYTES) as usize;
            let got = match file.read_at(&mut buf[..step], offset + sent) {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.write_all(&buf[..got])?;
            sent += got as u64;
        }
        Ok(sent)
    }

    fn finish(&mut self) {
        self.session.send_close_notify();
        // The client may be gone; then nobody is left to be told.
        let _ = self.session.write_tls(&mut self.stream);
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
