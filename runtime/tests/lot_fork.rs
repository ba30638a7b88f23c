//! A forked child begins with an empty parking lot. Apart from `lot.rs`, because an emulator of
//! another processor can't fork while it has threads.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use heddle::raw::{ANY, Ended, Moment, futex_requeue, futex_wake};
use heddle::thread;

#[path = "common/futex.rs"]
#[allow(dead_code)]
mod futex;

use futex::wait_for;

/// How many wait for `word`: a requeue to where they are counts them and does nothing else.
fn waiting(word: &AtomicU32) -> u32 {
    // SAFETY: borrowed for the call.
    unsafe { futex_requeue(word, None, word, 0, u32::MAX) }.expect("nothing to compare").moved
}

fn until_waiting(word: &AtomicU32, count: u32) {
    while waiting(word) != count {
        std::thread::yield_now();
    }
}

/// A word that is waited for, and one that ends the test.
#[derive(Default)]
struct Shared {
    word: AtomicU32,
    over: AtomicU32,
}

/// Calls `child` in a forked child, which has ten seconds; whether it returned true.
fn forked(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls the lot and leaves at once; nothing that forking breaks is used.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: as above.
        unsafe {
            libc::alarm(10);
            libc::_exit(i32::from(!child()));
        }
    }
    let mut status = 0;
    // SAFETY: our own child; a valid place for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status == 0
}

#[test]
fn a_forked_child_has_no_waiters_and_no_held_locks() {
    let shared: Arc<Shared> = Arc::default();
    let theirs = shared.clone();
    let kernel = std::thread::spawn(move || wait_for(&theirs.word, 0, ANY, Moment::Never));
    until_waiting(&shared.word, 1);
    let theirs = shared.clone();
    let light = thread::spawn(move || wait_for(&theirs.word, 0, ANY, Moment::Never));
    until_waiting(&shared.word, 2);
    // These take the lock of the bucket again and again.
    let busy: Vec<_> = (0..2)
        .map(|_| {
            let theirs = shared.clone();
            std::thread::spawn(move || {
                while theirs.over.load(SeqCst) == 0 {
                    assert_eq!(futex_wake(&theirs.word, 1, 0), 0);
                }
            })
        })
        .collect();
    for _ in 0..200 {
        assert!(forked(|| waiting(&shared.word) == 0 && futex_wake(&shared.word, 9, ANY) == 0));
    }
    shared.over.store(1, SeqCst);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(futex_wake(&shared.word, 9, ANY), 2, "the parent's are where they were");
    assert_eq!(kernel.join().unwrap(), Ended::Woken);
    assert_eq!(light.join().unwrap(), Ended::Woken);
}
