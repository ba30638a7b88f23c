//! Lines on standard error, whatever the caller is doing: a handler may be it.
//!
//! A daemon closes its standard error, and its next file gets the number; a log is put there, and
//! changed for the next one each night.
//!
//! Invariant: no file gets a line but the one that was there when [`begin`] was called, and one
//! that all add to (`O_APPEND`), as a log is. A pipe that nobody reads raises no signal.

use core::fmt::{self, Write};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, OFlags, Timespec, fcntl_getfl, fstat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::stdio::stderr;

/// Of a line, its end included.
const LINE_BYTES: usize = 1024;
/// What a pipe has room for that is ready.
const ROOM_BYTES: usize = 4096;
/// So often a signal may come while a reader is waited for.
const INTERRUPTED_MAX: usize = 1000;
/// So long a reader is waited for who does not read.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The file that was there, and whether one was looked for.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);
static STATE: AtomicU64 = AtomicU64::new(UNKNOWN);
const UNKNOWN: u64 = 0;
const CLOSED: u64 = 1;
const OPEN: u64 = 2;

/// What is standard error now stays the one. The first call counts; before there are threads.
pub fn begin() {
    if STATE.load(Relaxed) != UNKNOWN {
        return;
    }
    let state = match fstat(stderr()) {
        Ok(about) => {
            DEVICE.store(about.st_dev, Relaxed);
            INODE.store(about.st_ino, Relaxed);
            OPEN
        }
        Err(_) => CLOSED,
    };
    STATE.store(state, Release);
}

/// Writes a line, as far as there is room: for 1 KiB.
pub fn line(text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; LINE_BYTES], length: 0 };
    // What has no room is left out.
    let _ = line.write_fmt(text);
    line.bytes[line.length] = b'\n';
    bytes(&line.bytes[..=line.length]);
}

struct Line {
    bytes: [u8; LINE_BYTES],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LINE_BYTES - 1 - self.length;
        let count = text.len().min(room);
        self.bytes[self.length..][..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        if count == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Writes a text of any length as it is.
pub fn bytes(mut text: &[u8]) {
    while !text.is_empty() && may_write() {
        match rustix::io::write(stderr(), &text[..text.len().min(ROOM_BYTES)]) {
            Ok(count) => text = &text[count..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn may_write() -> bool {
    is_heard() && {
        let mut entry = [PollFd::from_borrowed_fd(stderr(), PollFlags::OUT)];
        let mut ready = Err(Errno::INTR);
        for _ in 0..INTERRUPTED_MAX {
            ready = rustix::event::poll(&mut entry, Some(&PATIENCE));
            if ready != Err(Errno::INTR) {
                break;
            }
        }
        ready == Ok(1) && entry[0].revents() == PollFlags::OUT
    }
}

fn is_heard() -> bool {
    let Ok(about) = fstat(stderr()) else { return false };
    let is_same = match STATE.load(Acquire) {
        UNKNOWN => true,
        CLOSED => false,
        _ => (about.st_dev, about.st_ino) == (DEVICE.load(Relaxed), INODE.load(Relaxed)),
    };
    let is_file = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
    let is_log = || fcntl_getfl(stderr()).is_ok_and(|flags| flags.contains(OFlags::APPEND));
    // To write past the limit of a file's size raises a signal.
    let is_limited = || getrlimit(Resource::Fsize).current.is_some();
    (is_same || (is_file && is_log())) && !(is_file && is_limited())
}
