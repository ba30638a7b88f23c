//! `HEDDLE_CHECK=MS`, for tests: looks for full threads that wait for a descriptor although the
//! kernel says that it is ready, and has been for so many milliseconds.
//!
//! Such a thread waits for ever: an event was lost on the way from the kernel to it. Without the
//! check the program stands still and tells nothing. With it a line says which thread it is and
//! what it waits for, and the process aborts, so that all of it is in the core file.
//!
//! Events that are still in the worker's epoll set are not lost, so they don't count, unless its
//! worker sleeps beside them: a machine with too much to do is no error.
//!
//! Invariant: a suspect is the same wait of the same thread at every look; of a thread that has run
//! meanwhile, or waits for something else, nothing is known.

use core::ptr;
use core::time::Duration;
use std::io;

use super::epoll::Waiter;
use crate::runtime::Runtime;
use crate::sys::task::Helper;
use crate::sys::{clock, poll, say};
use crate::worker::Worker;

/// Looks within the time that a descriptor may be ready.
const LOOKS: u32 = 8;

/// Makes the kernel thread that looks.
pub(crate) fn make(runtime: &'static Runtime, limit: Duration) -> io::Result<Helper> {
    let body = move || {
        let mut suspects: Vec<Suspect> = Vec::new();
        loop {
            std::thread::sleep(limit / LOOKS);
            suspects = look(runtime, &suspects);
            let late = clock::now_ns().saturating_sub(limit.as_nanos() as u64);
            if let Some(lost) = suspects.iter().find(|it| it.since < late && it.looks > LOOKS / 2) {
                report(lost, limit);
            }
        }
    };
    Helper::make("heddle-check", body)
}

/// A thread that waits for what has happened.
struct Suspect {
    waiter: Waiter,
    worker: &'static Worker,
    /// When it was first seen so, and how often since.
    since: u64,
    looks: u32,
}

/// The suspects of now, with what is known of them from the last look.
fn look(runtime: &'static Runtime, before: &[Suspect]) -> Vec<Suspect> {
    let mut suspects = Vec::new();
    for worker in runtime.workers() {
        let Some(epoll) = worker.made_readiness() else { continue };
        let waiters = epoll.waiters();
        let is_due = poll::is_ready(epoll.raw(), libc::POLLIN);
        if is_due && !worker.sleeping.is_asleep() {
            // Somebody will take the events in.
            continue;
        }
        for waiter in waiters {
            if !poll::is_ready(waiter.fd, waiter.events) {
                continue;
            }
            let known = before.iter().find(|it| it.waiter == waiter);
            let (since, looks) = known.map_or((clock::now_ns(), 0), |it| (it.since, it.looks));
            suspects.push(Suspect { waiter, worker, since, looks: looks + 1 });
        }
    }
    suspects
}

/// Says who waits in vain, and ends the process.
fn report(lost: &Suspect, limit: Duration) -> ! {
    let Waiter { thread, fd, .. } = lost.waiter;
    let record = thread.record();
    let fields = record.read();
    let role = fields.and_then(|it| crate::table::role_name(it.role)).unwrap_or_default();
    say::line(format_args!(
        "heddle: a lost event: thread {} ({role}) waits for descriptor {fd} on worker {}, which \
         has been ready for more than {limit:?} (worker {}, {} ready threads)",
        thread.slot(),
        lost.worker.index,
        if lost.worker.sleeping.is_asleep() { "asleep" } else { "awake" },
        lost.worker.offered.len(),
    ));
    std::process::abort()
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Waiter) -> bool {
        let same = (self.fd, self.events, self.switches);
        ptr::eq(self.thread, other.thread) && same == (other.fd, other.events, other.switches)
    }
}
