//! Models: what lies below the signals of threads, and below their waits, under loom, which tries
//! every order of steps.
//!
//! The files are compiled into this test as they are; only `model` is replaced, by atomics that
//! loom watches. loom takes SeqCst of a load or store for Acquire or Release: what is more than
//! that it does not try. It takes the first use of an atomic for its construction, so a model's
//! main thread uses each of them before it starts the others.
//!
//! Of `counts.rs` weaker forms fail: who was closed out tries; who closes does not wait for those
//! who try, or for whom the file is ready; who tries is not counted; a copy is offered after those
//! for whom it is count no more. And of `told.rs`: without either fence; without the second look.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p heddle-user --release --test loom`

#![cfg(loom)]

use std::sync::Arc;

use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;

#[path = "../src/calls/waited/copies.rs"]
mod copies;
#[path = "../src/calls/waited/counts.rs"]
mod counts;
#[path = "../src/threads/signals/kept.rs"]
mod kept;
#[path = "../src/threads/signals/news.rs"]
mod news;
#[allow(dead_code)]
#[path = "../src/threads/signals/told.rs"]
mod told;

/// loom's atomics, which have no const constructor, made on their first use; and a kernel.
#[allow(dead_code)]
mod model {
    use std::cell::OnceCell;
    use std::time::Duration;

    use loom::sync::atomic::Ordering;
    use loom::sync::{Condvar, Mutex};

    pub use loom::sync::atomic::fence;

    pub fn spin() {
        loom::thread::yield_now();
    }

    macro_rules! atomic {
        ($name:ident, $type:ty) => {
            pub struct $name {
                first: $type,
                made: OnceCell<loom::sync::atomic::$name>,
                kernel: OnceCell<(Mutex<()>, Condvar)>,
            }

            // SAFETY: loom runs its threads one at a time on one kernel thread.
            unsafe impl Sync for $name {}
            // SAFETY: as above.
            unsafe impl Send for $name {}

            impl $name {
                pub const fn new(first: $type) -> Self {
                    $name { first, made: OnceCell::new(), kernel: OnceCell::new() }
                }

                fn get(&self) -> &loom::sync::atomic::$name {
                    self.made.get_or_init(|| loom::sync::atomic::$name::new(self.first))
                }

                pub fn load(&self, order: Ordering) -> $type {
                    self.get().load(order)
                }

                pub fn store(&self, value: $type, order: Ordering) {
                    self.get().store(value, order);
                }
            }
        };
    }

    atomic!(AtomicBool, bool);
    atomic!(AtomicU32, u32);
    atomic!(AtomicU64, u64);

    impl AtomicU64 {
        pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            self.get().fetch_add(value, order)
        }

        pub fn fetch_update(
            &self,
            set: Ordering,
            fetch: Ordering,
            update: impl FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            self.get().fetch_update(set, fetch, update)
        }

        pub fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            self.get().compare_exchange(current, new, success, failure)
        }
    }

    impl AtomicU32 {
        pub fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
            self.get().fetch_add(value, order)
        }

        fn kernel(&self) -> &(Mutex<()>, Condvar) {
            self.kernel.get_or_init(|| (Mutex::new(()), Condvar::new()))
        }
    }

    /// The kernel has a full barrier before its look at the word, and reads the newest value: for
    /// loom, an exchange of both orders.
    pub fn futex_wait(word: &AtomicU32, expected: u32, _limit: Option<Duration>) {
        let kernel = word.kernel();
        let awake = kernel.0.lock().unwrap();
        if word.get().fetch_add(0, Ordering::AcqRel) == expected {
            drop(kernel.1.wait(awake).unwrap());
        }
    }

    pub fn futex_wake(word: &AtomicU32) {
        let kernel = word.kernel();
        let _awake = kernel.0.lock().unwrap();
        kernel.1.notify_one();
    }
}

/// Two are sent while the thread asks what is pending, and waits where there is nothing.
#[test]
fn who_waits_for_what_descriptors_tell_is_called_or_asks_again() {
    loom::model(|| {
        let told = Arc::new(told::Told::new());
        let (pending, called) = (Arc::new(AtomicU32::new(0)), Arc::new(model::AtomicU32::new(0)));
        told.look();
        assert!(!told.begin(|| true) && called.load(Relaxed) == 0);
        told.end();
        let sender = {
            let (told, pending, called) = (told.clone(), pending.clone(), called.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    pending.fetch_add(1, Relaxed);
                    told.count();
                    if told.waits() {
                        called.fetch_add(1, Release);
                        model::futex_wake(&called);
                    }
                }
            })
        };
        let mut taken = 0;
        while taken < 2 {
            // As a wait that is called before it begins: it does not.
            let before = called.load(Acquire);
            told.look();
            match pending.swap(0, Relaxed) {
                0 if told.begin(|| true) => {}
                0 => {
                    model::futex_wait(&called, before, None);
                    told.end();
                }
                some => taken += some,
            }
        }
        sender.join().unwrap();
    });
}

