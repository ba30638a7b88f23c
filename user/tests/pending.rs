//! `src/threads/signals/pending.rs`, with senders that come before every step of it.
//!
//! The file is compiled into this test as it is, on atomics that count their uses. A run is done
//! once for each place of a first sender and each of a second one, which may come in the middle of
//! the first: another thread that is faster, or a signal handler. At the end the thread has taken
//! each queued signal once, with its value; one that is pending once was taken after each sending
//! had begun, and no entry of the pool is left taken.
//!
//! Then somebody who discards comes before every step, too: what was sent before that is not taken
//! afterwards, and what is sent afterwards is.

use std::cell::{Cell, RefCell};
use std::sync::{Mutex, PoisonError};

use libc::{c_int, siginfo_t};
use pending::{Added, Pending, bit, count_discarded};

#[path = "../src/threads/signals/pending.rs"]
mod pending;

/// Atomics before whose use a sender may come.
mod model {
    use core::sync::atomic::Ordering;

    macro_rules! atomic {
        ($name:ident, $type:ty) => {
            pub struct $name(core::sync::atomic::$name);

            #[allow(dead_code)]
            impl $name {
                pub const fn new(value: $type) -> Self {
                    $name(core::sync::atomic::$name::new(value))
                }

                pub fn load(&self, order: Ordering) -> $type {
                    super::step();
                    self.0.load(order)
                }

                pub fn store(&self, value: $type, order: Ordering) {
                    super::step();
                    self.0.store(value, order);
                }

                pub fn swap(&self, value: $type, order: Ordering) -> $type {
                    super::step();
                    self.0.swap(value, order)
                }

                pub fn fetch_or(&self, value: $type, order: Ordering) -> $type {
                    super::step();
                    self.0.fetch_or(value, order)
                }

                pub fn fetch_add(&self, value: $type, order: Ordering) -> $type {
                    super::step();
                    self.0.fetch_add(value, order)
                }

                pub fn fetch_and(&self, value: $type, order: Ordering) -> $type {
                    super::step();
                    self.0.fetch_and(value, order)
                }

                pub fn compare_exchange_weak(
                    &self,
                    from: $type,
                    to: $type,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$type, $type> {
                    super::step();
                    self.0.compare_exchange(from, to, success, failure)
                }
            }
        };
    }

    atomic!(AtomicU32, u32);
    atomic!(AtomicU64, u64);
}

const SI_TKILL: c_int = -6;
const SI_QUEUE: c_int = -1;
const PLAIN: c_int = libc::SIGUSR1;
/// Below the C library's first one: none of the tests is delivered.
const QUEUED: c_int = 40;

/// What the pool is asked for without a free entry.
fn info_of(signal: c_int) -> siginfo_t {
    info(signal, 0)
}

/// With `value` where a sender's value is.
fn info(signal: c_int, value: u64) -> siginfo_t {
    // SAFETY: all zero bytes are valid; the value lies in the structure, aligned for it.
    unsafe {
        let mut info: siginfo_t = std::mem::zeroed();
        (info.si_signo, info.si_code) = (signal, SI_QUEUE);
        (&raw mut info).cast::<u64>().add(3).write(value);
        info
    }
}

fn value_of(info: &siginfo_t) -> u64 {
    // SAFETY: as above.
    unsafe { std::ptr::from_ref(info).cast::<u64>().add(3).read() }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Event {
    Begun(c_int, u64),
    Sent(c_int, u64),
    Looks,
    Taken(c_int, u64),
    Discards,
    Discarded,
}

/// As a sender's signal: somebody discards.
const DISCARDER: c_int = 0;

thread_local! {
    static PENDING: RefCell<Option<&'static Pending>> = const { RefCell::new(None) };
    static STEPS: Cell<usize> = const { Cell::new(0) };
    /// Before which step a sender comes, and with what.
    static SENDERS: Cell<[(usize, c_int); 2]> = const { Cell::new([(0, 0); 2]) };
    static EVENTS: RefCell<Vec<Event>> = const { RefCell::new(Vec::new()) };
    static VALUE: Cell<u64> = const { Cell::new(0) };
}

fn step() {
    let now = STEPS.get() + 1;
    STEPS.set(now);
    for (at, signal) in SENDERS.get() {
        if at == now {
            send(signal);
        }
    }
}

fn tell(event: Event) {
    EVENTS.with_borrow_mut(|events| events.push(event));
}

fn send(signal: c_int) {
    let Some(pending) = PENDING.with_borrow(|pending| *pending) else { return };
    if signal == DISCARDER {
        return discard(pending);
    }
    let value = VALUE.get() + 1;
    VALUE.set(value);
    tell(Event::Begun(signal, value));
    assert_ne!(pending.add(&info(signal, value)), Added::Refused, "the pool is used up");
    tell(Event::Sent(signal, value));
}

fn discard(pending: &Pending) {
    tell(Event::Discards);
    let signals = bit(PLAIN) | bit(QUEUED);
    count_discarded(signals);
    pending.discard(signals);
    tell(Event::Discarded);
}

fn take(pending: &Pending) {
    loop {
        tell(Event::Looks);
        let Some(info) = pending.take(bit(PLAIN) | bit(QUEUED)) else { return };
        tell(Event::Taken(info.si_signo, value_of(&info)));
    }
}

/// Returns how many steps there were before the thread has looked for the last time.
fn run(senders: [(usize, c_int); 2]) -> usize {
    let pending: &'static Pending = Box::leak(Box::new(Pending::new()));
    PENDING.set(Some(pending));
    EVENTS.take();
    VALUE.set(0);
    STEPS.set(0);
    SENDERS.set(senders);
    send(QUEUED);
    send(PLAIN);
    take(pending);
    send(QUEUED);
    send(QUEUED);
    take(pending);
    let steps = STEPS.get();
    SENDERS.set([(0, 0); 2]);
    take(pending);
    if senders.iter().all(|&(at, signal)| at == 0 || signal != DISCARDER) {
        judge(senders);
    } else {
        send(QUEUED);
        send(PLAIN);
        take(pending);
        judge_discarded(senders);
    }
    PENDING.set(None);
    // SAFETY: nobody else has it any more.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(pending).cast_mut()) });
    steps
}

fn judge(senders: [(usize, c_int); 2]) {
    let events = EVENTS.take();
    let what = || format!("senders {senders:?}: {events:?}");
    let is_begun = |signal| move |e: &Event| matches!(e, Event::Begun(it, _) if *it == signal);
    let begun = |signal| events.iter().filter(|e| is_begun(signal)(e)).count();
    let values: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Taken(QUEUED, value) => Some(*value),
            _ => None,
        })
        .collect();
    let mut each = values.clone();
    each.sort_unstable();
    each.dedup();
    assert_eq!((values.len(), each.len()), (begun(QUEUED), begun(QUEUED)), "{}", what());
    if senders.iter().all(|&(at, _)| at == 0) {
        assert_eq!(values, each, "in their order: {}", what());
    }
    let last_begun = events.iter().rposition(is_begun(PLAIN));
    let last_taken = events.iter().rposition(|e| matches!(e, Event::Taken(PLAIN, _)));
    assert!(last_taken > last_begun, "{}", what());
    let taken = events.iter().filter(|e| matches!(e, Event::Taken(PLAIN, _))).count();
    assert!(taken <= begun(PLAIN), "{}", what());
}

