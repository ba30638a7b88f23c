//! The channel itself: a store, a wait queue for each side, one lock for all.
//!
//! Protocol:
//! 1. The state is touched only under the lock of the receivers' queue: one locked instruction
//!    for a send or a receive. A sender that has to wait takes the lock of the senders' queue as
//!    well, always as the second.
//! 2. Senders wait while the store is full, receivers while it is empty. Both may wait at once:
//!    a receiver that was woken has not come yet, another waits behind it, and the store is full.
//! 3. A send that finds receivers waiting takes the first out and wakes it; it will find the
//!    value or, if another receiver was faster, wait again. So on one worker a consumer is woken
//!    once for all that the producer sends until the store is full, and the other way round.
//! 4. Rendezvous: a sender leaves its value in the store with its name and waits; the receiver
//!    takes both and wakes it. A sender that gives up looks for its value: if it is gone, it was
//!    received. A value without a name is for a receiver that was woken for it.
//! 5. Nobody allocates, frees, or drops a value under the lock.

use ::core::cell::UnsafeCell;

use super::blocks::{Block, Blocks};
use super::offers::{Offer, Offers};
use super::ring::Ring;
use super::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use crate::control::{Control, Outcome};
use crate::sched;
use crate::wait::{self, Locked, WaitQueue};

/// Most values of a bounded channel.
const CAPACITY_MAX: usize = 1 << 31;

/// An end of the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Sender,
    Receiver,
}

enum Store<T> {
    Ring(Ring<T>),
    Blocks(Blocks<T>),
    Rendezvous(Offers<T>),
}

struct State<T> {
    store: Store<T>,
    no_senders: bool,
    no_receivers: bool,
}

/// See the file's head.
#[repr(align(64))]
pub(super) struct Core<T> {
    receivers: WaitQueue,
    senders: WaitQueue,
    /// `Store::Rendezvous`, known without the lock.
    rendezvous: bool,
    state: UnsafeCell<State<T>>,
}

// SAFETY: the state is touched only under the lock of `receivers`; values move between threads.
unsafe impl<T: Send> Send for Core<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Core<T> {}

/// What a try to send came to; the lock comes back where the caller may go on to wait.
enum Put<'a, T> {
    Done,
    Full(Locked<'a>, T),
    NoBlock(T),
    Closed(T),
}

/// What a try to receive came to.
enum Got<'a, T> {
    Value(T),
    Empty(Locked<'a>),
    Closed,
}

impl<T> Core<T> {
    /// A channel for `capacity` values; 0 = rendezvous.
    pub fn bounded(capacity: usize) -> Self {
        if capacity == 0 {
            return Core::new(Store::Rendezvous(Offers::new()));
        }
        assert!(capacity <= CAPACITY_MAX, "a channel for {capacity} values");
        match Ring::new(capacity) {
            Ok(ring) => Core::new(Store::Ring(ring)),
            Err(error) => panic!("{error}"),
        }
    }

    /// A channel that grows.
    pub fn unbounded() -> Self {
        Core::new(Store::Blocks(Blocks::new()))
    }

    fn new(store: Store<T>) -> Self {
        let rendezvous = matches!(store, Store::Rendezvous(_));
        let state = UnsafeCell::new(State { store, no_senders: false, no_receivers: false });
        Core { receivers: WaitQueue::new(), senders: WaitQueue::new(), rendezvous, state }
    }

