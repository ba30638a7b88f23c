//! `OnceLock<T>` and `LazyLock<T>`: std's APIs over [`Once`].
//!
//! Invariant: the value is there, and never written again through `&self`, exactly when the once
//! is completed.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::panic::{RefUnwindSafe, UnwindSafe};

use super::once::Once;

/// A cell that is written once; std's `OnceLock`.
///
/// ```
/// static NAME: heddle::sync::OnceLock<String> = heddle::sync::OnceLock::new();
/// assert_eq!(NAME.get_or_init(|| "warp".to_owned()), "warp");
/// assert_eq!(NAME.set("weft".to_owned()), Err("weft".to_owned()));
/// ```
pub struct OnceLock<T> {
    once: Once,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: as std's: the value is written by one thread, read by many, dropped by any.
unsafe impl<T: Send> Send for OnceLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe + RefUnwindSafe> RefUnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// An empty cell.
    pub const fn new() -> Self {
        OnceLock { once: Once::new(), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// The value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if !self.once.is_completed() {
            return None;
        }
        // SAFETY: completed, so the value is there and not written again.
        Some(unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// The value, if there is one.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        if !self.once.is_completed() {
            return None;
        }
        // SAFETY: completed; borrowed mutably.
        Some(unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Sets the value; gives it back if there is one already.
    ///
    /// # Errors
    /// `value`, when there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.once.call_once_force(|_| {
            if let Some(value) = value.take() {
                // SAFETY: as in `init`.
                unsafe { (*self.value.get()).write(value) };
            }
        });
        value.map_or(Ok(()), Err)
    }

    /// The value, made by `f` if there is none. Waits while another thread makes it.
    #[inline]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.init(f),
        }
    }

    #[cold]
    fn init(&self, f: impl FnOnce() -> T) -> &T {
        self.once.call_once_force(|_| {
            // SAFETY: the once runs one closure at a time, and none after it is completed.
            unsafe { (*self.value.get()).write(f()) };
        });
        // SAFETY: `call_once_force` returns with the once completed: the closure that leaves it
        // otherwise has panicked, and the next caller's closure runs.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    /// The value; waits until somebody has set it.
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        // SAFETY: completed.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    /// The value, if there is one.
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Takes the value out; the cell is empty then.
    pub fn take(&mut self) -> Option<T> {
        if !self.once.is_completed() {
            return None;
        }
        self.once = Once::new();
        // SAFETY: it was completed, and no longer is: the value is moved out once.
        Some(unsafe { self.value.get_mut().assume_init_read() })
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => out.field(value),
            None => out.field(&format_args!("<empty>")),
        };
        out.finish()
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().map_or_else(OnceLock::new, |value| OnceLock::from(value.clone()))
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        let cell = OnceLock::new();
        let _ = cell.set(value);
        cell
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

/// A value that is made on first use; std's `LazyLock`.
///
/// ```
/// use heddle::sync::LazyLock;
/// static SQUARES: LazyLock<Vec<u32>> = LazyLock::new(|| (0..9).map(|n| n * n).collect());
/// assert_eq!(SQUARES[3], 9);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    init: Cell<Option<F>>,
}

// SAFETY: `init` is taken by the one closure that the once runs at a time.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe + RefUnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `f` will make.
    pub const fn new(f: F) -> Self {
        LazyLock { value: OnceLock::new(), init: Cell::new(Some(f)) }
    }

    /// The value, made if nobody has used it yet.
    ///
    /// # Panics
    /// When the closure panics, or has panicked before.
    #[inline]
    pub fn force(this: &Self) -> &T {
        this.value.get_or_init(|| match this.init.take() {
            Some(init) => init(),
            None => panic!("LazyLock: the closure has panicked before"),
        })
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_tuple("LazyLock");
        match self.value.get() {
            Some(value) => out.field(value),
            None => out.field(&format_args!("<not made yet>")),
        };
        out.finish()
    }
}
