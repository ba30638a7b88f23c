//! `select` and `pselect`.
//!
//! What is ready is asked for by a `poll` of what is in the sets, which costs less than the
//! kernel's own call. That one is asked, with copies of the sets, where `poll` finds something
//! wrong at first: its answer is the program's. Who has to wait does so as in `poll`; what was
//! closed meanwhile is ready then, as the kernel has it.
//!
//! The sets are copied word by word: a program may pass larger ones than `fd_set`. It may also say
//! that they are, and mean that there are no more descriptors: as in the kernel nothing is read
//! beyond the size of the table of descriptors. Whole words are written back, as the kernel does
//! it, and only where a call succeeds.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::ptr;

use libc::{fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::mask::kernels_wait;
use super::poll::{Limit, Tried, timeout_is_no_error, wait_once, with_mask};
use super::{Result, Stop, checked, exported, interruptible, made_int, signalfd};
use crate::real;
use crate::sys::{descriptors, direct, probed};

const READABLE: i16 =
    libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLIN | libc::POLLHUP | libc::POLLERR;
const WRITABLE: i16 = libc::POLLWRBAND | libc::POLLWRNORM | libc::POLLOUT | libc::POLLERR;

/// For each of the three sets what is waited for, and what of the answer counts.
const SELECTED: [(i16, i16); 3] =
    [(libc::POLLIN, READABLE), (libc::POLLOUT, WRITABLE), (libc::POLLPRI, libc::POLLPRI)];

const BITS: usize = usize::BITS as usize;

/// The three sets of a call; null where the caller has none.
struct Sets {
    places: [*mut usize; 3],
    count: c_int,
    /// In each of them.
    words: usize,
}

/// Copies of the three sets, one after the other.
#[derive(Clone)]
struct Copied(Vec<usize>);

impl Copied {
    fn new(words: usize) -> Self {
        Copied(vec![0; 3 * words])
    }
}

impl Sets {
    fn new(count: c_int, sets: [*mut fd_set; 3]) -> Result<Self> {
        let bits = match usize::try_from(count) {
            Err(_) => return Err(Stop::Error(libc::EINVAL)),
            Ok(few @ ..=libc::FD_SETSIZE) => few,
            Ok(many) => many.min(descriptors::table_size(many).max(libc::FD_SETSIZE)),
        };
        let places = sets.map(<*mut fd_set>::cast);
        Ok(Sets { places, count: bits as c_int, words: bits.div_ceil(BITS) })
    }

    /// Which sets there are, and where.
    fn given(&self) -> impl Iterator<Item = (usize, *mut usize)> {
        self.places.into_iter().enumerate().filter(|(_, place)| !place.is_null())
    }

    fn read(&self) -> Result<Copied> {
        let mut copied = Copied::new(self.words);
        for (set, place) in self.given() {
            let words = &mut copied.0[set * self.words..][..self.words];
            probed::read_words(place, words).map_err(Stop::Error)?;
        }
        Ok(copied)
    }

    /// Gives the caller what a call has left in the copies.
    fn write(&self, copied: &Copied) -> Result<()> {
        for (set, place) in self.given() {
            let words = &copied.0[set * self.words..][..self.words];
            // SAFETY: the caller's set.
            unsafe { probed::write_words(place, words) }.map_err(Stop::Error)?;
        }
        Ok(())
    }

    /// The copies, as a call takes them.
    fn places_in(&self, copied: &mut Copied) -> [*mut usize; 3] {
        let (first, places) = (copied.0.as_mut_ptr(), self.places);
        core::array::from_fn(|set| match places[set].is_null() {
            true => ptr::null_mut(),
            false => first.wrapping_add(set * self.words),
        })
    }

    /// How many are ready, which are in `told` then. `entries` are those of `wanted`; they `were`
    /// descriptors before a wait.
    fn ask(
        &self,
        wanted: &Copied,
        entries: &mut [pollfd],
        told: &mut Copied,
        were: bool,
    ) -> Result<isize> {
        let ready = uninterrupted(|| {
            // SAFETY: valid entries.
            unsafe { direct::poll(entries.as_mut_ptr(), entries.len() as nfds_t) as isize }
        });
        let ready = ready.map(|ready| signalfd::add(entries, ready));
        let are_wrong = || entries.iter().any(|entry| entry.revents & libc::POLLNVAL != 0);
        if ready.is_err() || !were && are_wrong() {
            told.clone_from(wanted);
            let sets = self.places_in(told);
            // SAFETY: copies of that size.
            return uninterrupted(|| unsafe { direct::select(self.count, sets) });
        }
        told.0.fill(0);
        Ok(self.tell(entries, told))
    }

    /// Puts what is ready into `told`; returns how many.
    fn tell(&self, entries: &[pollfd], told: &mut Copied) -> isize {
        let mut ready = 0;
        for entry in entries.iter().filter(|entry| entry.revents != 0) {
            for (set, &(wanted, got)) in SELECTED.iter().enumerate() {
                if entry.events & wanted != 0 && entry.revents & (got | libc::POLLNVAL) != 0 {
                    let fd = entry.fd as usize;
                    told.0[set * self.words + fd / BITS] |= 1 << (fd % BITS);
                    ready += 1;
                }
            }
        }
        ready
    }

    /// The kernel's own call, by a kernel thread of the pool that waits.
    #[cold]
    fn ask_elsewhere(&self, copied: &mut Copied, limit: Limit) -> Result<isize> {
        let (count, sets) = (self.count, self.places_in(copied).map(<*mut usize>::cast::<fd_set>));
        interruptible(true, || {
            let mut time = limit.left().map(|ns| timeval {
                tv_sec: (ns / 1_000_000_000) as i64,
                tv_usec: (ns % 1_000_000_000).div_ceil(1000) as i64,
            });
            let time = time.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
            // SAFETY: copies of that size, and null or a valid time.
            unsafe { libc::select(count, sets[0], sets[1], sets[2], time) as isize }
        })
    }

    fn entries(&self, wanted: &Copied) -> Vec<pollfd> {
        let mut entries = Vec::new();
        for word in 0..self.words {
            let sets: [usize; 3] = core::array::from_fn(|set| wanted.0[set * self.words + word]);
            let mut left = sets.iter().fold(0, |all, set| all | set);
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                let fd = (word * BITS + bit) as c_int;
                let events = sets.iter().zip(SELECTED).filter(|(set, _)| *set >> bit & 1 != 0);
                let events = events.fold(0, |all, (_, (events, _))| all | events);
                if fd < self.count {
                    entries.push(pollfd { fd, events, revents: 0 });
                }
            }
        }
        entries
    }
}

