//! Texts in which no thread is left, as a rule: the embedding library's and the C library's.
//!
//! In the embedding library's a thread may be in the middle of anything. In the C library's it may
//! hold a lock that others wait for in the kernel; and who has called it may be the embedding
//! library. So a thread is left there only if the embedding library can tell that the program has
//! called it, and that it holds nothing which the runtime needs ([`tell_calls`]): else code that
//! computes there for long, in a sort or a copy, would keep its worker, and nothing would reach it.
//! It takes a call of the program's handlers at once, as a kernel thread does. It is preempted
//! there at once if it holds nothing, else when it was met nowhere else [`REFUSALS`] times,
//! [`APART_NS`] apart: whoever waits for a lock that it holds then is blocked, and compensated for,
//! until its turn comes.
//!
//! Invariant: no thread is left in the middle of the embedding library, nor in what that has
//! called; it may leave by itself at the end of a call (`overdue.rs`).

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::OnceLock;

use crate::control::Control;
use crate::sys::memory::PAGE;
use crate::sys::signals::Interrupted;
use crate::sys::text;

/// Texts that are guarded at most.
const TEXTS: usize = 8;
/// Times that a thread is not preempted because it is there, and the time between two that count.
const REFUSALS: u32 = 8;
const APART_NS: u64 = 1_000_000;
/// Bytes of stack that [`tell_calls`]' function may take.
const BYTES: usize = 16 << 10;

/// Texts inside which no thread is left: from and to; none where the end is 0.
static GUARDED: [(AtomicUsize, AtomicUsize); TEXTS] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; TEXTS];

/// The texts of the C library and of its loader.
static C_LIBRARY: OnceLock<Vec<(usize, usize)>> = OnceLock::new();

/// See [`tell_calls`].
static CALLS: OnceLock<unsafe fn(*mut c_void, usize, bool) -> Calls> = OnceLock::new();

/// Where the C library's texts are. First called before there are full threads: to look takes a
/// lock of the loader's, and who makes the first of them may have that, and wait for it: a worker
/// would not come to run it.
pub fn c_library() -> &'static [(usize, usize)] {
    C_LIBRARY.get_or_init(|| text::of_c_library().collect())
}

/// Lets no thread be left while it is in `[low, high)`. One kernel thread at a time calls it; there
/// is no room for more than eight.
pub fn guard_text(low: usize, high: usize) {
    if is_guarded(low) {
        return;
    }
    let Some((start, end)) = GUARDED.iter().find(|(_, end)| end.load(Relaxed) == 0) else { return };
    start.store(low, Relaxed);
    // ORDER: Release, so that who sees the end sees the beginning.
    end.store(high, Release);
}

/// Whether that is an address of such a text.
pub fn is_guarded(ip: usize) -> bool {
    // ORDER: pairs with the Release in `guard_text`.
    GUARDED.iter().any(|(low, high)| ip < high.load(Acquire) && ip >= low.load(Relaxed))
}

pub fn is_in_c_library(ip: usize) -> bool {
    let contains = |&(low, high): &(usize, usize)| (low..high).contains(&ip);
    C_LIBRARY.get().is_some_and(|texts| texts.iter().any(contains))
}

/// What a thread may do in the middle of guarded functions.
#[derive(Clone, Copy, Default)]
pub struct Calls {
    /// It may be left there: its own code has called them, and it holds nothing that the runtime
    /// needs.
    pub may_leave: bool,
    /// Nor anything else that others could wait for.
    pub holds_nothing: bool,
    /// It may end there.
    pub may_end: bool,
}

/// Has `calls` tell what a thread may do where it was interrupted. It gets the context that the
/// kernel has passed to a handler, the end of the thread's stack, and whether it waits for a futex
/// there; it may take 16 KiB of stack, and has no time to wait. Once.
pub fn tell_calls(calls: unsafe fn(*mut c_void, usize, bool) -> Calls) {
    let _ = CALLS.set(calls);
}

/// Of the calling thread, which was interrupted on its own stack.
pub fn calls(me: &Control, interrupted: &Interrupted, waits: bool) -> Calls {
    let Some(calls) = CALLS.get() else { return Calls::default() };
    let (low, here) = (me.stack.get() as usize, (&raw const calls).addr());
    let top = low + me.stack_bytes();
    // Where handlers are called on the thread's own stack. Its lowest page is the guard.
    if (low..low + PAGE + BYTES).contains(&here) {
        return Calls::default();
    }
    // SAFETY: the kernel has passed it to the handler, which has not returned.
    unsafe { calls(interrupted.context(), top, waits) }
}

/// What a worker knows of the thread that it was interrupted in; its kernel thread's own.
pub struct Behind {
    /// Whether it may be left in a guarded text, and must not end there.
    is_free: Cell<bool>,
    is_kept: Cell<bool>,
    /// Since which switch it was asked to leave that thread, and how often that was refused.
    asked: Cell<u64>,
    refusals: Cell<u32>,
    /// When the last one that counts was, ns.
    refused: Cell<u64>,
}

impl Behind {
    pub fn new() -> Self {
        Behind {
            is_free: Cell::new(false),
            is_kept: Cell::new(false),
            asked: Cell::new(u64::MAX),
            refusals: Cell::new(0),
            refused: Cell::new(0),
        }
    }

    /// Whether it may be left in a guarded text, as was found when it was interrupted.
    pub fn is_free(&self) -> bool {
        self.is_free.get()
    }

    /// Whether it must not end there; false where it is in none.
    pub fn is_kept(&self) -> bool {
        self.is_kept.get()
    }

    pub fn set(&self, is_free: bool, may_end: bool) {
        self.is_free.set(is_free);
        self.is_kept.set(is_free && !may_end);
    }

    /// It is not left, as was asked since so many switches.
    pub fn refuse(&self, asked: u64, now: u64) {
        let is_another = self.asked.replace(asked) != asked;
        if is_another || now.saturating_sub(self.refused.get()) >= APART_NS {
            self.refused.set(now);
            self.refusals.set(if is_another { 1 } else { self.refusals.get().saturating_add(1) });
        }
    }

    /// Whether that was often enough.
    pub fn is_refused(&self, asked: u64) -> bool {
        self.asked.get() == asked && self.refusals.get() >= REFUSALS
    }
}
