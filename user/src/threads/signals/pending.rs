//! The signals that were sent to one full thread and that it has not taken.
//!
//! Protocol:
//! 1. A sender writes the signal's `siginfo_t` to an entry of the common pool, and links it in
//!    front of those that were sent before. Nothing waits and nothing allocates: a signal handler
//!    may send. The thread takes over what is linked, and looks for the signal there.
//! 2. As with the kernel, a signal below [`REALTIME_FIRST`] is pending once: who sets its bit links
//!    the entry, whoever finds it set does nothing. The thread clears the bit when it has the
//!    entry. Before that it is as if it had taken nothing: a sender whose entry is not linked yet
//!    calls the thread afterwards.
//! 3. The others are queued, each with its value, in their order. A sender links first, and then
//!    sets the bit; the thread clears the bit first, and then takes over. So what is linked is
//!    taken, or there is a bit for it.
//! 4. Without a free entry a signal is still pending, but nothing is known of it; one that carries
//!    a value is refused.
//! 5. A signal may be discarded by anybody: it is counted how often it was, and an entry says how
//!    often when it was linked. Who discards counts first, and then clears the bit; a sender of
//!    step 2 sets the bit first, and then reads the count. So an entry that is older than the count
//!    is nobody's, and there is a bit for a newer one: but for one that was linked in between,
//!    which the next signal of its kind goes with. The thread gives the old ones back.
//!
//! `tests/pending.rs` has senders come between all steps.
//!
//! Invariant: an entry belongs to who has taken it from the pool, then to the one list that it is
//! linked in; `queue` is touched by the thread itself alone, pinned.

use core::cell::{Cell, UnsafeCell};
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use libc::siginfo_t;

use crate::model::{AtomicU32, AtomicU64};

/// The kernel's first real-time signal.
const REALTIME_FIRST: c_int = 32;
/// Signals that may be pending in all threads together, with what is known of them.
const ENTRIES: usize = 4096;
const WORD: usize = u64::BITS as usize;

pub const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// What came of a signal that was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    /// It is pending, with all that is known of it.
    Whole,
    /// It is pending, or was already, and nothing is known of this one.
    Bare,
    /// There is no room for what it carries.
    Refused,
}

struct Entry {
    /// The entry behind this one, plus one; 0 = none.
    next: AtomicU32,
    /// How often its signal had been discarded.
    age: AtomicU32,
    info: UnsafeCell<MaybeUninit<siginfo_t>>,
}

// SAFETY: by the file's invariant one thread at a time uses an entry.
unsafe impl Sync for Entry {}

static POOL: [Entry; ENTRIES] = [const {
    Entry {
        next: AtomicU32::new(0),
        age: AtomicU32::new(0),
        info: UnsafeCell::new(MaybeUninit::uninit()),
    }
}; ENTRIES];
static USED: [AtomicU64; ENTRIES / WORD] = [const { AtomicU64::new(0) }; ENTRIES / WORD];

/// How often each signal was discarded.
static DISCARDED: [AtomicU32; WORD] = [const { AtomicU32::new(0) }; WORD];
/// A bit for each signal that was ever added.
static ADDED: AtomicU64 = AtomicU64::new(0);

fn times_discarded(signal: c_int) -> u32 {
    // ORDER: step 5: after the bit; Acquire pairs with the Release in `count_discarded`.
    DISCARDED[signal as usize - 1].load(Acquire)
}

/// Before each thread's [`Pending::discard`] of `signals`, step 5. Whether it may have some.
pub fn count_discarded(signals: u64) -> bool {
    let mut left = signals & ADDED.load(Relaxed);
    let are_some = left != 0;
    while left != 0 {
        // ORDER: Release: before the bits are cleared.
        DISCARDED[left.trailing_zeros() as usize].fetch_add(1, Release);
        left &= left - 1;
    }
    are_some
}

/// Takes an entry from the pool; its number.
fn take_entry() -> Option<u32> {
    for (at, word) in USED.iter().enumerate() {
        let mut used = word.load(Relaxed);
        while used != u64::MAX {
            let free = used.trailing_ones();
            // ORDER: Acquire pairs with the Release in `give_back`.
            match word.compare_exchange_weak(used, used | 1 << free, Acquire, Relaxed) {
                Ok(_) => return Some((at * WORD) as u32 + free),
                Err(seen) => used = seen,
            }
        }
    }
    None
}