/// Repeats a call that is ended because the worker was asked to let others go on.
fn uninterrupted(mut call: impl FnMut() -> isize) -> Result<isize> {
    loop {
        match checked(call()) {
            Err(Stop::Error(libc::EINTR)) => {}
            other => return other,
        }
    }
}

fn select(sets: &Sets, limit: Limit) -> Result<isize> {
    let (wanted, mut told) = (sets.read()?, Copied::new(sets.words));
    let mut entries = sets.entries(&wanted);
    let (mut tried, mut has_waited) = (Tried::default(), false);
    loop {
        let ready = sets.ask(&wanted, &mut entries, &mut told, has_waited)?;
        drop(tried);
        if ready != 0 || limit.is_over() {
            sets.write(&told)?;
            return Ok(ready);
        }
        if entries.iter().any(|entry| entry.revents != 0) {
            // A wait would end by what does not count, as the end of what is in the third set alone
            // does not: at once, again and again.
            told.clone_from(&wanted);
            let ready = sets.ask_elsewhere(&mut told, limit)?;
            sets.write(&told)?;
            return Ok(ready);
        }
        tried = wait_once(&entries, limit.deadline()).or_else(timeout_is_no_error)?;
        has_waited = true;
    }
}

/// As [`select`] without waiting; if nothing is ready the sets stay as they are.
fn select_now(sets: &Sets) -> Result<isize> {
    let (wanted, mut told) = (sets.read()?, Copied::new(sets.words));
    let ready = sets.ask(&wanted, &mut sets.entries(&wanted), &mut told, false)?;
    if ready != 0 {
        sets.write(&told)?;
    }
    Ok(ready)
}

/// `select`; leaves in the timeout what is left of it, as Linux does.
fn select_for(
    count: c_int,
    sets: [*mut fd_set; 3],
    timeout: Option<&mut timeval>,
) -> Result<isize> {
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
    let result = Sets::new(count, sets).and_then(|sets| select(&sets, limit));
    if let (Some(timeout), Some(left)) = (timeout, limit.left()) {
        let left = left / 1000;
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
        let sets = [readable, writable, exceptional];
        // SAFETY: null or the caller's timeout.
        made_int(|| select_for(count, sets, unsafe { timeout.as_mut() }))
    }

    (heddle_user_pselect) (
        count: c_int, readable: *mut fd_set, writable: *mut fd_set, exceptional: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t
    ) -> c_int {
        // SAFETY: passed on.
        let wait = || unsafe {
            real::pselect(count, readable, writable, exceptional, timeout, mask)
        };
        if let Some(result) = kernels_wait(mask, wait) {
            return result;
        }
        made_int(|| {
            // SAFETY: null or the caller's timeout.
            let limit = unsafe { Limit::from_timespec(timeout) }?;
            let sets = || Sets::new(count, [readable, writable, exceptional]);
            with_mask(mask, || select_now(&sets()?), || select(&sets()?, limit))
        })
    }
}
