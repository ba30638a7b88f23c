//! Locks, semaphores, channels: the same for user-level threads, kernel threads of the process,
//! and the native backend.

mod barrier;
pub mod channel;
mod condvar;
pub mod mpsc;
mod mutex;
mod once;
mod once_lock;
pub(crate) mod raw_mutex;
mod raw_rwlock;
mod rwlock;
mod semaphore;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use once_lock::{LazyLock, OnceLock};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::Semaphore;
pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
