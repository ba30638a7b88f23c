//! Moving bytes between memory and a descriptor: what `read`, `write` and their relatives share.
//!
//! The first try is `preadv2` or `pwritev2` with `RWF_NOWAIT`, which takes what is there and never
//! sleeps. What it refuses is decided by the kind of file: disks have their own ways (`disk.rs`),
//! anything else is waited for and tried again.

use core::ffi::c_int;

use heddle::raw::Interest;
use libc::{iovec, off_t};

use super::{
    Result, Stop, checked, deadline_of, disk, flags_of, is_nonblocking, signal, sockets,
    timeout_is_again, turns, wait_ready, wait_ready_once,
};
use crate::errno;
use crate::sys::direct;

/// The position of the file itself, instead of an offset.
pub const HERE: off_t = -1;
/// The kernel moves at most this many bytes at once.
pub const BYTES_MAX: usize = 0x7fff_f000;

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

impl Direction {
    fn interest(self) -> Interest {
        if self == Direction::Read { Interest::Read } else { Interest::Write }
    }

    fn timeout_option(self) -> c_int {
        if self == Direction::Read { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO }
    }
}

/// Parts of memory; valid as the caller of the exported function promised.
#[derive(Clone, Copy)]
pub struct Parts {
    pub first: *const iovec,
    pub count: c_int,
    /// The list is this library's; else looking at it may fault, and only the kernel may.
    pub is_own: bool,
}

/// One transfer, but for the parts: they shrink when a write goes on.
#[derive(Clone, Copy)]
pub struct Transfer {
    pub fd: c_int,
    pub direction: Direction,
    pub offset: off_t,
    /// The caller's own `RWF_` flags.
    pub flags: c_int,
    /// A part was moved before, which is told when a handler has run, whatever that wants.
    pub is_rest: bool,
}

impl Transfer {
    /// The plain system call.
    pub fn plain(self, Parts { first, count, .. }: Parts) -> isize {
        let Transfer { fd, direction, offset, flags, .. } = self;
        // SAFETY: the caller's parts.
        unsafe {
            match direction {
                Direction::Read => libc::preadv2(fd, first, count, offset, flags),
                Direction::Write => libc::pwritev2(fd, first, count, offset, flags),
            }
        }
    }

    /// The system call that never sleeps.
    fn attempt(self, parts: Parts) -> isize {
        let Parts { first, count, .. } = parts;
        let Transfer { fd, direction, offset, flags, .. } = self;
        if let Some(moved) = self.attempt_socket(parts) {
            return moved;
        }
        let flags = flags | libc::RWF_NOWAIT;
        // SAFETY: the caller's parts.
        unsafe {
            match direction {
                Direction::Read => direct::preadv2(fd, first, count, offset, flags),
                Direction::Write => direct::pwritev2(fd, first, count, offset, flags),
            }
        }
    }

    /// Whether it is what sockets have calls for, and may be of one.
    fn may_be_of_socket(self, parts: Parts) -> bool {
        let is_plain = parts.is_own && parts.count == 1 && self.offset == HERE && self.flags == 0;
        is_plain && sockets::may_be(self.fd)
    }

