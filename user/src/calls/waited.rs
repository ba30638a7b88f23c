//! Which descriptors full threads wait for, so that whoever closes one does not take the file from
//! them.
//!
//! In the kernel a call has the file, whatever becomes of its number. Here a thread that waits for
//! it has the number, with which it tries again. So `close`, and `dup2` onto the number, lets those
//! try first for whom the file is ready, as it is when somebody has shut the connection down
//! before. For those who still wait it keeps a copy of the file at a number that the program does
//! not look at (`copies.rs`), has them wait for that one, and the last of them closes it: so the
//! other end sees no end of the file before. What has no copy, for want of a number, is not
//! waited for again, as the number may be another file's by then.
//!
//! No copies are kept of disks' files, for whom nobody waits: to close one would drop the process's
//! locks of the file.
//!
//! A wait that ended otherwise than by the file's event leaves it armed, for nobody. What was left
//! so is taken out of the reactors' sets before the number is closed, as the kernel might hold the
//! file for a worker's sleep (`heddle::raw::end_waits`).
//!
//! Invariant: between the end of a wait and the end of the try after it the number is not closed by
//! these, unless that takes longer than [`PATIENCE_NS`].

mod copies;
mod counts;
mod target;

use core::ffi::c_int;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use heddle::raw::{self, Interest};

use self::copies::Copies;
use self::counts::{Closing, Counts, READS, TRIES, WRITES};
pub use self::target::{Target, resumed_with};
use super::{disk, known, signalfd};
use crate::errno;
use crate::sys::direct;
use crate::threads::fork;
use crate::threads::signals::actions;

/// Higher numbers are not looked after.
const KNOWN: usize = 1 << 16;

/// How long those who try may take. A handler that jumps out of a try leaves its count behind.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Time between two looks whether they have.
const NAP_NS: u64 = 50_000;

static PLACES: [Counts; KNOWN] = [const { Counts::new() }; KNOWN];
/// Whether the number may be armed for nobody.
static LEFT: [AtomicBool; KNOWN] = [const { AtomicBool::new(false) }; KNOWN];
static COPIES: Mutex<Copies> = Mutex::new(Copies::new());

fn of(fd: c_int) -> Option<&'static Counts> {
    PLACES.get(usize::try_from(fd).ok()?)
}

fn left(fd: c_int) -> Option<&'static AtomicBool> {
    LEFT.get(usize::try_from(fd).ok()?)
}

