//! The buckets of the parking lot: who waits for which address, and how waits end.
//!
//! A bucket is a wait queue that all addresses with the same hash share; which address a waiter
//! waits for stands in its node (`node.rs`), which the bucket's lock guards.
//!
//! Protocol:
//! 1. A waiter locks the bucket, links itself, and only then looks at the word, behind a fence. If
//!    the word has changed it unlinks itself and goes; nobody can have taken it, for it still has
//!    the lock. Else it parks.
//! 2. A waker has changed the word before it comes here. Behind a fence it looks whether the
//!    bucket is empty. The two fences are in some order: either the waiter sees the new word or
//!    the waker sees the waiter. So a wake for nobody takes no lock, and none is lost.
//! 3. A waker takes the waiters that match out under the lock and wakes them after it: from then
//!    on they are his (protocol of `wait.rs`). Deadlines and cancellations go through
//!    [`crate::wait::abandon`], which follows a waiter that a requeue has moved meanwhile.
//! 4. A requeue holds both buckets' locks, the lower one first. A waiter goes from queue to queue
//!    without being in none in between, or its deadline would believe that a waker has it.
//! 5. A wake of many makes a crowd of those it takes out, if there are several or the wake before
//!    was in vain: they run behind others (`queue.rs`), for at most one of them finds what all
//!    wait for. Locks that spin and then wake all who wait, each time they look in vain, would keep
//!    their holder from running else: MariaDB's page latches, with 500 clients 450 threads, for
//!    5 ms each time that the holder has waited for the disk.
//! 6. A waiter for a condition ([`wait_after`]) links itself while it holds what those hold who
//!    make the condition true, and gives that up behind it. So there is no word to look at: whoever
//!    wakes after that finds it linked. What it waits for may be gone from the wake on.
//! 7. A broadcast wakes one waiter and moves those that will need the same word next. Where that
//!    is stands in their nodes: neither word is looked at, so both may be gone by then.
//!
//! Invariants:
//! 1. A thread that is linked in a bucket has a node whose address hashes to that bucket.
//! 2. The word is read outside of the lock before it is read inside: a fault happens to the
//!    caller, not to everybody who shares the bucket; and its page is there.
//!
//! Order: the most urgent first, then first come first served, per address. What was moved comes
//! behind who waited there before.
//!
//! Not here: clocks (`mod.rs`); words that are shared with other processes (they need the kernel).
//! Nothing here may be called from a signal handler but by way of `later.rs`.

use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::time::Duration;

use super::node::Node;
use super::nodes;
use crate::control::{Control, Outcome, WaitKind};
use crate::model::{self, AtomicU32, fence};
use crate::sched;
use crate::sys::clock;
use crate::wait::{self, Batch, Locked, WaitQueue};

/// As many as keep a thousand waiting threads mostly apart; 64 KiB that cost nothing unused.
const BUCKETS_LOG2: u32 = 10;
pub(crate) const BUCKETS: usize = 1 << BUCKETS_LOG2;

/// See [`wait_unseen`].
const UNSEEN: Duration = Duration::from_micros(200);

/// A cache line of its own: neighbours are used by strangers.
#[repr(align(64))]
struct Bucket(WaitQueue);

static LOT: [Bucket; BUCKETS] = [const { Bucket(WaitQueue::new()) }; BUCKETS];

/// Buckets of which one bit of [`USED`] tells: a page of them.
const PART: usize = 64;
const _: () = assert!(BUCKETS / PART <= u32::BITS as usize);
/// Parts of the lot in which a bucket was locked. A forked child looks at no other: looking makes
/// a page of what nobody has touched, and that 15 times were a tenth of a small program's fork.
static USED: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// Locks bucket number `index`.
#[inline]
fn locked(index: usize) -> Locked<'static> {
    let part = 1 << (index / PART);
    // ORDER: the bit is set before the lock is taken, so that a child in whose memory the lock is
    // taken has the bit; Acquire for who finds it set by another.
    if USED.load(Acquire) & part == 0 {
        USED.fetch_or(part, SeqCst);
    }
    LOT[index].0.lock()
}

