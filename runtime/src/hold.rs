//! Who has a descriptor for itself, where several system calls of a thread go together.
//!
//! The kernel moves a file's position and the bytes before it as one; a transfer here may take
//! several calls, and another thread's must not come between them. A file that knows no call that
//! never sleeps is asked whether it is ready, and then read before another thread reads it.
//!
//! Invariant: nobody who holds a descriptor's position waits for anything but the disk, nor runs a
//! handler; so nobody waits for it who is waited for. Who reads what has no position waits for what
//! the file has said is there, which another process may have taken: who waits for that can be
//! called and cancelled.
//!
//! By number: descriptors that lead to one file (`dup`) are held apart. Kernel threads and other
//! processes hold none: their transfers are single calls, which the kernel keeps whole, but which
//! may come between two of a thread's.

use core::ffi::c_int;
use core::marker::PhantomData;

use crate::control::Outcome;
use crate::sync::raw_mutex::RawMutex;

/// Descriptors further apart are held together.
const APART: usize = 1 << 12;

type All = [RawMutex; APART];
static POSITIONS: All = [const { RawMutex::new() }; APART];
static READERS: All = [const { RawMutex::new() }; APART];

/// Ends when it is dropped.
pub struct Hold {
    /// `None`: a handler's call came into one that holds already.
    mutex: Option<&'static RawMutex>,
    /// Ends by the thread that has it.
    not_send: PhantomData<*const ()>,
}

/// `None`: `lock` did not take it.
fn of(all: &'static All, fd: c_int, lock: impl Fn(&RawMutex) -> bool) -> Option<Hold> {
    let mutex = &all[fd.unsigned_abs() as usize % APART];
    if mutex.is_mine() {
        return Some(Hold { mutex: None, not_send: PhantomData });
    }
    lock(mutex).then_some(Hold { mutex: Some(mutex), not_send: PhantomData })
}

/// Waits until nobody else moves bytes at the file's own position.
pub fn position(fd: c_int) -> Hold {
    let lock = |mutex: &RawMutex| {
        mutex.lock();
        true
    };
    of(&POSITIONS, fd, lock).expect("locked")
}

/// Waits until nobody else reads what has no position; `None`: the calling thread was cancelled, or
/// called.
pub fn reader(fd: c_int) -> Option<Hold> {
    of(&READERS, fd, |mutex| mutex.lock_cancellable() == Outcome::Woken)
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(mutex) = self.mutex {
            // SAFETY: locked when this was made.
            unsafe { mutex.unlock() };
        }
    }
}
