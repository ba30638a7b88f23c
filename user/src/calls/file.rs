//! `read`, `write`, `open` and what is like them.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_char, c_int, c_uint, c_void};

use heddle::raw::descriptor;
use libc::{iovec, mode_t, off_t};

use super::transfer::{BYTES_MAX, HERE, Parts, read, write};
use super::{
    Result, Stop, checked, comm, devices, disk, exported, in_place, interruptible, known, made,
    made_int, signalfd, waited,
};
use crate::threads::signals::actions;
use crate::threads::{self, fork};
use crate::{real, sys};

fn one(buffer: *const c_void, length: usize) -> iovec {
    iovec { iov_base: buffer.cast_mut(), iov_len: length.min(BYTES_MAX) }
}

fn read_one(fd: c_int, buffer: *mut c_void, length: usize, offset: off_t) -> Result<isize> {
    read(fd, Parts { first: &one(buffer, length), count: 1, is_own: true }, offset, 0)
}

fn write_one(fd: c_int, buffer: *const c_void, length: usize, offset: off_t) -> Result<isize> {
    write(fd, Parts { first: &one(buffer, length), count: 1, is_own: true }, offset, 0)
}

/// Ends the program as the C library does when the compiler knows that the caller's memory, `room`
/// bytes, is too small for `length`.
pub fn check_room(length: usize, room: usize) {
    // SAFETY: the C library's function takes nothing.
    unsafe extern "C-unwind" {
        fn __chk_fail() -> !;
    }
    if length > room {
        // SAFETY: as above.
        unsafe { __chk_fail() }
    }
}

