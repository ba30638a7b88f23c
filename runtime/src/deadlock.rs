//! The deadlock report: "all threads wait and nothing can wake them".
//!
//! The monitor has the steward look before it goes to sleep itself, that is when all workers have
//! slept for a while, and when those that have not are blocked in the kernel, for long. The steward
//! is sure only when nothing is left that could wake a thread: no operation in a reactor, no timer,
//! no job in the pool, no thread that waits for a signal, no handler of the program's for one; and
//! every blocked worker, and every other kernel thread of the process, waits, without a deadline,
//! for a word that this process alone can change. Which of them do, the kernel says
//! (`sys/tasks.rs`).
//!
//! A look takes time, in which threads may wake each other behind it. So it is two looks that tell:
//! a kernel thread that slept at both, and has not gone to sleep in between, slept all the time; a
//! worker that slept at the end of one and at the beginning of the other, and has not switched, ran
//! nothing in between. If that is true of all, nothing ran between the two that could wake any.
//!
//! The main thread may come to wait long after the workers, and wakes nobody then. So there are
//! more looks, each after twice the time: a few for a process that is idle for days.
//!
//! Not here: what an object of a C library is, and who holds it; the library says that of the waits
//! that it has marked (`lot::Manner::what`).

use core::fmt::Write;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, fence};
use core::time::Duration;
use std::sync::OnceLock;

use heddle_record::{Fields, Kind, State};

use crate::control::{self, Control, WaitKind};
use crate::lot::nodes;
use crate::runtime::Runtime;
use crate::stack::overflow::{self, name_with_role};
use crate::sys::place::{Maps, Place};
use crate::sys::{signals, task, tasks};
use crate::worker::Worker;
use crate::{io, preempt, stack, table};

/// Kernel threads that wait in a heddle primitive without a deadline.
pub(crate) static KERNEL_WAITERS: AtomicU32 = AtomicU32::new(0);
/// Kernel threads of heddle's own that only wait for work: the monitor, the steward, idle pool
/// threads.
pub(crate) static HELPERS_IDLE: AtomicU32 = AtomicU32::new(0);
/// What is said instead of a name.
const ENDED: &str = "a thread that has ended";
/// Threads that the report lists.
const LISTED: usize = 16;
/// Time between the first two looks.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Signals of the C library's own: cancellation, and set*id in all threads.
const OF_C_LIBRARY: [i32; 2] = [32, 33];

/// Counts the calling kernel thread among the waiters while it lives.
pub(crate) struct Waiting(&'static AtomicU32);

impl Waiting {
    /// Adds one to `counter`.
    pub fn new(counter: &'static AtomicU32) -> Self {
        counter.fetch_add(1, SeqCst);
        Waiting(counter)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Waits on a kernel thread that only helps others: the deadlock report does not count on it. Its
/// name begins with "heddle-".
pub fn idle<T>(wait: impl FnOnce() -> T) -> T {
    let _counted = Waiting::new(&HELPERS_IDLE);
    wait()
}

/// A wait for an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waited {
    /// As the waiter has marked it.
    pub what: u32,
    /// The word.
    pub address: usize,
    /// The word that it needs next, 0 = none: a broadcast may have made it wait for that already.
    pub then: usize,
}

/// Who has what a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// The user-level thread that has, or had, this slot in this generation; `None`: has it now.
    Slot(u32, Option<u32>),
    /// The kernel thread with this id.
    KernelThread(i32),
}

/// What is known of the waits that a layer above has marked. What is waited for may change, and
/// go, while it is asked.
pub struct Explain {
    /// Says what a wait is for.
    pub describe: fn(&Waited, &mut dyn Write) -> core::fmt::Result,
    /// Whether somebody may hold it, by the wait alone.
    pub can_be_held: fn(&Waited) -> bool,
    /// Who does.
    pub holder: fn(&Waited) -> Option<Holder>,
}

static EXPLAIN: OnceLock<Explain> = OnceLock::new();

/// Says what waits are for that were marked. Once.
pub fn on_deadlock(explain: Explain) {
    let _ = EXPLAIN.set(explain);
}

/// What is known of the waits that were marked.
pub(crate) fn explain() -> Option<&'static Explain> {
    EXPLAIN.get()
}

/// Writes which thread has `slot`, by number and name.
pub fn name_slot(slot: u32, out: &mut dyn Write) -> core::fmt::Result {
    // Who ended may not have been released yet.
    let is_live = |it: Fields| it.is_used() && it.state != State::Finished;
    if slot >= stack::slots_made() || !table::record(slot).read().is_some_and(is_live) {
        return write!(out, "{ENDED}");
    }
    // SAFETY: below the number of slots made.
    overflow::name(unsafe { control::at(slot) }, out)
}

/// As [`name_slot`], of the thread that had `slot` in this generation: another may have it now.
pub fn name_slot_of(slot: u32, generation: u32, out: &mut dyn Write) -> core::fmt::Result {
    if slot < stack::slots_made() && table::record(slot).generation() != generation {
        return write!(out, "{ENDED}");
    }
    name_slot(slot, out)
}