/// How a thread waits for an address.
#[derive(Clone, Copy)]
pub struct Manner {
    /// Which wakes end it.
    pub bits: u32,
    /// The word that the thread will need next, 0 = none: a broadcast makes it wait for that one.
    pub then: usize,
    /// Whether a cancellation ends it; one that is pending does so at once.
    pub is_cancellable: bool,
    /// What the waiter calls it, in numbers of its own: for the deadlock report. 0 = nothing.
    pub what: u32,
}

impl Manner {
    /// Any wake ends it, and nothing else but a deadline.
    pub const PLAIN: Manner = Manner { bits: u32::MAX, then: 0, is_cancellable: false, what: 0 };
}

/// How a wait for an address ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Ended {
    /// By a wake. As with the kernel's futex it may have come for another reason: look again.
    Woken,
    /// It did not begin: the word was not as expected.
    Changed,
    /// Its deadline passed first.
    TimedOut,
    /// The thread was cancelled.
    Cancelled,
}

/// What a requeue did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Requeued {
    /// Waiters that were woken.
    pub woken: u32,
    /// Waiters that wait for the other address now.
    pub moved: u32,
}

/// Where waiters for an address are linked.
pub(crate) fn index_of(address: usize) -> usize {
    // Fibonacci hashing: the upper bits of the product depend on all bits of the address.
    let product = (model::known_part(address) as u64 >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product >> (64 - BUCKETS_LOG2)) as usize
}

fn address_of(word: *const AtomicU32) -> usize {
    word.addr()
}

/// Waits for a wake of `word`, if `*word == expected` at that time, until `deadline` (ns, 0 =
/// never) at most.
///
/// # Safety
/// 1. `word` may be read until the wait has begun.
pub(crate) unsafe fn wait(
    word: *const AtomicU32,
    expected: u32,
    manner: Manner,
    deadline: u64,
) -> Ended {
    // ORDER: Acquire, so that a caller who is told of a change sees what came before it.
    // SAFETY: by 1.
    if unsafe { &*word }.load(Acquire) != expected {
        return Ended::Changed;
    }
    let Some(me) = sched::waiter() else { return wait_unseen(deadline) };
    if manner.is_cancellable && sched::is_cancellable(me) {
        return Ended::Cancelled;
    }
    let Some(node) = nodes::of(me.slot()) else {
        // No memory for it. A wake without a reason is allowed, and lets the others go on.
        crate::thread::yield_now();
        return Ended::Woken;
    };
    let queue = locked(index_of(address_of(word)));
    begin(node, me, address_of(word), expected, manner, deadline);
    queue.enqueue(me);
    // ORDER: pairs with the fence in `wake` (step 2); that in `requeue` is its lock.
    fence(SeqCst);
    // SAFETY: by 1: the wait begins when the lock is given back.
    if unsafe { &*word }.load(Acquire) != expected {
        queue.take(me);
        return Ended::Changed;
    }
    publish(me, manner);
    ended(me, node, manner, queue.wait_published(me, deadline))
}

/// Waits for a wake of `address`, whatever is there, until `deadline` (ns, 0 = never) at most. Who
/// wakes after `give_up` was called finds the caller; it is called once, however the wait ends, and
/// must not switch. If it returns false the wait ends, as one that did not begin unless a wake came
/// first. `seen` tells waits in vain from others.
pub(crate) fn wait_after(
    address: usize,
    seen: u32,
    manner: Manner,
    deadline: u64,
    give_up: impl FnOnce() -> bool,
) -> Ended {
    let end = |goes_on: bool, ended: Ended| if goes_on { ended } else { Ended::Changed };
    let Some(me) = sched::waiter() else {
        return if give_up() { wait_unseen(deadline) } else { Ended::Changed };
    };
    if manner.is_cancellable && sched::is_cancellable(me) {
        return end(give_up(), Ended::Cancelled);
    }
    let Some(node) = nodes::of(me.slot()) else {
        let goes_on = give_up();
        // As in `wait`.
        crate::thread::yield_now();
        return end(goes_on, Ended::Woken);
    };
    let queue = locked(index_of(address));
    begin(node, me, address, seen, manner, deadline);
    queue.enqueue(me);
    publish(me, manner);
    // A wake that has come first is the caller's: it takes that, as any other.
    let before = || give_up() || !wait::abandon(me);
    match queue.wait_unless(me, deadline, before) {
        Some(outcome) => ended(me, node, manner, outcome),
        None => {
            me.wait.set(WaitKind::None);
            me.cancellable.set(false);
            Ended::Changed
        }
    }
}

