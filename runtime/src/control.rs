//! The control block: the private half of a thread, 128 bytes, and the slab they all live in.
//!
//! The first cache line is all that a switch touches; the second is for waiting and joining.
//! Control blocks lie densely and apart from the stacks (with 100 000 ready threads the caches
//! are 90 % of the cost of a switch). A slot's index names its record as well.
//!
//! Invariants:
//! 1. The slab is mapped once and never moves or shrinks: a `&'static Control` stays readable for
//!    the life of the process; reuse is excluded by `references`.
//! 2. `Cell` fields are touched only by the kernel thread that owns the thread (its worker, or
//!    the thread itself when it is a kernel thread), or, for `next`, `prev`, `queue`, under the
//!    lock of the queue that the thread is linked in. The hand-over between the two is the run
//!    queue or the inbox.
//! 3. A light thread's `worker` is written once, before its first activation; a full thread's also
//!    while it is ready, by who steals it. So while a thread waits, it is where it waits.

mod pointer;

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{self, AtomicI32, AtomicU8};
use std::io;

use crate::arch::Context;
use crate::extension::Extension;
use crate::model::{AtomicPtr, AtomicU32, Cell};
use crate::sys::{libc_tls, memory};
use crate::wait::WaitQueue;
use crate::worker::Worker;

/// Most threads of a process, live and pooled.
pub(crate) const SLOTS_MAX: u32 = 1 << 24;

/// What executes the thread.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The slot is in a pool.
    Free = 0,
    /// A user-level thread that stays on the worker where it started.
    Light = 1,
    /// A user-level thread with thread-local storage of its own, which may move while it is ready.
    Full = 2,
    /// A kernel thread of the process that uses heddle's primitives.
    Kernel = 3,
}

impl Kind {
    /// Whether workers run it.
    #[inline(always)]
    pub fn is_user_level(self) -> bool {
        matches!(self, Kind::Light | Kind::Full)
    }
}

/// What a parked thread waits in: who may end the wait, and how.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitKind {
    /// Not waiting, or in a wait that only its waker ends.
    None = 0,
    /// Linked in a [`WaitQueue`].
    Queue = 1,
    /// In `sleep`.
    Sleep = 2,
    /// In `park` (the token decides).
    Park = 3,
    /// For a descriptor or an operation, in its worker's reactor.
    Reactor = 4,
    /// For the end of the thread that `Control::prev` names.
    Join = 5,
    /// As `Queue`, for a share of a reader-writer lock; the queue's lock makes it readable.
    Shared = 6,
    /// As `Queue`, for an address, in a bucket of the parking lot.
    Address = 7,
    /// No longer in `Address`: a wake of many has ended it, and it has not run since.
    Crowd = 8,
}

impl WaitKind {
    /// What a person reads.
    pub fn describe(self) -> &'static str {
        match self {
            WaitKind::None | WaitKind::Crowd => "nothing",
            WaitKind::Queue | WaitKind::Shared => "a lock, semaphore, condition or channel",
            WaitKind::Address => "an address (futex)",
            WaitKind::Sleep => "sleep",
            WaitKind::Park => "park",
            WaitKind::Reactor => "I/O",
            WaitKind::Join => "join",
        }
    }
}

/// How a wait ended.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Outcome {
    /// By its waker.
    Woken = 0,
    /// Its deadline passed first.
    TimedOut = 1,
    /// The thread was cancelled.
    Cancelled = 2,
}

