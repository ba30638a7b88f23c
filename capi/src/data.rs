//! A thread as C sees it: its id, who joins it, its attributes, its values, its handlers.
//!
//! Slots are never freed, only reused under another generation, so an id that is stale, or was
//! never one, is found out and not followed.
//!
//! Invariants:
//! 1. `id` is 0 while the slot is free; it changes only under `shared`.
//! 2. A slot is given back by whoever comes last: the thread when it is detached, else the one
//!    that joins or detaches it after its end. All three decide under `shared`.
//! 3. Fields marked "own" are touched by the thread itself only.
//! 4. `shared` is held for a few instructions; its holder never switches.

use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

use heddle::raw::WaitQueue;
use heddle::thread::Thread;

use crate::exit::{Cleanup, UnwindException};
use crate::key::Values;
use crate::schedule::Schedule;

const CHUNK: usize = 256;
const CHUNKS: usize = 1 << 16;

/// What runs the thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A user-level thread that `heddle_create` made.
    Light,
    /// A kernel thread that `heddle_create` made, on the native backend.
    Native,
    /// A thread that somebody else made.
    Foreign,
}

/// A start function.
pub type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// See the file's head.
pub struct Data {
    slot: u32,
    generation: AtomicU32,
    id: AtomicU64,
    shared: Mutex<Shared>,
    /// The one that waits to join.
    pub joiners: WaitQueue,
    /// Whom the thread waits to join; 0 = nobody.
    pub joining: AtomicU64,
    /// Wakes a kernel thread out of a wait for a descriptor; -1 = none yet.
    pub cancel_event: AtomicI32,
    /// Own.
    pub own: Own,
}

/// What the thread alone touches.
pub struct Own {
    pub kind: Cell<Kind>,
    pub start: Cell<Option<Start>>,
    pub argument: Cell<*mut c_void>,
    /// What it ended with; the joiner reads it after the end.
    pub result: Cell<*mut c_void>,
    /// The latest cleanup handler.
    pub cleanup: Cell<*mut Cleanup>,
    /// An address in the frame below the start function; 0 = the stack has no such frame.
    pub base: Cell<usize>,
    pub values: Cell<*mut Values>,
    pub exception: UnsafeCell<UnwindException>,
}

/// What others may ask or change.
#[derive(Default)]
pub struct Shared {
    /// The runtime's handle, from start to end.
    pub thread: Option<Thread>,
    pub finished: bool,
    pub detached: bool,
    pub joined_by: u64,
    pub cancel_asked: bool,
    pub name: [u8; 16],
    pub schedule: Schedule,
    pub stack_base: usize,
    pub stack_bytes: usize,
    pub guard_bytes: usize,
    pub flags: u8,
}

// SAFETY: `own` is touched by the thread itself, except `result`, `start`, `argument`, `kind`,
// which the creator writes before the thread starts and the joiner reads after its end.
unsafe impl Sync for Data {}
// SAFETY: as above.
unsafe impl Send for Data {}

static TABLE: [AtomicPtr<Data>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
static FREE: Mutex<Free> = Mutex::new(Free { slots: Vec::new(), made: 0 });

struct Free {
    slots: Vec<u32>,
    made: u32,
}

fn free_list() -> MutexGuard<'static, Free> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A slot with a new id; `None` when memory or ids are exhausted.
pub fn allocate(kind: Kind) -> Option<&'static Data> {
    let mut free = free_list();
    let slot = match free.slots.pop() {
        Some(slot) => slot,
        None => {
            let slot = free.made;
            if (slot as usize).is_multiple_of(CHUNK) {
                add_chunk(slot as usize / CHUNK)?;
            }
            free.made += 1;
            slot
        }
    };
    drop(free);
    let data = at(slot)?;
    data.reset(kind);
    Some(data)
}

fn add_chunk(index: usize) -> Option<()> {
    let place = TABLE.get(index)?;
    let mut chunk = Vec::new();
    chunk.try_reserve_exact(CHUNK).ok()?;
    chunk.extend((0..CHUNK).map(|offset| Data::new((index * CHUNK + offset) as u32)));
    // ORDER: Release publishes the slots to the Acquire in `at`.
    place.store(Box::leak(chunk.into_boxed_slice()).as_mut_ptr(), Release);
    Some(())
}

fn at(slot: u32) -> Option<&'static Data> {
    let chunk = TABLE.get(slot as usize / CHUNK)?.load(Acquire);
    if chunk.is_null() {
        return None;
    }
    // SAFETY: a chunk has CHUNK slots and is never freed.
    Some(unsafe { &*chunk.add(slot as usize % CHUNK) })
}

/// The thread that `id` names, locked; `None` when there is none.
pub fn find(id: u64) -> Option<(&'static Data, MutexGuard<'static, Shared>)> {
    let data = at(id as u32)?;
    let shared = data.lock();
    (id != 0 && data.id() == id).then_some((data, shared))
}

impl Data {
    fn new(slot: u32) -> Self {
        Data {
            slot,
            generation: AtomicU32::new(0),
            id: AtomicU64::new(0),
            shared: Mutex::new(Shared::default()),
            joiners: WaitQueue::new(),
            joining: AtomicU64::new(0),
            cancel_event: AtomicI32::new(-1),
            own: Own {
                kind: Cell::new(Kind::Foreign),
                start: Cell::new(None),
                argument: Cell::new(ptr::null_mut()),
                result: Cell::new(ptr::null_mut()),
                cleanup: Cell::new(ptr::null_mut()),
                base: Cell::new(0),
                values: Cell::new(ptr::null_mut()),
                exception: UnsafeCell::new(UnwindException::default()),
            },
        }
    }

    /// The slot was free: nobody else knows it.
    fn reset(&self, kind: Kind) {
        self.own.kind.set(kind);
        self.own.start.set(None);
        self.own.argument.set(ptr::null_mut());
        self.own.result.set(ptr::null_mut());
        self.own.cleanup.set(ptr::null_mut());
        self.own.base.set(0);
        self.own.values.set(ptr::null_mut());
        self.joining.store(0, Relaxed);
        let mut shared = self.lock();
        let generation = self.generation.load(Relaxed).wrapping_add(1).max(1);
        self.generation.store(generation, Relaxed);
        *shared = Shared::default();
        self.id.store(u64::from(generation) << 32 | u64::from(self.slot), Relaxed);
    }

    /// The id; 0 when the slot is free.
    pub fn id(&self) -> u64 {
        self.id.load(Relaxed)
    }

    /// What runs it.
    pub fn kind(&self) -> Kind {
        self.own.kind.get()
    }

    /// What others may ask or change.
    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the slot back; the caller came last (invariant 2) and still holds the lock.
    pub fn release(&self, mut shared: MutexGuard<'_, Shared>) {
        shared.thread = None;
        self.id.store(0, Relaxed);
        let event = self.cancel_event.swap(-1, Relaxed);
        drop(shared);
        if event >= 0 {
            // SAFETY: made by this slot's thread, which has ended; nobody else keeps the number.
            unsafe { libc::close(event) };
        }
        free_list().slots.push(self.slot);
    }
}
