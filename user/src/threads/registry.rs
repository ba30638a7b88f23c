//! Which full thread has which number.
//!
//! Invariants:
//! 1. A thread is in here from before it can run until it has ended. The lowest bits of an entry
//!    count those who look at the thread; it does not go meanwhile.
//! 2. Nobody who looks waits for another who does: a signal handler may look at a thread that it
//!    has interrupted a look at.

use core::hint;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use heddle::raw;

use super::Pthread;

/// Entries that come at once, and the most that there may be.
const CHUNK: usize = 4096;
const CHUNKS_MAX: usize = (1 << 24) / CHUNK;

type Chunk = [AtomicUsize; CHUNK];

static CHUNKS: [AtomicPtr<Chunk>; CHUNKS_MAX] =
    [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS_MAX];

/// The bits of an entry that count who looks: an address of a [`Pthread`] has none of them. More
/// looks at one thread at a time wait for each other.
const USERS: usize = align_of::<Pthread>() - 1;
const _: () = assert!(USERS == 63);

fn entry(slot: u32) -> Option<&'static AtomicUsize> {
    let (chunk, index) = (slot as usize / CHUNK, slot as usize % CHUNK);
    // ORDER: pairs with the exchange in `make`.
    let chunk = CHUNKS.get(chunk)?.load(Acquire);
    // SAFETY: null, or a chunk that stays.
    unsafe { chunk.as_ref() }.map(|chunk| &chunk[index])
}

#[cold]
fn make(place: &AtomicPtr<Chunk>) {
    let made = Box::into_raw(Box::new([const { AtomicUsize::new(0) }; CHUNK]));
    // ORDER: AcqRel publishes the entries.
    if place.compare_exchange(ptr::null_mut(), made, AcqRel, Acquire).is_err() {
        // SAFETY: nobody has seen it.
        drop(unsafe { Box::from_raw(made) });
    }
}

/// A thread that can't run yet gets a slot.
pub fn enter(slot: u32, thread: &Pthread) {
    thread.slot.store(slot, Relaxed);
    let found = entry(slot).or_else(|| {
        make(CHUNKS.get(slot as usize / CHUNK)?);
        entry(slot)
    });
    if let Some(entry) = found {
        // ORDER: Release publishes what describes the thread.
        entry.store(ptr::from_ref(thread).expose_provenance(), Release);
    }
}

/// The thread in `slot`, which is the caller, has ended.
pub fn leave(slot: u32) {
    let Some(entry) = entry(slot) else { return };
    let _pin = raw::pin();
    let mut seen = entry.load(Relaxed) & !USERS;
    // ORDER: Acquire: who used it is done.
    while let Err(now) = entry.compare_exchange_weak(seen, 0, Acquire, Relaxed) {
        seen = now & !USERS;
        hint::spin_loop();
    }
}

/// The slot of a thread that `is_wanted`, the next one from `first` on.
pub fn find_from(first: u32, mut is_wanted: impl FnMut(&Pthread) -> bool) -> Option<u32> {
    let chunk = |at: usize| (at * CHUNK) as u32..((at + 1) * CHUNK) as u32;
    let made = (0..CHUNKS_MAX).filter(|&at| !CHUNKS[at].load(Relaxed).is_null());
    let slots = made.flat_map(chunk);
    let (behind, before) = (slots.clone().filter(|&s| s >= first), slots.filter(|&s| s < first));
    behind.chain(before).find(|&slot| with(slot, &mut is_wanted) == Some(true))
}

/// Calls `look` with the thread in `slot`, if there is one.
pub fn with<T>(slot: u32, look: impl FnOnce(&Pthread) -> T) -> Option<T> {
    let entry = entry(slot)?;
    let _pin = raw::pin();
    let mut seen = entry.load(Relaxed);
    loop {
        if seen & !USERS == 0 {
            return None;
        }
        if seen & USERS == USERS {
            hint::spin_loop();
            seen = entry.load(Relaxed);
            continue;
        }
        // ORDER: Acquire pairs with the Release in `enter`.
        match entry.compare_exchange_weak(seen, seen + 1, Acquire, Relaxed) {
            Ok(_) => break,
            Err(now) => seen = now,
        }
    }
    let thread: *const Pthread = ptr::with_exposed_provenance(seen & !USERS);
    // SAFETY: by invariant 1.
    let result = look(unsafe { &*thread });
    // ORDER: Release pairs with the Acquire in `leave`.
    entry.fetch_sub(1, Release);
    Some(result)
}