/// Writes which kernel thread has this id, by number and name.
pub fn name_kernel_thread(tid: i32, out: &mut dyn Write) -> core::fmt::Result {
    let is_main = tid as u32 == std::process::id();
    write!(out, "{} thread {tid}", if is_main { "main" } else { "kernel" })?;
    match tasks::name(tid) {
        Some(name) => write!(out, " \"{name}\""),
        None => write!(out, ", which has ended"),
    }
}

/// What a look has seen; two that are equal are of threads that slept in between.
#[derive(PartialEq, Eq)]
struct Seen {
    /// Switches of all workers.
    switches: u64,
    program: Vec<Sleeper>,
}

/// A kernel thread of the program's, or a worker that is blocked.
#[derive(PartialEq, Eq)]
struct Sleeper {
    tid: i32,
    /// The slot of the thread that the worker runs.
    runs: Option<u32>,
    /// How often it has gone to sleep.
    sleeps: u64,
    /// Where; `None` if the kernel does not say it.
    word: Option<usize>,
}

/// The steward's looks.
#[derive(Default)]
pub(crate) struct Watch {
    /// Time to the next one; `None` while there is no reason for one.
    pause: Option<Duration>,
    seen: Option<Seen>,
    was_reported: bool,
}

impl Watch {
    /// All workers sleep, or are blocked. A deadlock is reported once.
    pub fn begin(&mut self) {
        if !self.was_reported {
            (self.pause, self.seen) = (Some(FIRST_PAUSE), None);
        }
    }

    /// When to look next.
    pub fn pause(&self) -> Option<Duration> {
        self.pause
    }

    /// Whether it was told that all threads wait.
    pub fn has_reported(&self) -> bool {
        self.was_reported
    }

    /// Looks; the report, if the process is stuck.
    pub fn look(&mut self, runtime: &'static Runtime) -> Option<String> {
        self.pause = Some(self.pause? * 2);
        if !runtime.workers().all(is_still) {
            // The monitor is awake, or will be, and comes again.
            (self.pause, self.seen) = (None, None);
            return None;
        }
        let before = self.seen.take();
        let seen = see(runtime)?;
        if before.as_ref() != Some(&seen) || waits_for_others() {
            self.seen = Some(seen);
            return None;
        }
        (self.pause, self.was_reported) = (None, true);
        Some(report(live(runtime), &seen.program))
    }
}

/// Whether it sleeps, or is blocked in the kernel.
fn is_still(worker: &Worker) -> bool {
    worker.sleeping.is_asleep() || worker.blocked.load(Relaxed)
}

/// The thread that `worker` runs.
fn running(worker: &Worker) -> Option<&'static Control> {
    // SAFETY: null or a slot of the slab.
    unsafe { worker.current.load(Relaxed).as_ref() }
}

/// User-level threads that have not ended.
fn live(runtime: &'static Runtime) -> u32 {
    let of = |worker: &Worker| worker.live.load(Relaxed) + worker.live_full.load(Relaxed);
    runtime.workers().map(of).sum()
}

/// What there is to see if nothing can wake a thread now; else `None`.
fn see(runtime: &'static Runtime) -> Option<Seen> {
    let waiting = live(runtime) + KERNEL_WAITERS.load(SeqCst);
    if !are_quiet(runtime) || waiting == 0 || has_handlers() {
        return None;
    }
    let all = tasks::all().ok()?;
    // Before the others: what it has done before it ends, if it ends now, is seen of them.
    if all.iter().any(|&tid| tasks::has_child_in_memory(tid)) {
        return None;
    }
    let (can_tell, maps) = (tasks::can_tell(), Maps::default());
    let (mut own, mut program) = (0, Vec::new());
    for tid in all {
        let is_it = |worker: &&Worker| worker.tid() == tid && !worker.sleeping.is_asleep();
        let blocked = runtime.workers().find(is_it);
        if tasks::is_own(&tasks::name(tid)?) {
            own += 1;
            if blocked.is_none() {
                continue;
            }
        }
        let stat = tasks::stat(tid)?;
        if stat.is_of_kernel {
            continue;
        }
        if !stat.is_asleep {
            return None;
        }
        let word = if can_tell { Some(tasks::waits_at(tid, &maps)?) } else { None };
        let runs = match blocked {
            Some(worker) => Some(running(worker)?.slot()),
            None => None,
        };
        program.push(Sleeper { tid, runs, sleeps: tasks::sleeps(tid)?, word });
    }
    let are_waiting = can_tell || program.len() as u32 == KERNEL_WAITERS.load(SeqCst);
    let are_idle = own == runtime.seated.load(Relaxed) + HELPERS_IDLE.load(SeqCst);
    let switches = runtime.workers().map(|worker| worker.switches.load(Relaxed)).sum();
    // A worker that sleeps now runs none of the threads that are counted.
    (are_waiting && are_idle && are_quiet(runtime)).then_some(Seen { switches, program })
}