/// `Control::flags` of threads without [`OWN_TLS`]: the thread asked for hibernation of its stack.
pub(crate) const HIBERNATES: u8 = 1;
/// `Control::flags` of threads with [`OWN_TLS`]: its thread pointer has a segment.
#[cfg(target_arch = "x86_64")]
const SEGMENT: u8 = 1;
/// `Control::flags`: the stack is copied out; the block is in `context.base`.
pub(crate) const HIBERNATED: u8 = 2;
/// `Control::flags`: the stack was clean at the start and is measured at the end.
pub(crate) const MEASURED: u8 = 4;
/// `Control::flags`: its thread-local storage lies at the top of its stack; bits `CLASS_SHIFT` on
/// are then `Control::class`: a switch finds the block from the first cache line alone.
pub(crate) const OWN_TLS: u8 = 8;
/// `Control::flags` of a slot in a pool that has [`OWN_TLS`]: the block was kept.
pub(crate) const TLS_KEPT: u8 = 128;
/// `Control::flags` of threads without [`OWN_TLS`]: its stack may be copied out soon.
pub(crate) const DROWSY: u8 = 16;
/// See [`OWN_TLS`].
const CLASS_SHIFT: u32 = 4;
const CLASS_MASK: u8 = 7;

/// `Control::cancel`: a cancellation was asked for.
pub(crate) const CANCEL_ASKED: u8 = 1;
/// `Control::cancel`: cancellation is disabled for now.
pub(crate) const CANCEL_DISABLED: u8 = 2;
/// `Control::cancel`: a kernel thread is in a blocking system call (see `io/interrupt.rs`).
pub(crate) const CANCEL_IN_CALL: u8 = 4;

/// `Control::join`: the handle lives, nobody waits yet.
pub(crate) const JOIN_OPEN: *mut Control = ptr::null_mut();
/// `Control::join`: the thread has ended, its result is ready.
pub(crate) const JOIN_DONE: *mut Control = ptr::without_provenance_mut(1);
/// `Control::join`: nobody will ask for the result.
pub(crate) const JOIN_DETACHED: *mut Control = ptr::without_provenance_mut(2);

/// `Control::token`: no unpark is pending.
pub(crate) const TOKEN_EMPTY: u32 = 0;
/// `Control::token`: an unpark is pending.
pub(crate) const TOKEN_NOTIFIED: u32 = 1;
/// `Control::token`: the thread is parked on the token.
pub(crate) const TOKEN_PARKED: u32 = 2;

/// `Control::timer_slot`: not in a timer heap.
pub(crate) const NO_TIMER: u32 = u32::MAX;

/// See the file's head. Field offsets of the first line are known to the gdb script.
#[repr(C, align(64))]
pub struct Control {
    /// Where the thread continues.
    pub(crate) context: Cell<Context>,
    /// Link of the run queue, the inbox, the wait queue or the pool it is in.
    pub(crate) next: Cell<*const Control>,
    /// The worker it runs on; null before its first activation and for kernel threads.
    pub(crate) worker: AtomicPtr<Worker>,
    /// Lowest address of its stack, where the guard page lies; null for kernel threads.
    pub(crate) stack: Cell<*mut u8>,
    /// Activations, wrapping.
    pub(crate) switches: Cell<u32>,
    /// 0 = lazy, 1..=99 = time-critical; what the scheduler goes by (priority inheritance raises).
    pub(crate) priority: AtomicU8,
    /// Group among the lazy ones.
    pub(crate) group: AtomicU8,
    /// `HIBERNATES`, `SEGMENT`, `HIBERNATED`, `MEASURED`, `OWN_TLS`, `TLS_KEPT`, `DROWSY`.
    pub(crate) flags: Shared<u8>,
    /// A [`Kind`].
    pub(crate) kind: Shared<Kind>,

