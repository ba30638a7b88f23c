//! Where the runtime's own descriptors stand.
//!
//! A program counts on its numbers: its next `open` gives the lowest that is free, it puts a file
//! at 9 with `dup2`, it closes all from 3 to 63. Whoever runs programs that know nothing of the
//! runtime says so ([`raise_all`]); from then on what stays open for long is moved up, where they
//! do not look. The kernel makes each at the lowest number, where it is for an instant; what the
//! program does at numbers of its choice, or at the lowest, meanwhile waits (`gate.rs`).
//!
//! Invariants:
//! 1. A descriptor is raised before its number is told to anybody: the kernel knows what an epoll
//!    set or a ring watches by that.
//! 2. No number that is raised to is above what an `fd_set` has: `select` that is given a larger
//!    count looks at as many bits as the kernel's table has room for.
//! 3. What finds no place stays where it is. That is no error.

mod brief;
mod gate;
mod own;

use core::ffi::CStr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

pub use self::brief::Brief;
pub(crate) use self::own::{Own, mark, unmark};
pub use self::own::{is_own, keep, own_from};

use rustix::buffer::spare_capacity;
use rustix::io::{fcntl_dupfd_cloexec, fcntl_getfd};

/// Between these are the ranges that are tried, one after the other; the kernel refuses those
/// beyond RLIMIT_NOFILE. As in `preload/c/descriptor.c`.
const BORDERS: [RawFd; 10] = [1024, 1000, 768, 512, 250, 192, 128, 60, 48, 32];

/// How many are asked for at once.
const PART_BYTES: usize = 4096;

static ARE_RAISED: AtomicBool = AtomicBool::new(false);

/// The program's numbers are to be as if the runtime had no descriptors; before it has any.
pub fn raise_all() {
    ARE_RAISED.store(true, Relaxed);
}

/// Makes a descriptor and puts it at its place.
///
/// # Errors
/// What making it gives.
pub fn raised<E>(make: impl FnOnce() -> Result<OwnedFd, E>) -> Result<OwnedFd, E> {
    low(|| {
        let fd = make()?;
        if !ARE_RAISED.load(Relaxed) {
            return Ok(fd);
        }
        let made = Brief::new(fd);
        Ok(copy_above(made.as_fd()).unwrap_or_else(|| made.stay()))
    })
}

/// The descriptor, where it should be. For what is made before there are threads.
pub(crate) fn at_its_place(fd: OwnedFd) -> OwnedFd {
    copy_above(fd.as_fd()).unwrap_or(fd)
}

/// The beginning of a file of the kernel's, as far as `buffer` has room.
pub fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a str> {
    let count = low(|| {
        let file = Brief::open(path).ok()?;
        let mut count = 0;
        loop {
            match rustix::io::read(&file, &mut buffer[count..]).ok()? {
                0 => return Some(count),
                more => count += more,
            }
        }
    });
    core::str::from_utf8(&buffer[..count?]).ok()
}

/// All of a file of the kernel's.
pub fn read_all(path: &CStr) -> Option<Vec<u8>> {
    low(|| {
        let file = Brief::open(path).ok()?;
        let mut bytes = Vec::with_capacity(PART_BYTES);
        while rustix::io::read(&file, spare_capacity(&mut bytes)).ok()? != 0 {
            bytes.reserve(PART_BYTES);
        }
        Some(bytes)
    })
}

/// Runs what has a descriptor of its own at a low number; it is short, and returns. A full thread
/// is pinned, and must not wait in there, as for an allocator's lock.
pub fn low<T>(body: impl FnOnce() -> T) -> T {
    let _passing = ARE_RAISED.load(Relaxed).then(gate::make);
    body()
}

/// As [`low`], for who waits for nobody; `None`: the program puts a file somewhere.
pub fn try_low<T>(body: impl FnOnce() -> T) -> Option<T> {
    let passing = ARE_RAISED.load(Relaxed).then(gate::try_make);
    if matches!(passing, Some(None)) { None } else { Some(body()) }
}

/// Runs a call of the program's that puts a file at this number. Where there is one already that
/// one stays there until then, and the call, which closes it, may take long: nobody waits for it.
pub fn put<T>(number: RawFd, call: impl FnOnce() -> T) -> T {
    let passing = gate::put();
    // SAFETY: used at once; if it is not open, the kernel says so.
    let is_free = number >= 0 && fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).is_err();
    // Where it is not, who has passed is gone before the call.
    let _passing = is_free.then_some(passing);
    call()
}

/// Runs a call of the program's that takes the lowest number, and waits for nothing.
pub fn lowest<T>(call: impl FnOnce() -> T) -> T {
    let _passing = gate::put();
    call()
}

/// Before a call of the program's that takes the lowest number, and may wait. What is made between
/// this and the call is not seen.
#[inline]
pub fn before_lowest() {
    if gate::are_made() {
        gate::await_made();
    }
}

/// As [`gate::in_child`] and [`own::in_child`].
pub(crate) fn in_child() {
    gate::in_child();
    own::in_child();
}

/// A copy of a descriptor of the program's, for the caller's own use; `None`: there is no place.
pub fn copy(fd: BorrowedFd<'_>) -> Option<OwnedFd> {
    let number = fd.as_raw_fd();
    // Above the ranges the program has many, and will hardly miss one.
    let beside = || (number + 1 >= BORDERS[1]).then(|| fcntl_dupfd_cloexec(fd, number + 1).ok());
    copy_above(fd).or_else(|| beside().flatten())
}

/// A copy of the descriptor at the place where it should be; `None`: it may stay.
pub(crate) fn copy_above(fd: BorrowedFd<'_>) -> Option<OwnedFd> {
    if !ARE_RAISED.load(Relaxed) {
        return None;
    }
    let mut ranges = BORDERS.windows(2).take_while(|range| fd.as_raw_fd() < range[1]);
    ranges.find_map(|range| copy_into(fd, range[1], range[0]))
}

/// A copy between `from` and `end`.
fn copy_into(fd: BorrowedFd<'_>, from: RawFd, end: RawFd) -> Option<OwnedFd> {
    // SAFETY: not negative; if it is not open, the kernel says so.
    let last = unsafe { BorrowedFd::borrow_raw(end - 1) };
    // The kernel takes the lowest that is free, which lies in the range while the last one does.
    // To try and look would have made its table larger for good.
    let has_room = fcntl_getfd(last).is_err();
    has_room.then(|| fcntl_dupfd_cloexec(fd, from).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::event::Event;

    #[test]
    fn what_is_full_is_passed_over() {
        let event = Event::new().unwrap();
        let copy = || copy_into(event.as_fd(), 990, 992);
        let Some(one) = copy() else { return println!("skip: RLIMIT_NOFILE permits no 992") };
        let other = copy().unwrap();
        assert_eq!((one.as_raw_fd(), other.as_raw_fd()), (990, 991));
        assert!(copy().is_none());
        drop(other);
        assert_eq!(copy().unwrap().as_raw_fd(), 991);
    }
}