    /// The state, while the lock of `receivers` is held.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn state<'a>(&'a self, _queue: &'a Locked<'_>) -> &'a mut State<T> {
        // SAFETY: the lock is held, and no caller keeps the reference when it asks again.
        unsafe { &mut *self.state.get() }
    }

    // ---- sending

    /// Sends, waiting until `deadline` (ns, 0 = never) at most.
    #[inline]
    pub fn send(&self, mut value: T, deadline: u64) -> Result<(), SendTimeoutError<T>> {
        if self.rendezvous {
            return self.send_offer(value, deadline);
        }
        loop {
            value = match self.put(value) {
                Put::Done => return Ok(()),
                Put::Closed(value) => return Err(SendTimeoutError::Disconnected(value)),
                Put::NoBlock(value) => {
                    self.provide_block();
                    value
                }
                Put::Full(queue, value) => {
                    match self.wait_as_sender(queue, sched::current(), deadline) {
                        Outcome::Woken => value,
                        _ => return Err(SendTimeoutError::Timeout(value)),
                    }
                }
            }
        }
    }

    /// Sends if there is room, or a receiver waits.
    pub fn try_send(&self, mut value: T) -> Result<(), TrySendError<T>> {
        if self.rendezvous {
            return self.try_send_offer(value);
        }
        loop {
            value = match self.put(value) {
                Put::Done => return Ok(()),
                Put::Closed(value) => return Err(TrySendError::Disconnected(value)),
                Put::Full(_, value) => return Err(TrySendError::Full(value)),
                Put::NoBlock(value) => {
                    self.provide_block();
                    value
                }
            }
        }
    }

    #[inline]
    fn put(&self, value: T) -> Put<'_, T> {
        let queue = self.receivers.lock();
        let state = self.state(&queue);
        if state.no_receivers {
            return Put::Closed(value);
        }
        let refused = match &mut state.store {
            Store::Ring(ring) => ring.push(value).map_err(|value| (false, value)),
            Store::Blocks(blocks) => blocks.push(value).map_err(|value| (true, value)),
            Store::Rendezvous(_) => unreachable!("a rendezvous has offers"),
        };
        match refused {
            Ok(()) => {
                let receiver = queue.pop();
                drop(queue);
                if let Some(receiver) = receiver {
                    wait::wake(receiver, Outcome::Woken);
                }
                Put::Done
            }
            Err((false, value)) => Put::Full(queue, value),
            Err((true, value)) => Put::NoBlock(value),
        }
    }

    #[cold]
    fn provide_block(&self) {
        let block = Block::new();
        let queue = self.receivers.lock();
        let surplus = match &mut self.state(&queue).store {
            Store::Blocks(blocks) => blocks.provide(block),
            _ => Some(block),
        };
        drop(queue);
        drop(surplus);
    }

    #[cold]
    fn wait_as_sender(&self, queue: Locked<'_>, me: &'static Control, deadline: u64) -> Outcome {
        let senders = self.senders.lock();
        senders.enqueue(me);
        // Whoever makes room from here on finds us.
        drop(queue);
        senders.wait(me, deadline)
    }

    // ---- receiving

    /// Receives, waiting until `deadline` (ns, 0 = never) at most.
    #[inline]
    pub fn receive(&self, deadline: u64) -> Result<T, RecvTimeoutError> {
        loop {
            let queue = match self.get() {
                Got::Value(value) => return Ok(value),
                Got::Closed => return Err(RecvTimeoutError::Disconnected),
                Got::Empty(queue) => queue,
            };
            let me = sched::current();
            queue.enqueue(me);
            if queue.wait(me, deadline) != Outcome::Woken {
                return Err(RecvTimeoutError::Timeout);
            }
        }
    }

    /// Receives if a value is there.
    pub fn try_receive(&self) -> Result<T, TryRecvError> {
        match self.get() {
            Got::Value(value) => Ok(value),
            Got::Closed => Err(TryRecvError::Disconnected),
            Got::Empty(_) => Err(TryRecvError::Empty),
        }
    }

    #[inline]
    fn get(&self) -> Got<'_, T> {
        let queue = self.receivers.lock();
        let state = self.state(&queue);
        let (value, block) = match &mut state.store {
            Store::Ring(ring) => (ring.pop(), None),
            Store::Blocks(blocks) => match blocks.pop() {
                Some((value, block)) => (Some(value), block),
                None => (None, None),
            },
            Store::Rendezvous(offers) => {
                if let Some(offer) = offers.pop() {
                    return Got::Value(self.accept(queue, *offer));
                }
                (None, None)
            }
        };
        let Some(value) = value else {
            return if state.no_senders { Got::Closed } else { Got::Empty(queue) };
        };
        let sender = if self.senders.seems_empty() { None } else { self.senders.lock().pop() };
        drop(queue);
        drop(block);
        if let Some(sender) = sender {
            wait::wake(sender, Outcome::Woken);
        }
        Got::Value(value)
    }

    // ---- rendezvous

    /// Leaves the offer for a receiver that waits, or gives it back.
    fn put_offer(&self, offer: Box<Offer<T>>) -> Put<'_, Box<Offer<T>>> {
        let queue = self.receivers.lock();
        let state = self.state(&queue);
        if state.no_receivers {
            return Put::Closed(offer);
        }
        let Some(receiver) = queue.pop() else { return Put::Full(queue, offer) };
        state.offers().push(offer);
        drop(queue);
        wait::wake(receiver, Outcome::Woken);
        Put::Done
    }

    fn send_offer(&self, value: T, deadline: u64) -> Result<(), SendTimeoutError<T>> {
        let (queue, mut offer) = match self.put_offer(Offer::new(value)) {
            Put::Full(queue, offer) => (queue, offer),
            Put::Closed(offer) | Put::NoBlock(offer) => {
                return Err(SendTimeoutError::Disconnected(offer.value));
            }
            Put::Done => return Ok(()),
        };
        let me = sched::current();
        offer.sender = me;
        self.state(&queue).offers().push(offer);
        let outcome = self.wait_as_sender(queue, me, deadline);

        let queue = self.receivers.lock();
        let state = self.state(&queue);
        let closed = state.no_receivers;
        if outcome == Outcome::Woken && !closed {
            return Ok(());
        }
        let back = state.offers().take_back(me);
        drop(queue);
        match back {
            None => Ok(()),
            Some(offer) if closed => Err(SendTimeoutError::Disconnected(offer.value)),
            Some(offer) => Err(SendTimeoutError::Timeout(offer.value)),
        }
    }

    fn try_send_offer(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.put_offer(Offer::new(value)) {
            Put::Done => Ok(()),
            Put::Full(queue, offer) => {
                drop(queue);
                Err(TrySendError::Full(offer.value))
            }
            Put::Closed(offer) | Put::NoBlock(offer) => {
                Err(TrySendError::Disconnected(offer.value))
            }
        }
    }

    /// Takes the value of an offer and wakes its sender, unless that has just given up.
    fn accept(&self, queue: Locked<'_>, offer: Offer<T>) -> T {
        // SAFETY: null or a slot of the slab.
        let sender = unsafe { offer.sender.as_ref() };
        let sender = sender.filter(|sender| self.senders.lock().remove(sender));
        drop(queue);
        if let Some(sender) = sender {
            wait::wake(sender, Outcome::Woken);
        }
        offer.value
    }

    // ---- both ends

    /// The last one of `side` is gone.
    pub fn close(&self, side: Side) {
        let queue = self.receivers.lock();
        let state = self.state(&queue);
        match side {
            Side::Sender => {
                state.no_senders = true;
                let waiters = queue.take_all();
                drop(queue);
                waiters.wake();
            }
            Side::Receiver => {
                state.no_receivers = true;
                let waiters = self.senders.lock().take_all();
                drop(queue);
                waiters.wake();
                self.discard();
            }
        }
    }

    /// Drops the values that nobody will receive, each without the lock. Offers go back to their
    /// senders.
    fn discard(&self) {
        if self.rendezvous {
            return;
        }
        while let Got::Value(value) = self.get() {
            drop(value);
        }
    }

    /// Values that wait to be received.
    pub fn len(&self) -> usize {
        let queue = self.receivers.lock();
        match &self.state(&queue).store {
            Store::Ring(ring) => ring.len(),
            Store::Blocks(blocks) => blocks.len(),
            Store::Rendezvous(_) => 0,
        }
    }

    /// How many values fit; `None` when unbounded.
    pub fn capacity(&self) -> Option<usize> {
        let queue = self.receivers.lock();
        match &self.state(&queue).store {
            Store::Ring(ring) => Some(ring.capacity()),
            Store::Blocks(_) => None,
            Store::Rendezvous(_) => Some(0),
        }
    }
}

impl<T> State<T> {
    fn offers(&mut self) -> &mut Offers<T> {
        match &mut self.store {
            Store::Rendezvous(offers) => offers,
            _ => unreachable!("asked for a rendezvous only"),
        }
    }
}