    /// Second link of the wait queue; while it joins, the thread it joins; while it waits for
    /// several descriptors, what says which (`io/several.rs`).
    pub(crate) prev: Cell<*const Control>,
    /// The wait queue it is linked in; written under that queue's lock.
    pub(crate) queue: QueueLink,
    /// When the wait it is in ends by itself, ns; 0 = never.
    pub(crate) deadline: Cell<u64>,
    /// Its index in the worker's timer heap.
    pub(crate) timer_slot: atomic::AtomicU32,
    /// Result of an I/O operation, or what it waits for in an epoll set; for kernel threads the
    /// futex word they sleep on.
    pub(crate) result: AtomicI32,
    /// Who waits for its end: `JOIN_*` or a control block.
    pub(crate) join: AtomicPtr<Control>,
    /// Handles that name it, itself included; the slot is reused after the last.
    pub(crate) references: AtomicU32,
    /// The park token.
    pub(crate) token: AtomicU32,
    /// What few threads need: locals, inherited priorities, the C API's data.
    pub(crate) extension: AtomicPtr<Extension>,
    /// What it waits in.
    pub(crate) wait: Shared<WaitKind>,
    /// How the last wait ended.
    pub(crate) outcome: Cell<Outcome>,
    /// Priority without inheritance.
    pub(crate) base_priority: AtomicU8,
    /// Stack size class.
    pub(crate) class: Cell<u8>,
    /// Cancellation bits.
    pub(crate) cancel: AtomicU8,
    /// How many reasons there are not to hibernate (scopes whose children may borrow).
    pub(crate) pinned: Cell<u8>,
    /// Failed tries of the last I/O waits: 0 = try first, else wait first.
    pub(crate) hint: Cell<u8>,
    /// Whether a cancellation ends the wait it is in.
    pub(crate) cancellable: Cell<bool>,
}

const _: () = assert!(core::mem::size_of::<Control>() == 128);

// SAFETY: invariant 2 of the file's head: non-atomic fields have one owner at a time.
unsafe impl Sync for Control {}

impl Control {
    /// The slot's index, which is its record's index too.
    #[inline(always)]
    pub fn slot(&self) -> u32 {
        ((self as *const Control as usize - slab_base() as usize) / size_of::<Control>()) as u32
    }

    /// The public record.
    #[inline(always)]
    pub fn record(&self) -> &'static heddle_record::Record {
        crate::table::record(self.slot())
    }

    /// Asks for what the end of the thread will write, and a switch does not touch: the second
    /// line and the record. Each of them misses the caches when there are many threads, and the
    /// atomic operations of the end would wait for one after the other.
    #[inline(always)]
    pub(crate) fn prefetch_for_end(&self) {
        crate::arch::prefetch((&raw const self.prev).cast());
        crate::arch::prefetch(core::ptr::from_ref(self.record()).cast());
    }

    /// Bytes of its stack, guard page included.
    #[inline(always)]
    pub(crate) fn stack_bytes(&self) -> usize {
        crate::stack::CLASS_BYTES.get(self.class.get() as usize).copied().unwrap_or(0)
    }

    /// Where its stack begins to be used (it grows down from here).
    pub(crate) fn stack_top(&self) -> *mut u8 {
        if self.flags.get() & OWN_TLS != 0 {
            return libc_tls::stack_top(self.thread_pointer());
        }
        crate::stack::top_of(self.slot(), self.stack.get(), self.class.get())
    }

    /// Bytes of its stack that it can use, from the guard page to the top.
    pub(crate) fn stack_usable(&self) -> usize {
        self.stack_top() as usize - self.stack.get() as usize - memory::PAGE
    }

    /// Whether the scheduler treats it as time-critical now.
    #[inline(always)]
    pub fn is_critical(&self) -> bool {
        self.priority.load(Relaxed) != 0
    }

    /// Sets every field to that of a thread that has not started.
    ///
    /// The caller owns the slot: it comes from a pool and nobody else knows it.
    pub(crate) fn reset(&self, kind: Kind, references: u32) {
        self.worker.store(ptr::null_mut(), Relaxed);
        self.switches.set(0);
        self.flags.set(0);
        self.kind.set(kind);
        self.queue.set(ptr::null());
        self.deadline.set(0);
        self.timer_slot.store(NO_TIMER, Relaxed);
        self.join.store(JOIN_OPEN, Relaxed);
        self.references.store(references, Relaxed);
        self.token.store(TOKEN_EMPTY, Relaxed);
        self.wait.set(WaitKind::None);
        self.outcome.set(Outcome::Woken);
        self.cancel.store(0, Relaxed);
        self.pinned.set(0);
        self.hint.set(0);
        self.cancellable.set(false);
    }

    /// The extension, made on first use (by anybody: a waiter may raise the owner of a mutex).
    pub(crate) fn extension(&self) -> &Extension {
        // SAFETY: as below.
        self.extension_if_made().unwrap_or_else(|| unsafe { &*self.make_extension() })
    }

    /// The extension, if there is one.
    #[inline]
    pub(crate) fn extension_if_made(&self) -> Option<&Extension> {
        // SAFETY: freed only with the last reference to the thread, or under the inheritance lock.
        unsafe { self.extension.load(Acquire).as_ref() }
    }

    /// Makes the extension if there is none.
    #[cold]
    pub(crate) fn make_extension(&self) -> *mut Extension {
        let existing = self.extension.load(Acquire);
        if !existing.is_null() {
            return existing;
        }
        let made = Box::into_raw(Box::<Extension>::default());
        // ORDER: Release publishes the content to the Acquire of the readers.
        match self.extension.compare_exchange(ptr::null_mut(), made, AcqRel, Acquire) {
            Ok(_) => made,
            Err(other) => {
                // SAFETY: made above and seen by nobody.
                drop(unsafe { Box::from_raw(made) });
                other
            }
        }
    }
}

