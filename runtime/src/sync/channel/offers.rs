//! The store of a rendezvous: values that are offered, each with the sender that waits for its
//! receive.
//!
//! An offer lies on the heap, allocated by its sender before it takes the channel's lock: it must
//! not lie on the sender's stack, which may hibernate.

use core::ptr;

use crate::control::Control;

/// See the file's head.
pub(super) struct Offer<T> {
    pub value: T,
    /// Null: the value is for a receiver that was woken for it, nobody waits.
    pub sender: *const Control,
    next: *mut Offer<T>,
}

impl<T> Offer<T> {
    /// An offer of `value` that nobody waits for yet.
    pub fn new(value: T) -> Box<Self> {
        Box::new(Offer { value, sender: ptr::null(), next: ptr::null_mut() })
    }
}

/// See the file's head.
pub(super) struct Offers<T> {
    first: *mut Offer<T>,
    last: *mut Offer<T>,
}

impl<T> Offers<T> {
    /// No offers.
    pub const fn new() -> Self {
        Offers { first: ptr::null_mut(), last: ptr::null_mut() }
    }

    /// Appends an offer.
    pub fn push(&mut self, mut offer: Box<Offer<T>>) {
        offer.next = ptr::null_mut();
        let offer = Box::into_raw(offer);
        // SAFETY: null or the last offer of the list.
        match unsafe { self.last.as_mut() } {
            Some(last) => last.next = offer,
            None => self.first = offer,
        }
        self.last = offer;
    }

    /// Takes the oldest offer.
    pub fn pop(&mut self) -> Option<Box<Offer<T>>> {
        let first = self.first;
        self.take_after(ptr::null_mut(), first)
    }

    /// Takes the offer of `sender` back, if nobody has received it.
    pub fn take_back(&mut self, sender: *const Control) -> Option<Box<Offer<T>>> {
        let (mut before, mut each) = (ptr::null_mut(), self.first);
        // SAFETY: null or an offer of the list.
        while let Some(offer) = unsafe { each.as_ref() } {
            if ptr::eq(offer.sender, sender) {
                return self.take_after(before, each);
            }
            (before, each) = (each, offer.next);
        }
        None
    }

    /// Unlinks `offer` (null: none), whose predecessor is `before` (null: it is the first).
    fn take_after(&mut self, before: *mut Offer<T>, offer: *mut Offer<T>) -> Option<Box<Offer<T>>> {
        if offer.is_null() {
            return None;
        }
        // SAFETY: an offer of the list, made from a box; it is unlinked below.
        let offer = unsafe { Box::from_raw(offer) };
        // SAFETY: null or an offer of the list.
        match unsafe { before.as_mut() } {
            Some(before) => before.next = offer.next,
            None => self.first = offer.next,
        }
        if offer.next.is_null() {
            self.last = before;
        }
        Some(offer)
    }
}

impl<T> Drop for Offers<T> {
    fn drop(&mut self) {
        while let Some(offer) = self.pop() {
            drop(offer);
        }
    }
}
