//! Channels: any number of senders and receivers, bounded, unbounded, or a rendezvous.
//!
//! ```
//! use heddle::sync::channel;
//! let (sender, receiver) = channel::bounded(2);
//! heddle::thread::spawn(move || (0..5).for_each(|n| sender.send(n).unwrap()));
//! assert_eq!(receiver.iter().sum::<i32>(), 10);
//! ```
//!
//! Errors are std's `mpsc` ones. Values that nobody received are dropped with the last receiver.

mod blocks;
mod core;
mod offers;
mod ring;

use ::core::fmt;
use ::core::sync::atomic::AtomicUsize;
use ::core::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::core::Core;
use crate::sys::clock::deadline_after;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// Why [`Sender::send_timeout`] failed; the value comes back.
#[derive(PartialEq, Eq, Clone, Copy)]
pub enum SendTimeoutError<T> {
    /// The timeout passed first.
    Timeout(T),
    /// All receivers are gone.
    Disconnected(T),
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "timed out sending on a full channel",
            SendTimeoutError::Disconnected(_) => "sending on a closed channel",
        })
    }
}

impl<T> std::error::Error for SendTimeoutError<T> {}

struct Shared<T> {
    core: Core<T>,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

/// A channel that holds `capacity` values; with 0 each send waits for its receive.
///
/// # Panics
/// When the capacity is above 2^31 or memory for it is refused.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    ends(Core::bounded(capacity))
}

/// A channel that grows: a send never waits.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    ends(Core::unbounded())
}

fn ends<T>(core: Core<T>) -> (Sender<T>, Receiver<T>) {
    let (senders, receivers) = (AtomicUsize::new(1), AtomicUsize::new(1));
    let shared = Arc::new(Shared { core, senders, receivers });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

/// The sending end; clone it for more senders.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The receiving end; clone it for more receivers, each value goes to one of them.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Sends, waiting for room.
    ///
    /// # Errors
    /// When all receivers are gone; the error carries the value.
    #[inline]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        match self.shared.core.send(value, 0) {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Disconnected(value) | SendTimeoutError::Timeout(value)) => {
                Err(SendError(value))
            }
        }
    }

    /// Sends if there is room (for a rendezvous: if a receiver waits).
    ///
    /// # Errors
    /// `Full` or `Disconnected`; the error carries the value.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.shared.core.try_send(value)
    }

    /// Sends, waiting at most `timeout` for room.
    ///
    /// # Errors
    /// `Timeout` or `Disconnected`; the error carries the value.
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.shared.core.send(value, deadline_after(timeout))
    }

    /// Values that wait to be received.
    pub fn len(&self) -> usize {
        self.shared.core.len()
    }

    /// Whether no value waits to be received.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many values fit; `None` when unbounded.
    pub fn capacity(&self) -> Option<usize> {
        self.shared.core.capacity()
    }
}

impl<T> Receiver<T> {
    /// Receives, waiting for a value.
    ///
    /// # Errors
    /// When the channel is empty and all senders are gone.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.shared.core.receive(0).map_err(|_| RecvError)
    }

    /// Receives if a value is there (for a rendezvous: if a sender waits).
    ///
    /// # Errors
    /// `Empty` or `Disconnected`.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.shared.core.try_receive()
    }

    /// Receives, waiting at most `timeout` for a value.
    ///
    /// # Errors
    /// `Timeout` or `Disconnected`.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.shared.core.receive(deadline_after(timeout))
    }

    /// Receives, waiting until `deadline` at most for a value.
    ///
    /// # Errors
    /// `Timeout` or `Disconnected`.
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    }

    /// Receives until all senders are gone.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Receives what is there, without waiting.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    /// Values that wait to be received.
    pub fn len(&self) -> usize {
        self.shared.core.len()
    }

    /// Whether no value waits to be received.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many values fit; `None` when unbounded.
    pub fn capacity(&self) -> Option<usize> {
        self.shared.core.capacity()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.senders.fetch_add(1, Relaxed);
        Sender { shared: self.shared.clone() }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.receivers.fetch_add(1, Relaxed);
        Receiver { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // ORDER: AcqRel: what other senders sent before they went is in the channel.
        if self.shared.senders.fetch_sub(1, AcqRel) == 1 {
            self.shared.core.close(core::Side::Sender);
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // ORDER: as above.
        if self.shared.receivers.fetch_sub(1, AcqRel) == 1 {
            self.shared.core.close(core::Side::Receiver);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// See [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// See [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// Receives until all senders are gone; owns the receiver.
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;
    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}
