//! `poll` and `epoll_wait`: waiting for several descriptors.
//!
//! What is ready is asked for without sleeping. If nothing is, a thread waits for the descriptors
//! in its worker's reactor, and asks again: no descriptor is made for that, whose number the
//! program could miss. The program's own epoll sets are descriptors that are waited for in the same
//! way; what the reactor does not take (sets in sets, as deep as the kernel allows) a kernel thread
//! of the pool waits for.
//!
//! A call with a signal mask asks first, and only if nothing is ready looks for what the mask lets
//! through, as the kernel does it ([`with_mask`]).
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use std::borrow::Cow;

use heddle::raw::{self, Interest};
use libc::{epoll_event, nfds_t, pollfd, sigset_t, timespec};

use super::waited::{Done, resumed_with};
use super::{
    Result, Stop, Target, Trying, Waiting, checked, devices, exported, interruptible, made_int,
    mask, signalfd, sleep, turns, wait_ready_once,
};
use crate::sys::{direct, probed};
use crate::threads::signals::{self, Masked, Ran};
use crate::{real, threads};

/// How long to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Forever,
    Not,
    /// Until this deadline of the runtime's.
    Until(u64),
}

impl Limit {
    /// For so many ns from now.
    pub fn from_ns(ns: i128) -> Self {
        if ns == 0 {
            return Limit::Not;
        }
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        Limit::Until(raw::now_ns().saturating_add(ns))
    }

    fn from_ms(ms: c_int) -> Self {
        if ms < 0 { Limit::Forever } else { Limit::from_ns(i128::from(ms) * 1_000_000) }
    }

    fn of(timeout: &timespec) -> Result<Self> {
        Ok(Limit::from_ns(sleep::ns_of(timeout)?))
    }

    /// Of a call whose timeout the C library copies: it faults where there is none.
    ///
    /// # Safety
    /// 1. `timeout` is null or valid.
    pub unsafe fn from_timespec(timeout: *const timespec) -> Result<Self> {
        // SAFETY: by 1.
        unsafe { timeout.as_ref() }.map_or(Ok(Limit::Forever), Limit::of)
    }

    pub fn deadline(self) -> u64 {
        if let Limit::Until(deadline) = self { deadline } else { 0 }
    }

    /// What is left, in ns; `None`: for ever.
    pub fn left(self) -> Option<u64> {
        match self {
            Limit::Forever => None,
            Limit::Not => Some(0),
            Limit::Until(deadline) => Some(deadline.saturating_sub(raw::now_ns())),
        }
    }

    /// What is left, as the calls take it that count in ms.
    fn ms(self) -> c_int {
        self.left().map_or(-1, |ns| ns.div_ceil(1_000_000).min(i32::MAX as u64) as c_int)
    }

    pub fn is_over(self) -> bool {
        match self {
            Limit::Forever => false,
            Limit::Not => true,
            Limit::Until(deadline) => raw::now_ns() >= deadline,
        }
    }
}

/// Waits until something of `fds` is ready; returns how many are.
fn wait(fds: &mut [pollfd], limit: Limit, mut tried: Tried) -> Result<isize> {
    loop {
        // SAFETY: a valid slice.
        let ready = unsafe { direct::poll(fds.as_mut_ptr(), fds.len() as nfds_t) };
        match checked(ready as isize).map(|ready| signalfd::add(fds, ready)) {
            Ok(0) if !limit.is_over() => {}
            Err(Stop::Error(libc::EINTR)) => continue,
            other => return other,
        }
        drop(tried);
        tried = wait_once(fds, limit.deadline()).or_else(timeout_is_no_error)?;
    }
}

/// What the caller keeps while it asks again what is ready.
#[must_use]
#[derive(Default)]
pub struct Tried {
    _alone: Trying,
    _several: Vec<Trying>,
}

/// Waits until something of `fds` may be ready.
pub fn wait_once(fds: &[pollfd], deadline: u64) -> Result<Tried> {
    let mut valid = fds.iter().filter(|entry| entry.fd >= 0);
    let Some(first) = valid.next() else {
        return sleep::until(if deadline == 0 { u64::MAX } else { deadline })
            .map(|()| Tried::default());
    };
    let alone = interest_of(first.events).filter(|_| valid.next().is_none());
    let waited = match alone {
        Some(interest) => wait_alone(first, interest, deadline),
        None => wait_several(fds, deadline),
    };
    match waited {
        // Closed meanwhile, as who asks again finds.
        Err(Stop::Error(libc::EBADF)) => Ok(Tried::default()),
        Err(Stop::Error(number)) if is_not_taken(number) => {
            wait_elsewhere(fds, deadline).map(|()| Tried::default())
        }
        other => other,
    }
}

