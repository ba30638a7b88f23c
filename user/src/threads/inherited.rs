//! What a thread inherits of the kernel thread that makes it: processors, policy, niceness, the
//! priority at a disk.
//!
//! A full thread that was given none of them is told the main thread's, and asks for it when it is
//! asked: to make one costs no system call. From the first change on that a kernel thread of the
//! program makes of its own, each new one is given its maker's; those that were given none are told
//! what the main thread had before.
//!
//! They act on workers, and so on all threads, as far as one setting can serve all: workers may use
//! each processor that a thread may use, and are as urgent as the most urgent one's niceness says.
//! That is taken back from none. With another policy than the workers have, real-time or idle, a
//! thread is a kernel thread.
//!
//! A policy that nobody in the program has asked for is the Mediator's, and passes.
//!
//! Invariant: before a program has changed anything, nothing is looked at here.

use core::ffi::c_int;
use core::mem;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use heddle::raw;
use libc::{cpu_set_t, id_t, pid_t, sched_param};

use super::affinity::{bytes_mut, bytes_of};
use super::fork;
use super::schedule::Schedule;
use super::signals::actions;
use crate::errno;
use crate::sys::scheduling;

/// Whether a kernel thread of the program has changed its own, or was made with its own.
static CHANGED: AtomicBool = AtomicBool::new(false);
/// The policies that were asked for, as bits.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// Policy and priority.
type Policy = (c_int, c_int);

/// Those that the process began with.
static POLICY: AtomicI32 = AtomicI32::new(libc::SCHED_OTHER);
static PRIORITY: AtomicI32 = AtomicI32::new(0);

const WORDS: usize = size_of::<cpu_set_t>() / size_of::<u64>();

/// What the main thread had before the first change. No lock, and no memory: these are system
/// calls, which a handler may make anywhere.
static PROCESSORS: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static NICENESS: AtomicI32 = AtomicI32::new(0);
static DISK_PRIORITY: AtomicI32 = AtomicI32::new(-1);

/// The processors that workers may use; `None`: those that the process began with.
static OF_WORKERS: Mutex<Option<cpu_set_t>> = Mutex::new(None);
static NICENESS_OF_WORKERS: AtomicI32 = AtomicI32::new(0);

fn has_changed() -> bool {
    // ORDER: pairs with `changed`.
    CHANGED.load(Acquire)
}

/// When the library is loaded, before anybody changes it from outside.
pub fn at_load() {
    let (policy, priority) = policy_of(0);
    POLICY.store(policy, Relaxed);
    PRIORITY.store(priority, Relaxed);
}

/// A kernel thread of the program may be about to change what it has, or to make one that has its
/// own; then comes [`changed`].
pub fn may_change() {
    static FILLS: AtomicBool = AtomicBool::new(false);
    // Another thread may do so at the same time: both know the same then, or a handler.
    if has_changed() || actions::is_in_vfork() || FILLS.swap(true, Acquire) {
        return;
    }
    errno::kept(|| {
        let now = processors_of(main());
        let words = bytes_of(&now).chunks_exact(size_of::<u64>());
        for (to, from) in PROCESSORS.iter().zip(words) {
            to.store(from.try_into().map_or(0, u64::from_ne_bytes), Relaxed);
        }
        NICENESS.store(niceness_of(main()), Relaxed);
        DISK_PRIORITY.store(scheduling::disk_priority_of(main()), Relaxed);
    });
    FILLS.store(false, Release);
}

/// It has: to this policy, or something else.
pub fn changed(policy: Option<c_int>) {
    if actions::is_in_vfork() {
        return;
    }
    if let Some(policy) = policy {
        ASKED.fetch_or(bit_of(policy), Relaxed);
    }
    // ORDER: Release: what was before.
    CHANGED.store(true, Release);
}

/// A priority was changed, whatever the policy.
pub fn changed_priority() {
    changed(Some(errno::kept(|| policy_of(0)).0));
}