impl Byte for WaitKind {
    fn of(number: u8) -> Self {
        match number {
            1 => WaitKind::Queue,
            2 => WaitKind::Sleep,
            3 => WaitKind::Park,
            4 => WaitKind::Reactor,
            5 => WaitKind::Join,
            6 => WaitKind::Shared,
            7 => WaitKind::Address,
            8 => WaitKind::Crowd,
            _ => WaitKind::None,
        }
    }
    fn number(self) -> u8 {
        self as u8
    }
}

/// A byte that its owner writes like a `Cell`, and others read: they may see an old one.
#[repr(transparent)]
pub(crate) struct Shared<T>(AtomicU8, PhantomData<T>);

/// What a [`Shared`] holds.
pub(crate) trait Byte: Copy {
    /// The value with this number; an unknown number is the first value.
    fn of(number: u8) -> Self;
    /// Its number.
    fn number(self) -> u8;
}

impl Byte for u8 {
    fn of(number: u8) -> Self {
        number
    }
    fn number(self) -> u8 {
        self
    }
}

impl Byte for Kind {
    fn of(number: u8) -> Self {
        match number {
            1 => Kind::Light,
            2 => Kind::Full,
            3 => Kind::Kernel,
            _ => Kind::Free,
        }
    }
    fn number(self) -> u8 {
        self as u8
    }
}

impl<T: Byte> Shared<T> {
    /// The value.
    #[inline(always)]
    pub fn get(&self) -> T {
        T::of(self.0.load(Relaxed))
    }

    /// Sets the value; the owner's business.
    #[inline(always)]
    pub fn set(&self, value: T) {
        self.0.store(value.number(), Relaxed);
    }
}

/// Lowest bit of a [`QueueLink`]: the queue is inside a `RawMutex`.
const OF_MUTEX: usize = 1;

/// The queue that a thread is linked in: written under that queue's lock, read without it by the
/// owner when a deadline passes (protocol step 3 of `wait.rs`).
///
/// A waiter for a mutex says so in the lowest bit: inheritance finds the mutex through it.
#[repr(transparent)]
pub(crate) struct QueueLink(AtomicPtr<WaitQueue>);

impl QueueLink {
    /// The queue; exact under its lock, a hint otherwise.
    #[inline(always)]
    pub fn get(&self) -> *const WaitQueue {
        self.0.load(Relaxed).map_addr(|address| address & !OF_MUTEX)
    }

    /// The queue if it is a mutex's ([`QueueLink::mark_as_mutex`]), else null.
    pub fn get_of_mutex(&self) -> *const WaitQueue {
        let link = self.0.load(Relaxed);
        if link.addr() & OF_MUTEX == 0 { ptr::null() } else { self.get() }
    }