fn wait_alone(entry: &pollfd, interest: Interest, deadline: u64) -> Result<Tried> {
    let mut target = Target::new(entry.fd);
    loop {
        let trying = wait_ready_once(&mut target, interest, deadline)?;
        if !target.is_kept() || has_something(&mut [pollfd { fd: target.fd, ..*entry }]) {
            return Ok(Tried { _alone: trying, ..Tried::default() });
        }
    }
}

/// Who asks again does so by number, and finds what was closed. So a wait in which that happened
/// goes on until one of the files is ready, as in the kernel.
fn has_something(fds: &mut [pollfd]) -> bool {
    // SAFETY: a valid slice.
    let ready = unsafe { direct::poll(fds.as_mut_ptr(), fds.len() as nfds_t) } as isize;
    signalfd::add(fds, ready) > 0
}

fn wait_several(fds: &[pollfd], deadline: u64) -> Result<Tried> {
    // Who closes one has them ask for whatever has come.
    let begin = |entry: &pollfd| Waiting::begin(entry.fd, Interest::Read);
    // With the copy of each file whose number was closed.
    let (mut entries, mut kept) = (Cow::Borrowed(fds), Vec::new());
    loop {
        let Some(asking) = signalfd::begin_several(&entries) else {
            if kept.is_empty() || has_something(entries.to_mut()) {
                return Ok(Tried::default());
            }
            continue;
        };
        let waiting = entries.iter().map(begin).collect::<Vec<_>>();
        let are_meant = || waiting.iter().all(Waiting::is_meant);
        let ended = raw::wait_several(&entries, deadline, are_meant).map_err(Stop::from);
        drop(asking);
        waiting.iter().for_each(Waiting::leaves_it_armed);
        let (mut several, mut is_changed) = (Vec::with_capacity(waiting.len()), false);
        for (index, waiting) in waiting.into_iter().enumerate() {
            match waiting.done() {
                Done::Trying(trying) => several.push(trying),
                Done::Kept(copy) => {
                    entries.to_mut()[index].fd = copy.fd;
                    kept.push(copy);
                    is_changed = true;
                }
                // As who asks again finds.
                Done::Gone => {}
            }
        }
        match ended {
            Ok(()) | Err(Stop::Error(libc::EBADF)) if is_changed => {}
            Ok(()) if kept.is_empty() || has_something(entries.to_mut()) => {
                return Ok(Tried { _several: several, ..Tried::default() });
            }
            Ok(()) => {}
            Err(stop) => {
                drop(several);
                kept = resumed_with(kept, stop, true)?;
            }
        }
    }
}

/// Whether a reactor's error says no more than that it cannot wait: for an epoll set that is too
/// deep, or for want of memory or of a descriptor of its own.
fn is_not_taken(number: c_int) -> bool {
    use libc::{EINVAL, ELOOP, EMFILE, ENFILE, ENOMEM, ENOSPC};
    [ELOOP, EINVAL, ENOMEM, ENOSPC, EMFILE, ENFILE].contains(&number)
}

/// A kernel thread of the pool waits for what the reactor does not take.
fn wait_elsewhere(fds: &[pollfd], deadline: u64) -> Result<()> {
    wait_as_it_is(&mut fds.to_vec(), deadline).map(drop)
}

/// A kernel thread of the pool makes the whole call.
#[cold]
fn wait_as_it_is(fds: &mut [pollfd], deadline: u64) -> Result<isize> {
    let mut copy = fds.to_vec();
    let ready = interruptible(true, || {
        let left = deadline.saturating_sub(raw::now_ns()).div_ceil(1_000_000);
        let ms = if deadline == 0 { -1 } else { left.min(i32::MAX as u64) as c_int };
        // SAFETY: valid entries.
        unsafe { libc::poll(copy.as_mut_ptr(), copy.len() as nfds_t, ms) as isize }
    })?;
    fds.copy_from_slice(&copy);
    Ok(ready)
}

/// What the runtime can wait for, if it is all that `events` ask for.
fn interest_of(events: i16) -> Option<Interest> {
    match events {
        0 => None,
        _ if events & !(libc::POLLIN | libc::POLLRDNORM) == 0 => Some(Interest::Read),
        _ if events & !(libc::POLLOUT | libc::POLLWRNORM) == 0 => Some(Interest::Write),
        _ => None,
    }
}

