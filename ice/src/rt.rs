//! The seam to the threading library: everything that blocks comes from here.
//!
//! Invariant: no other file of Ice names a threading library, so the same source runs on
//! whatever stands behind these names; heddle's backend (user-level or kernel threads) is chosen
//! by its configuration, not here.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub use heddle::Group;
pub use heddle::net::{TcpListener, TcpStream};
pub use heddle::sync::{Condvar, Mutex, MutexGuard};
pub use heddle::thread::{JoinHandle, sleep};

/// Starts a thread with a role.
///
/// # Errors
/// Threads, memory or address space are exhausted.
pub fn spawn(
    role: &'static str,
    group: Group,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    heddle::thread::Builder::new().role(role).group(group).stack_size(stack_bytes).spawn(body)
}

/// Locks; a panic of an earlier holder is its own problem.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs what may block for long in the kernel.
pub fn blocking<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    heddle::blocking(work)
}

/// Sends a piece of a file; fewer bytes only where it ends.
///
/// # Errors
/// Those of the kernel.
pub fn send_file(stream: &TcpStream, file: &File, offset: u64, length: u64) -> io::Result<u64> {
    stream.send_file(file, offset, length)
}

/// Processors: how many parts shared state is split into.
pub fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The part of the shared state that the calling thread should use.
///
/// A user-level thread has its worker's thread-local storage, so all threads of a worker get the
/// same part, and no other worker's thread does. On kernel threads the parts go round.
#[inline]
pub fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const UNSET: usize = usize::MAX;
    thread_local!(static STRIPE: Cell<usize> = const { Cell::new(UNSET) });
    STRIPE.with(|stripe| {
        if stripe.get() == UNSET {
            stripe.set(NEXT.fetch_add(1, Relaxed));
        }
        stripe.get()
    })
}