/// What the main thread had before a change, for threads that were given none; `None`: what it has.
pub fn processors_before() -> Option<cpu_set_t> {
    // SAFETY: all zero bytes are an empty set.
    let mut set: cpu_set_t = unsafe { mem::zeroed() };
    for (to, from) in bytes_mut(&mut set).chunks_exact_mut(size_of::<u64>()).zip(&PROCESSORS) {
        to.copy_from_slice(&from.load(Relaxed).to_ne_bytes());
    }
    // The kernel may have more than there is room for: it told none.
    (has_changed() && bytes_of(&set).iter().any(|&byte| byte != 0)).then_some(set)
}

/// As [`processors_before`].
pub fn niceness_before() -> Option<c_int> {
    has_changed().then(|| NICENESS.load(Relaxed))
}

/// As [`processors_before`].
pub fn disk_priority_before() -> Option<c_int> {
    has_changed().then(|| DISK_PRIORITY.load(Relaxed)).filter(|&priority| priority >= 0)
}

/// The child begins with what its maker had.
pub fn in_child() {
    if CHANGED.swap(false, Relaxed) {
        at_load();
    }
}

fn main() -> pid_t {
    std::process::id() as pid_t
}

/// Those of a task of the kernel's; none if it says nothing.
fn processors_of(task: pid_t) -> cpu_set_t {
    // SAFETY: all zero bytes are an empty set; a place of that size.
    unsafe {
        let mut set: cpu_set_t = mem::zeroed();
        libc::sched_getaffinity(task, size_of::<cpu_set_t>(), &mut set);
        set
    }
}

fn is_empty(set: &cpu_set_t) -> bool {
    bytes_of(set).iter().all(|&byte| byte == 0)
}

fn bit_of(policy: c_int) -> u32 {
    1_u32.checked_shl((policy & !libc::SCHED_RESET_ON_FORK) as u32).unwrap_or(0)
}

fn first_policy() -> Policy {
    (POLICY.load(Relaxed), PRIORITY.load(Relaxed))
}

/// That of the calling kernel thread, as the program knows it.
fn own_policy() -> Policy {
    let now = policy_of(0);
    if ASKED.load(Relaxed) & bit_of(now.0) != 0 { now } else { first_policy() }
}

fn policy_of(task: pid_t) -> Policy {
    let mut param = sched_param { sched_priority: 0 };
    // SAFETY: a valid place.
    let policy = unsafe {
        libc::sched_getparam(task, &mut param);
        libc::sched_getscheduler(task)
    };
    (policy, param.sched_priority)
}

fn niceness_of(task: pid_t) -> c_int {
    // SAFETY: no pointers.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, task as id_t) }
}

/// What a thread of the calling kernel thread's would have; `None`: the main thread's, as ever.
pub fn processors() -> Option<Box<cpu_set_t>> {
    let now = has_changed().then(|| errno::kept(|| processors_of(0)))?;
    (!is_empty(&now)).then(|| Box::new(now))
}

/// As [`processors`]; `None`: what workers have.
pub fn schedule() -> Option<Schedule> {
    has_changed().then(|| {
        errno::kept(|| {
            let (policy, priority) = own_policy();
            Schedule::of_kernel(policy, priority, niceness_of(0), scheduling::disk_priority_of(0))
        })
    })
}

/// Whether what a kernel thread makes must be one, too, to have its policy; says so once.
pub fn needs_kernel_thread() -> bool {
    static SAID: Once = Once::new();
    if !has_changed() {
        return false;
    }
    let (policy, priority) = errno::kept(own_policy);
    let is_needed = Class::inherited(policy, priority) != Class::of(first_policy());
    if is_needed {
        SAID.call_once(|| {
            raw::say::line(format_args!(
                "heddle: threads that inherit another scheduling policy than the program began \
                 with are kernel threads, which have it"
            ));
        });
    }
    is_needed
}

/// What the kernel's scheduler makes a difference of, and workers of one kind cannot.
#[derive(PartialEq)]
enum Class {
    Fair,
    /// Policy and priority.
    Other(c_int, c_int),
}

