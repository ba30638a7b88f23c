//! The seam, on loom's side: atomics and cells that loom watches.
//!
//! loom's have no const constructor and live for one execution of a model only; these are made on
//! first use in each execution. Invariant: what several threads use without a lock is used by the
//! model's main thread before it starts the others ([`crate::control::fresh`] and the models see
//! to that): loom takes the first use for the construction.

use core::time::Duration;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{self, Relaxed};

pub(crate) use loom::sync::atomic::fence;

pub(crate) const SPINS: u32 = 0;
/// Small, so that a model wraps around.
pub(crate) const FRESH_RING: usize = 2;

/// Number of the execution.
pub(crate) static EXECUTION: AtomicU64 = AtomicU64::new(1);

/// A value made anew in each execution. loom runs its threads one at a time on one kernel thread.
struct Lazy<T>(core::cell::UnsafeCell<Option<(u64, T)>>);

impl<T> Lazy<T> {
    const fn new() -> Self {
        Lazy(core::cell::UnsafeCell::new(None))
    }

    fn get(&self, make: impl FnOnce() -> T) -> &T {
        let execution = EXECUTION.load(Relaxed);
        // SAFETY: one kernel thread, and `make` does not come back here.
        let slot = unsafe { &mut *self.0.get() };
        if slot.as_ref().is_none_or(|(made, _)| *made != execution) {
            *slot = Some((execution, make()));
        }
        &slot.as_ref().unwrap().1
    }
}

pub(crate) fn known_part(address: usize) -> usize {
    address
}

pub(crate) fn spin() {
    loom::thread::yield_now();
}

/// Until somebody changes the word: of several that take turns loom may let the same one go on for
/// ever.
pub(crate) fn give_way(word: &AtomicU32, seen: u32) {
    futex_wait(word, seen, Some(Duration::MAX));
}

/// As an exchange: loom takes a load that is SeqCst for one that is Acquire.
pub(crate) fn newest(word: &AtomicU32) -> u32 {
    word.get().fetch_add(0, Ordering::SeqCst)
}

/// Sleeps until it is woken. With a timeout, until the word is stored to: whether by a wake or
/// because the nap is over, the sleeper looks again some time after that.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let kernel = word.kernel();
    let awake = kernel.0.lock().unwrap();
    let sleepers = if timeout.is_some() { &word.sleepers } else { &word.patient };
    sleepers.fetch_add(1, Relaxed);
    // The kernel reads the newest value, so this is an exchange for loom.
    if word.get().fetch_add(0, Relaxed) == expected {
        drop(kernel.1.wait(awake).unwrap());
    }
    sleepers.fetch_sub(1, Relaxed);
}

/// The monitor's sleep; alarms are over at once here.
pub(crate) fn doze_wait(word: &AtomicU32, limit: Option<Duration>) -> bool {
    futex_wait(word, 1, limit);
    false
}

pub(crate) fn doze_wake(word: &AtomicU32) {
    futex_wake(word, 1);
}

/// Wakes those without a timeout; of the others each may wake by itself.
pub(crate) fn futex_wake(word: &AtomicU32, _count: u32) {
    if word.patient.load(Relaxed) != 0 {
        let _awake = word.kernel().0.lock().unwrap();
        word.kernel().1.notify_all();
    }
}

/// A word that is looked at without its lock.
pub(crate) use AtomicU32 as Hint;

pub(crate) struct AtomicU32 {
    first: u32,
    made: Lazy<loom::sync::atomic::AtomicU32>,
    kernel: Lazy<(loom::sync::Mutex<()>, loom::sync::Condvar)>,
    /// Those that sleep with a timeout, and those without one.
    sleepers: std::sync::atomic::AtomicU32,
    patient: std::sync::atomic::AtomicU32,
}

// SAFETY: one kernel thread.
unsafe impl Sync for AtomicU32 {}
// SAFETY: as above.
unsafe impl Send for AtomicU32 {}

