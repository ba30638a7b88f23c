//! The models of how the helpers are told: the steward's calls (`src/called.rs`) and the monitor's
//! sleep (`src/monitor/doze.rs`). A call or wake that is lost is a wait for ever, which loom tells.
//!
//! Two weaker forms pass here, as the models' stores are exchanges (`model.rs`): a call that is
//! taken back by a load and a store, and a sleep of the monitor that is announced by a relaxed
//! store, where the fence after it does the work.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Notify;

use crate::called::Called;
use crate::doze::Doze;
use crate::inbox::Inbox;
use crate::model::AtomicU32;
use crate::models::check;
use crate::sched::spawn;
use crate::sleep::Sleep;

/// What each of two callers stored before its call is seen. A wait without a timeout stands for
/// what nobody would come again for.
#[test]
fn a_call_while_the_steward_looks_is_not_lost() {
    check(|controls| {
        let shared = Arc::new((Called::new(), [AtomicU32::new(0), AtomicU32::new(0)]));
        assert!(!shared.0.take());
        shared.1.iter().for_each(|wanted| wanted.store(0, Relaxed));
        let callers = [0, 1].map(|each| {
            let theirs = shared.clone();
            spawn(controls[each + 1], move || {
                theirs.1[each].store(1, Relaxed);
                theirs.0.call();
            })
        });
        let mut served = 0;
        while served != 2 {
            shared.0.wait(None);
            if !shared.0.take() {
                continue;
            }
            for wanted in &shared.1 {
                if wanted.load(Relaxed) != 0 {
                    wanted.store(0, Relaxed);
                    served += 1;
                }
            }
        }
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

/// A worker sleeps, is given something, wakes, and blocks with it in its queue: it does not look
/// again. The monitor, which is about to sleep, notices.
#[test]
fn a_worker_that_blocks_with_something_in_its_queue_is_noticed() {
    check(|controls| {
        let shared = Arc::new((Inbox::new(), Sleep::new(), Notify::new(), Doze::new()));
        shared.1.announce(false);
        assert!(shared.0.is_empty() && shared.3.begin(|| false));
        shared.3.end();
        let theirs = shared.clone();
        let worker = spawn(controls[1], move || {
            theirs.2.wait();
            theirs.1.end();
            theirs.3.end();
        });
        let (theirs, thread) = (shared.clone(), controls[3]);
        let giver = spawn(controls[2], move || {
            theirs.0.push(thread);
            if theirs.1.claim() {
                theirs.2.notify();
            }
        });
        while shared.0.is_empty() || shared.1.is_asleep() {
            if shared.3.begin(|| !shared.1.is_asleep()) {
                shared.3.wait();
            }
            loom::thread::yield_now();
        }
        worker.join().unwrap();
        giver.join().unwrap();
    });
}

/// Whichever of two workers wakes by itself, as for a timer, the monitor notices.
#[test]
fn a_worker_that_wakes_by_itself_is_noticed() {
    check(|controls| {
        let shared = Arc::new(([Sleep::new(), Sleep::new()], Doze::new()));
        shared.0.iter().for_each(|sleep| sleep.announce(false));
        assert!(shared.1.begin(|| false));
        shared.1.end();
        let workers = [0, 1].map(|each| {
            let theirs = shared.clone();
            spawn(controls[each + 1], move || {
                theirs.0[each].end();
                theirs.1.end();
            })
        });
        let mut noticed = [false; 2];
        while noticed.contains(&false) {
            let is_new = |each: &usize| !noticed[*each] && !shared.0[*each].is_asleep();
            if shared.1.begin(|| [0, 1].iter().any(is_new)) {
                shared.1.wait();
            }
            for each in [0, 1] {
                noticed[each] |= !shared.0[each].is_asleep();
            }
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}
