//! System calls made by number.
//!
//! The C library's functions of these names are points where the calling kernel thread may be
//! cancelled. A worker is never cancelled, nor is a kernel thread that waits for a disk in its
//! place, and a full thread's cancellation is this library's own business (`threads/cancel.rs`);
//! entering and leaving such a point costs two atomic exchanges per call.
//!
//! Invariant: shapes, results and `errno` are those of the C library's functions.
//!
//! # Safety
//! For all functions of this file: as for the C library's function of the same name.

use core::ffi::{c_int, c_long, c_uint, c_void};

use libc::{
    epoll_event, iovec, msghdr, nfds_t, off_t, pollfd, sockaddr, socklen_t, statx, timespec,
};

use crate::errno;

// SAFETY: in arch/; the number and the arguments are the call's own.
unsafe extern "C" {
    fn heddle_user_system_call(
        number: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
    ) -> isize;
}

/// The most that the kernel says of an error.
const ERROR_MAX: isize = 4095;

/// The result of a call, or -1 and `errno`.
#[inline]
pub unsafe fn call(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    let result = unsafe { heddle_user_system_call(number, a, b, c, d, e, f) };
    if (-ERROR_MAX..0).contains(&result) {
        errno::set(-result as c_int);
        return -1;
    }
    result
}

pub unsafe fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> isize {
    let (address, place) = (address as usize, address_length as usize);
    // SAFETY: the caller's arguments.
    unsafe {
        let flags = flags as usize;
        call(libc::SYS_recvfrom, [fd as usize, buffer as usize, length, flags, address, place])
    }
}

pub unsafe fn recv(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize {
    // SAFETY: the caller's arguments.
    unsafe { recvfrom(fd, buffer, length, flags, core::ptr::null_mut(), core::ptr::null_mut()) }
}

pub unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's arguments; the kernel's struct is the C library's.
    unsafe { call(libc::SYS_recvmsg, [fd as usize, message as usize, flags as usize, 0, 0, 0]) }
}

pub unsafe fn sendto(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> isize {
    let (address, size) = (address as usize, address_length as usize);
    // SAFETY: the caller's arguments.
    unsafe {
        let flags = flags as usize;
        call(libc::SYS_sendto, [fd as usize, buffer as usize, length, flags, address, size])
    }
}

pub unsafe fn send(fd: c_int, buffer: *const c_void, length: usize, flags: c_int) -> isize {
    // SAFETY: the caller's arguments.
    unsafe { sendto(fd, buffer, length, flags, core::ptr::null(), 0) }
}

pub unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's arguments; the kernel's struct is the C library's.
    unsafe { call(libc::SYS_sendmsg, [fd as usize, message as usize, flags as usize, 0, 0, 0]) }
}

/// Whether the file has a position; what is not for reading or writing has one, too. Waits for who
/// moves bytes at that of a disk's file.
pub fn is_seekable(fd: c_int) -> bool {
    position(fd) >= 0
}

/// The position in a file; negative when it has none.
pub fn position(fd: c_int) -> off_t {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_lseek, [fd as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0]) as off_t }
}

/// The kind of file, as in `st_mode`; 0 when the descriptor is none. Not the times of the file: who
/// has been told those makes the next write to it change its inode on the disk, too.
pub fn kind_of(fd: c_int) -> c_uint {
    // SAFETY: all zero bytes are a valid `statx`, which the kernel overwrites.
    let mut status: statx = unsafe { core::mem::zeroed() };
    let (flags, place) = (libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC, &raw mut status as usize);
    let arguments = [fd as usize, c"".as_ptr() as usize, flags as usize, libc::STATX_TYPE as usize];
    let [fd, path, flags, mask] = arguments;
    // SAFETY: an empty path and a valid place.
    if unsafe { call(libc::SYS_statx, [fd, path, flags, mask, place, 0]) } == 0 {
        return c_uint::from(status.stx_mode) & libc::S_IFMT;
    }
    // Some filters on system calls refuse it.
    // SAFETY: all zero bytes are a valid `stat`, which the kernel overwrites.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: a valid place; there are so many descriptors at most.
    let failed = unsafe { libc::fstat(fd as c_int, &mut status) } != 0;
    if failed { 0 } else { status.st_mode & libc::S_IFMT }
}

pub unsafe fn preadv2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> isize {
    let (parts, count, offset) = (parts as usize, count as usize, offset as usize);
    // SAFETY: the caller's arguments; an offset has an upper half on 32-bit machines only.
    unsafe { call(libc::SYS_preadv2, [fd as usize, parts, count, offset, 0, flags as usize]) }
}

pub unsafe fn pwritev2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> isize {
    let (parts, count, offset) = (parts as usize, count as usize, offset as usize);
    // SAFETY: as above.
    unsafe { call(libc::SYS_pwritev2, [fd as usize, parts, count, offset, 0, flags as usize]) }
}

pub unsafe fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: usize) -> isize {
    let place = offset as usize;
    // SAFETY: the caller's arguments.
    unsafe { call(libc::SYS_sendfile, [out as usize, from as usize, place, count, 0, 0]) }
}

/// Without waiting.
pub unsafe fn poll(fds: *mut pollfd, count: nfds_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { call(libc::SYS_poll, [fds as usize, count as usize, 0, 0, 0, 0]) as c_int }
}

/// Without waiting.
pub unsafe fn select(count: c_int, sets: [*mut usize; 3]) -> isize {
    let [readable, writable, exceptional] = sets.map(|set| set as usize);
    let time = timespec { tv_sec: 0, tv_nsec: 0 };
    let time = (&raw const time) as usize;
    // SAFETY: the caller's arguments, and a valid time.
    unsafe { call(libc::SYS_pselect6, [count as usize, readable, writable, exceptional, time, 0]) }
}

/// Without waiting.
pub unsafe fn epoll_wait(fd: c_int, events: *mut epoll_event, count: c_int) -> c_int {
    let (events, count) = (events as usize, count as usize);
    // SAFETY: the caller's arguments.
    unsafe { call(libc::SYS_epoll_wait, [fd as usize, events, count, 0, 0, 0]) as c_int }
}
