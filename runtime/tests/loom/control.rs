//! A control block with the fields that the protocols use.

use core::ptr;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use loom::sync::{Condvar, Mutex};

use crate::arch::Saved;
use crate::extension::Extension;
use crate::model::{AtomicPtr, AtomicU32, Cell, EXECUTION};
use crate::wait::WaitQueue;

pub(crate) const JOIN_OPEN: *mut Control = ptr::null_mut();
pub(crate) const JOIN_DONE: *mut Control = ptr::without_provenance_mut(1);
pub(crate) const JOIN_DETACHED: *mut Control = ptr::without_provenance_mut(2);
pub(crate) const NO_TIMER: u32 = u32::MAX;
pub(crate) const TOKEN_EMPTY: u32 = 0;
pub(crate) const TOKEN_NOTIFIED: u32 = 1;
pub(crate) const TOKEN_PARKED: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitKind {
    None,
    Queue,
    Sleep,
    Park,
    Reactor,
    Join,
    Shared,
    Address,
    Crowd,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Outcome {
    Woken,
    TimedOut,
    Cancelled,
}

/// All are full threads here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Full,
}

pub struct Control {
    slot: u32,
    pub kind: core::cell::Cell<Kind>,
    pub next: Cell<*const Control>,
    pub prev: Cell<*const Control>,
    pub queue: QueueLink,
    pub outcome: Cell<Outcome>,
    pub wait: Shared,
    pub cancellable: Cell<bool>,
    pub switches: core::cell::Cell<u32>,
    pub deadline: core::cell::Cell<u64>,
    pub timer_slot: core::sync::atomic::AtomicU32,
    pub token: AtomicU32,
    pub join: AtomicPtr<Control>,
    pub worker: core::sync::atomic::AtomicPtr<u8>,
    pub priority: AtomicU8,
    pub base_priority: AtomicU8,
    pub group: AtomicU8,
    pub context: Saved,
    pub extension: core::sync::atomic::AtomicPtr<Extension>,
    /// What stands for the kernel: whether the thread was woken.
    pub woken: (Mutex<bool>, Condvar),
}

// SAFETY: loom runs its threads on one kernel thread, and watches the cells.
unsafe impl Sync for Control {}
// SAFETY: as above.
unsafe impl Send for Control {}

/// As the runtime's: read by others than its owner, so no cell that loom watches.
pub struct Shared(AtomicU8);

impl Shared {
    pub fn get(&self) -> WaitKind {
        let kinds = [
            WaitKind::None,
            WaitKind::Queue,
            WaitKind::Sleep,
            WaitKind::Park,
            WaitKind::Reactor,
            WaitKind::Join,
            WaitKind::Shared,
            WaitKind::Address,
            WaitKind::Crowd,
        ];
        kinds[usize::from(self.0.load(Relaxed))]
    }

    pub fn set(&self, kind: WaitKind) {
        self.0.store(kind as u8, Relaxed);
    }
}

pub(crate) struct QueueLink(AtomicPtr<WaitQueue>);

const OF_MUTEX: usize = 1;

impl QueueLink {
    pub fn get(&self) -> *const WaitQueue {
        self.0.load(Relaxed).map_addr(|address| address & !OF_MUTEX)
    }

    pub fn get_of_mutex(&self) -> *const WaitQueue {
        let link = self.0.load(Relaxed);
        if link.addr() & OF_MUTEX == 0 { ptr::null() } else { self.get() }
    }

    pub fn set(&self, queue: *const WaitQueue) {
        self.0.store(queue.cast_mut(), Relaxed);
    }

    pub fn mark_as_mutex(&self) {
        self.0.store(self.0.load(Relaxed).map_addr(|address| address | OF_MUTEX), Relaxed);
    }
}

impl Control {
    fn new(slot: u32) -> Self {
        let control = Control {
            slot,
            kind: core::cell::Cell::new(Kind::Full),
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            queue: QueueLink(AtomicPtr::new(ptr::null_mut())),
            outcome: Cell::new(Outcome::Woken),
            wait: Shared(core::sync::atomic::AtomicU8::new(WaitKind::None as u8)),
            cancellable: Cell::new(false),
            switches: core::cell::Cell::new(0),
            deadline: core::cell::Cell::new(0),
            timer_slot: core::sync::atomic::AtomicU32::new(NO_TIMER),
            token: AtomicU32::new(TOKEN_EMPTY),
            join: AtomicPtr::new(JOIN_OPEN),
            worker: core::sync::atomic::AtomicPtr::new(ptr::null_mut()),
            priority: AtomicU8::new(0),
            base_priority: AtomicU8::new(0),
            group: AtomicU8::new(1),
            context: Saved::new(),
            extension: core::sync::atomic::AtomicPtr::new(ptr::null_mut()),
            woken: (Mutex::new(false), Condvar::new()),
        };
        control.queue.set(ptr::null());
        control.token.store(TOKEN_EMPTY, Relaxed);
        control.join.store(JOIN_OPEN, Relaxed);
        control.context.leave();
        control
    }

    pub fn slot(&self) -> u32 {
        self.slot
    }

    pub fn is_critical(&self) -> bool {
        self.priority.load(Relaxed) != 0
    }

    pub fn extension(&self) -> &Extension {
        // SAFETY: never freed before the next execution.
        unsafe { &*self.make_extension() }
    }

    pub fn extension_if_made(&self) -> Option<&Extension> {
        // SAFETY: as above.
        unsafe { self.extension.load(Relaxed).as_ref() }
    }

    pub fn make_extension(&self) -> *mut Extension {
        if self.extension.load(Relaxed).is_null() {
            self.extension.store(Box::into_raw(Box::default()), Relaxed);
        }
        self.extension.load(Relaxed)
    }
}

/// Control blocks of an execution.
pub const COUNT: usize = 4;

static SLAB: core::sync::atomic::AtomicPtr<Control> =
    core::sync::atomic::AtomicPtr::new(ptr::null_mut());

/// Starts an execution: its control blocks. The blocks of the execution before are freed.
pub fn fresh() -> [&'static Control; COUNT] {
    EXECUTION.fetch_add(1, Relaxed);
    let blocks: Box<[Control; COUNT]> = Box::new(core::array::from_fn(|i| Control::new(i as u32)));
    let new = Box::into_raw(blocks);
    let old = SLAB.swap(new.cast(), Relaxed);
    if !old.is_null() {
        // SAFETY: the execution that used them is over.
        let old = unsafe { Box::from_raw(old.cast::<[Control; COUNT]>()) };
        for control in old.iter() {
            let extension = control.extension.load(Relaxed);
            if !extension.is_null() {
                // SAFETY: made by `make_extension`.
                drop(unsafe { Box::from_raw(extension) });
            }
        }
    }
    // SAFETY: alive until the next execution starts.
    let new: &'static [Control; COUNT] = unsafe { &*new };
    new.each_ref()
}

/// The block of a slot.
///
/// # Safety
/// 1. The slot was made.
pub(crate) unsafe fn at(slot: u32) -> &'static Control {
    // SAFETY: the caller's promise.
    unsafe { &*SLAB.load(Relaxed).add(slot as usize) }
}
