//! Locks on files: tried in place, waited for on a kernel thread of the blocking pool.
//!
//! They belong to the process or to the open file, so it does not matter which kernel thread asks.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;

use libc::off_t;

use super::{
    Result, Stop, checked, exported, interruptible, interruptible_on, made_int, made_on_int,
    numbers, signalfd,
};

/// Makes `call` with `attempt`, which does not wait; `None` if somebody has the lock.
fn attempted(attempt: c_int, call: impl Fn(c_int) -> isize) -> Option<Result<isize>> {
    match checked(call(attempt)) {
        Err(Stop::Error(libc::EAGAIN | libc::EACCES)) => None,
        other => Some(other),
    }
}

/// Makes `call` with `attempt`, and if somebody has the lock, elsewhere with `wait`.
fn lock(attempt: c_int, wait: c_int, call: impl Fn(c_int) -> isize) -> Result<isize> {
    attempted(attempt, &call).unwrap_or_else(|| interruptible(false, || call(wait)))
}

/// `fcntl`; what waits is the lock of a part of a file, which alone is a point of cancellation.
fn control(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's argument.
    let call = |command| unsafe { libc::fcntl(fd, command, argument) as isize };
    match command {
        libc::F_SETLKW => made_int(|| lock(libc::F_SETLK, command, call)),
        libc::F_OFD_SETLKW => made_int(|| lock(libc::F_OFD_SETLK, command, call)),
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            // SAFETY: no pointers.
            let copy = || unsafe { libc::fcntl(fd, command, argument) };
            signalfd::copied(fd, numbers::lowest(copy))
        }
        _ => made_on_int(|| checked(call(command))),
    }
}

// In the calling convention the optional argument of `fcntl` lies where a third one would.
exported! {
    (heddle_user_fcntl, heddle_user_fcntl64, heddle_user___fcntl) (
        fd: c_int, command: c_int, argument: usize
    ) -> c_int {
        control(fd, command, argument)
    }

    (heddle_user_flock) (fd: c_int, operation: c_int) -> c_int {
        // SAFETY: no pointers.
        let call = |operation| unsafe { libc::flock(fd, operation) as isize };
        made_on_int(|| {
            attempted(operation | libc::LOCK_NB, call)
                .unwrap_or_else(|| interruptible_on(false, || call(operation)))
        })
    }

    (heddle_user_lockf, heddle_user_lockf64) (fd: c_int, command: c_int, length: off_t) -> c_int {
        // SAFETY: no pointers.
        let call = |command| unsafe { libc::lockf(fd, command, length) as isize };
        match command {
            libc::F_LOCK => made_int(|| lock(libc::F_TLOCK, command, call)),
            _ => made_on_int(|| checked(call(command))),
        }
    }
}