/// What is to be known of a wait of the caller's that begins.
fn begin(node: &Node, me: &Control, address: usize, seen: u32, manner: Manner, deadline: u64) {
    node.begin(address, seen, me.switches.get());
    node.bits.set(manner.bits);
    node.then.set(manner.then);
    node.what.set(manner.what);
    node.has_deadline.set(deadline != 0);
}

/// The caller, which is linked, waits from now on.
fn publish(me: &Control, manner: Manner) {
    me.wait.set(WaitKind::Address);
    me.cancellable.set(manner.is_cancellable);
}

/// What has ended a wait of the caller's.
fn ended(me: &Control, node: &Node, manner: Manner, outcome: Outcome) -> Ended {
    me.cancellable.set(false);
    match outcome {
        Outcome::Woken => Ended::Woken,
        // A broadcast came first and moved it, which is as good as a wake.
        Outcome::TimedOut if manner.then != 0 && node.address.get() == manner.then => Ended::Woken,
        Outcome::TimedOut => Ended::TimedOut,
        Outcome::Cancelled => Ended::Cancelled,
    }
}

/// The wait of a kernel thread that can't be linked, or for which there is no memory: a wake
/// without a reason, a moment later, and the caller looks at its word again.
#[cold]
fn wait_unseen(deadline: u64) -> Ended {
    std::thread::sleep(UNSEEN);
    if deadline != 0 && clock::now_ns() >= deadline { Ended::TimedOut } else { Ended::Woken }
}

/// Wakes at most `most` of those who wait for `address` with one of `bits`; returns how many.
pub(crate) fn wake(address: usize, most: u32, bits: u32) -> u32 {
    // ORDER: pairs with the fence in `wait` (step 2).
    fence(SeqCst);
    let index = index_of(address);
    if LOT[index].0.seems_empty() {
        return 0;
    }
    let queue = locked(index);
    let batch = take_waiters(&queue, address, most, bits);
    if most > 1 {
        make_crowd(&batch);
    }
    drop(queue);
    batch.wake() as u32
}

/// Marks those who run behind others (step 5).
fn make_crowd(batch: &Batch) {
    let is_one = batch.iter().nth(1).is_none();
    for thread in batch.iter() {
        if !is_one || nodes::of_waiter(thread.slot()).is_vain.get() {
            thread.wait.set(WaitKind::Crowd);
        }
    }
}

/// Takes out those who are to be woken, in their order.
fn take_waiters(queue: &Locked<'_>, address: usize, most: u32, bits: u32) -> Batch {
    let mut batch = Batch::new();
    let mut left = most;
    let mut each = queue.first();
    while let Some(thread) = each {
        if left == 0 {
            break;
        }
        each = queue.after(thread);
        if waits_for(thread, address, bits) {
            queue.take(thread);
            batch.push(thread);
            left -= 1;
        }
    }
    batch
}

/// Under the lock of the bucket that `thread` is linked in.
fn waits_for(thread: &Control, address: usize, bits: u32) -> bool {
    let node = nodes::of_waiter(thread.slot());
    node.address.get() == address && node.bits.get() & bits != 0
}

/// Wakes at most `wake` of those who wait for `from`, and moves at most `most` of the others to
/// `to`, whatever their bits; but nothing, and `None`, if `expected` is given and is not in `from`.
///
/// # Safety
/// 1. If `expected` is given, `from` may be read.
pub(crate) unsafe fn requeue(
    from: *const AtomicU32,
    expected: Option<u32>,
    to: usize,
    wake: u32,
    most: u32,
) -> Option<Requeued> {
    // SAFETY: by 1.
    let is_expected = || expected.is_none_or(|value| unsafe { &*from }.load(Acquire) == value);
    if !is_expected() {
        return None;
    }
    let address = address_of(from);
    let (source, target) = lock_both(index_of(address), index_of(to));
    if !is_expected() {
        return None;
    }
    let batch = take_waiters(&source, address, wake, u32::MAX);
    let moved = move_waiters(&source, target.as_ref().unwrap_or(&source), address, to, most);
    drop((source, target));
    Some(Requeued { woken: batch.wake() as u32, moved })
}

