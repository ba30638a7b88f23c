//! Pools of threads that ended: pairs of a slot and a stack, by size class.
//!
//! Each worker has a [`Cache`] that it alone uses; caches exchange batches with the shared pools.
//! New pairs are made in batches under the shared pool's lock.
//!
//! Invariant: a pair is in exactly one place: one thread, one cache, or one shared pool.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use std::io;

use super::region::{self, Region};
use super::{CLASS_BYTES, CLASSES, executable, low, owed};
use crate::arch;
use crate::control::{self, Control, Kind, OWN_TLS};
use crate::raw_lock::RawLock;
use crate::sys::libc_tls;
use crate::sys::memory::{self, PAGE};

/// The class of kernel threads' slots, which have no stack of ours.
pub(crate) const KERNEL_CLASS: u8 = CLASSES as u8;
/// Pairs that move between a cache and the shared pool at once.
const BATCH: u32 = 64;
/// A cache with more pairs of a class gives a batch back. It keeps less where there are so many
/// workers that all of them would keep more than the sum: what is in a cache does not decay.
const CACHED_MAX: u32 = 2048;
const CACHED_SUM: u32 = 4096;
/// The same after a full thread, which has touched two pages more of its stack.
const CACHED_FULL_MAX: u32 = 256;
/// Pairs of a cache among which one is looked for that a kind of threads has used before.
const LOOKED_AT: u32 = 8;
/// Stacks of a class whose memory goes back in one round.
const DECAYED_AT_ONCE: u32 = 1024;
/// Pairs that are made at once while there are few.
const MADE_AT_ONCE_MIN: usize = 16;
/// Most pairs that are made at once.
const MADE_AT_ONCE_MAX: usize = 1024;

/// A list of pairs, linked by `Control::next`.
struct List {
    head: Cell<*const Control>,
    count: Cell<u32>,
}

impl List {
    const fn new() -> Self {
        List { head: Cell::new(ptr::null()), count: Cell::new(0) }
    }

    #[inline]
    fn push(&self, control: &Control) {
        control.next.set(self.head.get());
        self.head.set(control);
        self.count.set(self.count.get() + 1);
    }

    #[inline]
    fn pop(&self) -> Option<&'static Control> {
        // SAFETY: the head is null or a slot of the slab, which is never unmapped.
        let control = unsafe { self.head.get().as_ref() }?;
        self.head.set(control.next.get());
        self.count.set(self.count.get() - 1);
        Some(control)
    }

    /// Takes the first pair that fits, of the first few; else the first one.
    fn pop_fitting(&self, fits: impl Fn(&Control) -> bool) -> Option<&'static Control> {
        let mut link = &self.head;
        for _ in 0..LOOKED_AT {
            // SAFETY: the link is null or a slot of the slab, which is never unmapped.
            let Some(control) = (unsafe { link.get().as_ref() }) else { break };
            if fits(control) {
                link.set(control.next.get());
                self.count.set(self.count.get() - 1);
                return Some(control);
            }
            link = &control.next;
        }
        self.pop()
    }

    /// Asks for what making a full thread of the first pair will write: whoever takes one often
    /// takes the next soon. Control block and record of the second are asked for one turn earlier.
    #[inline]
    fn prefetch(&self) {
        // SAFETY: null or a slot of the slab.
        let Some(first) = (unsafe { self.head.get().as_ref() }) else { return };
        if first.has_kept_tls() {
            libc_tls::prefetch_kept(first.thread_pointer());
            // SAFETY: as above.
            if let Some(second) = unsafe { first.next.get().as_ref() } {
                arch::prefetch(ptr::from_ref(second).cast());
                second.prefetch_for_end();
            }
        }
    }

    /// For a forked child: the pairs stay where they are, unused.
    fn forget(&self) {
        self.head.set(ptr::null());
        self.count.set(0);
    }

    /// Moves up to `count` pairs to `other`.
    fn move_to(&self, other: &List, count: u32) {
        for _ in 0..count {
            let Some(control) = self.pop() else { return };
            other.push(control);
        }
    }
}

