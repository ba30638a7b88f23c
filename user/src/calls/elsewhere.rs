//! Calls that sleep in the kernel and have nothing that a ring could wait for: each is made on a
//! kernel thread of the blocking pool, with the caller's arguments; in place, if it waits for a
//! disk and the caller has a worker for itself.
//!
//! A disk goes on when a signal or a cancellation comes, which is acted on when it is done. What
//! changes a file's name or length is not here, nor taken over at all: it is done in memory.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{off_t, ssize_t};

use heddle::raw;

use super::{exported, interruptible, interruptible_on, made, made_on, unless_alone};
use crate::errno;
use crate::threads::{cancel, signals};

/// Makes a call that waits for a disk; no point of cancellation.
fn plainly<T>(call: impl FnOnce() -> T) -> T {
    let result = unless_alone(call);
    signals::answer_if_called();
    result
}

/// As [`plainly`]; a point of cancellation.
fn as_point<T>(call: impl FnOnce() -> T) -> T {
    if raw::is_cancelled() {
        cancel::act();
    }
    plainly(call)
}

/// Defines exported functions that make the C library's call of the first name so, by the function
/// that is named in front.
macro_rules! made_elsewhere {
    ($way:ident $($real:ident: $($name:ident),+ => $arguments:tt -> $result:ty;)+) => {
        $($(
            made_elsewhere! { @one $way $real $name $arguments $result }
        )+)+
    };
    (@one $way:ident $real:ident $name:ident ($($argument:ident: $type:ty),*) $result:ty) => {
        exported! {
            ($name) ($($argument: $type),*) -> $result {
                // SAFETY: the C library's function.
                unsafe extern "C-unwind" {
                    fn $real($($argument: $type),*) -> $result;
                }
                // SAFETY: the caller's arguments, lent for the call.
                $way(move || unsafe { $real($($argument),*) })
            }
        }
    };
}

made_elsewhere! {
    plainly
    sync: heddle_user_sync
        => () -> ();
    syncfs: heddle_user_syncfs
        => (fd: c_int) -> c_int;
}

exported! {
    (heddle_user_posix_fallocate, heddle_user_posix_fallocate64) (
        fd: c_int, offset: off_t, length: off_t
    ) -> c_int {
        errno::kept(|| {
            plainly(move || {
                // SAFETY: no pointers.
                let error = unsafe { libc::posix_fallocate(fd, offset, length) };
                // By that the pool knows what the call has raised.
                if error != 0 {
                    errno::set(error);
                }
                error
            })
        })
    }
}

made_elsewhere! {
    as_point
    fsync: heddle_user_fsync => (fd: c_int) -> c_int;
    fdatasync: heddle_user_fdatasync => (fd: c_int) -> c_int;
    fallocate: heddle_user_fallocate, heddle_user_fallocate64
        => (fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int;
    sync_file_range: heddle_user_sync_file_range
        => (fd: c_int, offset: off_t, length: off_t, flags: c_uint) -> c_int;
    msync: heddle_user_msync
        => (start: *mut c_void, length: usize, flags: c_int) -> c_int;
}

// ---- calls that the kernel ends when a signal comes

/// As [`made_elsewhere`] for those, by two functions, of which the second one takes `always` as
/// [`interruptible`] does.
macro_rules! interrupted_elsewhere {
    ($made:ident $way:ident $always:literal
        $($real:ident: $($name:ident),+ => $arguments:tt -> $result:ty;)+) => {
        $($(
            interrupted_elsewhere! { @one $made $way $always $real $name $arguments $result }
        )+)+
    };
    (@one $made:ident $way:ident $always:literal $real:ident $name:ident
        ($($argument:ident: $type:ty),*) $result:ty) => {
        exported! {
            ($name) ($($argument: $type),*) -> $result {
                // SAFETY: the C library's function.
                unsafe extern "C-unwind" {
                    fn $real($($argument: $type),*) -> $result;
                }
                // SAFETY: the caller's arguments, lent for the call.
                let call = || unsafe { $real($($argument),*) as isize };
                $made(|| $way($always, call)) as $result
            }
        }
    };
}

interrupted_elsewhere! {
    made interruptible false
    splice: heddle_user_splice
        => (from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64,
            count: usize, flags: c_uint) -> ssize_t;
    vmsplice: heddle_user_vmsplice
        => (to: c_int, first: *const libc::iovec, count: usize, flags: c_uint) -> ssize_t;
    tee: heddle_user_tee
        => (from: c_int, to: c_int, count: usize, flags: c_uint) -> ssize_t;
    copy_file_range: heddle_user_copy_file_range
        => (from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64,
            count: usize, flags: c_uint) -> ssize_t;
    tcdrain: heddle_user_tcdrain
        => (fd: c_int) -> c_int;
    mq_receive: heddle_user_mq_receive
        => (queue: libc::mqd_t, message: *mut c_char, length: usize,
            priority: *mut c_uint) -> ssize_t;
    mq_timedreceive: heddle_user_mq_timedreceive
        => (queue: libc::mqd_t, message: *mut c_char, length: usize, priority: *mut c_uint,
            until: *const libc::timespec) -> ssize_t;
    mq_send: heddle_user_mq_send
        => (queue: libc::mqd_t, message: *const c_char, length: usize, priority: c_uint) -> c_int;
    mq_timedsend: heddle_user_mq_timedsend
        => (queue: libc::mqd_t, message: *const c_char, length: usize, priority: c_uint,
            until: *const libc::timespec) -> c_int;
}

interrupted_elsewhere! {
    made interruptible true
    msgsnd: heddle_user_msgsnd
        => (queue: c_int, message: *const c_void, length: usize, flags: c_int) -> c_int;
    msgrcv: heddle_user_msgrcv
        => (queue: c_int, message: *mut c_void, length: usize, kind: c_long,
            flags: c_int) -> ssize_t;
}

interrupted_elsewhere! {
    made_on interruptible_on true
    semop: heddle_user_semop
        => (set: c_int, operations: *mut libc::sembuf, count: usize) -> c_int;
    semtimedop: heddle_user_semtimedop
        => (set: c_int, operations: *mut libc::sembuf, count: usize,
            timeout: *const libc::timespec) -> c_int;
}
