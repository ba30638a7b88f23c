//! `/proc/self/task/TID/comm`, the name of a thread, where the kernel does not know its number.
//!
//! Programs name their threads there, and CUDA's library takes it for an error of the system where
//! that fails. So what is opened by such a path is a file in memory: it has the name where it is
//! opened to be read; else what was written to it is the name when it is closed.
//!
//! Invariant: a name is taken from no other file. One that was closed unseen, whose number is
//! another file's by now, is told by its place in the kernel's tables.

use core::ffi::{c_char, c_int};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use heddle::raw;

use super::numbers;
use crate::errno;
use crate::sys::probed;
use crate::threads::identity::{self, NAME_BYTES};
use crate::threads::{fork, is_number, running, with_number};

/// The longest path: with the numbers of a process and of a thread.
const PATH_BYTES: usize = 48;
/// At most so many are open to be written to whose writers are listened to.
const OPEN_MAX: usize = 16;

/// A file that is open to be written to.
#[derive(Clone, Copy)]
struct Open {
    fd: c_int,
    place: (libc::dev_t, libc::ino_t),
    /// Whose name is in it.
    number: u32,
}

static OPEN: Mutex<[Option<Open>; OPEN_MAX]> = Mutex::new([None; OPEN_MAX]);
/// How many of them there are.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The lock is held for a few steps; by nobody who is preempted there.
fn with_open<T>(change: impl FnOnce(&mut [Option<Open>; OPEN_MAX]) -> T) -> T {
    let _pin = raw::pin();
    change(&mut OPEN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A descriptor of what stands for `path`, or -1 and errno; `None`: it is the kernel's.
#[inline]
pub fn opened(path: *const c_char, flags: impl FnOnce() -> c_int) -> Option<c_int> {
    if !fork::has_full() || !begins_with(path, b"/proc/") || raw::is_pinned() {
        return None;
    }
    errno::kept(|| number_in(path)).map(|number| make(number, flags()))
}

/// Whether the text at `path` begins so; none of it is read that is behind its end.
fn begins_with(path: *const c_char, text: &[u8]) -> bool {
    let is_at = |at: usize, byte| probed::read(path.cast::<u8>().wrapping_add(at)) == Ok(byte);
    text.iter().enumerate().all(|(at, &byte)| is_at(at, byte))
}

/// The number of the full thread whose name has this path.
#[cold]
fn number_in(path: *const c_char) -> Option<u32> {
    let mut text = [0; PATH_BYTES];
    let mut length = 0;
    loop {
        match probed::read(path.cast::<u8>().wrapping_add(length)).ok()? {
            0 => break,
            byte => *text.get_mut(length)? = byte,
        }
        length += 1;
    }
    let path = core::str::from_utf8(&text[..length]).ok()?.strip_suffix("/comm")?;
    let (owner, rest) = path.strip_prefix("/proc/")?.split_once('/').unwrap_or((&path[6..], ""));
    let number = match (owner, rest) {
        ("thread-self", "") => running().map(|me| crate::threads::number_of_slot(me.slot()))?,
        _ => {
            let is_own = owner == "self" || owner.parse() == Ok(std::process::id());
            let tid = rest.strip_prefix("task/").filter(|_| is_own)?.parse().ok()?;
            is_number(tid).then_some(tid as u32)?
        }
    };
    with_number(number, |_| number)
}

/// A file in memory for the name of the thread that has this number.
fn make(number: u32, flags: c_int) -> c_int {
    let cloexec = if flags & libc::O_CLOEXEC != 0 { libc::MFD_CLOEXEC } else { 0 };
    // SAFETY: a text of our own.
    let fd = numbers::lowest(|| unsafe { libc::memfd_create(c"comm".as_ptr(), cloexec) });
    if fd < 0 {
        return fd;
    }
    errno::kept(|| {
        if flags & libc::O_ACCMODE == libc::O_RDONLY {
            let mut name = [0; NAME_BYTES + 1];
            let length = with_number(number, |it| identity::name_of(it, &mut name)).unwrap_or(0);
            name[length] = b'\n';
            // SAFETY: bytes of our own, and no more than them. It is full only with the memory.
            unsafe { libc::pwrite(fd, name.as_ptr().cast(), length + 1, 0) };
        } else if let Some(place) = place_of(fd) {
            with_open(|open| {
                if let Some(free) = open.iter_mut().find(|it| it.is_none()) {
                    *free = Some(Open { fd, place, number });
                    COUNT.fetch_add(1, Relaxed);
                }
            });
        }
    });
    fd
}

fn place_of(fd: c_int) -> Option<(libc::dev_t, libc::ino_t)> {
    // SAFETY: all zero bytes are a valid `stat`, which the kernel overwrites.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: a valid place.
    let failed = unsafe { libc::fstat(fd, &mut status) } != 0;
    (!failed).then_some((status.st_dev, status.st_ino))
}

/// Whether any such file is open. In a child none is: the lock may have been held by another thread
/// of its parent.
#[inline]
pub fn are_open() -> bool {
    COUNT.load(Relaxed) != 0 && fork::has_full()
}

/// Whether the number may be that of such a file, which is about to be closed: what is still to be
/// written to it has to be now, before [`before_close`].
#[inline]
pub fn is_open(fd: c_int) -> bool {
    let is_it = |it: &Option<Open>| it.is_some_and(|it| it.fd == fd);
    are_open() && !raw::is_pinned() && with_open(|open| open.iter().any(is_it))
}

/// Before the calling thread, of whatever kind, closes the number.
#[inline]
pub fn before_close(fd: c_int) {
    if is_open(fd) {
        errno::kept(|| take(fd));
    }
}

#[cold]
fn take(fd: c_int) {
    let found = with_open(|open| {
        let entry = open.iter_mut().find(|it| it.is_some_and(|it| it.fd == fd))?;
        COUNT.fetch_sub(1, Relaxed);
        entry.take()
    });
    let Some(open) = found.filter(|it| place_of(fd) == Some(it.place)) else { return };
    let mut name = [0; NAME_BYTES];
    // SAFETY: a place of that size, but for the last byte.
    let got = unsafe { libc::pread(fd, name.as_mut_ptr().cast(), NAME_BYTES - 1, 0) };
    // What nothing was written to names nobody.
    if got > 0 {
        with_number(open.number, |it| identity::rename(it, &name));
    }
}
