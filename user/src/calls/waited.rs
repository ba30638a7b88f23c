//! Which descriptors full threads wait for, so that whoever closes one does not take from them what
//! has come before.
//!
//! In the kernel a call has the file, whatever becomes of its number. Here a thread that waits for
//! it has the number, with which it tries again. So `close`, and `dup2` onto the number, lets those
//! try first for whom the file is ready, as it is when somebody has shut the connection down
//! before. Of those for whom it is not ready none tries again: by then the number may be another
//! file's.
//!
//! Invariant: between the end of a wait and the end of the try after it the number is not closed by
//! these, unless that takes longer than [`PATIENCE_NS`].

mod counts;

use core::ffi::c_int;

use heddle::raw::{self, Interest};

use self::counts::{Closing, Counts, READS, TRIES, WRITES};
use super::{Result, Stop};
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

fn of(fd: c_int) -> Option<&'static Counts> {
    PLACES.get(usize::try_from(fd).ok()?)
}

/// The calling thread is about to wait for a descriptor, and does.
pub struct Waiting {
    place: Option<&'static Counts>,
    unit: u64,
    closed: u64,
}

impl Waiting {
    pub fn begin(fd: c_int, interest: Interest) -> Waiting {
        let unit = if interest == Interest::Read { READS } else { WRITES };
        let place = of(fd);
        Waiting { place, unit, closed: place.map_or(0, |place| place.begin(unit)) }
    }

    /// The wait is over: the thread tries, as long as it keeps the result.
    ///
    /// # Errors
    /// `EBADF`: the number was closed meanwhile.
    pub fn done(mut self) -> Result<Trying> {
        let Some(place) = self.place.take() else { return Ok(Trying(None)) };
        if place.done(self.unit, self.closed) {
            Ok(Trying(Some((place, self.closed))))
        } else {
            Err(Stop::Error(libc::EBADF))
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.leave(self.unit, self.closed);
        }
    }
}

/// See [`Waiting::done`].
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

/// Before the calling thread, of whatever kind, closes the number.
#[inline]
pub fn before_close(fd: c_int) {
    if let Some(place) = of(fd).filter(|place| !place.are_none()) {
        errno::kept(|| let_try(fd, place));
    }
}

/// Before it puts a copy of `fd` at the number, by `dup2` or `dup3`; one that fails closes nothing.
pub fn before_copy(fd: c_int, number: c_int, flags: c_int) {
    let Some(place) = of(number).filter(|place| !place.are_none()) else { return };
    errno::kept(|| {
        // SAFETY: no pointers.
        let is_open = || unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1;
        if fd != number && flags & !libc::O_CLOEXEC == 0 && is_open() {
            let_try(number, place);
        }
    });
}

#[cold]
fn let_try(fd: c_int, place: &Counts) {
    // Those who are counted may be the parent's; and a handler may be in the middle of the runtime.
    if !fork::has_full() || actions::is_in_vfork() || raw::is_pinned() {
        return;
    }
    let end = raw::now_ns().saturating_add(PATIENCE_NS);
    while place.close(|reads, writes| is_ready(fd, reads, writes), raw::now_ns() < end)
        == Closing::Later
    {
        // Those who are to try may come after the caller only.
        heddle::thread::yield_now();
        let _ = raw::sleep_until(raw::now_ns() + NAP_NS);
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
