//! `select` and `pselect`, by way of `poll`.
//!
//! The sets are read and written word by word: a program may pass larger ones than `fd_set`. It may
//! also say that they are, and mean that there are no more descriptors: as in the kernel nothing is
//! read beyond the size of the table of descriptors.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;

use heddle::raw;
use libc::{fd_set, pollfd, sigset_t, timespec, timeval};

use super::mask::is_kernels_wait;
use super::poll::{Limit, wait, with_mask};
use super::{Result, Stop, exported, made_int};
use crate::real;
use crate::sys::descriptors;

const READABLE: i16 =
    libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLIN | libc::POLLHUP | libc::POLLERR;
const WRITABLE: i16 = libc::POLLWRBAND | libc::POLLWRNORM | libc::POLLOUT | libc::POLLERR;

/// For each of the three sets what is waited for, and what of the answer counts.
const SELECTED: [(i16, i16); 3] =
    [(libc::POLLIN, READABLE), (libc::POLLOUT, WRITABLE), (libc::POLLPRI, libc::POLLPRI)];

const BITS: usize = usize::BITS as usize;

/// The three sets of a call; null where the caller has none.
struct Sets([*mut usize; 3]);

impl Sets {
    fn new(sets: [*mut fd_set; 3]) -> Self {
        Sets(sets.map(<*mut fd_set>::cast))
    }

    fn contains(&self, set: usize, fd: usize) -> bool {
        let words = self.0[set];
        // SAFETY: the caller's set has room for the descriptor.
        !words.is_null() && unsafe { *words.add(fd / BITS) } >> (fd % BITS) & 1 != 0
    }

    fn remove(&self, set: usize, fd: usize) {
        // SAFETY: the caller's set, in which the descriptor is.
        unsafe { *self.0[set].add(fd / BITS) &= !(1 << (fd % BITS)) };
    }

    fn entries(&self, count: c_int) -> Vec<pollfd> {
        let wanted = |fd: c_int| {
            let events = (0..3).filter(|&set| self.contains(set, fd as usize));
            let events = events.fold(0, |all, set| all | SELECTED[set].0);
            (events != 0).then_some(pollfd { fd, events, revents: 0 })
        };
        let count = match count as usize {
            few @ ..=libc::FD_SETSIZE => few,
            many => many.min(descriptors::table_size(many).max(libc::FD_SETSIZE)),
        };
        (0..count as c_int).filter_map(wanted).collect()
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
                    self.remove(set, entry.fd as usize);
                }
            }
        }
        ready
    }
}

fn select(count: c_int, sets: &Sets, limit: Limit) -> Result<isize> {
    if count < 0 {
        return Err(Stop::Error(libc::EINVAL));
    }
    let mut entries = sets.entries(count);
    wait(&mut entries, limit)?;
    told(sets, &entries)
}

/// As [`select`] without waiting; if nothing is ready the sets stay as they are.
fn select_now(count: c_int, sets: &Sets) -> Result<isize> {
    let mut entries = sets.entries(count);
    match wait(&mut entries, Limit::Not)? {
        0 => Ok(0),
        _ => told(sets, &entries),
    }
}

fn told(sets: &Sets, entries: &[pollfd]) -> Result<isize> {
    if entries.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
        return Err(Stop::Error(libc::EBADF));
    }
    Ok(sets.give(entries))
}

/// `select`; leaves in the timeout what is left of it, as Linux does.
fn select_for(count: c_int, sets: &Sets, timeout: Option<&mut timeval>) -> Result<isize> {
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
    let result = select(count, sets, limit);
    if let (Some(timeout), Limit::Until(deadline)) = (timeout, limit) {
        let left = deadline.saturating_sub(raw::now_ns()) / 1000;
        timeout.tv_sec = (left / 1_000_000) as i64;
        timeout.tv_usec = (left % 1_000_000) as i64;
    }
    result
}

exported! {
    (heddle_user_select, heddle_user___select) (
        count: c_int, readable: *mut fd_set, writable: *mut fd_set, exceptional: *mut fd_set,
        timeout: *mut timeval
    ) -> c_int {
        let sets = Sets::new([readable, writable, exceptional]);
        // SAFETY: null or the caller's timeout.
        made_int(|| select_for(count, &sets, unsafe { timeout.as_mut() }))
    }

    (heddle_user_pselect) (
        count: c_int, readable: *mut fd_set, writable: *mut fd_set, exceptional: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t
    ) -> c_int {
        if is_kernels_wait(mask) {
            // SAFETY: passed on.
            return unsafe {
                real::pselect(count, readable, writable, exceptional, timeout, mask)
            };
        }
        made_int(|| {
            // SAFETY: null or the caller's timeout.
            let limit = unsafe { Limit::from_timespec(timeout) }?;
            let sets = Sets::new([readable, writable, exceptional]);
            let ask = || select_now(count, &sets);
            with_mask(mask, ask, || select(count, &sets, limit))
        })
    }
}
