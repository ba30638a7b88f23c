//! Which copies of files are kept for threads that waited when the file's number was closed.
//!
//! Who closes makes the copy and offers it before those who wait count no more (`counts.rs`). Each
//! of them learns once that the number was closed, and takes the copy then, or says that it wants
//! it no more; so it is known how many are still to come.
//!
//! Invariant: a copy is open as long as somebody is still to come for it, or has it; the last one
//! is told to close it.

use core::ffi::c_int;

/// More are not kept at the same time.
const KEPT: usize = 256;

/// See the file's head.
pub struct Copies([Copy; KEPT]);

struct Copy {
    /// Where it is; -1 = nowhere, as the program has closed that number.
    fd: c_int,
    /// The number that was closed, and what those have begun with whom it is for.
    number: c_int,
    closed: u64,
    /// How many of them are still to come.
    awaited: u64,
    /// How many have it; 0, and nobody is to come: the place is free.
    holders: u64,
}

impl Copies {
    pub const fn new() -> Self {
        Copies([const { Copy { fd: -1, number: -1, closed: 0, awaited: 0, holders: 0 } }; KEPT])
    }

    /// The caller has made the copy `fd` of the file at `number`, and has it until he says
    /// [`Copies::release`] of the place that this returns, if there is one.
    pub fn offer(&mut self, number: c_int, fd: c_int) -> Option<usize> {
        let place = self.0.iter().position(|it| it.holders == 0 && it.awaited == 0)?;
        self.0[place] = Copy { fd, number, closed: 0, awaited: 0, holders: 1 };
        Some(place)
    }

    /// So many who have begun with `closed` are to come for it.
    pub fn is_for(&mut self, place: usize, closed: u64, awaited: u64) {
        (self.0[place].closed, self.0[place].awaited) = (closed, awaited);
    }

    /// One has come who has begun with `closed`. The place of the copy, and where it is.
    pub fn take(&mut self, number: c_int, closed: u64) -> Option<(usize, c_int)> {
        let is_it = |it: &Copy| it.awaited != 0 && (it.number, it.closed) == (number, closed);
        let place = self.0.iter().position(is_it)?;
        let copy = &mut self.0[place];
        copy.awaited -= 1;
        copy.holders += 1;
        Some((place, copy.fd))
    }

    /// One needs it no more. The descriptor that is to be closed now.
    pub fn release(&mut self, place: usize) -> Option<c_int> {
        let copy = &mut self.0[place];
        // In a child nobody has any.
        copy.holders = copy.holders.checked_sub(1)?;
        (copy.holders == 0 && copy.awaited == 0 && copy.fd >= 0).then_some(copy.fd)
    }

    /// The program closes the number `fd` itself; true: a copy was there.
    pub fn is_lost(&mut self, fd: c_int) -> bool {
        let is_it = |it: &&mut Copy| it.fd == fd && (it.holders != 0 || it.awaited != 0);
        let lost = self.0.iter_mut().find(is_it).map(|it| it.fd = -1);
        lost.is_some()
    }

    /// Nobody has any, nor will; what is to be closed.
    pub fn take_all(&mut self) -> impl Iterator<Item = c_int> {
        self.0.iter_mut().filter_map(|copy| {
            let is_used = copy.holders != 0 || copy.awaited != 0;
            (copy.holders, copy.awaited) = (0, 0);
            (is_used && copy.fd >= 0).then_some(copy.fd)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_closes() {
        let mut copies = Copies::new();
        let place = copies.offer(5, 600).unwrap();
        copies.is_for(place, 3, 2);
        assert_eq!(copies.release(place), None);
        assert_eq!(copies.take(5, 2), None);
        assert_eq!(copies.take(5, 3), Some((place, 600)));
        assert_eq!(copies.release(place), None);
        assert_eq!(copies.take(5, 3), Some((place, 600)));
        assert_eq!(copies.take(5, 3), None);
        assert_eq!(copies.release(place), Some(600));
        assert_eq!(copies.offer(6, 601), Some(place));
    }

    #[test]
    fn what_was_closed_is_closed_by_nobody() {
        let mut copies = Copies::new();
        let place = copies.offer(5, 600).unwrap();
        assert!(!copies.is_lost(5));
        assert!(copies.is_lost(600));
        assert_eq!(copies.release(place), None);
        assert!(!copies.is_lost(600));
    }

    #[test]
    fn a_child_has_none() {
        let mut copies = Copies::new();
        let place = copies.offer(5, 600).unwrap();
        assert_eq!(copies.take_all().collect::<Vec<_>>(), [600]);
        assert_eq!(copies.release(place), None);
        assert_eq!(copies.take_all().count(), 0);
    }

    #[test]
    fn what_finds_no_place_is_not_kept() {
        let mut copies = Copies::new();
        (0..KEPT).for_each(|_| assert!(copies.offer(5, 600).is_some()));
        assert_eq!(copies.offer(5, 600), None);
    }
}
