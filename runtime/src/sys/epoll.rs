//! Waiting for events of an epoll set, with timeouts in nanoseconds.
//!
//! `epoll_wait` counts milliseconds: every short sleep of a worker would last one. Kernels since
//! 5.11 have `epoll_pwait2`; older ones round up.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether there is `epoll_pwait2`, as far as is known. A container's filter that knows no such
/// call has it fail with whatever error.
static PRECISE: AtomicBool = AtomicBool::new(true);

/// Takes in as many events as there is `space` for; waits at most `ns`, `None` = for ever.
///
/// Interrupted or refused: no events; the worker looks around anyway.
pub(crate) fn wait<'a>(
    set: BorrowedFd<'_>,
    events: &'a mut [MaybeUninit<libc::epoll_event>],
    ns: Option<u64>,
) -> &'a [libc::epoll_event] {
    let room = events.len().min(c_int::MAX as usize) as c_int;
    let space: *mut libc::epoll_event = events.as_mut_ptr().cast();
    let precise = ns.is_some_and(|ns| ns != 0) && PRECISE.load(Relaxed);
    let mut count = -1;
    if precise {
        let ns = ns.unwrap_or(0);
        let time = libc::timespec {
            tv_sec: (ns / 1_000_000_000) as _,
            tv_nsec: (ns % 1_000_000_000) as _,
        };
        let no_mask = ptr::null::<libc::sigset_t>();
        let set = set.as_raw_fd();
        // SAFETY: room for `room` events; a valid time; no signal mask.
        let result = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, set, space, room, &raw const time, no_mask, 8)
        };
        count = result as c_int;
        if count < 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            PRECISE.store(false, Relaxed);
        }
    }
    if !precise || (count < 0 && !PRECISE.load(Relaxed)) {
        let ms = ns.map_or(-1, |ns| ns.div_ceil(1_000_000).min(i32::MAX as u64) as c_int);
        // SAFETY: room for `room` events.
        count = unsafe { libc::epoll_wait(set.as_raw_fd(), space, room, ms) };
    }
    // SAFETY: the kernel has written so many, not more than there is room for.
    unsafe { core::slice::from_raw_parts(space, count.max(0) as usize) }
}
