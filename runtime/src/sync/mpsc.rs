//! [`super::channel`] under the names of `std::sync::mpsc`, for sources that are ported.
//!
//! More than std's: receivers can be cloned.

pub use super::channel::{IntoIter, Iter, Receiver, Sender, Sender as SyncSender, TryIter};
pub use super::channel::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// An unbounded channel.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    super::channel::unbounded()
}

/// A channel that holds `bound` values; with 0 each send waits for its receive.
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    super::channel::bounded(bound)
}
