//! The primitives, from `src`.

#[path = "../../src/sync/channel/mod.rs"]
pub mod channel;
#[path = "../../src/sync/condvar.rs"]
pub mod condvar;
#[path = "../../src/sync/mutex.rs"]
pub mod mutex;
#[path = "../../src/sync/once.rs"]
pub mod once;
#[path = "../../src/sync/raw_mutex.rs"]
pub mod raw_mutex;
#[path = "../../src/sync/raw_rwlock.rs"]
pub mod raw_rwlock;
#[path = "../../src/sync/semaphore.rs"]
pub mod semaphore;

pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
