//! Files, pipes, terminals: everything with `read` and `write`.
//!
//! The first try is `preadv2`/`pwritev2` with `RWF_NOWAIT`, which takes what is in memory and never
//! sleeps. What it refuses is decided by the kind of file: disks are waited for in the ring or on
//! another kernel thread, the rest by readiness.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_char, c_int, c_uint, c_void};

use heddle::hold::{self, Hold};
use heddle::raw::Interest;
use io_uring::{opcode, types};
use libc::{iovec, mode_t, off_t};

use super::{
    Caller, caller, checked, elsewhere, is_nonblocking, operate, retry, socket_deadline, wait_ready,
};
use crate::stop::{self, Stop};
use crate::{cancel, carried, errno};

/// The position of the file itself, instead of an offset.
const HERE: off_t = -1;
/// The kernel moves at most this many bytes at once.
const BYTES_MAX: usize = 0x7fff_f000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum FileKind {
    /// Always ready, and yet it may sleep.
    Disk,
    Socket,
    Other,
}

/// Does not ask for the times of the file: who has been told those makes the next write to it
/// change its inode on the disk, too.
fn kind_of(fd: c_int) -> Result<FileKind, Stop> {
    // SAFETY: all zero bytes are a valid `statx`, which the kernel overwrites.
    let mut status: libc::statx = unsafe { core::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: an empty path and a valid place.
    let failed = unsafe { libc::statx(fd, c"".as_ptr(), flags, libc::STATX_TYPE, &mut status) };
    let mut mode = libc::mode_t::from(status.stx_mode);
    if failed != 0 {
        // Some filters on system calls refuse it.
        // SAFETY: all zero bytes are a valid `stat`, which the kernel overwrites.
        let mut status: libc::stat = unsafe { core::mem::zeroed() };
        // SAFETY: a valid place.
        checked(unsafe { libc::fstat(fd, &mut status) } as isize)?;
        mode = status.st_mode;
    }
    Ok(match mode & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFBLK | libc::S_IFDIR => FileKind::Disk,
        libc::S_IFSOCK => FileKind::Socket,
        _ => FileKind::Other,
    })
}

/// Parts of memory to transfer; valid as the caller of the exported function promised.
#[derive(Clone, Copy)]
struct Parts {
    first: *const iovec,
    count: c_int,
}

// SAFETY: the memory is lent for the call, on whichever kernel thread it is made.
unsafe impl Send for Parts {}

impl Parts {
    /// The plain system call.
    fn plain(self, fd: c_int, direction: Direction, offset: off_t) -> isize {
        // SAFETY: the caller's parts.
        unsafe {
            match (direction, offset) {
                (Direction::Read, HERE) => libc::readv(fd, self.first, self.count),
                (Direction::Read, _) => libc::preadv(fd, self.first, self.count, offset),
                (Direction::Write, HERE) => libc::writev(fd, self.first, self.count),
                (Direction::Write, _) => libc::pwritev(fd, self.first, self.count, offset),
            }
        }
    }

    /// The system call that never sleeps.
    fn attempt(self, fd: c_int, direction: Direction, offset: off_t) -> isize {
        const NOWAIT: c_int = libc::RWF_NOWAIT;
        // SAFETY: the caller's parts.
        unsafe {
            match direction {
                Direction::Read => libc::preadv2(fd, self.first, self.count, offset, NOWAIT),
                Direction::Write => libc::pwritev2(fd, self.first, self.count, offset, NOWAIT),
            }
        }
    }
}

/// One transfer: as much as the kernel takes at once. `held`: of what may be a disk's file, from
/// the first try at its own position on.
fn transfer(
    fd: c_int,
    direction: Direction,
    parts: Parts,
    offset: off_t,
    held: &mut Option<Hold>,
) -> Result<isize, Stop> {
    if offset == HERE && held.is_none() && caller() == Caller::Light {
        *held = Some(hold::position(fd));
    }
    match checked(parts.attempt(fd, direction, offset)) {
        Err(Stop::Error(libc::EAGAIN | libc::EOPNOTSUPP | libc::ENOSYS)) => {}
        other => return other,
    }
    let kind = kind_of(fd)?;
    if kind == FileKind::Disk {
        return match in_ring(fd, direction, parts, offset, 0)? {
            Some(count) => Ok(count),
            None => elsewhere(move || parts.plain(fd, direction, offset)),
        };
    }
    *held = None;
    if is_nonblocking(fd) {
        return checked(parts.plain(fd, direction, offset));
    }
    let option = if kind == FileKind::Socket { direction.timeout_option() } else { 0 };
    let deadline = socket_deadline(fd, option);
    match in_ring(fd, direction, parts, offset, deadline) {
        Ok(None) => {}
        Ok(Some(count)) => return Ok(count),
        Err(Stop::Error(libc::ETIMEDOUT)) => return Err(Stop::Error(libc::EAGAIN)),
        Err(other) => return Err(other),
    }
    retry(fd, direction.interest(), option, || {
        let result = parts.attempt(fd, direction, offset);
        if result < 0 && matches!(errno::get(), libc::EOPNOTSUPP | libc::ENOSYS) {
            // A terminal or the like: it has no call that never sleeps.
            return match wait_ready(fd, direction.interest(), deadline) {
                Ok(()) => parts.plain(fd, direction, offset),
                Err(_) => -1,
            };
        }
        result
    })
}

