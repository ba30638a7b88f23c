//! Which descriptors full threads wait for, so that whoever closes one does not take from them what
//! has come before.
//!
//! In the kernel a call has the file, whatever becomes of its number. Here a thread that waits for
//! it has the number, with which it tries again. So `close` lets those try first for whom the file
//! is ready, as it is when somebody has shut the connection down before. Of those for whom it is
//! not ready none tries again: by then the number may be another file's.
//!
//! Invariant: between the end of a wait and the end of the try after it the number is not closed by
//! `close`, unless that takes longer than [`PATIENCE_NS`].

use core::ffi::c_int;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use heddle::raw::{self, Interest};

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

/// How many wait to read, to write, and try; and how often the number was closed meanwhile.
static PLACES: [AtomicU64; KNOWN] = [const { AtomicU64::new(0) }; KNOWN];

const BITS: u32 = 18;
const READS: u64 = 1;
const WRITES: u64 = READS << BITS;
const TRIES: u64 = WRITES << BITS;
const CLOSED: u64 = TRIES << BITS;

fn count(word: u64, unit: u64) -> u64 {
    word / unit % (1 << BITS)
}

fn closed(word: u64) -> u64 {
    word / CLOSED
}

fn of(fd: c_int) -> Option<&'static AtomicU64> {
    PLACES.get(usize::try_from(fd).ok()?)
}

/// One less, unless who closes has lost patience.
fn leave(place: &AtomicU64, unit: u64) -> u64 {
    // ORDER: SeqCst throughout: the counts stand before what they are for.
    let less = |word| (count(word, unit) != 0).then(|| word - unit);
    place.fetch_update(SeqCst, SeqCst, less).unwrap_or_else(|word| word)
}

/// The calling thread is about to wait for a descriptor, and does.
pub struct Waiting {
    place: Option<&'static AtomicU64>,
    unit: u64,
    closed: u64,
}

impl Waiting {
    pub fn begin(fd: c_int, interest: Interest) -> Waiting {
        let unit = if interest == Interest::Read { READS } else { WRITES };
        let place = of(fd);
        let word = place.map_or(0, |place| place.fetch_add(unit, SeqCst));
        Waiting { place, unit, closed: closed(word) }
    }

    /// The wait is over: the thread tries, as long as it keeps the result.
    ///
    /// # Errors
    /// `EBADF`: the number was closed meanwhile.
    pub fn done(mut self) -> Result<Trying> {
        let Some(place) = self.place.take() else { return Ok(Trying(None)) };
        let unit = self.unit;
        let turned = |word: u64| Some(word - unit * count(word, unit).min(1) + TRIES);
        let before = place.fetch_update(SeqCst, SeqCst, turned).unwrap_or_else(|word| word);
        let trying = Trying(Some(place));
        if closed(before) == self.closed { Ok(trying) } else { Err(Stop::Error(libc::EBADF)) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            leave(place, self.unit);
        }
    }
}

/// See [`Waiting::done`].
#[must_use]
#[derive(Default)]
pub struct Trying(Option<&'static AtomicU64>);

impl Drop for Trying {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            leave(place, TRIES);
        }
    }
}

/// Before the calling thread, of whatever kind, closes the number.
#[inline]
pub fn before_close(fd: c_int) {
    if let Some(place) = of(fd)
        && !place.load(SeqCst).is_multiple_of(CLOSED)
    {
        errno::kept(|| let_try(fd, place));
    }
}

#[cold]
fn let_try(fd: c_int, place: &AtomicU64) {
    // Those who are counted may be the parent's; and a handler may be in the middle of the runtime.
    if !fork::has_full() || actions::is_in_vfork() || raw::is_pinned() {
        return;
    }
    let end = raw::now_ns().saturating_add(PATIENCE_NS);
    loop {
        let word = place.load(SeqCst);
        let is_over = raw::now_ns() >= end;
        if word.is_multiple_of(CLOSED) {
            return;
        }
        if is_over || count(word, TRIES) == 0 && !is_ready(fd, word) {
            let counts = if is_over { 0 } else { word % CLOSED };
            let new = counts + closed(word).wrapping_add(1) % (u64::MAX / CLOSED) * CLOSED;
            if place.compare_exchange(word, new, SeqCst, SeqCst).is_ok() {
                return;
            }
            continue;
        }
        // Those who are to try may come after the caller only.
        heddle::thread::yield_now();
        let _ = raw::sleep_until(raw::now_ns() + NAP_NS);
    }
}

/// Whether one of those has something to try for.
fn is_ready(fd: c_int, word: u64) -> bool {
    let read = if count(word, READS) != 0 { libc::POLLIN } else { 0 };
    let write = if count(word, WRITES) != 0 { libc::POLLOUT } else { 0 };
    let mut poll = libc::pollfd { fd, events: read | write, revents: 0 };
    // SAFETY: one valid pollfd.
    unsafe { direct::poll(&mut poll, 1) > 0 && poll.revents & libc::POLLNVAL == 0 }
}