impl Class {
    fn of((policy, priority): Policy) -> Class {
        match policy & !libc::SCHED_RESET_ON_FORK {
            libc::SCHED_OTHER | libc::SCHED_BATCH => Class::Fair,
            other => Class::Other(other, priority),
        }
    }

    /// Of what a kernel thread makes that has these.
    fn inherited(policy: c_int, priority: c_int) -> Class {
        let is_reset = policy & libc::SCHED_RESET_ON_FORK != 0;
        if is_reset && priority != 0 { Class::Fair } else { Class::of((policy, priority)) }
    }
}

/// Calls `start`, which makes the workers: they have the processors that the process began with, to
/// be as many, and then those that the caller may use; and the policy that it began with.
pub fn starting<T>(start: impl FnOnce() -> T) -> T {
    NICENESS_OF_WORKERS.store(niceness_of(0), Relaxed);
    let Some(before) = processors_before() else { return start() };
    let own = processors_of(0);
    give_processors(0, &before);
    let result = start();
    give_processors(0, &own);
    let mut of_workers = lock();
    *of_workers = Some(own);
    if bytes_of(&own) != bytes_of(&before) {
        on_workers(|worker| give_processors(worker, &own));
    }
    // What the thread's attributes ask for is plain.
    if Class::of(own_policy()) != Class::of(first_policy()) {
        give_policy(first_policy());
    }
    result
}

fn lock() -> MutexGuard<'static, Option<cpu_set_t>> {
    OF_WORKERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `change`, which changes the caller's worker for a moment, while nobody else changes it.
pub fn apart<T>(change: impl FnOnce() -> T) -> T {
    let _pin = raw::pin();
    // In a child another thread may have had the lock, and there are no workers.
    let _lock = fork::has_full().then(lock);
    change()
}

/// A thread may use these: so may workers.
pub fn widen(processors: &cpu_set_t) {
    if !fork::has_full() {
        return;
    }
    let _pin = raw::pin();
    let mut of_workers = lock();
    let before = || processors_before().unwrap_or_else(|| processors_of(main()));
    let all = of_workers.get_or_insert_with(before);
    let (all, more) = (bytes_mut(all), bytes_of(processors));
    if more.iter().zip(&*all).all(|(more, all)| more & !all == 0) {
        return;
    }
    all.iter_mut().zip(more).for_each(|(all, more)| *all |= more);
    let all = of_workers.unwrap_or(*processors);
    on_workers(|worker| give_processors(worker, &all));
}

/// The caller makes a thread that may use these, or what the main thread may: workers serve it.
pub fn begins(processors: Option<&cpu_set_t>) {
    if let Some(processors) = processors {
        widen(processors);
    }
    if has_changed() && super::this().is_none() {
        hasten();
    }
}

/// The calling kernel thread makes a thread of its own niceness.
fn hasten() {
    let wanted = niceness_of(0);
    if wanted < NICENESS_OF_WORKERS.fetch_min(wanted, Relaxed) {
        // Refused: the maker has it by a privilege that it has given up.
        // SAFETY: no pointers.
        on_workers(|worker| unsafe {
            libc::setpriority(libc::PRIO_PROCESS, worker as id_t, wanted);
        });
    }
}

/// Twice: one that is made meanwhile has what its maker had.
fn on_workers(change: impl Fn(pid_t)) {
    for _ in 0..2 {
        raw::tasks::own().unwrap_or_default().into_iter().for_each(&change);
    }
}

fn give_policy((policy, priority): Policy) {
    let param = sched_param { sched_priority: priority };
    // SAFETY: a valid place. To have less than its maker takes no privilege.
    on_workers(|worker| unsafe {
        libc::sched_setscheduler(worker, policy, &param);
    });
}

fn give_processors(task: pid_t, processors: &cpu_set_t) {
    // SAFETY: a valid set. Where it is refused the task has what it had.
    unsafe { libc::sched_setaffinity(task, size_of::<cpu_set_t>(), processors) };
}