    /// As [`Transfer::attempt`], if it is a plain one of a socket: those have calls of their own,
    /// which take an eighth less time.
    fn attempt_socket(self, parts: Parts) -> Option<isize> {
        let Transfer { fd, direction, .. } = self;
        if !self.may_be_of_socket(parts) {
            return None;
        }
        // SAFETY: a part of this library's.
        let part = unsafe { parts.first.read() };
        if part.iov_len == 0 {
            // Reading nothing is no receive: that would wait for something.
            return None;
        }
        let (buffer, length) = (part.iov_base, part.iov_len);
        // SAFETY: the caller's memory.
        let moved = unsafe {
            match direction {
                Direction::Read => direct::recv(fd, buffer, length, libc::MSG_DONTWAIT),
                Direction::Write => {
                    direct::send(fd, buffer, length, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
                }
            }
        };
        if moved < 0 && errno::get() == libc::ENOTSOCK {
            sockets::note_none(fd);
            return None;
        }
        Some(moved)
    }

    /// As much as the kernel takes at once.
    fn once(self, parts: Parts) -> Result<isize> {
        if self.offset != HERE && flags_of(self.fd) & libc::O_DIRECT != 0 {
            // Past the cache the kernel waits for the disk whatever it is told.
            return disk::transfer(self, parts);
        }
        loop {
            match checked(self.attempt(parts)) {
                Err(Stop::Error(libc::EINTR)) => {}
                Err(Stop::Error(libc::EAGAIN)) if self.flags & libc::RWF_NOWAIT == 0 => {
                    return self.wait_and_move(parts);
                }
                Err(Stop::Error(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                    return self.without_try(parts);
                }
                other => return other,
            }
        }
    }

    /// More of a disk's file.
    fn more_of_disk(self, parts: Parts) -> Result<isize> {
        loop {
            match checked(self.attempt(parts)) {
                Err(Stop::Error(libc::EINTR)) => {}
                Err(Stop::Error(libc::EAGAIN)) => return disk::transfer(self, parts),
                other => return other,
            }
        }
    }

    /// Nothing to move now, of a file that can tell.
    #[cold]
    fn wait_and_move(self, parts: Parts) -> Result<isize> {
        if is_nonblocking(self.fd) {
            // A disk takes no notice of that mode.
            return match disk::is_disk(self.fd) {
                true => disk::transfer(self, parts),
                false => Err(Stop::Error(libc::EAGAIN)),
            };
        }
        let socket = deadline_of(self.fd, self.direction.timeout_option());
        if socket.is_none() && disk::is_disk(self.fd) {
            return disk::transfer(self, parts);
        }
        let deadline = socket.unwrap_or(0);
        loop {
            timeout_is_again(self.wait(deadline))?;
            match checked(self.attempt(parts)) {
                Err(Stop::Error(libc::EAGAIN | libc::EINTR)) => {}
                other => return other,
            }
        }
    }

    /// A file for which there is no call that never sleeps.
    #[cold]
    fn without_try(self, parts: Parts) -> Result<isize> {
        if disk::is_disk(self.fd) {
            return disk::transfer(self, parts);
        }
        if !is_nonblocking(self.fd) {
            self.wait(0)?;
        }
        checked(self.plain(parts))
    }

    fn wait(self, deadline: u64) -> Result<()> {
        let wait = if self.is_rest { wait_ready_once } else { wait_ready };
        wait(self.fd, self.direction.interest(), deadline)
    }
}

/// `read` and its relatives.
pub fn read(fd: c_int, parts: Parts, offset: off_t, flags: c_int) -> Result<isize> {
    if offset == HERE {
        turns::before_receive();
    }
    let transfer = Transfer { fd, direction: Direction::Read, offset, flags, is_rest: false };
    let first = transfer.once(parts)?;
    let is_all = first == 0 || flags & libc::RWF_NOWAIT != 0 || first as usize >= total(parts);
    if is_all || transfer.may_be_of_socket(parts) || !disk::is_disk(fd) {
        return Ok(first);
    }
    // The try gives what lies in memory up to the first gap; a read ends at the file's end only.
    // Where there is no such call, the first was a plain one, and this ends at once.
    Ok(go_on(transfer, parts, first, Transfer::more_of_disk))
}

/// `write` and its relatives: a blocking descriptor takes everything.
pub fn write(fd: c_int, parts: Parts, offset: off_t, flags: c_int) -> Result<isize> {
    let transfer = Transfer { fd, direction: Direction::Write, offset, flags, is_rest: false };
    let first = transfer.once(parts).inspect_err(signal::broken_pipe)?;
    if first == 0 || first as usize >= total(parts) {
        return Ok(first);
    }
    // A disk takes no notice of that mode.
    if is_nonblocking(fd) && !disk::is_disk(fd) {
        return Ok(first);
    }
    Ok(go_on(transfer, parts, first, Transfer::once))
}

/// Goes on with a transfer of which the kernel made a part.
#[cold]
fn go_on(
    transfer: Transfer,
    parts: Parts,
    first: isize,
    more: fn(Transfer, Parts) -> Result<isize>,
) -> isize {
    let (wanted, mut done) = (total(parts), first as usize);
    // SAFETY: the caller's parts; the kernel has looked at their count.
    let all = unsafe { core::slice::from_raw_parts(parts.first, parts.count as usize) };
    let before = errno::get();
    while done < wanted {
        let step = |rest: &[iovec]| {
            let offset = transfer.offset;
            let place = if offset == HERE { HERE } else { offset + done as off_t };
            let (first, count) = (rest.as_ptr(), rest.len() as c_int);
            let rest = Parts { first, count, is_own: true };
            more(Transfer { offset: place, is_rest: true, ..transfer }, rest)
        };
        // What was moved is told first; the error, or the request, comes with the next call.
        match step(&rest_of(all, done)) {
            Ok(count) if count > 0 => done += count as usize,
            _ => break,
        }
    }
    errno::set(before);
    done as isize
}

/// The parts without their first `done` bytes.
pub fn rest_of(all: &[iovec], done: usize) -> Vec<iovec> {
    let mut skip = done;
    let rest = all.iter().filter_map(|part| {
        let skipped = skip.min(part.iov_len);
        skip -= skipped;
        let left = part.iov_len - skipped;
        let base = part.iov_base.wrapping_byte_add(skipped);
        (left != 0).then_some(iovec { iov_base: base, iov_len: left })
    });
    rest.collect()
}

/// All bytes of parts that the kernel has accepted.
fn total(parts: Parts) -> usize {
    if parts.count <= 0 {
        return 0;
    }
    // SAFETY: the caller's parts.
    let all = unsafe { core::slice::from_raw_parts(parts.first, parts.count as usize) };
    all.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len)).min(BYTES_MAX)
}