/// `poll`, of memory that may be anything.
fn poll(fds: *mut pollfd, count: nfds_t, limit: Limit) -> Result<isize> {
    turns::before_ask();
    poll_now(fds, count, limit).inspect(note)
}

/// What is ready is received next.
fn note(ready: &isize) {
    if *ready > 0 {
        turns::told();
    }
}

fn poll_now(fds: *mut pollfd, count: nfds_t, limit: Limit) -> Result<isize> {
    let alone = (count == 1 && limit != Limit::Not).then(|| waited_alone(fds)).flatten();
    let ready = match alone {
        Some(fd) => turns::first_ask(fd, || ask(fds, count)),
        None => ask(fds, count),
    };
    if ready != Ok(0) || limit == Limit::Not {
        return ready;
    }
    if count == 0 {
        return wait(&mut [], limit, Tried::default());
    }
    // SAFETY: the kernel has accepted the caller's entries, or the one could be copied.
    let fds = unsafe { core::slice::from_raw_parts_mut(fds, count as usize) };
    if devices::is_among(fds) {
        return wait_as_it_is(fds, limit.deadline());
    }
    let tried = wait_once(fds, limit.deadline()).or_else(timeout_is_no_error)?;
    wait(fds, limit, tried)
}

/// The descriptor of the caller's one entry, if the reactor knows what it is waited for.
fn waited_alone(entry: *const pollfd) -> Option<c_int> {
    let entry = probed::read(entry).ok()?;
    interest_of(entry.events).filter(|_| entry.fd >= 0 && !signalfd::has_some(entry.fd))?;
    Some(entry.fd)
}

/// What is ready of the caller's entries.
fn ask(fds: *mut pollfd, count: nfds_t) -> Result<isize> {
    loop {
        // SAFETY: the caller's entries; the kernel looks at the pointer and the count first.
        match checked(unsafe { direct::poll(fds, count) } as isize) {
            // The worker was asked to let others go on.
            Err(Stop::Error(libc::EINTR)) => {}
            // SAFETY: the kernel has accepted the caller's entries.
            ready => return ready.map(|ready| unsafe { signalfd::add_to(fds, count, ready) }),
        }
    }
}

/// Whoever waits again looks at the time itself.
pub fn timeout_is_no_error<T: Default>(stop: Stop) -> Result<T> {
    if stop == Stop::Error(libc::ETIMEDOUT) { Ok(T::default()) } else { Err(stop) }
}

/// The mask of a call that waits, which may be none.
///
/// # Errors
/// `EFAULT`.
fn mask_of(blocked: *const sigset_t) -> Result<Option<u64>> {
    // The kernel's sets have a word.
    let words = blocked.cast::<u64>();
    if words.is_null() { Ok(None) } else { probed::read(words).map(Some).map_err(Stop::Error) }
}

/// Makes a call that waits with the thread's mask set to `blocked`, if there is one: `ask` says
/// what is ready, `wait` waits for it.
pub fn with_mask(
    blocked: *const sigset_t,
    ask: impl FnOnce() -> Result<isize>,
    wait: impl FnOnce() -> Result<isize>,
) -> Result<isize> {
    let (Some(blocked), Some(me)) = (mask_of(blocked)?, threads::this()) else {
        return wait();
    };
    let masked = Masked::new(me, blocked);
    let ended = match ask() {
        Ok(0) if signals::deliver(me) != Ran::Nothing => Err(Stop::Error(libc::EINTR)),
        Ok(0) => wait(),
        other => other,
    };
    masked.end();
    ended
}

fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Result<isize> {
    // SAFETY: null or the caller's timeout.
    let limit = unsafe { Limit::from_timespec(timeout) }?;
    with_mask(mask, || poll(fds, count, Limit::Not), || poll(fds, count, limit))
}

fn check_room(count: nfds_t, room: usize) {
    super::file::check_room(count as usize, room / size_of::<pollfd>());
}

