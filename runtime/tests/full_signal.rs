//! The signal that preempts belongs to the program, too. A process of its own: its handler has to
//! be there before the first full thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use common::{full, need_preemption};

#[path = "common/full.rs"]
mod common;

/// The program's own SIGURGs reach its handler, and preemption goes on.
#[test]
fn signals_of_others_reach_their_handler() {
    static SEEN: AtomicU32 = AtomicU32::new(0);
    extern "C" fn on_signal(_signal: i32) {
        SEEN.fetch_add(1, SeqCst);
    }
    // SAFETY: a handler that is async-signal-safe.
    unsafe { libc::signal(libc::SIGURG, on_signal as *const () as usize) };
    if !need_preemption(heddle::Config::new().workers(1)) {
        return;
    }
    // SAFETY: a signal for the calling kernel thread.
    unsafe { libc::raise(libc::SIGURG) };
    assert_eq!(SEEN.load(SeqCst), 1);
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = stop.clone();
    let hog = full(move || while !theirs.load(SeqCst) {});
    full(move || stop.store(true, SeqCst)).join().unwrap();
    hog.join().unwrap();
    assert_eq!(SEEN.load(SeqCst), 1);
}