/// Wakes one of those who wait for `address`, and makes those wait for the word that they need
/// next who need the same one as the first; the others are woken, too.
///
/// Right if who was woken takes that word as one that others wait for, as they do.
pub(crate) fn broadcast(address: usize) -> Requeued {
    // ORDER: pairs with the fence in `wait` (step 2).
    fence(SeqCst);
    let Some(then) = first_needs(address) else { return Requeued::default() };
    if then == 0 || then == address {
        return Requeued { woken: wake(address, u32::MAX, u32::MAX), moved: 0 };
    }
    let (source, target) = lock_both(index_of(address), index_of(then));
    let mut batch = take_waiters(&source, address, 1, u32::MAX);
    let there = target.as_ref().unwrap_or(&source);
    let moved = pass_on(&source, there, address, then, &mut batch);
    drop((source, target));
    Requeued { woken: batch.wake() as u32, moved }
}

/// What the first who waits for `address` needs next.
fn first_needs(address: usize) -> Option<usize> {
    let index = index_of(address);
    if LOT[index].0.seems_empty() {
        return None;
    }
    let queue = locked(index);
    let mut each = queue.first();
    while let Some(thread) = each {
        if waits_for(thread, address, u32::MAX) {
            return Some(nodes::of_waiter(thread.slot()).then.get());
        }
        each = queue.after(thread);
    }
    None
}

/// Moves those who wait for `from` and need `to` next; the others go to `batch`.
fn pass_on(
    source: &Locked<'_>,
    target: &Locked<'_>,
    from: usize,
    to: usize,
    batch: &mut Batch,
) -> u32 {
    let mut moved = 0;
    let mut each = source.first();
    while let Some(thread) = each {
        // As in `move_waiters`.
        each = source.after(thread);
        if !waits_for(thread, from, u32::MAX) {
            continue;
        }
        let node = nodes::of_waiter(thread.slot());
        if node.then.get() == to {
            source.transfer(thread, target);
            node.address.set(to);
            moved += 1;
        } else {
            source.take(thread);
            batch.push(thread);
        }
    }
    moved
}

/// Shows up to `most` of those who wait in bucket number `index` to `see`, under its lock.
pub(crate) fn for_each_waiter(
    index: usize,
    most: usize,
    mut see: impl FnMut(&'static Control, &Node),
) {
    if LOT[index].0.seems_empty() {
        return;
    }
    let queue = locked(index);
    let mut each = queue.first();
    for _ in 0..most {
        let Some(thread) = each else { break };
        see(thread, nodes::of_waiter(thread.slot()));
        each = queue.after(thread);
    }
}

/// In a child that was forked: those who waited are threads of the parent's, and one of them may
/// have held a lock.
pub(crate) fn forget_waiters() {
    let used = USED.load(Relaxed);
    for (part, buckets) in LOT.chunks(PART).enumerate() {
        if used & 1 << part != 0 {
            buckets.iter().for_each(|bucket| bucket.0.forget_all());
        }
    }
}

/// Both buckets' locks, the lower bucket's first (step 4); the second is `None` if it is the same.
fn lock_both(source: usize, target: usize) -> (Locked<'static>, Option<Locked<'static>>) {
    if source < target {
        let first = locked(source);
        return (first, Some(locked(target)));
    }
    let second = (source != target).then(|| locked(target));
    (locked(source), second)
}

/// Moves at most `most` waiters, in their order; returns how many.
fn move_waiters(
    source: &Locked<'_>,
    target: &Locked<'_>,
    from: usize,
    to: usize,
    most: u32,
) -> u32 {
    let mut moved = 0;
    let mut each = source.first();
    while let Some(thread) = each {
        if moved == most {
            break;
        }
        // In one and the same queue the moved ones are met again at its end: not for `from` then.
        each = source.after(thread);
        if !waits_for(thread, from, u32::MAX) {
            continue;
        }
        moved += 1;
        if from != to {
            source.transfer(thread, target);
            nodes::of_waiter(thread.slot()).address.set(to);
        }
    }
    moved
}
