//! Moving bytes between memory and a descriptor: what `read`, `write` and their relatives share.
//!
//! The first try is `preadv2` or `pwritev2` with `RWF_NOWAIT`, which takes what is there and never
//! sleeps. What it refuses is decided by the kind of file: disks have their own ways (`disk.rs`),
//! anything else is waited for and tried again.

mod file;

use core::ffi::c_int;

use heddle::hold::{self, Hold};
use heddle::raw::{self, Interest};
use libc::{iovec, msghdr, off_t};

use self::file::is_gone;
use super::{
    Limit, Result, Stop, Target, Trying, checked, deadline_of, disk, flags_of, is_nonblocking,
    known, signal, signalfd, sockets, timeout_is_again, turns, wait_ready, wait_ready_once,
    wait_ready_unless,
};
use crate::errno;
use crate::sys::direct;
pub use crate::sys::plain::HERE;
use crate::sys::plain::Plain;

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

impl Parts {
    /// As a message without anything else.
    fn message(self) -> msghdr {
        // SAFETY: all zero bytes are an empty message.
        let mut message: msghdr = unsafe { core::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (self.first.cast_mut(), self.count as usize);
        message
    }
}

/// One transfer, but for the parts: they shrink when a write goes on.
pub struct Transfer {
    pub target: Target,
    pub direction: Direction,
    pub offset: off_t,
    /// The caller's own `RWF_` flags.
    pub flags: c_int,
    /// `always` when a part was moved before, which is told when a handler has run.
    pub limit: Limit,
    /// Of what may be a disk's file, from the first try at its own position on.
    hold: Option<Hold>,
}

impl Transfer {
    fn new(fd: c_int, direction: Direction, offset: off_t, flags: c_int) -> Self {
        let target = Target::new(fd);
        Transfer { target, direction, offset, flags, limit: Limit::default(), hold: None }
    }

    /// The plain system call.
    fn as_plain(&self, Parts { first, count, is_own }: Parts) -> Plain {
        let Transfer { target: Target { fd, .. }, direction, offset, flags, .. } = *self;
        let reads = direction == Direction::Read;
        if !is_own || count != 1 || flags != 0 {
            return Plain::of_list(reads, fd, (first, count), offset, flags);
        }
        // SAFETY: a part of this library's.
        Plain::of_one(reads, fd, unsafe { *first }, offset)
    }

    /// Makes the plain system call.
    pub fn plain(&self, parts: Parts) -> isize {
        // SAFETY: the caller's memory.
        unsafe { self.as_plain(parts).make() }
    }

