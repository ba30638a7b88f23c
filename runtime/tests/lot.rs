//! The parking lot's promises one by one: what begins a wait, what ends it, who is woken first.
//! The races are in `stress/lot.rs`, `sim_lot.rs` and the models.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use heddle::raw::{ANY, Ended, Manner, Moment, Requeued, futex_requeue, futex_wake};
use heddle::thread;

#[path = "common/futex.rs"]
#[allow(dead_code)]
mod futex;

use futex::{after, wait_cancellable, wait_for};

const NAP: Duration = Duration::from_millis(20);

/// How many wait for `word`: a requeue to where they are counts them and does nothing else.
fn waiting(word: &AtomicU32) -> u32 {
    // SAFETY: borrowed for the call.
    unsafe { futex_requeue(word, None, word, 0, u32::MAX) }.expect("nothing to compare").moved
}

fn until_waiting(word: &AtomicU32, count: u32) {
    let start = Instant::now();
    while waiting(word) != count {
        assert!(start.elapsed() < Duration::from_secs(30), "{} wait", waiting(word));
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn requeue(from: &AtomicU32, expected: u32, to: &AtomicU32, wake: u32, most: u32) -> Requeued {
    // SAFETY: borrowed for the call.
    unsafe { futex_requeue(from, Some(expected), to, wake, most) }.expect("as expected")
}

/// Words of a test, and in which order its waiters came back.
#[derive(Default)]
struct Shared {
    word: AtomicU32,
    other: AtomicU32,
    order: Mutex<Vec<u32>>,
}

impl Shared {
    fn note(&self, number: u32) {
        self.order.lock().unwrap().push(number);
    }

    fn order(&self) -> Vec<u32> {
        self.order.lock().unwrap().clone()
    }
}

/// Starts a thread that waits for the word, and lets it begin.
fn waiter(shared: &Arc<Shared>, number: u32, priority: u8, bits: u32) -> thread::JoinHandle<()> {
    let (theirs, before) = (shared.clone(), waiting(&shared.word));
    let builder = if priority == 0 {
        thread::Builder::new()
    } else {
        thread::Builder::new().priority(priority)
    };
    let handle = builder.spawn(move || {
        assert_eq!(wait_for(&theirs.word, 0, bits, Moment::Never), Ended::Woken);
        theirs.note(number);
    });
    until_waiting(&shared.word, before + 1);
    handle.unwrap()
}

/// Wakes one waiter of `word` after the other and joins them all.
fn wake_each(shared: &Shared, word: &AtomicU32, handles: Vec<thread::JoinHandle<()>>) {
    for woken in 1..=handles.len() {
        assert_eq!(futex_wake(word, 1, ANY), 1);
        while shared.order().len() < woken {
            std::thread::yield_now();
        }
    }
    assert_eq!(futex_wake(word, 1, ANY), 0);
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

#[test]
fn a_word_that_has_changed_is_not_waited_for() {
    let word = AtomicU32::new(7);
    assert_eq!(wait_for(&word, 6, ANY, Moment::Never), Ended::Changed);
    let word = Arc::new(word);
    let inner = word.clone();
    let ended = thread::spawn(move || wait_for(&inner, 6, ANY, Moment::Never)).join().unwrap();
    assert_eq!(ended, Ended::Changed);
    assert_eq!(waiting(&word), 0);
}

#[test]
fn deadlines_of_both_clocks_pass() {
    let word = AtomicU32::new(0);
    let of_day = || UNIX_EPOCH.elapsed().unwrap();
    let moments: [&dyn Fn() -> Moment; 2] =
        [&|| after(NAP), &|| Moment::Realtime((of_day() + NAP).as_nanos() as u64)];
    for moment in moments {
        let start = Instant::now();
        assert_eq!(wait_for(&word, 0, ANY, moment()), Ended::TimedOut);
        // The two clocks are read one after the other.
        assert!(start.elapsed() > NAP - Duration::from_millis(1), "{:?}", start.elapsed());
    }
    for past in [Moment::Monotonic(0), Moment::Monotonic(1), Moment::Realtime(0)] {
        assert_eq!(wait_for(&word, 0, ANY, past), Ended::TimedOut);
        assert_eq!(wait_for(&word, 1, ANY, past), Ended::Changed, "the word comes first");
    }
    assert_eq!(waiting(&word), 0, "who has given up waits no more");
}

#[test]
fn first_come_first_served() {
    let shared: Arc<Shared> = Arc::default();
    let handles = (0..8).map(|number| waiter(&shared, number, 0, ANY)).collect();
    wake_each(&shared, &shared.word, handles);
    assert_eq!(shared.order(), (0..8).collect::<Vec<_>>());
}

#[test]
fn the_most_urgent_goes_first() {
    if heddle::raw::is_native().unwrap() {
        println!("skip: kernel threads have no heddle priority");
        return;
    }
    let shared: Arc<Shared> = Arc::default();
    let urgent = [(0, 0), (1, 10), (2, 0), (3, 60), (4, 10)];
    let handles = urgent.map(|(number, priority)| waiter(&shared, number, priority, ANY));
    wake_each(&shared, &shared.word, handles.into());
    assert_eq!(shared.order(), [3, 1, 4, 0, 2]);
}

#[test]
fn a_wake_takes_no_more_than_it_may_and_only_its_bits() {
    let shared: Arc<Shared> = Arc::default();
    let mut handles: Vec<_> =
        [1, 2, 1, 3, 2].iter().map(|bits| waiter(&shared, *bits, 0, *bits)).collect();
    // Woken threads run on workers of their own: joined before the next are woken.
    let mut joined = |numbers: &[usize]| {
        numbers.iter().for_each(|number| handles.remove(*number).join().unwrap());
    };
    assert_eq!(futex_wake(&shared.word, 0, ANY), 0);
    assert_eq!(futex_wake(&shared.word, u32::MAX, 4), 0);
    assert_eq!(futex_wake(&shared.word, 2, 1), 2);
    joined(&[2, 0]);
    assert_eq!(futex_wake(&shared.word, u32::MAX, 1), 1, "that with both bits");
    joined(&[1]);
    assert_eq!(waiting(&shared.word), 2);
    assert_eq!(futex_wake(&shared.word, u32::MAX, ANY), 2);
    joined(&[1, 0]);
    assert_eq!(shared.order(), [1, 1, 3, 2, 2]);
}

#[test]
fn moved_waiters_keep_their_order_behind_those_that_were_there() {
    let shared: Arc<Shared> = Arc::default();
    let theirs = shared.clone();
    let first = thread::spawn(move || {
        let _ = wait_for(&theirs.other, 0, ANY, Moment::Never);
        theirs.note(100);
    });
    until_waiting(&shared.other, 1);
    let mut handles: Vec<_> = (0..5).map(|number| waiter(&shared, number, 0, ANY)).collect();
    // SAFETY: borrowed for the call.
    let refused = unsafe { futex_requeue(&shared.word, Some(1), &shared.other, 1, 1) };
    assert_eq!(refused, None);
    assert_eq!(waiting(&shared.word), 5);
    let done = requeue(&shared.word, 0, &shared.other, 1, 3);
    assert_eq!(done, Requeued { woken: 1, moved: 3 });
    handles.remove(0).join().unwrap();
    assert_eq!((waiting(&shared.word), waiting(&shared.other)), (1, 4));
    // The last one stays, and is woken where it is.
    assert_eq!(futex_wake(&shared.word, u32::MAX, ANY), 1);
    handles.pop().unwrap().join().unwrap();
    for woken in 3..=6 {
        assert_eq!(futex_wake(&shared.other, 1, ANY), 1);
        while shared.order().len() < woken {
            std::thread::yield_now();
        }
    }
    assert_eq!(shared.order(), [0, 4, 100, 1, 2, 3]);
    handles.into_iter().chain([first]).for_each(|handle| handle.join().unwrap());
}

#[test]
fn a_moved_waiter_keeps_its_deadline_and_can_be_cancelled() {
    let shared: Arc<Shared> = Arc::default();
    let theirs = shared.clone();
    let timed = thread::spawn(move || wait_for(&theirs.word, 0, ANY, after(3 * NAP)));
    let theirs = shared.clone();
    let cancelled = thread::spawn(move || wait_cancellable(&theirs.word, 0, Moment::Never));
    let theirs = shared.clone();
    let kernel = std::thread::spawn(move || wait_for(&theirs.word, 0, ANY, after(3 * NAP)));
    until_waiting(&shared.word, 3);
    assert_eq!(requeue(&shared.word, 0, &shared.other, 0, 9).moved, 3);
    assert_eq!(timed.join().unwrap(), Ended::TimedOut);
    assert_eq!(kernel.join().unwrap(), Ended::TimedOut);
    assert_eq!(waiting(&shared.other), 1);
    cancelled.thread().cancel();
    assert_eq!(cancelled.join().unwrap(), Ended::Cancelled);
    assert_eq!((waiting(&shared.word), waiting(&shared.other)), (0, 0));
}

#[test]
fn a_cancellation_that_is_pending_ends_the_wait_at_once() {
    let shared: Arc<Shared> = Arc::default();
    let theirs = shared.clone();
    let victim = thread::spawn(move || {
        while theirs.other.load(SeqCst) == 0 {
            thread::yield_now();
        }
        wait_cancellable(&theirs.word, 0, Moment::Never)
    });
    victim.thread().cancel();
    shared.other.store(1, SeqCst);
    assert_eq!(victim.join().unwrap(), Ended::Cancelled);
}

/// Waits for a broadcast with a lock that is given up meanwhile; counts how often it came in vain
/// for the lock afterwards.
fn wait_with_lock(lock: &AtomicU32, word: &AtomicU32, vain: &AtomicU32) {
    let manner = Manner { then: (&raw const *lock).addr(), ..Manner::PLAIN };
    // SAFETY: borrowed for the call.
    let _ = unsafe { heddle::raw::futex_wait(word, 0, Moment::Never, manner) };
    while lock.swap(2, SeqCst) != 0 {
        vain.fetch_add(1, SeqCst);
        let _ = wait_for(lock, 2, ANY, Moment::Never);
    }
    // As who has something to do with the lock held.
    thread::yield_now();
    if lock.swap(0, SeqCst) == 2 {
        futex_wake(lock, 1, ANY);
    }
}

/// A hundred waiters need the lock next: what comes in vain for it, after a broadcast and after a
/// wake of all.
fn vain_wakes(wake: fn(&AtomicU32) -> Requeued) -> (Requeued, u32) {
    const WAITERS: u32 = 100;
    let words: Arc<[AtomicU32; 3]> = Arc::default();
    let waiters = (0..WAITERS).map(|_| {
        let words = words.clone();
        thread::spawn(move || wait_with_lock(&words[0], &words[1], &words[2]))
    });
    let waiters: Vec<_> = waiters.collect();
    until_waiting(&words[1], WAITERS);
    words[1].store(1, SeqCst);
    let done = wake(&words[1]);
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    (done, words[2].load(SeqCst))
}

#[test]
fn a_broadcast_wakes_one_and_the_others_when_it_is_their_turn() {
    let (done, vain) = vain_wakes(|word| heddle::raw::futex_broadcast(word));
    assert_eq!(done, Requeued { woken: 1, moved: 99 });
    let (_, vain_of_all) = vain_wakes(|word| {
        let woken = futex_wake(word, u32::MAX, ANY);
        Requeued { woken, moved: 0 }
    });
    println!("came in vain for the lock: {vain} after a broadcast, {vain_of_all} after a wake");
    assert!(vain <= vain_of_all / 4, "{vain} of {vain_of_all}");
}

#[test]
fn a_broadcast_wakes_who_needs_another_word_next_or_none() {
    let shared: Arc<Shared> = Arc::default();
    let first: Vec<_> = (0..3).map(|number| waiter(&shared, number, 0, ANY)).collect();
    let done = heddle::raw::futex_broadcast(&shared.word);
    assert_eq!(done, Requeued { woken: 3, moved: 0 });
    first.into_iter().for_each(|waiter| waiter.join().unwrap());
    assert_eq!(heddle::raw::futex_broadcast(&shared.word), Requeued::default());
}