    /// Links or unlinks; under the queue's lock.
    #[inline(always)]
    pub fn set(&self, queue: *const WaitQueue) {
        self.0.store(queue.cast_mut(), Relaxed);
    }

    /// The queue that it is linked in is inside a mutex; under the queue's lock.
    pub fn mark_as_mutex(&self) {
        self.0.store(self.0.load(Relaxed).map_addr(|address| address | OF_MUTEX), Relaxed);
    }
}

pub(crate) static SLAB: AtomicPtr<Control> = AtomicPtr::new(ptr::null_mut());

/// Address of slot 0.
#[inline(always)]
pub(crate) fn slab_base() -> *mut Control {
    SLAB.load(Relaxed)
}

/// Whether the slab, and the table before it, have been made.
pub(crate) fn is_reserved() -> bool {
    !SLAB.load(Acquire).is_null()
}

/// The control block of a slot that was handed out once.
///
/// # Safety
/// 1. `slot` is below the number of slots handed out by [`grow`].
#[inline(always)]
pub(crate) unsafe fn at(slot: u32) -> &'static Control {
    // SAFETY: by 1 the slot is committed memory; all-zero bytes are a valid block.
    unsafe { &*slab_base().add(slot as usize) }
}

/// Bytes of slots that come in ordinary pages; what lies above comes in huge pages where there are
/// some: a million blocks then cost 64 page faults, not 32 000. Small programs stay below.
const SMALL_BYTES: usize = 2 << 20;

/// Slots that the slab has room for: `SLOTS_MAX`, less where address space is limited.
static CAPACITY: AtomicU32 = AtomicU32::new(0);
/// Fewer slots than this are not worth a runtime.
pub(crate) const SLOTS_MIN: u32 = 1 << 14;

/// Reserves the slab, for so many slots if that can be. Called once, by the runtime's start.
pub(crate) fn reserve_slab(mut slots: u32) -> io::Result<()> {
    let base = loop {
        match memory::reserve(slots as usize * size_of::<Control>() + SMALL_BYTES) {
            Ok(base) => break base,
            Err(_) if slots > SLOTS_MIN => slots /= 2,
            Err(_) => {
                let most = memory::address_space_max();
                return Err(crate::error::exhausted("address space (RLIMIT_AS)", most));
            }
        }
    };
    CAPACITY.store(slots, Relaxed);
    let bytes = slots as usize * size_of::<Control>();
    let base = base.map_addr(|address| address.next_multiple_of(SMALL_BYTES));
    // SAFETY: inside the reservation, which has one step to spare for the alignment.
    unsafe { memory::prefer_huge(base.add(SMALL_BYTES), bytes.saturating_sub(SMALL_BYTES)) };
    // ORDER: Release, so that who sees the slab sees the table that was made before it.
    SLAB.store(base.cast(), Release);
    Ok(())
}

/// Makes slots `[from, from + count)` usable. The pool calls it, under its lock, in slot order.
pub(crate) fn grow(from: u32, count: u32) -> io::Result<()> {
    let most = CAPACITY.load(Relaxed);
    if from.checked_add(count).is_none_or(|end| end > most) {
        return Err(crate::error::exhausted("threads (address space, RLIMIT_AS)", most.into()));
    }
    let start = from as usize * size_of::<Control>();
    let end = (from + count) as usize * size_of::<Control>();
    let (start, end) = (step_of(start), step_of(end));
    // Memory of a reservation is zero: a free slot of no worker.
    // SAFETY: in the reservation, in whole pages.
    unsafe { memory::commit(slab_base().cast::<u8>().add(start), end - start) }
}

/// Where the memory that holds the first `bytes` of the slab ends.
fn step_of(bytes: usize) -> usize {
    let step = if bytes <= SMALL_BYTES { memory::PAGE } else { SMALL_BYTES };
    bytes.next_multiple_of(step)
}
