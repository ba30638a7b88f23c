//! Who of heddle's threads is in the C library's allocator, for forks of which the C library learns
//! nothing.
//!
//! Its own `fork` takes the allocator's locks before it copies the process. A fork by the number of
//! the system call does not: what another thread has locked stays locked in the child, which waits
//! for ever when it allocates. A program whose other threads all wait may fork so, and does; then
//! heddle's must not be there.
//!
//! Protocol: who goes in counts itself in, and then looks whether somebody forks ([`within`]); who
//! forks says so, and then looks whether somebody is in ([`without`]). So one of them sees the
//! other, and waits. Neither waits for longer than [`PATIENCE_NS`]: a full thread may have been
//! preempted in between, and the one that waits may hold the worker that would go on with it.
//!
//! Invariant: when the fork is made nobody is within who was not there for so long.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use crate::model::{AtomicU32, give_way, newest};
use crate::sys::clock;

const PATIENCE_NS: u64 = 50_000_000;

static INSIDE: AtomicU32 = AtomicU32::new(0);
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Runs what may take a lock of the allocator.
#[inline]
pub fn within<T>(body: impl FnOnce() -> T) -> T {
    // ORDER: SeqCst here and in `without`: each writes its own word and then reads the other's.
    INSIDE.fetch_add(1, SeqCst);
    if newest(&FORKING) != 0 {
        wait_outside();
    }
    let result = body();
    // ORDER: Release: what was done inside is done for who finds nobody there.
    INSIDE.fetch_sub(1, Release);
    result
}

#[cold]
#[inline(never)]
fn wait_outside() {
    let deadline = clock::now_ns() + PATIENCE_NS;
    while newest(&FORKING) != 0 && clock::now_ns() < deadline {
        INSIDE.fetch_sub(1, Release);
        wait_for_none(&FORKING, deadline);
        INSIDE.fetch_add(1, SeqCst);
    }
}

fn wait_for_none(word: &AtomicU32, deadline: u64) {
    loop {
        let count = newest(word);
        if count == 0 || clock::now_ns() >= deadline {
            return;
        }
        give_way(word, count);
    }
}

/// Makes a fork while nobody is within, or when 50 ms are over; the child tells the runtime that it
/// is one.
pub fn without<T>(fork: impl FnOnce() -> T) -> T {
    FORKING.fetch_add(1, SeqCst);
    wait_for_none(&INSIDE, clock::now_ns() + PATIENCE_NS);
    let result = fork();
    // ORDER: Release: who goes in finds what the fork left.
    FORKING.fetch_sub(1, Release);
    result
}

/// The others are not there, nor is who forked beside the caller.
pub fn in_child() {
    INSIDE.store(0, Relaxed);
    FORKING.store(0, Relaxed);
}
