//! `poll`, `select`, `epoll_wait`: waiting for several descriptors.
//!
//! Readiness is asked for without sleeping; if there is none, a light thread waits for one
//! descriptor in the ring, or for several in an epoll set of its own, and asks again.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use heddle::raw::{self, Interest, Outcome};
use io_uring::{opcode, types};
use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::{Caller, NO_FD, caller, checked, file::kept, operate, wait_in_kernel, wait_ready};
use crate::cancel;
use crate::stop::{self, Stop};

const READABLE: i16 =
    libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLIN | libc::POLLHUP | libc::POLLERR;
const WRITABLE: i16 = libc::POLLWRBAND | libc::POLLWRNORM | libc::POLLOUT | libc::POLLERR;

/// How long to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    Forever,
    Not,
    /// Until this deadline of the runtime's.
    Until(u64),
}

impl Limit {
    fn from_ns(ns: i128) -> Self {
        if ns == 0 {
            return Limit::Not;
        }
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        Limit::Until(raw::now_ns().saturating_add(ns))
    }

    fn from_ms(ms: c_int) -> Self {
        if ms < 0 { Limit::Forever } else { Limit::from_ns(i128::from(ms) * 1_000_000) }
    }

    fn deadline(self) -> u64 {
        if let Limit::Until(deadline) = self { deadline } else { 0 }
    }

    fn is_over(self) -> bool {
        match self {
            Limit::Forever => false,
            Limit::Not => true,
            Limit::Until(deadline) => raw::now_ns() >= deadline,
        }
    }
}

/// Waits on a light or native thread.
fn wait(fds: &mut [pollfd], limit: Limit) -> Result<isize, Stop> {
    kept(|| {
        loop {
            // SAFETY: a valid slice.
            let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as nfds_t, 0) };
            match checked(ready as isize) {
                Ok(0) => {}
                Err(Stop::Error(libc::EINTR)) => continue,
                other => return other,
            }
            if limit.is_over() {
                return Ok(0);
            }
            let waited = match caller() {
                Caller::Light => wait_light(fds, limit.deadline()),
                _ => wait_native(fds, limit.deadline()),
            };
            match waited {
                Ok(()) | Err(Stop::Error(libc::ETIMEDOUT)) => {}
                Err(other) => return Err(other),
            }
        }
    })
}

fn wait_native(fds: &[pollfd], deadline: u64) -> Result<(), Stop> {
    let mut all = fds.to_vec();
    all.push(NO_FD);
    wait_in_kernel(&mut all, deadline).map(drop)
}

fn wait_light(fds: &[pollfd], deadline: u64) -> Result<(), Stop> {
    let mut valid = fds.iter().filter(|entry| entry.fd >= 0);
    let Some(first) = valid.next() else {
        return match raw::sleep_until(deadline) {
            Outcome::Cancelled => Err(Stop::Cancelled),
            _ => Ok(()),
        };
    };
    if valid.next().is_none() {
        let entry = opcode::PollAdd::new(types::Fd(first.fd), first.events as u32).build();
        if operate(entry, deadline)?.is_some() {
            return Ok(());
        }
    }
    let set = epoll_set(fds)?;
    wait_ready(set.as_raw_fd(), Interest::Read, deadline)
}

/// An epoll set of all descriptors in `fds`.
fn epoll_set(fds: &[pollfd]) -> Result<OwnedFd, Stop> {
    // SAFETY: no pointers.
    let set = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } as isize)?;
    // SAFETY: made here.
    let set = unsafe { OwnedFd::from_raw_fd(set as c_int) };
    for entry in fds.iter().filter(|entry| entry.fd >= 0) {
        let mut events = u32::from(entry.events.cast_unsigned());
        let mut operation = libc::EPOLL_CTL_ADD;
        loop {
            let mut event = epoll_event { events, u64: 0 };
            // SAFETY: a valid event.
            let error =
                unsafe { libc::epoll_ctl(set.as_raw_fd(), operation, entry.fd, &mut event) };
            match checked(error as isize) {
                Ok(_) => break,
                // The same descriptor twice: wait for what any of its entries names.
                Err(Stop::Error(libc::EEXIST)) => {
                    operation = libc::EPOLL_CTL_MOD;
                    let same = fds.iter().filter(|other| other.fd == entry.fd);
                    events = same.fold(0, |all, e| all | u32::from(e.events.cast_unsigned()));
                }
                Err(other) => return Err(other),
            }
        }
    }
    Ok(set)
}

/// The descriptors of a call; `None` when the pointer is not one.
///
/// # Safety
/// 1. `fds` points to `count` entries, or `count` is 0.
unsafe fn entries<'a>(fds: *mut pollfd, count: nfds_t) -> &'a mut [pollfd] {
    if count == 0 {
        return &mut [];
    }
    // SAFETY: by 1.
    unsafe { core::slice::from_raw_parts_mut(fds, count as usize) }
}

