//! The calling thread as C sees it.
//!
//! Threads that `heddle_create` made have their [`Data`] from the start. Others, kernel threads
//! and threads that Rust code spawned, are adopted at their first call that needs it, and let go
//! at their end.
//!
//! Invariant: the pointer that is found here is that of the calling thread's own slot, alive until
//! the thread ends.

use core::cell::Cell;
use core::ptr;

use heddle::raw;

use crate::data::{self, Data, Kind};
use crate::exit;

thread_local! {
    /// The data of this kernel thread, if it is not a worker.
    static KERNEL: Cell<*const Data> = const { Cell::new(ptr::null()) };
    /// Lets go of `KERNEL` at the kernel thread's end.
    static GUARD: Guard = const { Guard };
}

heddle::thread_local! {
    /// Lets go of the data of a thread that Rust code spawned.
    static LIGHT_GUARD: Guard = Guard;
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(data) = known() else { return };
        // A process that returns from main runs no destructors of thread-specific data.
        if data.kind() == Kind::Foreign && !is_main() {
            forget();
            exit::leave(data);
        }
    }
}

/// Whether the calling kernel thread is the process's first.
pub fn is_main() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// The calling thread's data, if it has any yet.
#[inline]
pub fn known() -> Option<&'static Data> {
    let data = if heddle::thread::is_user_level() {
        raw::foreign().cast_const().cast()
    } else {
        KERNEL.get()
    };
    // SAFETY: null, or the calling thread's slot (the file's invariant).
    unsafe { data.as_ref() }
}

/// The calling thread's data.
#[inline]
pub fn data() -> &'static Data {
    match known() {
        Some(data) => data,
        None => adopt(),
    }
}

#[cold]
fn adopt() -> &'static Data {
    // The runtime's own guard is registered before ours, so that ours runs first.
    let thread = heddle::thread::current();
    let Some(data) = data::allocate(Kind::Foreign) else {
        panic!("no memory to describe a thread");
    };
    {
        let mut shared = data.lock();
        shared.thread = Some(thread);
        shared.detached = !is_main();
    }
    set(data);
    if heddle::thread::is_user_level() {
        LIGHT_GUARD.with(|_| ());
    } else {
        let _ = GUARD.try_with(|_| ());
    }
    data
}

/// Makes `data` the calling thread's.
pub fn set(data: &'static Data) {
    if heddle::thread::is_user_level() {
        raw::set_foreign(ptr::from_ref(data).cast_mut().cast());
    } else {
        KERNEL.set(data);
    }
}

/// The calling thread has no data any more.
pub fn forget() {
    if heddle::thread::is_user_level() {
        raw::set_foreign(ptr::null_mut());
    } else {
        KERNEL.set(ptr::null());
    }
}
