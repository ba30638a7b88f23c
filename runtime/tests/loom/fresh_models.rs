//! Models of the threads that have not started: a worker that spawns and takes, and thieves.
//!
//! The ring has two places here, so that three threads wrap around it and overflow into the list.

use std::sync::Arc;

use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::Relaxed;

use crate::control::Control;
use crate::fresh::Fresh;
use crate::models::check;
use crate::sched::spawn;

/// How often each thread was delivered.
type Taken = Arc<[AtomicUsize; 4]>;

/// Takes up to `count`, and writes to each thread as its new owner does: loom fails the model if
/// that races with who pushed it, or with a second owner.
fn take(fresh: &Fresh, count: u32, taken: &Taken) -> u32 {
    fresh.take(count, |thread| {
        thread.prev.set(thread);
        taken[thread.slot() as usize].fetch_add(1, Relaxed);
    })
}

/// A queue whose places were all used once, by the model's main thread as loom demands.
fn used(controls: &[&'static Control]) -> Arc<Fresh> {
    let fresh = Fresh::new();
    for &thread in &controls[1..] {
        fresh.push_own(made(thread));
    }
    assert_eq!(fresh.take(4, |_| {}), 3);
    Arc::new(fresh)
}

/// The thread as it is when it is spawned.
fn made(thread: &'static Control) -> &'static Control {
    thread.prev.set(core::ptr::null());
    thread
}

fn each_once(fresh: &Fresh, taken: &Taken) {
    while take(fresh, 4, taken) != 0 {}
    for count in &taken[1..] {
        assert_eq!(count.load(Relaxed), 1);
    }
    assert_eq!(fresh.len(), 0);
}

#[test]
fn a_new_thread_is_taken_once() {
    check(|controls| {
        let fresh = used(controls);
        let taken = Taken::default();
        let (its, all) = (fresh.clone(), taken.clone());
        let thief = spawn(controls[0], move || take(&its, 2, &all));
        for &thread in &controls[1..] {
            fresh.push_own(made(thread));
        }
        take(&fresh, 1, &taken);
        thief.join().unwrap();
        each_once(&fresh, &taken);
    });
}

#[test]
fn places_are_used_again_only_when_they_were_read() {
    check(|controls| {
        let fresh = used(controls);
        let taken = Taken::default();
        let (its, all) = (fresh.clone(), taken.clone());
        fresh.push_own(made(controls[1]));
        let thief = spawn(controls[0], move || take(&its, 1, &all));
        take(&fresh, 1, &taken);
        fresh.push_own(made(controls[2]));
        fresh.push_own(made(controls[3]));
        thief.join().unwrap();
        each_once(&fresh, &taken);
    });
}

#[test]
fn others_push_while_the_worker_does() {
    check(|controls| {
        let fresh = used(controls);
        let taken = Taken::default();
        let its = fresh.clone();
        let thread = controls[1];
        let other = spawn(controls[0], move || its.push(made(thread)));
        fresh.push_own(made(controls[2]));
        take(&fresh, 2, &taken);
        fresh.push_own(made(controls[3]));
        other.join().unwrap();
        each_once(&fresh, &taken);
    });
}