fn ns_of(timeout: &timespec) -> Result<i128, Stop> {
    if timeout.tv_sec < 0 || !(0..1_000_000_000).contains(&timeout.tv_nsec) {
        return Err(Stop::Error(libc::EINVAL));
    }
    Ok(crate::clock::ns(timeout))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_poll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout_ms: c_int,
) -> c_int {
    stop::value(cancel::check().and_then(|()| {
        if caller() == Caller::Outside {
            // SAFETY: the caller's entries.
            return checked(unsafe { libc::poll(fds, count, timeout_ms) } as isize);
        }
        // SAFETY: the caller's entries.
        wait(unsafe { entries(fds, count) }, Limit::from_ms(timeout_ms))
    })) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    stop::value(cancel::check().and_then(|()| {
        if caller() == Caller::Light && !mask.is_null() {
            return Err(Stop::Error(libc::ENOTSUP));
        }
        if caller() == Caller::Outside || !mask.is_null() {
            // SAFETY: the caller's entries, timeout and mask.
            return checked(unsafe { libc::ppoll(fds, count, timeout, mask) } as isize);
        }
        // SAFETY: null or the caller's timeout.
        let limit = match unsafe { timeout.as_ref() } {
            None => Limit::Forever,
            Some(timeout) => Limit::from_ns(ns_of(timeout)?),
        };
        // SAFETY: the caller's entries.
        wait(unsafe { entries(fds, count) }, limit)
    })) as c_int
}

// ---- select

/// The three sets of a call; null where the caller has none.
struct Sets([*mut fd_set; 3]);

const SELECTED: [(i16, i16); 3] =
    [(libc::POLLIN, READABLE), (libc::POLLOUT, WRITABLE), (libc::POLLPRI, libc::POLLPRI)];

impl Sets {
    fn contains(&self, set: usize, fd: c_int) -> bool {
        // SAFETY: null or the caller's set, which has room for the descriptor.
        !self.0[set].is_null() && unsafe { libc::FD_ISSET(fd, self.0[set]) }
    }

    fn entries(&self, count: c_int) -> Vec<pollfd> {
        let wanted = |fd| {
            let events = (0..3).filter(|&set| self.contains(set, fd));
            let events = events.fold(0, |all, set| all | SELECTED[set].0);
            (events != 0).then_some(pollfd { fd, events, revents: 0 })
        };
        (0..count).filter_map(wanted).collect()
    }

    /// Leaves in the sets what is ready; returns how many.
    fn give(&self, entries: &[pollfd]) -> isize {
        let mut ready = 0;
        for entry in entries {
            for (set, &(wanted, got)) in SELECTED.iter().enumerate() {
                if entry.events & wanted == 0 {
                    continue;
                }
                if entry.revents & got != 0 {
                    ready += 1;
                } else {
                    // SAFETY: the caller's set, in which the descriptor is.
                    unsafe { libc::FD_CLR(entry.fd, self.0[set]) };
                }
            }
        }
        ready
    }
}

fn select(count: c_int, sets: &Sets, limit: Limit) -> Result<isize, Stop> {
    if !(0..=libc::FD_SETSIZE as c_int).contains(&count) {
        return Err(Stop::Error(libc::EINVAL));
    }
    let mut entries = sets.entries(count);
    wait(&mut entries, limit)?;
    if entries.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
        return Err(Stop::Error(libc::EBADF));
    }
    Ok(sets.give(&entries))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_select(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    stop::value(cancel::check().and_then(|()| {
        if caller() == Caller::Outside {
            // SAFETY: the caller's sets and timeout.
            let ready = unsafe { libc::select(count, readable, writable, exceptional, timeout) };
            return checked(ready as isize);
        }
        // SAFETY: null or the caller's timeout.
        let timeout = unsafe { timeout.as_mut() };
        let limit = match &timeout {
            None => Limit::Forever,
            Some(time) if time.tv_sec < 0 || time.tv_usec < 0 => {
                return Err(Stop::Error(libc::EINVAL));
            }
            Some(time) => {
                let us = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_usec);
                Limit::from_ns(us * 1000)
            }
        };
        let result = select(count, &Sets([readable, writable, exceptional]), limit);
        if let (Some(timeout), Limit::Until(deadline)) = (timeout, limit) {
            let left = deadline.saturating_sub(raw::now_ns()) / 1000;
            timeout.tv_sec = (left / 1_000_000) as i64;
            timeout.tv_usec = (left % 1_000_000) as i64;
        }
        result
    })) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_pselect(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    stop::value(cancel::check().and_then(|()| {
        if caller() == Caller::Light && !mask.is_null() {
            return Err(Stop::Error(libc::ENOTSUP));
        }
        if caller() == Caller::Outside || !mask.is_null() {
            // SAFETY: the caller's sets, timeout and mask.
            let ready =
                unsafe { libc::pselect(count, readable, writable, exceptional, timeout, mask) };
            return checked(ready as isize);
        }
        // SAFETY: null or the caller's timeout.
        let limit = match unsafe { timeout.as_ref() } {
            None => Limit::Forever,
            Some(timeout) => Limit::from_ns(ns_of(timeout)?),
        };
        select(count, &Sets([readable, writable, exceptional]), limit)
    })) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_epoll_wait(
    fd: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: the caller's events.
    let plain = |timeout| unsafe { libc::epoll_wait(fd, events, count, timeout) as isize };
    stop::value(cancel::check().and_then(|()| {
        if caller() == Caller::Outside {
            return checked(plain(timeout_ms));
        }
        let limit = Limit::from_ms(timeout_ms);
        kept(|| {
            loop {
                match checked(plain(0)) {
                    Ok(0) if !limit.is_over() => {}
                    other => return other,
                }
                match wait_ready(fd, Interest::Read, limit.deadline()) {
                    Ok(()) | Err(Stop::Error(libc::ETIMEDOUT)) => {}
                    Err(other) => return Err(other),
                }
            }
        })
    })) as c_int
}