/// Each handler with flags and a mask of its own: what is read belongs together.
#[test]
fn an_action_is_read_whole() {
    loom::model(|| {
        let words = Arc::new(kept::Words::new());
        assert_eq!(words.get(), (0, 0, 0));
        let theirs = words.clone();
        let writer = thread::spawn(move || {
            theirs.set((1, 1, 1));
            theirs.set((2, 2, 2));
        });
        let (handler, flags, mask) = words.get();
        assert_eq!((u64::from(flags), mask), (handler, handler));
        writer.join().unwrap();
        assert_eq!(words.get(), (2, 2, 2));
    });
}

/// A handler that was set before something else was told of is found by who hears of that.
#[test]
fn an_action_that_was_told_of_is_found() {
    loom::model(|| {
        let words = Arc::new(kept::Words::new());
        let told = Arc::new(AtomicU32::new(0));
        assert_eq!(words.get(), (0, 0, 0));
        let (theirs, tells) = (words.clone(), told.clone());
        let writer = thread::spawn(move || {
            theirs.set((1, 1, 1));
            tells.store(1, Release);
        });
        if told.load(Acquire) == 1 {
            assert_eq!(words.get(), (1, 1, 1));
        }
        writer.join().unwrap();
    });
}

/// The watcher: looks for work, and sleeps while there is none, until it has seen it all.
fn watches(tellers: u32) {
    loom::model(move || {
        let news = Arc::new(news::News::new());
        let work = Arc::new(AtomicU32::new(0));
        // News from before a sleep end it at once.
        let seen = news.seen();
        news.tell();
        assert!(news.sleep(seen, None));
        let mut threads = Vec::new();
        for _ in 0..tellers {
            let (news, work) = (news.clone(), work.clone());
            threads.push(thread::spawn(move || {
                // Relaxed: what was done before the news is seen by who has seen the news.
                work.fetch_add(1, Relaxed);
                news.tell();
            }));
        }
        loop {
            let seen = news.seen();
            if work.load(Relaxed) == tellers {
                break;
            }
            // It may return early: by the wake of one whose news were seen before.
            news.sleep(seen, None);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn who_sleeps_hears_of_news() {
    watches(1);
}

#[test]
fn who_sleeps_hears_of_the_news_of_two() {
    watches(2);
}

/// Ends a wait, once.
#[derive(Default)]
struct Event(loom::sync::Mutex<bool>, loom::sync::Condvar);

impl Event {
    fn wait(&self) {
        let mut is_told = self.0.lock().unwrap();
        while !*is_told {
            is_told = self.1.wait(is_told).unwrap();
        }
    }

    fn notify(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }
}

/// A descriptor: what is there to read, and whether its number is the next file's.
struct Number {
    counts: counts::Counts,
    there: AtomicU32,
    is_next: AtomicU32,
}

impl Number {
    /// A reader who has begun with `closed` and is told by `event`; whether he has got something.
    /// `takes`: it is gone then.
    fn read(&self, closed: u64, event: &Event, takes: bool) -> bool {
        event.wait();
        let may_try = self.counts.done(counts::READS, closed);
        let got = may_try && {
            assert_eq!(self.is_next.load(Relaxed), 0, "the next file's");
            let left = if takes { 0 } else { 1 };
            self.there.compare_exchange(1, left, Relaxed, Relaxed).is_ok()
        };
        if may_try {
            self.counts.leave(counts::TRIES, closed);
        }
        got
    }

    fn close(&self) {
        let is_ready = |reads, _| reads && self.there.fetch_add(0, Relaxed) != 0;
        while self.counts.close(is_ready, true, |_, _| {}) == counts::Closing::Later {
            thread::yield_now();
        }
        self.is_next.store(1, Relaxed);
    }
}

/// Something has come for `readers`, all of whom are told, and then the number is closed, and
/// another file has it.
fn closes(readers: usize, takes: bool) {
    loom::model(move || {
        let number = Arc::new(Number {
            counts: counts::Counts::new(),
            there: AtomicU32::new(0),
            is_next: AtomicU32::new(0),
        });
        assert!(number.counts.are_none());
        let start = |_| {
            let closed = number.counts.begin(counts::READS);
            let event = Arc::new(Event::default());
            let (theirs, told) = (number.clone(), event.clone());
            (event, thread::spawn(move || theirs.read(closed, &told, takes)))
        };
        let threads: Vec<_> = (0..readers).map(start).collect();
        number.there.store(1, Relaxed);
        threads.iter().for_each(|(event, _)| event.notify());
        number.close();
        let got = threads.into_iter().map(|(_, it)| it.join().unwrap()).filter(|&got| got).count();
        assert_eq!(got, if takes { 1 } else { readers });
        assert!(number.counts.are_none());
    });
}

#[test]
fn who_waits_tries_before_the_number_is_closed() {
    closes(1, false);
}

#[test]
fn all_who_wait_try_before_the_number_is_closed() {
    closes(2, false);
}

#[test]
fn nobody_tries_with_the_next_file() {
    closes(2, true);
}

/// The next file is ready, and the reader of the one before is not told of anything.
#[test]
fn who_waits_on_counts_no_more() {
    loom::model(|| {
        let number = Arc::new(counts::Counts::new());
        assert!(number.are_none());
        let closed = number.begin(counts::READS);
        assert!(number.close(|_, _| false, true, |_, _| {}) == counts::Closing::Turned);
        let theirs = number.clone();
        let reader = thread::spawn(move || theirs.leave(counts::READS, closed));
        assert!(!number.is_meant(closed));
        let next = number.begin(counts::READS);
        assert!(number.is_meant(next));
        assert!(number.close(|_, _| true, true, |_, _| {}) == counts::Closing::Later);
        assert!(number.done(counts::READS, next));
        number.leave(counts::TRIES, next);
        assert!(number.close(|_, _| true, true, |_, _| {}) == counts::Closing::Free);
        reader.join().unwrap();
        assert!(number.are_none());
    });
}

const NUMBER: i32 = 5;
const COPY: i32 = 600;

/// A descriptor whose file is kept when its number is closed, and how often the copy was closed.
struct KeptNumber {
    counts: counts::Counts,
    copies: loom::sync::Mutex<copies::Copies>,
    was_closed: AtomicU32,
}

impl KeptNumber {
    fn release(&self, place: usize) {
        if let Some(fd) = self.copies.lock().unwrap().release(place) {
            assert_eq!((fd, self.was_closed.fetch_add(1, Relaxed)), (COPY, 0));
        }
    }

    /// The wait of one who has begun with `closed` is over; `tries`: he goes on with the file.
    fn end(&self, closed: u64, tries: bool) {
        if tries && self.counts.done(counts::READS, closed) {
            self.counts.leave(counts::TRIES, closed);
        } else if tries || !self.counts.leave(counts::READS, closed) {
            let (place, fd) = self.copies.lock().unwrap().take(NUMBER, closed).expect("kept");
            assert_eq!((fd, self.was_closed.load(Relaxed)), (COPY, 0));
            self.release(place);
        }
    }

    /// Nothing is ready; `told` are those who wait.
    fn close(&self, told: &[Arc<Event>]) {
        let mut place = None;
        let offer = || self.copies.lock().unwrap().offer(NUMBER, COPY).unwrap();
        let mut keep = |closed, waits| {
            let place = *place.get_or_insert_with(offer);
            self.copies.lock().unwrap().is_for(place, closed, waits);
        };
        let closing = loop {
            match self.counts.close(|_, _| false, true, &mut keep) {
                counts::Closing::Later => thread::yield_now(),
                other => break other,
            }
        };
        told.iter().for_each(|event| event.notify());
        let Some(place) = place else { return };
        if closing == counts::Closing::Free {
            self.copies.lock().unwrap().is_for(place, 0, 0);
        }
        self.release(place);
        assert!(self.counts.are_none() || closing == counts::Closing::Free);
    }
}

/// `ends`: what each of those who wait does in the end, and whether it does so by itself.
fn keeps(ends: &'static [(bool, bool)]) {
    loom::model(move || {
        let number = Arc::new(KeptNumber {
            counts: counts::Counts::new(),
            copies: loom::sync::Mutex::new(copies::Copies::new()),
            was_closed: AtomicU32::new(0),
        });
        assert!(number.counts.are_none());
        let start = |&(tries, by_itself): &(bool, bool)| {
            let closed = number.counts.begin(counts::READS);
            let event = Arc::new(Event::default());
            let (theirs, told) = (number.clone(), event.clone());
            let body = move || {
                if !by_itself {
                    told.wait();
                }
                theirs.end(closed, tries);
            };
            (event, thread::spawn(body))
        };
        let (events, threads): (Vec<_>, Vec<_>) = ends.iter().map(start).unzip();
        number.close(&events);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(number.counts.are_none());
        // Its place is free, and all that was made is closed.
        let left = number.copies.lock().unwrap().take_all().count();
        assert_eq!(left, 0);
        let all_leave = ends.iter().all(|&(_, by_itself)| by_itself);
        assert!(all_leave || number.was_closed.load(Relaxed) == 1);
    });
}

#[test]
fn all_who_wait_find_the_copy() {
    keeps(&[(true, false), (true, false)]);
}

#[test]
fn who_leaves_wants_no_copy() {
    keeps(&[(true, false), (false, true)]);
}

#[test]
fn who_is_told_meanwhile_tries_or_finds_the_copy() {
    keeps(&[(true, true), (true, false)]);
}