impl Default for AtomicU32 {
    fn default() -> Self {
        AtomicU32::new(0)
    }
}

impl AtomicU32 {
    pub const fn new(first: u32) -> Self {
        let (made, kernel) = (Lazy::new(), Lazy::new());
        let sleepers = std::sync::atomic::AtomicU32::new(0);
        let patient = std::sync::atomic::AtomicU32::new(0);
        AtomicU32 { first, made, kernel, sleepers, patient }
    }

    fn kernel(&self) -> &(loom::sync::Mutex<()>, loom::sync::Condvar) {
        self.kernel.get(|| (loom::sync::Mutex::new(()), loom::sync::Condvar::new()))
    }

    fn get(&self) -> &loom::sync::atomic::AtomicU32 {
        self.made.get(|| loom::sync::atomic::AtomicU32::new(self.first))
    }

    pub fn load(&self, order: Ordering) -> u32 {
        self.get().load(order)
    }

    /// As an exchange: loom does not know that an exchange which read the value before this one
    /// comes before it in the order of writes, and would let a later exchange miss it.
    pub fn store(&self, value: u32, order: Ordering) {
        self.get().swap(value, order);
        self.changed();
    }

    fn changed(&self) {
        if self.sleepers.load(Relaxed) != 0 {
            let _awake = self.kernel().0.lock().unwrap();
            self.kernel().1.notify_all();
        }
    }

    pub fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.get().swap(value, order)
    }

    pub fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        let old = self.get().fetch_add(value, order);
        self.changed();
        old
    }

    pub fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        let old = self.get().fetch_sub(value, order);
        self.changed();
        old
    }

    pub fn compare_exchange(
        &self,
        from: u32,
        to: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.get().compare_exchange(from, to, success, failure)
    }

    pub fn compare_exchange_weak(
        &self,
        from: u32,
        to: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.get().compare_exchange(from, to, success, failure)
    }
}

pub(crate) struct AtomicPtr<T> {
    first: *mut T,
    made: Lazy<loom::sync::atomic::AtomicPtr<T>>,
}

// SAFETY: one kernel thread.
unsafe impl<T> Sync for AtomicPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Send for AtomicPtr<T> {}

impl<T> AtomicPtr<T> {
    pub const fn new(first: *mut T) -> Self {
        AtomicPtr { first, made: Lazy::new() }
    }

    fn get(&self) -> &loom::sync::atomic::AtomicPtr<T> {
        self.made.get(|| loom::sync::atomic::AtomicPtr::new(self.first))
    }

    pub fn load(&self, order: Ordering) -> *mut T {
        self.get().load(order)
    }

    pub fn store(&self, value: *mut T, order: Ordering) {
        self.get().swap(value, order);
    }

    pub fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        self.get().swap(value, order)
    }

    pub fn compare_exchange(
        &self,
        from: *mut T,
        to: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.get().compare_exchange(from, to, success, failure)
    }

    pub fn compare_exchange_weak(
        &self,
        from: *mut T,
        to: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.get().compare_exchange(from, to, success, failure)
    }
}

/// A cell whose accesses must be ordered by something else: loom fails the model if they aren't.
pub(crate) struct Cell<T> {
    first: core::cell::Cell<T>,
    made: Lazy<loom::cell::UnsafeCell<T>>,
}

impl<T: Copy> Cell<T> {
    pub const fn new(first: T) -> Self {
        Cell { first: core::cell::Cell::new(first), made: Lazy::new() }
    }

    fn cell(&self) -> &loom::cell::UnsafeCell<T> {
        self.made.get(|| loom::cell::UnsafeCell::new(self.first.get()))
    }

    pub fn get(&self) -> T {
        // SAFETY: loom fails the model when this races.
        self.cell().with(|value| unsafe { *value })
    }

    pub fn set(&self, new: T) {
        // SAFETY: as above.
        self.cell().with_mut(|value| unsafe { *value = new });
    }

    pub fn replace(&self, new: T) -> T {
        let old = self.get();
        self.set(new);
        old
    }
}