fn give_back(number: u32) {
    let (at, bit) = (number as usize / WORD, number as usize % WORD);
    // ORDER: Release: who used it is done.
    USED[at].fetch_and(!(1 << bit), Release);
}

fn entry(link: u32) -> Option<(u32, &'static Entry)> {
    let number = link.checked_sub(1)?;
    Some((number, &POOL[number as usize]))
}

impl Entry {
    /// # Safety
    /// 1. It is linked: so it has been written.
    unsafe fn info(&self) -> siginfo_t {
        // SAFETY: by 1.
        unsafe { (*self.info.get()).assume_init() }
    }

    fn is_discarded(&self, info: &siginfo_t) -> bool {
        self.age.load(Relaxed) != times_discarded(info.si_signo)
    }
}

/// See the file's head.
pub struct Pending {
    /// A bit for each that is pending.
    set: AtomicU64,
    /// Those of which nothing is known.
    bare: AtomicU64,
    /// Not 0: entries may be linked that were discarded.
    discarded: AtomicU32,
    /// What was sent, the last first.
    sent: AtomicU32,
    /// What the thread took over and has not handled, the first first.
    queue: Cell<u32>,
}

impl Pending {
    pub const fn new() -> Self {
        Pending {
            set: AtomicU64::new(0),
            bare: AtomicU64::new(0),
            discarded: AtomicU32::new(0),
            sent: AtomicU32::new(0),
            queue: Cell::new(0),
        }
    }

    /// A bit for each signal that is pending.
    pub fn set(&self) -> u64 {
        // ORDER: pairs with those in `add`; SeqCst: after the mask of the caller, see `mod.rs`.
        self.set.load(SeqCst)
    }

    /// Adds a signal.
    pub fn add(&self, info: &siginfo_t) -> Added {
        let signal = bit(info.si_signo);
        let is_queued = info.si_signo >= REALTIME_FIRST;
        if ADDED.load(Relaxed) & signal == 0 {
            ADDED.fetch_or(signal, Relaxed);
        }
        // ORDER: step 2: who finds the bit is followed by the handler of who has set it. SeqCst:
        // before the look at the thread's mask, see `mod.rs`.
        if !is_queued && self.set.fetch_or(signal, SeqCst) & signal != 0 {
            return Added::Bare;
        }
        let mut added = Added::Bare;
        match take_entry() {
            Some(number) => {
                self.link(number, info);
                added = Added::Whole;
            }
            None if is_queued && info.si_code != super::SI_TKILL => return Added::Refused,
            None => {
                // ORDER: Release pairs with the AcqRel in `take_bare`.
                self.bare.fetch_or(signal, Release);
            }
        }
        if is_queued {
            // ORDER: step 3: what was linked is seen by who sees the bit. SeqCst as above.
            self.set.fetch_or(signal, SeqCst);
        }
        added
    }

    fn link(&self, number: u32, info: &siginfo_t) {
        let entry = &POOL[number as usize];
        // SAFETY: taken from the pool by the caller.
        unsafe { (*entry.info.get()).write(*info) };
        entry.age.store(times_discarded(info.si_signo), Relaxed);
        let mut first = self.sent.load(Relaxed);
        loop {
            entry.next.store(first, Relaxed);
            // ORDER: Release pairs with the Acquire in `take_over`.
            match self.sent.compare_exchange_weak(first, number + 1, Release, Relaxed) {
                Ok(_) => return,
                Err(seen) => first = seen,
            }
        }
    }

    /// Has none of `signals` pending any more; whether it had. Anybody may call it, after
    /// [`count_discarded`].
    pub fn discard(&self, signals: u64) -> bool {
        // ORDER: AcqRel: after the count, step 5; pairs with that in `add`.
        let had = self.set.fetch_and(!signals, AcqRel) & signals != 0;
        self.bare.fetch_and(!signals, AcqRel);
        if had {
            self.discarded.store(1, Relaxed);
        }
        had
    }

    /// Gives back what was discarded.
    fn give_back_discarded(&self) {
        self.discarded.store(0, Relaxed);
        self.take_over();
        self.unlink(None);
    }