exported! {
    (heddle_user_poll, heddle_user___poll) (
        fds: *mut pollfd, count: nfds_t, timeout_ms: c_int
    ) -> c_int {
        made_int(|| poll(fds, count, Limit::from_ms(timeout_ms)))
    }

    (heddle_user___poll_chk) (
        fds: *mut pollfd, count: nfds_t, timeout_ms: c_int, room: usize
    ) -> c_int {
        check_room(count, room);
        made_int(|| poll(fds, count, Limit::from_ms(timeout_ms)))
    }

    (heddle_user_ppoll) (
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int {
        // SAFETY: passed on.
        let wait = || unsafe { real::ppoll(fds, count, timeout, mask) };
        if let Some(result) = mask::kernels_wait(mask, wait) {
            return result;
        }
        made_int(|| ppoll(fds, count, timeout, mask))
    }

    (heddle_user___ppoll_chk) (
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        room: usize
    ) -> c_int {
        // SAFETY: passed on.
        let wait = || unsafe { real::__ppoll_chk(fds, count, timeout, mask, room) };
        if let Some(result) = mask::kernels_wait(mask, wait) {
            return result;
        }
        check_room(count, room);
        made_int(|| ppoll(fds, count, timeout, mask))
    }
}

// ---- epoll

fn epoll_wait(fd: c_int, events: *mut epoll_event, count: c_int, limit: Limit) -> Result<isize> {
    turns::before_ask();
    epoll_wait_now(fd, events, count, limit).inspect(note)
}

fn epoll_wait_now(
    fd: c_int,
    events: *mut epoll_event,
    count: c_int,
    limit: Limit,
) -> Result<isize> {
    let mut target = Target::new(fd);
    let ask = |fd| {
        loop {
            // SAFETY: the caller's events.
            match checked(unsafe { direct::epoll_wait(fd, events, count) } as isize) {
                Err(Stop::Error(libc::EINTR)) => {}
                // SAFETY: the caller's place, of which the kernel has written so many.
                Ok(ready) => return unsafe { signalfd::tell(fd, events, count, ready) },
                failed => return failed,
            }
        }
    };
    // A wait does not end by what was pending before.
    let may_wait = limit != Limit::Not && is_room(events, count) && !signalfd::has_some(fd);
    let ready = if may_wait { turns::first_ask(fd, || ask(fd)) } else { ask(fd) };
    if ready != Ok(0) || limit == Limit::Not {
        return ready;
    }
    loop {
        let _trying = match wait_ready_once(&mut target, Interest::Read, limit.deadline()) {
            Ok(trying) => trying,
            Err(Stop::Error(libc::ETIMEDOUT)) => Trying::default(),
            Err(Stop::Error(number)) if is_not_taken(number) => {
                let ms = limit.ms();
                // SAFETY: the caller's events.
                return interruptible(true, move || unsafe {
                    libc::epoll_wait(fd, events, count, ms) as isize
                });
            }
            Err(other) => return Err(other),
        };
        match ask(target.fd) {
            Ok(0) if !limit.is_over() => {}
            // It was closed meanwhile; the kernel's wait would have had it until here.
            Err(Stop::Error(libc::EBADF | libc::EINVAL)) if limit.is_over() => return Ok(0),
            other => return other,
        }
    }
}

/// Whether the kernel accepts that there is room for so many events.
fn is_room(events: *mut epoll_event, count: c_int) -> bool {
    let most = c_int::MAX / size_of::<epoll_event>() as c_int;
    // What is above is the kernel's.
    (1..=most).contains(&count) && events as isize >= 0
}

fn epoll_masked(
    fd: c_int,
    events: *mut epoll_event,
    count: c_int,
    limit: Limit,
    mask: *const sigset_t,
) -> Result<isize> {
    let ask = || epoll_wait(fd, events, count, Limit::Not);
    if limit == Limit::Not {
        // The kernel does not look for signals then: they stay pending. `poll` and `select` do.
        return mask_of(mask).and_then(|_| ask());
    }
    with_mask(mask, ask, || epoll_wait(fd, events, count, limit))
}

exported! {
    (heddle_user_epoll_wait) (
        fd: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int
    ) -> c_int {
        made_int(|| epoll_wait(fd, events, count, Limit::from_ms(timeout_ms)))
    }

    (heddle_user_epoll_pwait) (
        fd: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int,
        mask: *const sigset_t
    ) -> c_int {
        // SAFETY: passed on.
        let wait = || unsafe { real::epoll_pwait(fd, events, count, timeout_ms, mask) };
        if let Some(result) = mask::kernels_wait(mask, wait) {
            return result;
        }
        made_int(|| epoll_masked(fd, events, count, Limit::from_ms(timeout_ms), mask))
    }

    (heddle_user_epoll_pwait2) (
        fd: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec,
        mask: *const sigset_t
    ) -> c_int {
        // SAFETY: passed on.
        let wait = || unsafe { real::epoll_pwait2(fd, events, count, timeout, mask) };
        if let Some(result) = mask::kernels_wait(mask, wait) {
            return result;
        }
        made_int(|| {
            let limit = match timeout.is_null() {
                true => Limit::Forever,
                false => Limit::of(&probed::read(timeout).map_err(Stop::Error)?)?,
            };
            epoll_masked(fd, events, count, limit, mask)
        })
    }
}
