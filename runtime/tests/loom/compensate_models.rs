//! The models of compensation: `src/monitor/compensate.rs`, `src/runtime/wakes.rs` and `count.rs`,
//! `src/worker/idle.rs` and `kernel_thread.rs`, on the queues, the sleep and the seat as they are.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Notify;

use crate::control::Control;
use crate::models::check;
use crate::runtime::Runtime;
use crate::turn_models::Ran;
use crate::worker::Worker;

/// What kernel threads do: each thread runs to its end, and the model is over when `count` have. One
/// may wait in the kernel until all others have.
fn run_all(runtime: &'static Runtime, count: usize, waits: Option<&'static Control>) -> Ran {
    let ran = Ran::default();
    let (its, call) = (ran.clone(), Notify::new());
    let each = move |worker: &'static Worker, thread: &'static Control| {
        if waits.is_some_and(|waits| core::ptr::eq(waits, thread)) {
            worker.is_in_call.store(true, Relaxed);
            runtime.tick.notify();
            while its.count() != count - 1 {
                call.wait();
            }
            worker.is_in_call.store(false, Relaxed);
        }
        its.end(thread);
        if its.count() == count - 1 {
            call.notify();
        }
        if its.count() == count {
            runtime.end();
        }
    };
    let body = move |worker: &'static Worker| worker.run(&each);
    assert!(runtime.body.set(Box::new(body)).is_ok());
    ran
}

/// A spare worker is woken while it leaves its seat and the steward counts the seats: if it goes on
/// the others look at it.
#[test]
fn who_has_its_kernel_thread_is_looked_at() {
    check(|controls| {
        let runtime = Runtime::fresh(2, controls);
        run_all(runtime, 1, None);
        let spare = runtime.worker(1);
        spare.is_to_leave.store(true, Relaxed);
        runtime.sit(spare);
        let steward = loom::thread::spawn(|| runtime.fill_seats(0).is_ok());
        spare.notify();
        assert!(steward.join().unwrap());
        if runtime.steward.called.take() {
            assert!(runtime.fill_seats(0).is_ok());
        }
        runtime.end();
        runtime.join();
        assert!(spare.seat.is_empty() || runtime.count() == 2);
    });
}