/// The pairs that one worker keeps at hand.
pub(crate) struct Cache {
    lists: [List; CLASSES + 1],
    /// Most of one class.
    most: u32,
}

impl Cache {
    /// Of one of so many workers.
    pub fn new(workers: usize) -> Self {
        let share = CACHED_SUM / workers as u32;
        Cache {
            lists: [const { List::new() }; CLASSES + 1],
            most: share.clamp(2 * BATCH, CACHED_MAX),
        }
    }
}

struct Pool {
    lock: RawLock,
    free: List,
    /// Pairs whose stack has given its memory back.
    clean: List,
    /// Fewest pairs in `free` since the last round of decay: those nobody has needed.
    idle: Cell<u32>,
    region: Region,
}

// SAFETY: all but `lock` are touched only under `lock`.
unsafe impl Sync for Pool {}

static POOLS: [Pool; CLASSES + 1] = [const {
    Pool {
        lock: RawLock::new(),
        free: List::new(),
        clean: List::new(),
        idle: Cell::new(0),
        region: Region::new(),
    }
}; CLASSES + 1];

/// Slots made so far; written under `SLOTS_LOCK`.
pub(crate) static SLOTS_MADE: AtomicU32 = AtomicU32::new(0);
static SLOTS_LOCK: RawLock = RawLock::new();

/// Takes a pair of `class`, from `cache` when the caller is a worker; best one that owes nothing to
/// other kinds of threads than `kind` (0 = none).
#[inline]
pub(crate) fn take(cache: Option<&Cache>, class: u8, kind: u16) -> io::Result<&'static Control> {
    if let Some(cache) = cache {
        let cached = &cache.lists[class as usize];
        let taken = match kind {
            0 => cached.pop(),
            kind => cached.pop_fitting(|control| owed::fits(control.slot(), kind)),
        };
        if let Some(control) = taken {
            cached.prefetch();
            return Ok(control);
        }
    }
    take_shared(cache, class)
}

#[cold]
fn take_shared(cache: Option<&Cache>, class: u8) -> io::Result<&'static Control> {
    #[cfg(feature = "sim")]
    let _mute = crate::sim::Mute::new();
    let pool = &POOLS[class as usize];
    let _guard = pool.lock.lock();
    if pool.free.head.get().is_null() {
        pool.clean.move_to(&pool.free, BATCH);
    }
    if pool.free.head.get().is_null() {
        make(pool, class)?;
    }
    pool.idle.set(pool.idle.get().min(pool.free.count.get().saturating_sub(BATCH)));
    if let Some(cache) = cache {
        pool.free.move_to(&cache.lists[class as usize], BATCH);
        if let Some(control) = cache.lists[class as usize].pop() {
            return Ok(control);
        }
    }
    let taken = pool.free.pop();
    pool.free.prefetch();
    taken.ok_or_else(|| crate::error::exhausted("threads", 0))
}

/// Makes pairs into `pool`, more at once the more there are. The caller holds the pool's lock.
fn make(pool: &Pool, class: u8) -> io::Result<()> {
    let is_low = class != KERNEL_CLASS && low::wants(class as usize);
    if class != KERNEL_CLASS && !is_low {
        pool.region.reserve(class as usize)?;
    }
    let count = (pool.region.made() / 8).clamp(MADE_AT_ONCE_MIN, MADE_AT_ONCE_MAX);
    let count = count.min(pool.region.room().max(1));
    // Large stacks one by one: each step charges strict overcommit for all of them.
    let count = if (class as usize) < CLASSES && CLASS_BYTES[class as usize] > 1 << 20 {
        count.min(4)
    } else {
        count
    };
    let _guard = SLOTS_LOCK.lock();
    let first = SLOTS_MADE.load(Relaxed);
    control::grow(first, count as u32)?;
    crate::table::set_high_water(first + count as u32)?;
    let low = if is_low { pool.region.grow_low(class as usize, count)? } else { None };
    let stacks = match low {
        Some(stacks) => stacks,
        None if class == KERNEL_CLASS => ptr::null_mut(),
        None => {
            pool.region.reserve(class as usize)?;
            pool.region.grow(class as usize, count)?
        }
    };
    if executable::are() && class != KERNEL_CLASS {
        // SAFETY: the region made them.
        unsafe { executable::let_execute(stacks, class as usize, count) };
    }
    SLOTS_MADE.store(first + count as u32, Relaxed);

    for index in (0..count).rev() {
        // SAFETY: `grow` made these slots usable, nobody else has them yet.
        let control = unsafe { control::at(first + index as u32) };
        control.kind.set(Kind::Free);
        control.class.set(class);
        if class != KERNEL_CLASS {
            // SAFETY: the region made `count` stacks from this address.
            let stack = unsafe { stacks.add(index * region::stride(class as usize)) };
            control.stack.set(stack);
            let high = stack.wrapping_add(CLASS_BYTES[class as usize]);
            crate::arch::register_stack(stack.wrapping_add(PAGE), high);
        }
        pool.free.push(control);
    }
    Ok(())
}

