//! The deadlock report: "all threads are parked and nothing can wake them".
//!
//! The monitor has the steward look before it goes to sleep itself, that is when all workers have
//! slept for a while. It is sure only when nothing is left that could wake a thread: no operation
//! in a reactor, no timer, no job in the pool, and every other kernel thread of the process waits
//! in one of heddle's primitives without a deadline. (A signal handler still could: so it is a
//! report, not an end.)

use core::fmt::Write;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use heddle_record::{Kind, State};

use crate::control;
use crate::runtime::Runtime;
use crate::stack;

/// Kernel threads that wait in a heddle primitive without a deadline.
pub(crate) static KERNEL_WAITERS: AtomicU32 = AtomicU32::new(0);
/// Kernel threads of heddle's own that only wait for work: the monitor, the steward, idle pool
/// threads.
pub(crate) static HELPERS_IDLE: AtomicU32 = AtomicU32::new(0);
/// Threads that the report lists.
const LISTED: usize = 16;

/// Counts the calling kernel thread among the waiters while it lives.
pub(crate) struct Waiting(&'static AtomicU32);

impl Waiting {
    /// Adds one to `counter`.
    pub fn new(counter: &'static AtomicU32) -> Self {
        counter.fetch_add(1, SeqCst);
        Waiting(counter)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// The report, if the process is stuck; called by the steward when all workers sleep.
pub(crate) fn report(runtime: &'static Runtime) -> Option<String> {
    let live: u32 = runtime
        .workers()
        .map(|worker| worker.live.load(Relaxed) + worker.live_full.load(Relaxed))
        .sum();
    if live == 0 || !is_stuck(runtime) {
        return None;
    }
    let mut text = format!("heddle: all {live} threads are parked and nothing can wake them:\n");
    let mut listed = 0;
    for slot in 0..stack::slots_made() {
        let Some(fields) = crate::table::record(slot).read() else { continue };
        let user_level = matches!(fields.kind, Kind::Light | Kind::Full);
        if !user_level || fields.state != State::Parked {
            continue;
        }
        listed += 1;
        if listed > LISTED {
            let _ = writeln!(text, "  ... and {} more", live as usize - LISTED);
            break;
        }
        // SAFETY: below the number of slots made. The wait kind of a parked thread is stable:
        // nothing runs that could change it.
        let wait = unsafe { control::at(slot) }.wait.get();
        let _ = writeln!(
            text,
            "  thread {slot}.{} role {} waits in {}",
            fields.generation,
            crate::table::role_name(fields.role).as_deref().unwrap_or("-"),
            wait.describe()
        );
    }
    Some(text)
}

fn is_stuck(runtime: &'static Runtime) -> bool {
    let quiet = runtime.workers().all(|worker| {
        worker.sleeping.is_asleep()
            && worker.inbox.is_empty()
            && worker.fresh.len() == 0
            && worker.offered.len() == 0
            && worker.requests.is_empty()
            && worker.io_waiting.load(Relaxed) == 0
            && worker.timers_waiting.load(Relaxed) == 0
    });
    let Ok(tasks) = std::fs::read_dir("/proc/self/task").map(Iterator::count) else {
        return false;
    };
    let accounted =
        runtime.seated.load(Relaxed) + KERNEL_WAITERS.load(SeqCst) + HELPERS_IDLE.load(SeqCst);
    quiet && tasks as u32 == accounted
}