fn in_ring(
    fd: c_int,
    direction: Direction,
    parts: Parts,
    offset: off_t,
    deadline: u64,
) -> Result<Option<isize>, Stop> {
    if caller() != Caller::Light {
        return Ok(None);
    }
    let (fd, count, offset) = (types::Fd(fd), parts.count as u32, offset as u64);
    let entry = match direction {
        Direction::Read => opcode::Readv::new(fd, parts.first, count).offset(offset).build(),
        Direction::Write => opcode::Writev::new(fd, parts.first, count).offset(offset).build(),
    };
    operate(entry, deadline)
}

/// Whether the caller makes the plain system call, which keeps a transfer whole: a kernel thread
/// may sleep for a disk, and must not hold what a handler's call would wait for.
fn may_sleep(fd: c_int, offset: off_t) -> bool {
    match caller() {
        Caller::Light => false,
        Caller::Native => offset == HERE && kind_of(fd) == Ok(FileKind::Disk),
        Caller::Outside => true,
    }
}

/// `read` and its relatives.
fn read(fd: c_int, parts: Parts, offset: off_t) -> Result<isize, Stop> {
    cancel::check()?;
    if may_sleep(fd, offset) {
        return checked(parts.plain(fd, Direction::Read, offset));
    }
    kept(|| {
        let wanted = total(parts)?;
        let mut held = None;
        let first = transfer(fd, Direction::Read, parts, offset, &mut held)?;
        if first as usize >= wanted || first == 0 || kind_of(fd)? != FileKind::Disk {
            return Ok(first);
        }
        // The first try gives what lies in memory up to the first gap; a disk's file is read to
        // its end.
        Ok(go_on(fd, Direction::Read, parts, offset, first, &mut held))
    })
}

/// `write` and its relatives: a blocking descriptor takes everything.
fn write(fd: c_int, parts: Parts, offset: off_t) -> Result<isize, Stop> {
    cancel::check()?;
    if may_sleep(fd, offset) {
        return checked(parts.plain(fd, Direction::Write, offset));
    }
    kept(|| {
        let wanted = total(parts)?;
        let mut held = None;
        let first = transfer(fd, Direction::Write, parts, offset, &mut held)?;
        if first as usize >= wanted || first == 0 || is_nonblocking(fd) {
            return Ok(first);
        }
        Ok(go_on(fd, Direction::Write, parts, offset, first, &mut held))
    })
}

/// Goes on with a transfer of which `first` bytes, more than none and not all, are made.
fn go_on(
    fd: c_int,
    direction: Direction,
    parts: Parts,
    offset: off_t,
    first: isize,
    held: &mut Option<Hold>,
) -> isize {
    // SAFETY: the caller's parts; `total` has looked at their count.
    let all = unsafe { core::slice::from_raw_parts(parts.first, parts.count as usize) };
    let (mut done, wanted) = (first as usize, bytes_of(all));
    while done < wanted {
        let rest = rest_of(all, done);
        let rest = Parts { first: rest.as_ptr(), count: rest.len() as c_int };
        let place = if offset == HERE { HERE } else { offset + done as off_t };
        match transfer(fd, direction, rest, place, held) {
            Ok(count) if count > 0 => done += count as usize,
            // What was moved is told first; the error, or the request, comes with the next call.
            _ => break,
        }
    }
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

fn total(parts: Parts) -> Result<usize, Stop> {
    if !(0..=1024).contains(&parts.count) {
        return Err(Stop::Error(libc::EINVAL));
    }
    if parts.count == 0 {
        return Ok(0);
    }
    // SAFETY: the caller's parts.
    Ok(bytes_of(unsafe { core::slice::from_raw_parts(parts.first, parts.count as usize) }))
}

pub fn bytes_of(parts: &[iovec]) -> usize {
    parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len)).min(BYTES_MAX)
}

/// `errno` stays as it was, whatever the tries left there; the error itself is in the result.
pub fn kept(call: impl FnOnce() -> Result<isize, Stop>) -> Result<isize, Stop> {
    carried::across(call)
}

