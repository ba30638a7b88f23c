//! Who wants to know what stacks were used for: a layer that keeps an account of full threads.
//!
//! Invariant: there is one observer for the life of the process, and none at first. It is told of
//! full threads alone: of their stacks, also later (`owed.rs`), by the numbers of their kinds; else
//! by their thread pointers, whose memory is still theirs then.

use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::owed;
use crate::control::{Control, OWN_TLS};

/// What an observer is told.
pub struct Observer {
    /// A stack was measured: the kind of the threads that used it, by the number that
    /// [`crate::thread::Builder::known`] was given, and the bytes. Called in any context, the
    /// scheduler's too: it neither waits for threads nor blocks for long.
    pub measured: fn(kind: u16, peak_bytes: usize),
    /// At the end of the process: a thread that has begun, and has not ended for the scheduler, has
    /// used so much CPU time.
    pub lives: fn(thread_pointer: *mut u8, cpu_ns: u64),
    /// A thread ran over the end of its stack, of which it had so many bytes; in a signal handler.
    /// What it returns ends the report.
    pub overflowed: fn(thread_pointer: *mut u8, usable_bytes: usize) -> &'static str,
}

static OBSERVER: AtomicPtr<Observer> = AtomicPtr::new(ptr::null_mut());

/// Sets the observer.
pub fn observe(observer: &'static Observer) {
    owed::begin();
    // ORDER: Release publishes the observer to whoever loads it.
    OBSERVER.store(ptr::from_ref(observer).cast_mut(), Release);
}

fn observer() -> Option<&'static Observer> {
    // SAFETY: null or a static.
    // ORDER: Acquire pairs with `observe`.
    unsafe { OBSERVER.load(Acquire).as_ref() }
}

fn observer_of(thread: &Control) -> Option<&'static Observer> {
    observer().filter(|_| thread.flags.get() & OWN_TLS != 0)
}

/// Whether there is an account.
#[inline]
pub(crate) fn is_there() -> bool {
    !OBSERVER.load(Relaxed).is_null()
}

/// `kind` is not 0.
pub(crate) fn measured(kind: u16, peak: usize) {
    if let Some(observer) = observer() {
        (observer.measured)(kind, peak);
    }
}

pub(crate) fn lives(thread: &Control, cpu_ns: u64) {
    if let Some(observer) = observer_of(thread) {
        (observer.lives)(thread.thread_pointer(), cpu_ns);
    }
}

pub(crate) fn overflowed(thread: &Control) -> Option<&'static str> {
    Some((observer_of(thread)?.overflowed)(thread.thread_pointer(), thread.stack_usable()))
}
