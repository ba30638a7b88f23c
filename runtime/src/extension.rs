//! What few threads need, kept out of the control block: made on first use, on the heap.

use core::any::Any;
use core::cell::{Cell, RefCell};
use core::ptr;
use core::sync::atomic::AtomicPtr;

use crate::sync::raw_mutex::RawMutex;

/// See the file's head. Owned by the thread unless a field says otherwise.
pub(crate) struct Extension {
    /// Values of `heddle::thread_local!` keys, by key.
    pub locals: RefCell<Vec<Option<Box<dyn Any>>>>,
    /// The C API's own data of the thread.
    pub foreign: Cell<*mut u8>,
    /// Mutexes through which the thread inherits priority; changed under the inheritance lock.
    pub inherited: AtomicPtr<RawMutex>,
}

impl Default for Extension {
    fn default() -> Self {
        Extension {
            locals: RefCell::new(Vec::new()),
            foreign: Cell::new(ptr::null_mut()),
            inherited: AtomicPtr::new(ptr::null_mut()),
        }
    }
}
