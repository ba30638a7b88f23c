//! Cancelling kernel threads: getting one out of a blocking system call.
//!
//! Protocol:
//! 1. A kernel thread sets `CANCEL_IN_CALL` before it makes a blocking call and then looks at
//!    its cancellation flag; the canceller sets the flag and then looks for the bit. So one of
//!    them sees the other.
//! 2. The canceller sends a signal whose handler does nothing: the call fails with EINTR, and the
//!    thread looks at its flag. As the signal may come between the look and the call, it is sent
//!    again every few milliseconds until the bit is gone.
//!
//! Only the native backend and the program's own kernel threads need this; user-level threads
//! are cancelled by their worker. What `heddle::blocking` runs is never interrupted.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Condvar, Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

use crate::control::{CANCEL_IN_CALL, Control};
use crate::deadlock::{HELPERS_IDLE, Waiting};
use crate::sys::{kernel_thread, signals, task};
use crate::{full, sched};

/// Time between two signals to a thread that does not come out of its call.
const AGAIN: Duration = Duration::from_millis(2);

/// Marks the calling kernel thread as being in a blocking call.
pub(super) struct InCall(&'static Control);

impl InCall {
    pub fn new(me: &'static Control) -> Self {
        // ORDER: SeqCst, protocol step 1: the bit before the look at the flag.
        me.cancel.fetch_or(CANCEL_IN_CALL, SeqCst);
        InCall(me)
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        self.0.cancel.fetch_and(!CANCEL_IN_CALL, Relaxed);
    }
}

static LIST: Mutex<Vec<&'static Control>> = Mutex::new(Vec::new());
static WAKE: Condvar = Condvar::new();

/// Gets the kernel thread `thread`, whose cancellation flag was set, out of its call.
pub(crate) fn interrupt(thread: &'static Control) {
    // ORDER: SeqCst, protocol step 1: the flag was set before this look at the bit.
    core::sync::atomic::fence(SeqCst);
    if thread.cancel.load(SeqCst) & CANCEL_IN_CALL == 0 {
        return;
    }
    static START: Once = Once::new();
    START.call_once(|| {
        // Refused: the thread finds out when its call ends by itself.
        let _ = task::start("heddle-cancel", kernel_thread::STACK_BYTES, || send_signals());
    });
    thread.references.fetch_add(1, Relaxed);
    let _pin = full::pin();
    LIST.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    WAKE.notify_one();
}

/// The loop of the kernel thread that sends the signals.
fn send_signals() -> ! {
    let mut list = LIST.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        list.retain(|thread| {
            let waits = thread.cancel.load(SeqCst) & CANCEL_IN_CALL != 0;
            if waits && sched::is_cancellable(thread) {
                // The bit says that the thread exists; if it ends just now, the kernel says so.
                let tid = thread.record().read().map_or(0, |fields| fields.tid);
                signals::interrupt(tid, signal());
                return true;
            }
            sched::release(thread);
            false
        });
        list = if list.is_empty() {
            let _counted = Waiting::new(&HELPERS_IDLE);
            WAKE.wait(list).unwrap_or_else(PoisonError::into_inner)
        } else {
            WAKE.wait_timeout(list, AGAIN).unwrap_or_else(PoisonError::into_inner).0
        };
    }
}

static SIGNAL: OnceLock<i32> = OnceLock::new();

/// The signal: the last real-time signal that the program does not use.
pub(crate) fn signal() -> i32 {
    *SIGNAL.get_or_init(signals::install_interrupt)
}

/// The same, if it was needed so far.
pub(crate) fn signal_if_used() -> Option<i32> {
    SIGNAL.get().copied()
}
