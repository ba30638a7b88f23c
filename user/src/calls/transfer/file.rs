//! What a transfer asks of its file before it goes on: whether it is a disk's, whether it is ready,
//! whether there is more.
//!
//! Invariant: nothing here moves a byte or a position, nor waits.

use core::ffi::c_int;
use core::mem::MaybeUninit;

use libc::{off_t, termios};

use super::super::{disk, flags_of, known};
use super::{Direction, HERE, Transfer};
use crate::errno;
use crate::sys::direct;

/// Gaps in what lies in memory of a file are of pages, or of several.
const PAGE: usize = 4096;

impl Transfer {
    /// Whether it goes past the cache.
    pub(super) fn is_past_cache(&self) -> bool {
        if known::is_cached(self.target.fd) {
            return false;
        }
        let is_direct = flags_of(self.target.fd) & libc::O_DIRECT != 0;
        if !is_direct {
            known::note_cached(self.target.fd);
        }
        is_direct
    }

    /// Whether it is of a disk's file. Most others say that they are none when they are asked for
    /// a position, in half the time; who moves bytes at the position waits for others anyway.
    pub(super) fn is_of_disk(&self) -> bool {
        let may_be = self.offset != HERE || errno::kept(|| direct::is_seekable(self.target.fd));
        may_be && disk::is_disk(self.target.fd)
    }

    /// Whether a read that has come to its end after `moved` bytes may have come to a gap in what
    /// lies in memory of a disk's file instead of to the file's end. Gaps begin where pages do; and
    /// what is no disk's has no position that goes on with what is read.
    pub(super) fn may_be_at_gap(&self, moved: isize) -> bool {
        let place = match self.offset {
            HERE => errno::kept(|| direct::position(self.target.fd)),
            offset => offset.saturating_add(moved as off_t),
        };
        let is_where_pages_begin = (place as usize).is_multiple_of(PAGE);
        place >= moved as off_t
            && (is_where_pages_begin || self.is_past_cache())
            && (self.offset == HERE || disk::is_disk(self.target.fd))
    }

    /// Whether the file says that it is ready.
    pub(super) fn is_ready(&self) -> bool {
        let reads = self.direction == Direction::Read;
        let events = if reads { libc::POLLIN } else { libc::POLLOUT };
        let mut poll = libc::pollfd { fd: self.target.fd, events, revents: 0 };
        errno::kept(|| {
            loop {
                // A signal that is pending ends it, also where it would not have waited.
                // SAFETY: one valid pollfd.
                let count = unsafe { direct::poll(&mut poll, 1) };
                if count >= 0 || errno::get() != libc::EINTR {
                    return count != 0;
                }
            }
        })
    }

    /// Whether a write has come to where it raises a signal: that is for the next call.
    pub(super) fn is_at_size_limit(&self) -> bool {
        if self.direction == Direction::Read {
            return false;
        }
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
        // SAFETY: a valid place.
        unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
        if limit.rlim_cur == libc::RLIM_INFINITY {
            return false;
        }
        let place = match self.offset {
            // SAFETY: no pointers; what has no position says so.
            HERE => unsafe { libc::lseek(self.target.fd, 0, libc::SEEK_CUR) },
            place => place,
        };
        u64::try_from(place).is_ok_and(|place| place >= limit.rlim_cur)
    }

    /// How long (ns) a read waits for the first byte, if it is of a terminal that is asked not to
    /// wait for one (`VMIN` 0): such a terminal is not ready before there is one.
    pub(super) fn patience(&self) -> Option<u64> {
        if self.direction == Direction::Write {
            return None;
        }
        let mut mode = MaybeUninit::<termios>::uninit();
        // SAFETY: a valid place; what is no terminal says so.
        let mode = errno::kept(|| unsafe {
            (libc::tcgetattr(self.target.fd, mode.as_mut_ptr()) == 0).then(|| mode.assume_init())
        })?;
        let is_raw = mode.c_lflag & libc::ICANON == 0 && mode.c_cc[libc::VMIN] == 0;
        is_raw.then(|| u64::from(mode.c_cc[libc::VTIME]) * 100_000_000)
    }
}

/// Whether it is a terminal whose other side was closed: a read that waited for that fails, later
/// ones find the end of the file. What is left of it has no name any more.
pub(super) fn is_gone(fd: c_int) -> bool {
    // SAFETY: all zero bytes are a valid `stat`, which the kernel overwrites.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: a valid place.
    let failed = unsafe { libc::fstat(fd, &mut status) } != 0;
    !failed && status.st_mode & libc::S_IFMT == libc::S_IFCHR && status.st_nlink == 0
}