/// The lock is held for a few steps; by nobody who is preempted there.
fn with_copies<T>(change: impl FnOnce(&mut Copies) -> T) -> T {
    let _pin = raw::pin();
    change(&mut COPIES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The calling thread is about to wait for a descriptor, and does.
pub struct Waiting {
    place: Option<&'static Counts>,
    fd: c_int,
    unit: u64,
    closed: u64,
}

/// What a wait that is over leads to.
pub enum Done {
    /// The thread tries, as long as it keeps this.
    Trying(Trying),
    /// The number was closed; the thread waits on with this copy.
    Kept(Kept),
    /// The number was closed.
    Gone,
}

impl Waiting {
    pub fn begin(fd: c_int, interest: Interest) -> Waiting {
        let unit = if interest == Interest::Read { READS } else { WRITES };
        let place = of(fd);
        Waiting { place, fd, unit, closed: place.map_or(0, |place| place.begin(unit)) }
    }

    /// Whether the number was not closed since.
    pub fn is_meant(&self) -> bool {
        self.place.is_none_or(|place| place.is_meant(self.closed))
    }

    /// The wait is over, and not by the file's event, as far as is known. Said before the thread
    /// counts no more, so that who closes finds the one or the other.
    pub fn leaves_it_armed(&self) {
        if let Some(left) = left(self.fd).filter(|left| !left.load(Relaxed)) {
            left.store(true, Relaxed);
        }
    }

    pub fn done(mut self) -> Done {
        let Some(place) = self.place.take() else { return Done::Trying(Trying(None)) };
        if place.done(self.unit, self.closed) {
            return Done::Trying(Trying(Some((place, self.closed))));
        }
        Kept::take(self.fd, self.closed).map_or(Done::Gone, Done::Kept)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        self.leaves_it_armed();
        if !place.leave(self.unit, self.closed) {
            drop(Kept::take(self.fd, self.closed));
        }
    }
}

/// See [`Done`].
#[must_use]
#[derive(Default)]
pub struct Trying(Option<(&'static Counts, u64)>);

impl Drop for Trying {
    fn drop(&mut self) {
        if let Some((place, closed)) = self.0 {
            place.leave(TRIES, closed);
        }
    }
}

/// A share in a copy of a file.
pub struct Kept {
    place: usize,
    pub fd: c_int,
}

impl Kept {
    /// What is kept of the file that was at `number`, for one who has begun with `closed`.
    #[cold]
    fn take(number: c_int, closed: u64) -> Option<Kept> {
        let (place, fd) = with_copies(|copies| copies.take(number, closed))?;
        Some(Kept { place, fd })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(fd) = with_copies(|copies| copies.release(self.place)) {
            if !raw::is_pinned() {
                // A wait that a signal has ended may have left it armed.
                errno::kept(|| raw::end_waits(fd));
            }
            // SAFETY: nobody has it any more, and the program has not closed it.
            errno::kept(|| drop(unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
}

/// Before the calling thread, of whatever kind, closes the number.
#[inline]
pub fn before_close(fd: c_int) {
    if let Some(place) = to_look_after(fd) {
        errno::kept(|| let_go_on(fd, place));
    }
}

/// Where somebody waits, or has left it armed.
#[inline]
fn to_look_after(fd: c_int) -> Option<&'static Counts> {
    let is_left = || left(fd).is_some_and(|left| left.load(Relaxed));
    of(fd).filter(|place| !place.are_none() || is_left())
}

/// Before it puts a copy of `fd` at the number, by `dup2` or `dup3`; one that fails closes nothing.
pub fn before_copy(fd: c_int, number: c_int, flags: c_int) {
    let Some(place) = to_look_after(number) else { return };
    errno::kept(|| {
        // SAFETY: no pointers.
        let is_open = || unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1;
        if fd != number && flags & !libc::O_CLOEXEC == 0 && is_open() {
            let_go_on(number, place);
        }
    });
}

#[cold]
fn let_go_on(fd: c_int, place: &Counts) {
    // Those who are counted may be the parent's; and a handler may be in the middle of the runtime.
    if !fork::has_full() || actions::is_in_vfork() || raw::is_pinned() {
        return;
    }
    let end = raw::now_ns().saturating_add(PATIENCE_NS);
    let mut offer = Offer::Open(fd);
    let turned = loop {
        let is_patient = raw::now_ns() < end;
        let keep = |closed, waits| offer.is_for(closed, waits);
        match place.close(|reads, writes| is_ready(fd, reads, writes), is_patient, keep) {
            Closing::Free => break false,
            Closing::Later => {}
            Closing::Turned => break true,
        }
        // Those who are to try may come after the caller only.
        heddle::thread::yield_now();
        let _ = raw::sleep_until(raw::now_ns() + NAP_NS);
    };
    let has_ended = offer.end(turned);
    if left(fd).is_some_and(|left| left.swap(false, Relaxed)) && !has_ended {
        raw::end_waits(fd);
    }
}

/// What who closes a number keeps for those who wait for it.
enum Offer {
    /// It has to be looked at.
    Open(c_int),
    /// Nothing is kept.
    Nothing,
    /// A share in the copy.
    Made(c_int, Kept),
}

impl Offer {
    /// So many wait who have begun with `closed`.
    fn is_for(&mut self, closed: u64, waits: u64) {
        if let &mut Offer::Open(fd) = self
            && waits != 0
        {
            *self = Offer::made(fd);
        }
        if let Offer::Made(_, kept) = self {
            with_copies(|copies| copies.is_for(kept.place, closed, waits));
        }
    }

    fn made(number: c_int) -> Offer {
        // A copy that the program closes is not copied: it may close all numbers, one by one.
        if with_copies(|copies| copies.is_lost(number)) || disk::is_disk(number) {
            return Offer::Nothing;
        }
        // SAFETY: not negative; if it is not open, the kernel says so.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let Some(copy) = raw::descriptor::copy(file).map(IntoRawFd::into_raw_fd) else {
            return Offer::Nothing;
        };
        known::forget(copy);
        signalfd::copied(number, copy);
        match with_copies(|copies| copies.offer(number, copy)) {
            Some(place) => Offer::Made(number, Kept { place, fd: copy }),
            None => {
                // SAFETY: made above.
                drop(unsafe { OwnedFd::from_raw_fd(copy) });
                Offer::Nothing
            }
        }
    }

    /// The number is about to be closed; `turned`: those for whom the copy is come from now on.
    /// Whether the number was taken out of the reactors' sets.
    fn end(self, turned: bool) -> bool {
        let Offer::Made(number, kept) = self else { return false };
        if turned {
            raw::end_waits(number);
        } else {
            with_copies(|copies| copies.is_for(kept.place, 0, 0));
        }
        turned
    }
}

/// Whether those who wait to read, or to write, have something to try for.
fn is_ready(fd: c_int, reads: bool, writes: bool) -> bool {
    let read = if reads { libc::POLLIN } else { 0 };
    let write = if writes { libc::POLLOUT } else { 0 };
    let mut poll = libc::pollfd { fd, events: read | write, revents: 0 };
    // SAFETY: one valid pollfd.
    unsafe { direct::poll(&mut poll, 1) > 0 && poll.revents & libc::POLLNVAL == 0 }
}

/// In a child that was forked: no call of the parent's goes on there, and no file is held by one.
///
/// # Safety
/// 1. The calling thread is the only one of the process, and does not hold the lock.
pub unsafe fn in_child() {
    // SAFETY: by 1.
    unsafe { fork::renew(&COPIES) };
    let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    for fd in copies.take_all() {
        // SAFETY: a copy, which nobody uses any more.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}
