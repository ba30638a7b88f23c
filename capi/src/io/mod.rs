//! Blocking calls on descriptors: who waits, and how.
//!
//! Every call first tries without blocking; that usually succeeds. Only when the kernel says
//! `EAGAIN` does it matter whether the descriptor is in non-blocking mode (then that is the
//! answer), what its timeouts are, and who the caller is:
//!
//! | caller | waits |
//! |---|---|
//! | light thread | in its worker's reactor; parks |
//! | native backend's thread | in `ppoll`, with the eventfd of its cancellation |
//! | any other kernel thread | in the plain system call, which signals interrupt as usual |
//!
//! Invariant: `errno` changes only when a call fails.

mod file;
mod poll;
mod process;
mod socket;

use core::ffi::c_int;
use core::time::Duration;

use heddle::raw::{self, Interest};
use io_uring::squeue::Entry;

use crate::data::Kind;
use crate::stop::Stop;
use crate::{cancel, current, errno};

/// Who makes the call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    Light,
    Native,
    Outside,
}

/// See [`Caller`].
#[inline]
pub fn caller() -> Caller {
    if heddle::thread::is_user_level() {
        return Caller::Light;
    }
    match current::known() {
        Some(data) if data.kind() == Kind::Native => Caller::Native,
        _ => Caller::Outside,
    }
}

/// The error of the system call that has just failed.
pub fn last_error() -> Stop {
    Stop::Error(errno::get())
}

/// The result of a system call as a `Result`.
#[inline]
pub fn checked(result: isize) -> Result<isize, Stop> {
    if result < 0 { Err(last_error()) } else { Ok(result) }
}

/// Whether the descriptor is in non-blocking mode.
pub fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

/// Waits until `fd` is ready, or until `deadline` (ns, 0 = never); light and native threads.
///
/// # Errors
/// `ETIMEDOUT`, `EINTR` on kernel threads, or what the kernel says of the descriptor.
pub fn wait_ready(fd: c_int, interest: Interest, deadline: u64) -> Result<(), Stop> {
    if heddle::thread::is_user_level() {
        return Ok(raw::wait_ready(fd, interest, deadline)?);
    }
    let events = match interest {
        Interest::Read => libc::POLLIN | libc::POLLRDHUP,
        Interest::Write => libc::POLLOUT,
    };
    let mut fds = [libc::pollfd { fd, events, revents: 0 }, NO_FD];
    match wait_in_kernel(&mut fds, deadline)? {
        0 => Err(Stop::Error(libc::ETIMEDOUT)),
        _ => Ok(()),
    }
}

/// The place that [`wait_in_kernel`] needs for itself.
pub const NO_FD: libc::pollfd = libc::pollfd { fd: -1, events: 0, revents: 0 };

/// Polls on a kernel thread; the last element is for the eventfd of the cancellation.
/// Returns how many descriptors are ready; 0 = the deadline has passed.
///
/// # Errors
/// [`Stop::Cancelled`], `EINTR`.
pub fn wait_in_kernel(fds: &mut [libc::pollfd], deadline: u64) -> Result<usize, Stop> {
    let last = fds.len() - 1;
    fds[last] = libc::pollfd { fd: cancel::event()?, events: libc::POLLIN, revents: 0 };
    loop {
        cancel::check()?;
        let left = deadline.saturating_sub(raw::now_ns());
        let timeout = libc::timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        };
        let timeout = if deadline == 0 { core::ptr::null() } else { &raw const timeout };
        // SAFETY: a valid slice and timeout; the mask stays as it is.
        let ready = unsafe {
            libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout, core::ptr::null())
        };
        let ready = checked(ready as isize)? as usize;
        if ready == 0 {
            return Ok(0);
        }
        let asked = usize::from(fds[last].revents != 0);
        if asked != 0 {
            // Asked for while it is disabled, or a request that was served: not a reason to spin.
            let mut count = 0_u64;
            // SAFETY: eight valid bytes.
            unsafe { libc::read(fds[last].fd, (&raw mut count).cast(), 8) };
        }
        if ready > asked {
            return Ok(ready - asked);
        }
    }
}

/// Repeats `attempt`, which must not block, until it does not say `EAGAIN`; waits in between.
///
/// `timeout_option` is the socket option with the timeout, 0 when the descriptor is no socket.
/// Light and native threads; the others make the call itself.
pub fn retry(
    fd: c_int,
    interest: Interest,
    timeout_option: c_int,
    mut attempt: impl FnMut() -> isize,
) -> Result<isize, Stop> {
    let mut deadline = None;
    loop {
        match checked(attempt()) {
            Err(Stop::Error(libc::EAGAIN)) => {}
            Err(Stop::Error(libc::EINTR)) => continue,
            other => return other,
        }
        let until = match deadline {
            Some(known) => known,
            None if is_nonblocking(fd) => return Err(Stop::Error(libc::EAGAIN)),
            None => *deadline.insert(socket_deadline(fd, timeout_option)),
        };
        match wait_ready(fd, interest, until) {
            Err(Stop::Error(libc::ETIMEDOUT)) => return Err(Stop::Error(libc::EAGAIN)),
            other => other?,
        }
    }
}

/// When a call on a socket that starts now times out; 0 = never.
pub fn socket_deadline(fd: c_int, option: c_int) -> u64 {
    if option == 0 {
        return 0;
    }
    let mut limit = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut length = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: a valid place and its length.
    let error = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, option, (&raw mut limit).cast(), &mut length)
    };
    if error != 0 || (limit.tv_sec == 0 && limit.tv_usec == 0) {
        return 0;
    }
    let limit = Duration::new(limit.tv_sec.max(0) as u64, limit.tv_usec.max(0) as u32 * 1000);
    raw::deadline(Some(limit))
}

/// Runs an operation in the worker's ring; `None` when the caller has no ring.
///
/// # Errors
/// As [`raw::operate`].
pub fn operate(entry: Entry, deadline: u64) -> Result<Option<isize>, Stop> {
    match raw::operate(entry, deadline) {
        Ok(value) => Ok(Some(value as isize)),
        Err(error)
            if error.kind() == std::io::ErrorKind::Unsupported
                && error.raw_os_error().is_none() =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes a system call that may sleep, on another kernel thread if the caller is light.
pub fn elsewhere(call: impl FnOnce() -> isize + Send) -> Result<isize, Stop> {
    if caller() != Caller::Light {
        return checked(call());
    }
    // The error number belongs to the kernel thread that made the call.
    heddle::blocking(|| checked(call()))
}
