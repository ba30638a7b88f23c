//! In which calls a full thread answers that is called, and a kernel thread's wait ends.
//!
//! Invariant: what a thread runs as its answer to a call (`preempt.rs`) is in none of these, and a
//! jump leaves them.

use super::OWN;

/// Makes a call of a guarded text (`preempt.rs`) in which the calling full thread may sleep for
/// long, on its worker, and in which it holds nothing that the runtime needs: if it is called
/// there, it answers at once.
pub fn answering<T>(call: impl FnOnce() -> T) -> T {
    let before = OWN.with(|own| own.answers.replace(true));
    let result = call();
    OWN.with(|own| own.answers.set(before));
    result
}

/// Makes a call in which the calling full thread may wait for locks of the C library's, and holds
/// nothing that the runtime needs: if it is called while it waits, it answers there, for who has
/// the lock may be stopped in a handler. It does not end there.
pub fn answering_at_locks<T>(call: impl FnOnce() -> T) -> T {
    let before = OWN.with(|own| own.answers_at_locks.replace(true));
    let result = call();
    OWN.with(|own| own.answers_at_locks.set(before));
    result
}

/// Has the calling thread answer, in the middle of such a call perhaps, which what it runs then is
/// not. It may end the thread, or jump ([`jumped`]).
pub(crate) fn answering_nowhere(answer: impl FnOnce() -> bool) -> bool {
    let before = OWN.with(|own| (own.answers.replace(false), own.answers_at_locks.replace(false)));
    let result = answer();
    OWN.with(|own| {
        own.answers.set(before.0);
        own.answers_at_locks.set(before.1);
    });
    result
}

/// The calling thread leaves by a jump what it is in the middle of, a call of [`answering`] or
/// [`interruptibly`] perhaps; its stack pointer becomes `target`.
pub fn jumped(target: usize) {
    OWN.with(|own| {
        own.answers.set(false);
        own.answers_at_locks.set(false);
        // One within a handler, as a rule, leaves no call that the handler has interrupted.
        if target > own.interruptible.get() {
            own.interruptible.set(0);
        }
    });
}

/// Makes a call of a kernel thread's in which a wait ends as cancelled when the kernel ends its own
/// for a signal handler.
pub fn interruptibly<T>(call: impl FnOnce() -> T) -> T {
    let marker = 0_u8;
    let place = core::hint::black_box(&raw const marker) as usize;
    let before = OWN.with(|own| own.interruptible.replace(place));
    let result = call();
    OWN.with(|own| own.interruptible.set(before));
    result
}

/// Whether the calling thread is in a call of [`interruptibly`].
pub(crate) fn is_interruptible() -> bool {
    OWN.with(|own| own.interruptible.get() != 0)
}

/// Whether the calling thread is in a call of [`answering`].
pub(crate) fn answers() -> bool {
    OWN.with(|own| own.answers.get())
}

/// Whether it is in one of [`answering_at_locks`].
pub(crate) fn answers_at_locks() -> bool {
    OWN.with(|own| own.answers_at_locks.get())
}
