//! What is left of the library in a forked child: workers do not survive a fork.
//!
//! A child that forked before the runtime started may start its own. One that forked later has the
//! workers' memory but not the workers: a thread created there would never run, so creating it
//! fails, and says why.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

/// Whether the process had more than one kernel thread when it last forked. Workers are kernel
/// threads: with one only, the runtime can't have been running.
static HAD_OTHERS: AtomicBool = AtomicBool::new(false);
/// Set in a child until it is known whether the runtime ran before the fork.
static FORKED: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Runs when the library is loaded.
extern "C" fn register() {
    // SAFETY: the handlers may run at any fork: they store flags, and read a folder.
    unsafe { libc::pthread_atfork(Some(before), None, Some(in_child)) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static REGISTER: extern "C" fn() = register;

extern "C" fn before() {
    let tasks = std::fs::read_dir("/proc/self/task").map(Iterator::count);
    HAD_OTHERS.store(tasks.is_ok_and(|count| count > 1), Relaxed);
}

extern "C" fn in_child() {
    FORKED.store(HAD_OTHERS.load(Relaxed), Relaxed);
}

/// Whether threads can run in this process.
pub fn may_create() -> bool {
    if FORKED.swap(false, Relaxed) {
        let started = heddle::Config::new().start();
        let is_old = started.is_err_and(|e| e.kind() == std::io::ErrorKind::AlreadyExists)
            && !heddle::raw::is_native().unwrap_or(false);
        if is_old {
            eprintln!(
                "heddle: no threads in a child that was forked after the runtime had started"
            );
        }
        REFUSED.store(is_old, Relaxed);
    }
    !REFUSED.load(Relaxed)
}