fn one(buffer: *const c_void, length: usize) -> iovec {
    iovec { iov_base: buffer.cast_mut(), iov_len: length.min(BYTES_MAX) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_read(fd: c_int, buffer: *mut c_void, length: usize) -> isize {
    let part = one(buffer, length);
    stop::value(read(fd, Parts { first: &part, count: 1 }, HERE))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_write(fd: c_int, buffer: *const c_void, length: usize) -> isize {
    let part = one(buffer, length);
    stop::value(write(fd, Parts { first: &part, count: 1 }, HERE))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_readv(fd: c_int, parts: *const iovec, count: c_int) -> isize {
    stop::value(read(fd, Parts { first: parts, count }, HERE))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_writev(fd: c_int, parts: *const iovec, count: c_int) -> isize {
    stop::value(write(fd, Parts { first: parts, count }, HERE))
}

/// Offsets below zero are errors; to the calls that take flags, -1 would mean something else.
fn at(offset: off_t, call: impl FnOnce(off_t) -> Result<isize, Stop>) -> Result<isize, Stop> {
    if offset < 0 { Err(Stop::Error(libc::EINVAL)) } else { call(offset) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_pread(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    offset: off_t,
) -> isize {
    let part = one(buffer, length);
    stop::value(at(offset, |offset| read(fd, Parts { first: &part, count: 1 }, offset)))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_pwrite(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    offset: off_t,
) -> isize {
    let part = one(buffer, length);
    stop::value(at(offset, |offset| write(fd, Parts { first: &part, count: 1 }, offset)))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_preadv(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
) -> isize {
    stop::value(at(offset, |offset| read(fd, Parts { first: parts, count }, offset)))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_pwritev(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
) -> isize {
    stop::value(at(offset, |offset| write(fd, Parts { first: parts, count }, offset)))
}

/// A pointer that a call on another kernel thread uses while its caller waits.
#[derive(Clone, Copy)]
struct Lent<T>(*mut T);

// SAFETY: the caller of the exported function lends it for the call and waits.
unsafe impl<T> Send for Lent<T> {}

impl<T> Lent<T> {
    /// The pointer; a method, so that closures take the whole wrapper.
    fn get(self) -> *mut T {
        self.0
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_sendfile(
    out: c_int,
    from: c_int,
    offset: *mut off_t,
    count: usize,
) -> isize {
    let place = Lent(offset);
    stop::value(cancel::check().and_then(|()| {
        // SAFETY: the caller's place for the offset.
        kept(|| elsewhere(move || unsafe { libc::sendfile(out, from, place.get(), count) }))
    }))
}

fn open(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> Result<isize, Stop> {
    cancel::check()?;
    let place = Lent(path.cast_mut());
    // SAFETY: the caller's path.
    let plain = move || unsafe { libc::openat(directory, place.get(), flags, mode) as isize };
    if caller() != Caller::Light {
        return checked(plain());
    }
    kept(|| {
        let entry = opcode::OpenAt::new(types::Fd(directory), path).flags(flags).mode(mode);
        match operate(entry.build(), 0)? {
            Some(fd) => Ok(fd),
            None => elsewhere(plain),
        }
    })
}

// The mode is an optional argument in C; in the calling conventions of x86-64 and aarch64 Linux it
// lies where a third or fourth argument would.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    stop::value(open(libc::AT_FDCWD, path, flags, mode)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_openat(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
) -> c_int {
    stop::value(open(directory, path, flags, mode)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_creat(path: *const c_char, mode: mode_t) -> c_int {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    stop::value(open(libc::AT_FDCWD, path, flags, mode)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_close(fd: c_int) -> c_int {
    // SAFETY: the caller owns the descriptor.
    stop::value(cancel::check().and_then(|()| checked(unsafe { libc::close(fd) } as isize)))
        as c_int
}

fn sync(fd: c_int, data_only: bool) -> Result<isize, Stop> {
    cancel::check()?;
    let plain = move || {
        // SAFETY: no pointers.
        let result = unsafe { if data_only { libc::fdatasync(fd) } else { libc::fsync(fd) } };
        result as isize
    };
    if caller() != Caller::Light {
        return checked(plain());
    }
    kept(|| {
        let flags =
            if data_only { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
        match operate(opcode::Fsync::new(types::Fd(fd)).flags(flags).build(), 0)? {
            Some(_) => Ok(0),
            None => elsewhere(plain),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_fsync(fd: c_int) -> c_int {
    stop::value(sync(fd, false)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_fdatasync(fd: c_int) -> c_int {
    stop::value(sync(fd, true)) as c_int
}
