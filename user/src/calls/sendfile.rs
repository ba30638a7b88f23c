//! `sendfile`: in place as long as neither the file nor the socket makes it wait, else on a kernel
//! thread of the blocking pool.
//!
//! In place 1000 bytes cost half of the CPU time. Bytes that are in memory go to a socket that has
//! room for them, some at a time: how much room there is is not known, but so much there is where
//! the kernel says that one can write.
//!
//! Invariant: what the program is told is what one call would have told it: bytes that were sent
//! come before an error, and the position is behind them.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;

use libc::{off_t, ssize_t};

use super::{Result, Stop, checked, exported, interruptible_on, is_nonblocking, made_on, sockets};
use crate::sys::direct;

/// Bytes that a socket takes which one can write to.
const PART: usize = 16 << 10;
/// Bytes of a file which are in memory together: it is read ahead by that.
const AHEAD: usize = 128 << 10;
/// Bytes of a file which are always in memory together.
const PAGE: off_t = 4096;
/// What the kernel sends in one call; what it says of more is for the call itself.
const COUNT_MAX: usize = 0x7FFF_F000;

struct Transfer {
    out: c_int,
    from: c_int,
    offset: *mut off_t,
}

impl Transfer {
    fn call(&self, count: usize) -> isize {
        let Transfer { out, from, offset } = *self;
        // SAFETY: the caller's arguments.
        unsafe { direct::sendfile(out, from, offset, count) }
    }

    /// Sends in place what can be sent without waiting; how much of `count`, and whether that is
    /// all that the call sends.
    fn in_place(&self, count: usize) -> Result<(usize, bool)> {
        // Others send what one call gives them as one message. With nothing to send the kernel
        // looks at what it was given.
        if !sockets::is_stream(self.out) || self.call(0) != 0 {
            return Ok((0, false));
        }
        let never_waits = is_nonblocking(self.out);
        let (mut sent, mut in_memory) = (0, 0);
        while sent < count {
            let part = (count - sent).min(PART);
            if in_memory < part {
                in_memory = (count - sent).min(AHEAD);
                if !self.is_in_memory(in_memory) {
                    return Ok((sent, false));
                }
            }
            if !never_waits && !is_writable(self.out) {
                return Ok((sent, false));
            }
            match checked(self.call(part)) {
                // The end of the file.
                Ok(0) => return Ok((sent, true)),
                Ok(more) => {
                    let more = more as usize;
                    (sent, in_memory) = (sent + more, in_memory - more);
                    if more < part && never_waits {
                        return Ok((sent, true));
                    }
                }
                // By a signal of heddle's, maybe: with a timeout the kernel does not go on.
                Err(Stop::Error(libc::EINTR)) => return Ok((sent, false)),
                Err(error) if sent == 0 => return Err(error),
                Err(_) => return Ok((sent, true)),
            }
        }
        Ok((sent, true))
    }

    /// Whether so many bytes of the file, of those that are next, are in memory; or it ends there.
    fn is_in_memory(&self, bytes: usize) -> bool {
        let start = match self.offset.is_null() {
            true => direct::position(self.from),
            // SAFETY: the caller's place, which the kernel has read just now.
            false => unsafe { self.offset.read_unaligned() },
        };
        let has = |at: off_t| {
            let mut byte = 0_u8;
            let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
            // SAFETY: one byte's place.
            unsafe { direct::preadv2(self.from, &part, 1, at, libc::RWF_NOWAIT) >= 0 }
        };
        let Some(last) = start.checked_add(bytes as off_t - 1) else { return false };
        let is_one_page = start / PAGE == last / PAGE;
        start >= 0 && has(start) && (is_one_page || has(last))
    }
}

fn is_writable(fd: c_int) -> bool {
    let mut one = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one valid place.
    unsafe { direct::poll(&mut one, 1) > 0 }
}

fn sendfile(transfer: &Transfer, count: usize) -> Result<isize> {
    let waits_elsewhere = (1..=COUNT_MAX).contains(&count) && crate::me().is_some();
    let (sent, is_all) = if waits_elsewhere { transfer.in_place(count)? } else { (0, false) };
    if is_all {
        return Ok(sent as isize);
    }
    // Whatever a handler asks for, it ends a call that has sent something.
    match interruptible_on(sent != 0, || transfer.call(count - sent)) {
        Ok(more) => Ok(sent as isize + more),
        Err(_) if sent != 0 => Ok(sent as isize),
        Err(stop) => Err(stop),
    }
}

exported! {
    (heddle_user_sendfile, heddle_user_sendfile64) (
        out: c_int, from: c_int, offset: *mut off_t, count: usize
    ) -> ssize_t {
        made_on(|| sendfile(&Transfer { out, from, offset }, count))
    }
}