/// Whether all workers are still, and there is nothing for which one would wake.
fn are_quiet(runtime: &'static Runtime) -> bool {
    // ORDER: looked at after all that was looked at before, and before all that comes.
    fence(SeqCst);
    let are_quiet = runtime.workers().all(|worker| {
        is_still(worker)
            && worker.inbox.is_empty()
            && worker.fresh.len() == 0
            && worker.offered.len() == 0
            && worker.requests.is_empty()
            && !expects(worker)
    });
    fence(SeqCst);
    are_quiet
}

/// Whether threads of `worker` wait for time or events. What it says itself is of its last sleep.
fn expects(worker: &Worker) -> bool {
    if worker.sleeping.is_asleep() {
        return worker.io_waiting.load(Relaxed) + worker.timers_waiting.load(Relaxed) != 0;
    }
    worker.live.load(Relaxed) != 0 || worker.has_waiting_full()
}

/// Whether a signal may have the program do anything but end.
fn has_handlers() -> bool {
    let bit = |signal: i32| 1u64 << (signal - 1);
    let preemption = Some(preempt::SIGNAL).filter(|&it| signals::has_interrupter_alone(it));
    let own = task::FAULTS.into_iter().chain(OF_C_LIBRARY).chain(preemption);
    let own = own.chain(io::interrupt::signal_if_used()).map(bit);
    // What workers are sent for their threads' own doing comes to none that waits.
    let own = own.fold(task::let_through_by_workers(), |all, one| all | one);
    tasks::caught_signals().is_none_or(|caught| caught & !own != 0)
}

/// Whether a thread sleeps without an end, and a signal may be what it waits for (`sigwait`), or
/// waits in a ring of a worker that is blocked.
fn waits_for_others() -> bool {
    parked(is_user_level)
        .any(|thread| matches!(thread.wait.get(), WaitKind::Sleep | WaitKind::Reactor))
}

fn is_user_level(kind: Kind) -> bool {
    matches!(kind, Kind::Light | Kind::Full)
}

fn report(live: u32, program: &[Sleeper]) -> String {
    let all = live as usize + program.iter().filter(|sleeper| sleeper.runs.is_none()).count();
    let mut text = match all {
        1 => "heddle: the only thread waits and nothing can wake it:\n".to_owned(),
        _ => format!("heddle: all {all} threads wait and nothing can wake them:\n"),
    };
    let mut left = LISTED;
    let mut listed = |tell: &mut dyn FnMut(&mut String) -> core::fmt::Result| {
        if left != 0 {
            text.push_str("  ");
            // A text takes all that is written.
            let _ = tell(&mut text);
            text.push('\n');
        }
        left = left.saturating_sub(1);
    };
    for sleeper in program {
        listed(&mut |out| tell_sleeper(sleeper, out));
    }
    for thread in parked(is_user_level).take(LISTED) {
        listed(&mut |out| tell_thread(thread, out));
    }
    if all > LISTED {
        let _ = writeln!(text, "  ... and {} more", all - LISTED);
    }
    text
}

/// The threads that are parked, of these kinds.
fn parked(is_of_kind: impl Fn(Kind) -> bool) -> impl Iterator<Item = &'static Control> {
    (0..stack::slots_made()).filter_map(move |slot| {
        let fields = table::record(slot).read()?;
        // SAFETY: below the number of slots made.
        let control = unsafe { control::at(slot) };
        (is_of_kind(fields.kind) && fields.state == State::Parked).then_some(control)
    })
}

fn tell_thread(thread: &Control, out: &mut dyn Write) -> core::fmt::Result {
    name_with_role(thread, out)?;
    write!(out, " waits in ")?;
    tell_wait(thread, out)
}

fn tell_sleeper(sleeper: &Sleeper, out: &mut dyn Write) -> core::fmt::Result {
    match sleeper.runs {
        // SAFETY: a thread's slot.
        Some(slot) => name_with_role(unsafe { control::at(slot) }, out)?,
        None => name_kernel_thread(sleeper.tid, out)?,
    }
    write!(out, " waits in ")?;
    let is_its = |it: &&Control| {
        let is_tid = it.record().read().is_some_and(|fields| fields.tid == sleeper.tid);
        is_tid && sleeper.word.is_none_or(|word| word == (&raw const it.result).addr())
    };
    match (parked(|kind| kind == Kind::KernelThread).find(is_its), sleeper.word) {
        (Some(control), _) => tell_wait(control, out),
        (None, Some(word)) => write!(out, "the C library or a futex call, for {}", Place(word)),
        (None, None) => write!(out, "a primitive of heddle's"),
    }
}

/// What a parked thread waits for, which is stable: nothing runs that could change it.
fn tell_wait(thread: &Control, out: &mut dyn Write) -> core::fmt::Result {
    match thread.wait.get() {
        WaitKind::Address => {
            let node = nodes::of_waiter(thread.slot());
            let (what, address, then) = (node.what.get(), node.address.get(), node.then.get());
            match explain().filter(|_| what != 0) {
                Some(explain) => (explain.describe)(&Waited { what, address, then }, out),
                None => write!(out, "a futex, for {}", Place(address)),
            }
        }
        other => write!(out, "{}", other.describe()),
    }
}