/// Calls `act` with the number of slots made; no stack is made meanwhile.
pub(super) fn with_all_made(act: impl FnOnce(u32)) {
    let _guard = SLOTS_LOCK.lock();
    act(slots_made());
}

/// In a forked child: no lock is held, and no pair that is about to be taken or given is used.
pub(crate) fn forget_pools() {
    for pool in &POOLS {
        pool.lock.forget_holder();
        pool.free.forget();
        pool.clean.forget();
        pool.idle.set(0);
    }
    SLOTS_LOCK.forget_holder();
}

/// Slots handed out so far; every smaller index may be passed to [`control::at`].
pub(crate) fn slots_made() -> u32 {
    SLOTS_MADE.load(Relaxed)
}

/// Gives the memory of some stacks back that have lain in the shared pools for a round; true while
/// there are more. The monitor calls it; the caches of the workers, which are bounded, stay warm.
pub(crate) fn decay() -> bool {
    let mut any = false;
    for (class, pool) in POOLS.iter().enumerate().take(CLASSES) {
        let cold = List::new();
        {
            let _guard = pool.lock.lock();
            pool.free.move_to(&cold, pool.idle.get().min(DECAYED_AT_ONCE));
            pool.idle.set(pool.free.count.get());
            any |= cold.count.get() + pool.free.count.get() != 0;
        }
        let cleaned = List::new();
        while let Some(control) = cold.pop() {
            owed::settle(control);
            control.discard_kept_tls();
            let low = control.stack.get().wrapping_add(PAGE);
            // SAFETY: the stack of a pooled slot, above its guard page: nobody uses it.
            unsafe { memory::discard(low, CLASS_BYTES[class] - PAGE) };
            cleaned.push(control);
        }
        let _guard = pool.lock.lock();
        cleaned.move_to(&pool.clean, u32::MAX);
    }
    any
}

/// Puts a pair back, into `cache` when the caller is a worker.
#[inline]
pub(crate) fn give(cache: Option<&Cache>, control: &Control) {
    #[cfg(feature = "sim")]
    let _mute = crate::sim::Mute::new();
    let class = control.class.get() as usize;
    match cache {
        Some(cache) => {
            cache.lists[class].push(control);
            let full = control.flags.get() & OWN_TLS != 0;
            let most = if full { cache.most.min(CACHED_FULL_MAX) } else { cache.most };
            if cache.lists[class].count.get() > most {
                give_batch(cache, class, most / 2);
            }
        }
        None => {
            let pool = &POOLS[class];
            let _guard = pool.lock.lock();
            pool.free.push(control);
        }
    }
}

#[cold]
fn give_batch(cache: &Cache, class: usize, count: u32) {
    let pool = &POOLS[class];
    let _guard = pool.lock.lock();
    cache.lists[class].move_to(&pool.free, count);
}

/// Puts all pairs of a cache back: its worker's kernel thread goes.
pub(crate) fn give_all(cache: &Cache) {
    for class in 0..=CLASSES {
        if cache.lists[class].count.get() != 0 {
            give_batch(cache, class, u32::MAX);
        }
    }
}
