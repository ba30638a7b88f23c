//! Connections from others.
//!
//! `accept` can't ask the kernel not to sleep: it is called when a connection is there, by one
//! thread after the other.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw::{Interest, descriptor};
use libc::{sockaddr, socklen_t};

use super::{
    Limit, Result, Target, checked, exported, is_nonblocking, known, made_int, retry, sockets,
    turns,
};
use crate::errno;
use crate::sys;

/// More than there are descriptors as low as a listener's: two that have one place in common are
/// rare, and go on without it.
const PLACES: usize = 1024;
/// Threads of this process that accept from one listener try one at a time: whoever has seen a
/// connection gets it. By descriptor; whether somebody tries.
static ACCEPTING: [AtomicBool; PLACES] = [const { AtomicBool::new(false) }; PLACES];
/// How often in a row a thread lets somebody else try.
const TURNS: u32 = 64;

fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> Result<isize> {
    let plain = |fd| {
        descriptor::before_lowest();
        // SAFETY: the caller's places.
        unsafe { sys::interruptible::accept4(fd, address, length, flags) }
    };
    if is_nonblocking(fd) || sockets::option(fd, libc::SO_ACCEPTCONN) != Some(1) {
        // An answer at once: a connection or an error.
        return checked(plain(fd)).inspect(note);
    }
    turns::before_receive();
    let mut turns = 0;
    let (mut target, mut limit) = (Target::new(fd), Limit::default());
    let attempt = |fd, is_shut| match is_shut {
        true => plain(fd),
        false => accept_if_ready(fd, &mut turns, plain),
    };
    retry(&mut target, Interest::Read, libc::SO_RCVTIMEO, &mut limit, attempt).inspect(note)
}

fn note(accepted: &isize) {
    known::forget(*accepted as c_int);
}

/// Accepts if that does not sleep; -1 and `EAGAIN` if it would.
///
/// Another process, or a kernel thread of this one, may be faster than the call: then it sleeps,
/// the runtime's monitor adds a worker, and a signal or a cancellation ends it. The other threads
/// wait for the listener meanwhile, as if nobody had seen anything: what comes is seen by all.
fn accept_if_ready(fd: c_int, turns: &mut u32, plain: impl Fn(c_int) -> isize) -> isize {
    let accepting = &ACCEPTING[fd.unsigned_abs() as usize % PLACES];
    let is_mine = !accepting.swap(true, Relaxed);
    *turns = if is_mine { 0 } else { *turns + 1 };
    let may_try = is_mine || *turns > TURNS;
    let accepted = if may_try && is_ready(fd) { plain(fd) } else { again() };
    if is_mine {
        accepting.store(false, Relaxed);
    }
    accepted
}

fn again() -> isize {
    errno::set(libc::EAGAIN);
    -1
}

fn is_ready(fd: c_int) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd. Of an error the call will tell.
    unsafe { libc::poll(&mut poll, 1, 0) != 0 }
}

exported! {
    (heddle_user_accept) (fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
        made_int(|| accept(fd, address, length, 0))
    }

    (heddle_user_accept4) (
        fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int
    ) -> c_int {
        made_int(|| accept(fd, address, length, flags))
    }
}
