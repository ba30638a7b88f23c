//! Thread-locals of heddle's threads.
//!
//! std's `thread_local!` belongs to the kernel thread, so all light threads of a worker share
//! it. These belong to the thread, whatever it runs on.

use core::any::Any;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::control::Control;
use crate::sched;

/// Rounds of destructors at a thread's end: a destructor may set a local again (as POSIX's
/// `PTHREAD_DESTRUCTOR_ITERATIONS`).
const DESTRUCTOR_ROUNDS: usize = 4;

/// Number of the next key; 0 = none given yet in [`LocalKey::index`].
static NEXT_KEY: AtomicU32 = AtomicU32::new(1);

/// A thread-local value of type `T`; made by [`crate::thread_local!`].
pub struct LocalKey<T: 'static> {
    index: AtomicU32,
    init: fn() -> T,
}

/// Declares thread-locals that belong to heddle's threads; the syntax is std's.
///
/// ```
/// use std::cell::Cell;
/// heddle::thread_local! { static DEPTH: Cell<u32> = Cell::new(0); }
/// DEPTH.with(|depth| depth.set(depth.get() + 1));
/// assert_eq!(DEPTH.with(Cell::get), 1);
/// ```
#[macro_export]
macro_rules! thread_local {
    ($($(#[$attribute:meta])* $visible:vis static $name:ident : $type:ty = $init:expr);+ $(;)?) => {
        $($(#[$attribute])* $visible static $name: $crate::thread::LocalKey<$type> =
            $crate::thread::LocalKey::new(|| $init);)+
    };
}

impl<T: 'static> LocalKey<T> {
    /// A key whose value is made by `init` on a thread's first use.
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> Self {
        LocalKey { index: AtomicU32::new(0), init }
    }

    fn index(&self) -> usize {
        let known = self.index.load(Relaxed);
        if known != 0 {
            return known as usize;
        }
        let new = NEXT_KEY.fetch_add(1, Relaxed);
        match self.index.compare_exchange(0, new, Relaxed, Relaxed) {
            Ok(_) => new as usize,
            Err(other) => other as usize,
        }
    }

    /// Calls `f` with the calling thread's value, which is made first if it is not there.
    ///
    /// # Panics
    /// When `f` or the initialiser uses the same key again in a way that would move the value.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        let index = self.index();
        let extension = sched::current().extension();
        let value = self.value(extension, index);
        // SAFETY: the box was made for this key, so it holds a `T`; it is dropped only at the
        // thread's end (`destroy`), and the vector may move the box but not what is in it.
        f(unsafe { &*value })
    }

    fn value(&self, extension: &crate::extension::Extension, index: usize) -> *const T {
        let existing = extension
            .locals
            .borrow()
            .get(index)
            .and_then(|slot| slot.as_ref()?.downcast_ref::<T>().map(core::ptr::from_ref));
        if let Some(value) = existing {
            return value;
        }
        // The initialiser may use other keys: no borrow is held while it runs.
        let made: Box<dyn Any> = Box::new((self.init)());
        let mut locals = extension.locals.borrow_mut();
        if locals.len() <= index {
            locals.resize_with(index + 1, || None);
        }
        let slot = locals[index].get_or_insert(made);
        slot.downcast_ref::<T>().map_or(core::ptr::null(), core::ptr::from_ref)
    }
}

/// Drops the locals of a thread that ends; called by the thread itself. False: the destructors set
/// locals again each time, and what is left stays.
#[inline]
pub(crate) fn destroy(me: &'static Control) -> bool {
    me.extension.load(Relaxed).is_null() || destroy_made(me)
}

#[inline(never)]
fn destroy_made(me: &'static Control) -> bool {
    let extension = me.extension();
    for _ in 0..DESTRUCTOR_ROUNDS {
        let locals = extension.locals.take();
        if locals.iter().all(Option::is_none) {
            return true;
        }
        for value in locals.into_iter().flatten() {
            // A panic in a destructor must not take the worker down.
            let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(value)));
            drop(dropped);
        }
    }
    false
}