    /// The system call that never sleeps.
    fn attempt(&mut self, parts: Parts) -> isize {
        let Parts { first, count, .. } = parts;
        let Transfer { target: Target { fd, .. }, direction, offset, flags, limit, .. } = *self;
        if let Some(told) = self.attempt_signals(parts) {
            return told;
        }
        if limit.always && direction == Direction::Write && sockets::is_broken(fd) {
            return 0;
        }
        if let Some(moved) = self.attempt_socket(parts) {
            return moved;
        }
        if offset == HERE && self.hold.is_none() {
            self.hold = Some(hold::position(fd));
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

    /// Whether it is a plain one of no bytes, which never waits: what that means is the file's to
    /// say, and a datagram's socket sends it.
    fn is_empty(&self, parts: Parts) -> bool {
        let is_plain = parts.is_own && parts.count == 1 && self.offset == HERE && self.flags == 0;
        // SAFETY: a part of this library's.
        is_plain && unsafe { (*parts.first).iov_len } == 0
    }

    /// Makes a plain write to a disk's file that stays in memory: the first system call may be the
    /// one that does it. `None`: it is none, as what has no position is something else by now.
    fn write_to_memory(&self, parts: Parts) -> Option<Result<isize>> {
        if self.flags != 0 || !known::is_buffered(self.target.fd) {
            return None;
        }
        // It comes behind who reads a part after the other; so does to ask for the position.
        let _hold = (self.offset == HERE).then(|| hold::position(self.target.fd));
        let has_position =
            self.offset != HERE || errno::kept(|| direct::is_seekable(self.target.fd));
        if !has_position {
            known::forget(self.target.fd);
        }
        has_position.then(|| checked(self.plain(parts)))
    }

    /// Whether it is what sockets have calls for, and may be of one.
    fn may_be_of_socket(&self, parts: Parts) -> bool {
        let is_plain = parts.is_own && self.offset == HERE && self.flags == 0;
        let is_simple = parts.count == 1 || self.direction == Direction::Write;
        is_plain && is_simple && known::may_be_socket(self.target.fd)
    }

    /// As [`Transfer::attempt`], if it is a plain one of a socket: those have calls of their own,
    /// which take an eighth less time, and what is left of a write raises no signal there.
    fn attempt_socket(&self, parts: Parts) -> Option<isize> {
        let Transfer { target: Target { fd, .. }, direction, .. } = *self;
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
        let quiet = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the caller's memory.
        let moved = unsafe {
            match direction {
                Direction::Read => direct::recv(fd, buffer, length, libc::MSG_DONTWAIT),
                Direction::Write if parts.count == 1 => direct::send(fd, buffer, length, quiet),
                Direction::Write => direct::sendmsg(fd, &parts.message(), quiet),
            }
        };
        if moved < 0 && errno::get() == libc::ENOTSOCK {
            known::note_no_socket(fd);
            return None;
        }
        Some(moved)
    }

    /// A read of signals that were sent to the thread.
    fn attempt_signals(&self, parts: Parts) -> Option<isize> {
        let Transfer { target: Target { fd, .. }, direction, offset, .. } = *self;
        let reads = direction == Direction::Read && offset == HERE;
        if reads && known::tells(fd) { signalfd::read(fd, parts) } else { None }
    }

    /// As much as the kernel takes at once.
    fn once(&mut self, parts: Parts) -> Result<isize> {
        if self.offset != HERE && self.is_past_cache() {
            // There the kernel waits for the disk whatever it is told.
            return disk::transfer(self, parts);
        }
        let reads = self.direction == Direction::Read && self.offset == HERE;
        let mut again = false;
        loop {
            match checked(self.attempt(parts)) {
                Err(Stop::Error(libc::EINTR)) => {}
                Err(Stop::Error(libc::EAGAIN)) if self.flags & libc::RWF_NOWAIT == 0 => {
                    // What others read meanwhile is theirs.
                    if reads && turns::events_first(&mut again, || self.hold.take().is_some()) {
                        continue;
                    }
                    return self.wait_and_move(parts);
                }
                // Filters on system calls say EPERM of those that they don't know.
                Err(Stop::Error(libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM)) => {
                    return self.without_try(parts);
                }
                other => {
                    turns::found(again);
                    return other;
                }
            }
        }
    }

    /// More of a disk's file.
    fn more_of_disk(&mut self, parts: Parts) -> Result<isize> {
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
    fn wait_and_move(&mut self, parts: Parts) -> Result<isize> {
        let flags = flags_of(self.target.fd);
        if flags & libc::O_NONBLOCK != 0 {
            // A disk takes no notice of that mode.
            return match self.is_of_disk() {
                true => disk::transfer(self, parts),
                false => Err(Stop::Error(libc::EAGAIN)),
            };
        }
        if self.limit.deadline.is_none() {
            let may_be_socket = self.offset == HERE && flags & libc::O_ACCMODE == libc::O_RDWR;
            let option = self.direction.timeout_option();
            let socket = may_be_socket.then(|| deadline_of(self.target.fd, option)).flatten();
            if socket.is_none() && self.is_of_disk() {
                return disk::transfer(self, parts);
            }
            self.limit.deadline = Some(socket.unwrap_or(0));
        }
        let deadline = self.limit.deadline.unwrap_or(0);
        loop {
            let _trying = timeout_is_again(self.wait(deadline))?;
            match checked(self.attempt(parts)) {
                Err(Stop::Error(libc::EAGAIN)) if self.is_shut() => {
                    return checked(self.plain(parts));
                }
                Err(Stop::Error(libc::EAGAIN | libc::EINTR)) => {}
                other => return other,
            }
        }
    }

    /// Whether it is a read at whose end the kernel arrives only if it may sleep.
    fn is_shut(&self) -> bool {
        self.direction == Direction::Read && sockets::is_shut(self.target.fd)
    }

    /// A file for which there is no call that never sleeps.
    #[cold]
    fn without_try(&mut self, parts: Parts) -> Result<isize> {
        if self.is_of_disk() {
            return disk::transfer(self, parts);
        }
        self.hold = None;
        if self.direction == Direction::Write && self.flags == 0 {
            known::note_untried(self.target.fd);
        }
        self.when_ready(parts)
    }

    /// Waits until the file says that it is ready, then makes the plain call. Another process, or a
    /// kernel thread, may be faster: then that waits, and signals and a cancellation end it.
    fn when_ready(&mut self, parts: Parts) -> Result<isize> {
        let reads = self.direction == Direction::Read;
        let mut deadline = None;
        let mut trying = Trying::default();
        loop {
            if let Some(told) = self.attempt_signals(parts) {
                return checked(told);
            }
            // Of what a read is told no other thread's read is told as well.
            let hold = reads.then(|| hold::reader(self.target.fd));
            if let Some(None) = hold {
                self.target.resumed(Stop::Cancelled, self.limit.always)?;
                continue;
            }
            if self.is_ready() {
                // SAFETY: the caller's memory.
                match unsafe { self.as_plain(parts).make_interruptible() } {
                    Ok(0) if reads && deadline.is_some() && is_gone(self.target.fd) => {
                        return Err(Stop::Error(libc::EIO));
                    }
                    Ok(moved) => return Ok(moved),
                    Err(libc::EINTR) => {
                        drop(hold);
                        trying = Trying::default();
                        self.target.resumed(Stop::Cancelled, self.limit.always)?;
                        continue;
                    }
                    Err(number) => return Err(Stop::Error(number)),
                }
            }
            drop(hold);
            drop(trying);
            let until = match deadline {
                Some(known) => known,
                None if is_nonblocking(self.target.fd) => return checked(self.plain(parts)),
                None => match self.patience() {
                    Some(0) => return checked(self.plain(parts)),
                    Some(ns) => raw::now_ns().saturating_add(ns),
                    None => 0,
                },
            };
            deadline = Some(until);
            turns::waits();
            let interest = self.direction.interest();
            trying = match wait_ready_unless(&mut self.target, interest, until, self.limit.always) {
                Err(Stop::Error(libc::ETIMEDOUT)) => return Ok(0),
                ended => ended?,
            };
        }
    }

    fn wait(&mut self, deadline: u64) -> Result<Trying> {
        self.hold = None;
        let wait = if self.limit.always { wait_ready_once } else { wait_ready };
        wait(&mut self.target, self.direction.interest(), deadline)
    }
}

/// A write of no more than this to what says that it is ready does not wait (`PIPE_BUF`, at least).
const SMALL: usize = 512;

/// `read` and its relatives.
pub fn read(fd: c_int, parts: Parts, offset: off_t, flags: c_int) -> Result<isize> {
    if offset == HERE {
        turns::before_receive();
    }
    let mut transfer = Transfer::new(fd, Direction::Read, offset, flags);
    if transfer.is_empty(parts) {
        // SAFETY: a place for nothing.
        return checked(unsafe { libc::read(fd, (*parts.first).iov_base, 0) });
    }
    let first = transfer.once(parts)?;
    let is_all = first == 0 || flags & libc::RWF_NOWAIT != 0 || first as usize >= total(parts);
    if is_all || transfer.may_be_of_socket(parts) || !transfer.may_be_at_gap(first) {
        return Ok(first);
    }
    // A read ends at the file's end only. Where there is no call that never sleeps, the first was a
    // plain one, and this ends at once.
    Ok(go_on(transfer, parts, first, Transfer::more_of_disk))
}

/// `write` and its relatives: a blocking descriptor takes everything.
pub fn write(fd: c_int, parts: Parts, offset: off_t, flags: c_int) -> Result<isize> {
    let mut transfer = Transfer::new(fd, Direction::Write, offset, flags);
    if transfer.is_empty(parts) {
        // SAFETY: nothing.
        return checked(unsafe { libc::write(fd, (*parts.first).iov_base, 0) });
    }
    if let Some(done) = transfer.write_to_memory(parts) {
        return done;
    }
    let is_plain = parts.is_own && offset == HERE && flags == 0;
    let is_tried = !is_plain || !known::is_untried(fd) || total(parts) > SMALL;
    let first = if is_tried || !transfer.is_ready() {
        // What is not ready may be something else by now, which waits in another way.
        transfer.once(parts)
    } else {
        transfer.when_ready(parts)
    };
    let first = first.inspect_err(|stop| signal::broken_pipe(transfer.target.fd, stop))?;
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
    mut transfer: Transfer,
    parts: Parts,
    first: isize,
    more: fn(&mut Transfer, Parts) -> Result<isize>,
) -> isize {
    let (wanted, mut done) = (total(parts), first as usize);
    // SAFETY: the caller's parts; the kernel has looked at their count.
    let all = unsafe { core::slice::from_raw_parts(parts.first, parts.count as usize) };
    let before = errno::get();
    let offset = transfer.offset;
    transfer.limit.always = true;
    while done < wanted {
        if offset != HERE {
            transfer.offset = offset + done as off_t;
        }
        transfer.limit.part_sent(transfer.target.fd);
        if transfer.is_at_size_limit() {
            break;
        }
        let rest = rest_of(all, done);
        let (first, count) = (rest.as_ptr(), rest.len() as c_int);
        // What was moved is told first; the error, or the request, comes with the next call.
        match more(&mut transfer, Parts { first, count, is_own: true }) {
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
