//! Waiting and making ready, on loom's threads. As the runtime does it for kernel threads; a
//! deadline passes whenever loom lets the waiter go on before its waker.

use crate::control::{Control, Outcome, WaitKind};
use crate::{thread, wait};

loom::thread_local! {
    static ME: core::cell::Cell<Option<&'static Control>> = core::cell::Cell::new(None);
}

/// The calling loom thread is the thread of `control` from now on.
pub fn become_thread(control: &'static Control) {
    ME.with(|me| me.set(Some(control)));
}

/// Starts a loom thread as the thread of `control`.
pub fn spawn<T: 'static>(
    control: &'static Control,
    body: impl FnOnce() -> T + 'static,
) -> loom::thread::JoinHandle<T> {
    loom::thread::spawn(move || {
        become_thread(control);
        body()
    })
}

pub(crate) fn current() -> &'static Control {
    ME.with(|me| me.get()).expect("a thread of the model")
}

/// In a model there is memory for all, and no handler.
pub(crate) fn waiter() -> Option<&'static Control> {
    Some(current())
}

pub(crate) fn wait(me: &'static Control, deadline: u64) -> Outcome {
    if deadline != 0 {
        loom::thread::yield_now();
        if expire(me, Outcome::TimedOut) {
            return me.outcome.get();
        }
    }
    let mut woken = me.woken.0.lock().unwrap();
    while !*woken {
        woken = me.woken.1.wait(woken).unwrap();
    }
    *woken = false;
    drop(woken);
    me.wait.set(WaitKind::None);
    me.outcome.get()
}

pub(crate) fn ready(thread: &'static Control) {
    *thread.woken.0.lock().unwrap() = true;
    thread.woken.1.notify_one();
}

pub(crate) fn expire(thread: &'static Control, outcome: Outcome) -> bool {
    let ended = match thread.wait.get() {
        WaitKind::Queue | WaitKind::Shared | WaitKind::Address => wait::abandon(thread),
        WaitKind::Park => thread::park::abandon_park(thread),
        WaitKind::Join => thread::join::abandon_join(thread),
        _ => false,
    };
    if ended {
        thread.outcome.set(outcome);
        thread.wait.set(WaitKind::None);
    }
    ended
}

pub(crate) fn is_cancellable(_thread: &Control) -> bool {
    false
}

pub(crate) fn priority_was_raised(_thread: &Control) {}

pub(crate) fn publish_worker_record(_record: &crate::worker::Account, _index: u32, _name: u32) {}
