//! Calls that give the program the lowest number of a descriptor that is free and wait for nothing.
//!
//! Those that may wait (`open`, `accept`) are beside the others of their kind; `dup2`, which puts
//! one at a number of the program's choice, is in `file.rs`.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_char, c_int, c_uint};

use heddle::raw::descriptor;

use super::{exported, signalfd};
use crate::threads::fork;
use crate::threads::signals::actions;

/// Makes `call` while the runtime makes no descriptor of its own.
pub fn lowest(call: impl FnOnce() -> c_int) -> c_int {
    // A child in its parent's memory has a table of its own; killed in the gate, it would stay
    // counted there for ever.
    if !fork::has_full() || actions::is_in_vfork() {
        return call();
    }
    descriptor::lowest(call)
}

exported! {
    (heddle_user_dup) (fd: c_int) -> c_int {
        // SAFETY: no pointers; so below, where nothing is said.
        signalfd::copied(fd, lowest(|| unsafe { libc::dup(fd) }))
    }

    (heddle_user_pipe, heddle_user___pipe) (ends: *mut c_int) -> c_int {
        // SAFETY: the caller's place.
        lowest(|| unsafe { libc::pipe(ends) })
    }

    (heddle_user_pipe2) (ends: *mut c_int, flags: c_int) -> c_int {
        // SAFETY: the caller's place.
        lowest(|| unsafe { libc::pipe2(ends, flags) })
    }

    (heddle_user_socket) (domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        // SAFETY: see the first.
        lowest(|| unsafe { libc::socket(domain, kind, protocol) })
    }

    (heddle_user_socketpair) (
        domain: c_int, kind: c_int, protocol: c_int, ends: *mut c_int
    ) -> c_int {
        // SAFETY: the caller's place.
        lowest(|| unsafe { libc::socketpair(domain, kind, protocol, ends) })
    }

    (heddle_user_eventfd) (count: c_uint, flags: c_int) -> c_int {
        // SAFETY: see the first.
        lowest(|| unsafe { libc::eventfd(count, flags) })
    }

    (heddle_user_epoll_create) (size: c_int) -> c_int {
        // SAFETY: see the first.
        signalfd::made_set(lowest(|| unsafe { libc::epoll_create(size) }))
    }

    (heddle_user_epoll_create1) (flags: c_int) -> c_int {
        // SAFETY: see the first.
        signalfd::made_set(lowest(|| unsafe { libc::epoll_create1(flags) }))
    }

    (heddle_user_timerfd_create) (clock: c_int, flags: c_int) -> c_int {
        // SAFETY: see the first.
        lowest(|| unsafe { libc::timerfd_create(clock, flags) })
    }

    (heddle_user_memfd_create) (name: *const c_char, flags: c_uint) -> c_int {
        // SAFETY: the caller's string.
        lowest(|| unsafe { libc::memfd_create(name, flags) })
    }

    (heddle_user_inotify_init) () -> c_int {
        // SAFETY: see the first.
        lowest(|| unsafe { libc::inotify_init() })
    }

    (heddle_user_inotify_init1) (flags: c_int) -> c_int {
        // SAFETY: see the first.
        lowest(|| unsafe { libc::inotify_init1(flags) })
    }
}
