//! What a thread inherits of the kernel thread that makes it: processors, policy, niceness, the
//! priority at a disk.
//!
//! A full thread that was given none of them is told the main thread's, and asks for it when it is
//! asked: to make one costs no system call. From the first change on that a kernel thread of the
//! program makes of its own, each new one is given its maker's; those that there are by then are
//! given what the main thread had before.
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
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};
use core::{mem, ptr};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use heddle::raw;
use libc::{cpu_set_t, id_t, pid_t, sched_param};

use super::schedule::Schedule;
use super::signals::actions;
use super::{Pthread, registry};
use crate::errno;
use crate::sys::scheduling;

/// Whether a kernel thread of the program has changed its own, or was made with its own.
static CHANGED: AtomicBool = AtomicBool::new(false);

/// What the process had before that.
static BEGAN: OnceLock<Began> = OnceLock::new();

struct Began {
    processors: cpu_set_t,
    policy: Policy,
}

/// Policy and priority.
type Policy = (c_int, c_int);

/// The processors that workers may use; `None`: those that the process began with.
static OF_WORKERS: Mutex<Option<cpu_set_t>> = Mutex::new(None);
static NICENESS_OF_WORKERS: AtomicI32 = AtomicI32::new(0);

/// The policies that were asked for, as bits.
static ASKED: AtomicU32 = AtomicU32::new(0);

fn has_changed() -> bool {
    CHANGED.load(Relaxed)
}

/// A kernel thread of the program is about to change what it has, or to make one that has its own:
/// this policy, or something else.
pub fn changes(policy: Option<c_int>) {
    if actions::is_in_vfork() {
        return;
    }
    if let Some(policy) = policy {
        ASKED.fetch_or(bit_of(policy), Relaxed);
    }
    errno::kept(|| {
        BEGAN.get_or_init(|| Began { processors: processors_of(main()), policy: policy_of(0) });
        registry::find_from(0, |thread| {
            keep(thread);
            false
        });
    });
    CHANGED.store(true, Relaxed);
}

/// The thread goes on with what the main thread has now.
fn keep(thread: &Pthread) {
    let processors = Box::new(processors_of(main()));
    let (niceness, disk_priority) = (niceness_of(main()), scheduling::disk_priority_of(main()));
    let mut about = thread.about();
    about.schedule.keep(niceness, disk_priority);
    let unused = match about.processors {
        None => about.processors.replace(processors),
        Some(_) => Some(processors),
    };
    drop(about);
    drop(unused);
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

fn bit_of(policy: c_int) -> u32 {
    1_u32.checked_shl((policy & !libc::SCHED_RESET_ON_FORK) as u32).unwrap_or(0)
}

/// That of the calling kernel thread, as the program knows it.
fn own_policy(began: &Began) -> Policy {
    let now = policy_of(0);
    if ASKED.load(Relaxed) & bit_of(now.0) != 0 { now } else { began.policy }
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
    has_changed().then(|| Box::new(errno::kept(|| processors_of(0))))
}

/// As [`processors`]; `None`: what workers have.
pub fn schedule() -> Option<Schedule> {
    let began = BEGAN.get().filter(|_| has_changed())?;
    Some(errno::kept(|| {
        let (policy, priority) = own_policy(began);
        Schedule::of_kernel(policy, priority, niceness_of(0), scheduling::disk_priority_of(0))
    }))
}

/// Whether what a kernel thread makes must be one, too, to have its policy; says so once.
pub fn needs_kernel_thread() -> bool {
    static SAID: Once = Once::new();
    let Some(began) = BEGAN.get().filter(|_| has_changed()) else { return false };
    let (policy, priority) = errno::kept(|| own_policy(began));
    let is_needed = Class::inherited(policy, priority) != Class::of(began.policy);
    if is_needed {
        SAID.call_once(|| {
            raw::say::line(format_args!(
                "heddle: threads that inherit another policy than the program began with are \
                 kernel threads, which have it"
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
    let Some(began) = BEGAN.get() else { return start() };
    let own = processors_of(0);
    give_processors(0, &began.processors);
    let result = start();
    give_processors(0, &own);
    let mut of_workers = OF_WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    *of_workers = Some(own);
    if words(&own) != words(&began.processors) {
        on_workers(|worker| give_processors(worker, &own));
    }
    // What the thread's attributes ask for is plain.
    if Class::of(own_policy(began)) != Class::of(began.policy) {
        give_policy(began.policy);
    }
    result
}

/// A thread may use these: so may workers.
pub fn widen(processors: &cpu_set_t) {
    let _pin = raw::pin();
    let mut of_workers = OF_WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    let began = || BEGAN.get().map_or_else(|| processors_of(main()), |began| began.processors);
    let all = of_workers.get_or_insert_with(began);
    let (all, more) = (words_mut(all), words(processors));
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

fn words(set: &cpu_set_t) -> &[u8; size_of::<cpu_set_t>()] {
    // SAFETY: plain bytes.
    unsafe { &*ptr::from_ref(set).cast() }
}

fn words_mut(set: &mut cpu_set_t) -> &mut [u8; size_of::<cpu_set_t>()] {
    // SAFETY: plain bytes, any of which are valid.
    unsafe { &mut *ptr::from_mut(set).cast() }
}