    /// Takes a pending one of `signals`, the lowest first. The thread itself calls it, pinned.
    pub fn take(&self, signals: u64) -> Option<siginfo_t> {
        if self.discarded.load(Relaxed) != 0 {
            self.give_back_discarded();
        }
        let mut ready = self.set() & signals;
        while ready != 0 {
            let signal = ready.trailing_zeros() as c_int + 1;
            let info = if signal < REALTIME_FIRST {
                self.take_plain(signal)
            } else {
                self.take_queued(signal)
            };
            if info.is_some() {
                return info;
            }
            ready &= !bit(signal);
        }
        None
    }

    /// Step 2.
    fn take_plain(&self, signal: c_int) -> Option<siginfo_t> {
        self.take_over();
        let info = self.unlink(Some(signal)).or_else(|| self.take_bare(signal))?;
        // ORDER: AcqRel pairs with that in `add`.
        self.set.fetch_and(!bit(signal), AcqRel);
        Some(info)
    }

    /// Step 3.
    fn take_queued(&self, signal: c_int) -> Option<siginfo_t> {
        // ORDER: AcqRel: the bit before the list.
        self.set.fetch_and(!bit(signal), AcqRel);
        self.take_over();
        let info = self.unlink(Some(signal)).or_else(|| self.take_bare(signal));
        if self.has(signal) {
            // ORDER: Relaxed: the thread itself looks again.
            self.set.fetch_or(bit(signal), Relaxed);
        }
        info
    }

    /// One of which nothing is known.
    fn take_bare(&self, signal: c_int) -> Option<siginfo_t> {
        // ORDER: AcqRel pairs with the Release in `add`.
        let had = self.bare.fetch_and(!bit(signal), AcqRel) & bit(signal) != 0;
        had.then(|| super::info_of(signal))
    }

    /// Forgets all, in a child that the thread has forked: a sender of the parent may have come as
    /// far as anywhere.
    pub fn clear(&self) {
        while self.take(u64::MAX).is_some() {}
        self.set.store(0, Relaxed);
        self.bare.store(0, Relaxed);
    }

    /// Puts what was sent behind what the thread has already.
    fn take_over(&self) {
        // ORDER: Acquire pairs with the Release in `link`.
        let mut newer = self.sent.swap(0, Acquire);
        let mut oldest = 0;
        while let Some((_, entry)) = entry(newer) {
            let next = entry.next.swap(oldest, Relaxed);
            oldest = newer;
            newer = next;
        }
        let mut last = self.queue.get();
        if last == 0 {
            return self.queue.set(oldest);
        }
        while let Some((_, entry)) = entry(last) {
            last = entry.next.load(Relaxed);
            if last == 0 {
                entry.next.store(oldest, Relaxed);
            }
        }
    }

    /// Takes the first one of `signal` out of the thread's own list, and what was discarded before
    /// it; without a signal all of that.
    fn unlink(&self, signal: Option<c_int>) -> Option<siginfo_t> {
        let mut before: Option<&Entry> = None;
        let mut link = self.queue.get();
        while let Some((number, entry)) = entry(link) {
            let next = entry.next.load(Relaxed);
            // SAFETY: it is linked.
            let info = unsafe { entry.info() };
            let is_discarded = entry.is_discarded(&info);
            if is_discarded || signal == Some(info.si_signo) {
                match before {
                    Some(before) => before.next.store(next, Relaxed),
                    None => self.queue.set(next),
                }
                give_back(number);
                if !is_discarded {
                    return Some(info);
                }
            } else {
                before = Some(entry);
            }
            link = next;
        }
        None
    }

    /// Whether the thread's own list has one of `signal`.
    fn has(&self, signal: c_int) -> bool {
        let mut link = self.queue.get();
        while let Some((_, entry)) = entry(link) {
            // SAFETY: it is linked.
            let info = unsafe { entry.info() };
            if info.si_signo == signal && !entry.is_discarded(&info) {
                return true;
            }
            link = entry.next.load(Relaxed);
        }
        false
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.take_over();
        let mut link = self.queue.get();
        while let Some((number, entry)) = entry(link) {
            link = entry.next.load(Relaxed);
            give_back(number);
        }
    }
}