fn judge_discarded(senders: [(usize, c_int); 2]) {
    let events = EVENTS.take();
    let what = || format!("senders {senders:?}: {events:?}");
    let place = |wanted| events.iter().rposition(|&event| event == wanted);
    let Some(begin) = place(Event::Discards) else { return };
    let end = place(Event::Discarded).unwrap();
    // From there on the thread looks after it.
    let looks = end + events[end..].iter().position(|&e| e == Event::Looks).unwrap();
    for event in &events[..begin] {
        let Event::Sent(signal, value) = *event else { continue };
        assert!(!events[looks..].contains(&Event::Taken(signal, value)), "{}", what());
    }
    for (at, event) in events.iter().enumerate().skip(end) {
        let Event::Sent(signal, value) = *event else { continue };
        let begun = events[..at].iter().position(|&e| e == Event::Begun(signal, value)).unwrap();
        if begun < end {
            continue;
        }
        let is_taken = match signal {
            QUEUED => events.iter().filter(|&&e| e == Event::Taken(signal, value)).count() == 1,
            _ => events[begun..].iter().any(|e| matches!(e, Event::Taken(PLAIN, _))),
        };
        assert!(is_taken, "{value}: {}", what());
    }
}

/// The pool is one for all tests.
static ONE: Mutex<()> = Mutex::new(());

fn run_all(signals: [c_int; 2]) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut runs = 0;
    for first in 1..=run([(0, 0); 2]) {
        for second in 1..=run([(first, signals[0]), (0, 0)]) {
            run([(first, signals[0]), (second, signals[1])]);
            runs += 1;
        }
    }
    // The tests together use up entries that stay taken: there are 4096.
    assert!(runs > 1000, "{runs}");
}

#[test]
fn queued_signals_come_each_once() {
    run_all([QUEUED, QUEUED]);
}

#[test]
fn a_plain_signal_is_not_lost() {
    run_all([PLAIN, PLAIN]);
}

#[test]
fn both_kinds_do_not_disturb_each_other() {
    run_all([PLAIN, QUEUED]);
    run_all([QUEUED, PLAIN]);
}

#[test]
fn what_was_discarded_is_nobodys() {
    run_all([DISCARDER, PLAIN]);
    run_all([DISCARDER, QUEUED]);
    run_all([PLAIN, DISCARDER]);
    run_all([QUEUED, DISCARDER]);
    run_all([DISCARDER, DISCARDER]);
}

#[test]
fn without_a_free_entry_a_signal_is_still_pending() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let pending = Pending::new();
    let mut count = 0;
    while pending.add(&info(QUEUED, count)) == Added::Whole {
        count += 1;
    }
    let mut bare = info(PLAIN, 7);
    bare.si_code = SI_TKILL;
    assert_eq!(pending.add(&bare), Added::Bare);
    assert_eq!(pending.take(bit(PLAIN)).map(|info| value_of(&info)), Some(0));
    for value in 0..count {
        assert_eq!(pending.take(bit(QUEUED)).map(|info| value_of(&info)), Some(value));
    }
    assert!(pending.take(u64::MAX).is_none());
    pending.add(&bare);
    assert_eq!(pending.add(&info(QUEUED, 1)), Added::Whole);
    pending.clear();
    assert_eq!(pending.set(), 0);
    assert!(pending.take(u64::MAX).is_none());
}