exported! {
    (heddle_user_read, heddle_user___read) (
        fd: c_int, buffer: *mut c_void, length: usize
    ) -> isize {
        made(|| read_one(fd, buffer, length, HERE))
    }

    (heddle_user___read_chk) (
        fd: c_int, buffer: *mut c_void, length: usize, room: usize
    ) -> isize {
        check_room(length, room);
        made(|| read_one(fd, buffer, length, HERE))
    }

    (heddle_user_pread, heddle_user_pread64, heddle_user___pread64) (
        fd: c_int, buffer: *mut c_void, length: usize, offset: off_t
    ) -> isize {
        made(|| disk::at(offset, || read_one(fd, buffer, length, offset)))
    }

    (heddle_user___pread_chk, heddle_user___pread64_chk) (
        fd: c_int, buffer: *mut c_void, length: usize, offset: off_t, room: usize
    ) -> isize {
        check_room(length, room);
        made(|| disk::at(offset, || read_one(fd, buffer, length, offset)))
    }

    (heddle_user_eventfd_read) (fd: c_int, value: *mut u64) -> c_int {
        made(|| read_one(fd, value.cast(), size_of::<u64>(), HERE)).min(0) as c_int
    }

    (heddle_user_eventfd_write) (fd: c_int, value: u64) -> c_int {
        let place = (&raw const value).cast();
        made(|| write_one(fd, place, size_of::<u64>(), HERE)).min(0) as c_int
    }

    (heddle_user_readv) (fd: c_int, first: *const iovec, count: c_int) -> isize {
        made(|| read(fd, Parts { first, count, is_own: false }, HERE, 0))
    }

    (heddle_user_preadv, heddle_user_preadv64) (
        fd: c_int, first: *const iovec, count: c_int, offset: off_t
    ) -> isize {
        made(|| disk::at(offset, || read(fd, Parts { first, count, is_own: false }, offset, 0)))
    }

    (heddle_user_preadv2, heddle_user_preadv64v2) (
        fd: c_int, first: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> isize {
        made(|| read(fd, Parts { first, count, is_own: false }, offset, flags))
    }

    (heddle_user_write, heddle_user___write) (
        fd: c_int, buffer: *const c_void, length: usize
    ) -> isize {
        made(|| write_one(fd, buffer, length, HERE))
    }

    (heddle_user_pwrite, heddle_user_pwrite64, heddle_user___pwrite64) (
        fd: c_int, buffer: *const c_void, length: usize, offset: off_t
    ) -> isize {
        made(|| disk::at(offset, || write_one(fd, buffer, length, offset)))
    }

    (heddle_user_writev) (fd: c_int, first: *const iovec, count: c_int) -> isize {
        made(|| write(fd, Parts { first, count, is_own: false }, HERE, 0))
    }

    (heddle_user_pwritev, heddle_user_pwritev64) (
        fd: c_int, first: *const iovec, count: c_int, offset: off_t
    ) -> isize {
        made(|| disk::at(offset, || write(fd, Parts { first, count, is_own: false }, offset, 0)))
    }

    (heddle_user_pwritev2, heddle_user_pwritev64v2) (
        fd: c_int, first: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> isize {
        made(|| write(fd, Parts { first, count, is_own: false }, offset, flags))
    }
}

/// Whether opening `path` waits for somebody at the other end of a named pipe.
///
/// Not asked where the flags say that it does not wait.
fn is_pipe(directory: c_int, path: *const c_char, flags: c_int) -> bool {
    let never = libc::O_NONBLOCK | libc::O_DIRECTORY | libc::O_PATH | libc::O_EXCL;
    if flags & never != 0 || flags & libc::O_ACCMODE == libc::O_RDWR {
        return false;
    }
    // SAFETY: all zero bytes are a valid `stat`, which the kernel overwrites.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the caller's path and a valid place.
    let failed = unsafe { libc::fstatat(directory, path, &mut status, 0) } != 0;
    !failed && status.st_mode & libc::S_IFMT == libc::S_IFIFO
}

static OPENS: in_place::Kind = in_place::Kind::new();

/// Opens in place: names and small structures of the file system are in memory as a rule, and the
/// switch to a kernel thread would cost more than all of it. Pipes wait: whether it is one is asked
/// only while another waits, for that costs half of what it takes to open a file.
fn open(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> Result<isize> {
    descriptor::before_lowest();
    // SAFETY: the caller's path.
    let call = || unsafe { sys::interruptible::openat(directory, path, flags, mode) };
    let is_pipe = || is_pipe(directory, path, flags);
    let opened = OPENS.make(|| false, || !is_pipe(), call).unwrap_or_else(|| {
        // SAFETY: the caller's path.
        let plain = move || unsafe { libc::openat(directory, path, flags, mode) as isize };
        if is_pipe() { interruptible(false, plain) } else { checked(plain()) }
    });
    opened.inspect(|fd| known::note_opened(*fd as c_int, flags))
}

/// Opens a file as the calling thread does it: by `full`, or by the C library's function.
fn opened(
    path: *const c_char,
    flags: c_int,
    of_kernel: impl FnOnce() -> c_int,
    full: impl FnOnce() -> Result<isize>,
) -> c_int {
    if let Some(fd) = comm::opened(path, || flags) {
        return fd;
    }
    let fd = if threads::is_running() {
        made_int(full)
    } else {
        if fork::has_full() {
            descriptor::before_lowest();
        }
        of_kernel()
    };
    if fd >= 0 {
        // SAFETY: the kernel has read the path.
        unsafe { devices::note_opened(path) };
    }
    fd
}

/// The number is heddle's: to the program it is none.
fn is_none() -> c_int {
    made_int(|| Err(Stop::Error(libc::EBADF)))
}

/// Whether the number is heddle's. A child in its parent's memory has a table of its own.
fn is_own(number: c_int) -> bool {
    descriptor::is_own(number) && !actions::is_in_vfork()
}

/// A copy of `fd` at a number of the program's choice, by `dup2` or `dup3`.
fn copied(fd: c_int, number: c_int, flags: c_int, copy: impl FnOnce() -> c_int) -> c_int {
    // It may be for an instant.
    if is_own(number) && descriptor::lowest(|| descriptor::is_own(number)) {
        return is_none();
    }
    comm::before_close(number);
    waited::before_copy(fd, number, flags);
    // A child in its parent's memory has a table of its own.
    let put = if !fork::has_full() || actions::is_in_vfork() {
        copy()
    } else {
        descriptor::put(number, copy)
    };
    signalfd::copied(fd, put)
}

// SAFETY: the C library's.
unsafe extern "C" {
    fn closefrom(first: c_int);
}

/// Has what lies between heddle's own descriptors closed, from `first` on, up to the last of them.
/// The number from which the rest is to be closed.
fn before_own(first: c_uint, last: c_uint, mut close: impl FnMut(c_uint, c_uint)) -> c_uint {
    let mut from = first;
    if actions::is_in_vfork() {
        return from;
    }
    for own in descriptor::own_from(first).map(c_int::cast_unsigned).take_while(|&it| it <= last) {
        if own > from {
            close(from, own - 1);
        }
        from = own + 1;
    }
    from
}

// The mode is an optional argument in C; in the calling convention it lies where a third or fourth
// argument would.
exported! {
    (heddle_user_open, heddle_user_open64, heddle_user___open, heddle_user___open64) (
        path: *const c_char, flags: c_int, mode: c_uint
    ) -> c_int {
        // SAFETY: passed on.
        let of_kernel = || unsafe { real::open(path, flags, mode) };
        opened(path, flags, of_kernel, || open(libc::AT_FDCWD, path, flags, mode))
    }

    (heddle_user___open_2, heddle_user___open64_2) (path: *const c_char, flags: c_int) -> c_int {
        made_int(|| open(libc::AT_FDCWD, path, flags, 0))
    }

    (heddle_user_openat, heddle_user_openat64) (
        directory: c_int, path: *const c_char, flags: c_int, mode: c_uint
    ) -> c_int {
        // SAFETY: passed on.
        let of_kernel = || unsafe { real::openat(directory, path, flags, mode) };
        opened(path, flags, of_kernel, || open(directory, path, flags, mode))
    }

    (heddle_user___openat_2, heddle_user___openat64_2) (
        directory: c_int, path: *const c_char, flags: c_int
    ) -> c_int {
        made_int(|| open(directory, path, flags, 0))
    }

    (heddle_user_creat, heddle_user_creat64) (path: *const c_char, mode: mode_t) -> c_int {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        made_int(|| open(libc::AT_FDCWD, path, flags, mode))
    }

    (heddle_user_close, heddle_user___close) (fd: c_int) -> c_int {
        if is_own(fd) {
            return is_none();
        }
        let close = || {
            comm::before_close(fd);
            waited::before_close(fd);
            // SAFETY: the caller's descriptor.
            unsafe { libc::close(fd) }
        };
        match crate::me() {
            Some(_) => made_int(|| checked(close() as isize)),
            None => close(),
        }
    }

    (heddle_user_close_range) (first: c_uint, last: c_uint, flags: c_int) -> c_int {
        // SAFETY: no pointers.
        let close = |first, last| unsafe { libc::close_range(first, last, flags) };
        if flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0 || first > last {
            return close(first, last);
        }
        let mut failed = 0;
        let from = before_own(first, last, |first, last| failed = failed.min(close(first, last)));
        if failed != 0 || from > last { failed } else { close(from, last) }
    }

    (heddle_user_closefrom) (first: c_int) -> () {
        let from = before_own(first.max(0).cast_unsigned(), c_uint::MAX, |first, last| {
            // SAFETY: no pointers.
            if unsafe { libc::close_range(first, last, 0) } != 0 {
                for fd in first..=last {
                    // SAFETY: as above.
                    unsafe { libc::close(fd.cast_signed()) };
                }
            }
        });
        // SAFETY: as above.
        unsafe { closefrom(from.cast_signed()) };
    }

    (heddle_user_dup2, heddle_user___dup2) (fd: c_int, number: c_int) -> c_int {
        // SAFETY: no pointers.
        copied(fd, number, 0, || unsafe { libc::dup2(fd, number) })
    }

    (heddle_user_dup3) (fd: c_int, number: c_int, flags: c_int) -> c_int {
        // SAFETY: no pointers.
        copied(fd, number, flags, || unsafe { libc::dup3(fd, number, flags) })
    }
}
