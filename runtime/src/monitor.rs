//! The monitor: a kernel thread that notices workers which have not switched for a while.
//!
//! Every tick (10 ms; 2 ms from the first full thread on) it compares each worker's count of
//! switches with that of the tick before. A worker that runs the same thread while others wait
//! gets its poll word set; one that sleeps in the kernel (a page fault, a library that blocks:
//! uThread's "unavoidable blocking", section 2.4) is counted, named once per role if its thread is
//! a light one, and compensated for. CPU time is accounted by ticks, as kernels do, and by the
//! worker's clock once there are full threads; theirs more exactly where it is asked for
//! (`cpu.rs`).
//!
//! Full threads that wait at a worker that does not look are made ready by the monitor when their
//! time or their event comes ([`Worker::rescue`]); what else is done for blocked workers is in
//! `monitor/compensate.rs`.
//!
//! Preemption: a full thread that has run for a slice while others wait is asked to leave
//! (`preempt.rs`), and at once if one that waits is more urgent. While all threads of a worker use
//! their slices up and are found where they were, they get less: they may spin for each other. For
//! one that becomes ready who computes makes room, whatever it has left: `monitor/kept.rs`. Those
//! that compute are moved so that all get about as much: `monitor/fair.rs`.
//! Slices are times by the clock: on a busy machine the monitor comes late.
//!
//! While all that are awake are blocked for long it looks seldom: `monitor/calm.rs`.
//!
//! When all workers sleep the monitor sleeps as well, until one wakes: where threads wake now and
//! then it would look in vain. Where they wake often it looks on, but seldom: `monitor/pace.rs`.
//!
//! Invariant: the monitor waits for nobody, and allocates nothing: what it would wait for may be in
//! the hands of a full thread that runs only when the monitor has found a worker for it. The
//! steward waits for it (`steward.rs`).

pub(crate) mod bed;
mod calm;
mod compensate;
mod doze;
mod fair;
mod kept;
mod pace;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::io;
use std::time::Duration;

use heddle_record::{Kind, State};

use crate::control::{self, Control, Kind as ThreadKind};
use crate::cpu;
use crate::deadlock::{HELPERS_IDLE, Waiting};
use crate::full;
use crate::preempt;
use crate::runtime::Runtime;
use crate::sched;
use crate::spins;
use crate::stack;
use crate::sys::task::Helper;
use crate::sys::{clock, task};
use crate::worker::Worker;

use self::calm::{Bell, Calm};
use self::compensate::Spares;
use self::doze::Doze;
use self::fair::{Fair, Load};
use self::kept::Kept;
use self::pace::{Called, Patrol};

/// Looks after which the kernel is asked again what a blocked worker does.
const LOOKS_PER_ASK: u32 = 64;
/// Time without any running worker after which the monitor sleeps, but for the ends of rounds. Who
/// wakes more often than that has nobody to wake beside.
const PAUSE: Duration = Duration::from_millis(10);
/// Where it has slept for as long as this it sleeps again at the first look that finds all workers
/// asleep: to be woken costs as much as two or three looks.
const RARE: Duration = Duration::from_millis(6);
/// Time without any running worker after which it sleeps until one wakes.
const IDLE: Duration = Duration::from_millis(100);

/// Most that a thread gets then, ns, and the least that one has had that makes room for others.
const SLICE_SHORT_NS: u64 = 1_000_000;
/// CPU time beyond its slice after which a thread that was asked to leave is taken for one that
/// can't, ns.
const HELD_NS: u64 = 200_000_000;
/// Time between two rounds of stack measurements, and threads that a round measures: at most 1 %
/// of a CPU.
const ROUND: Duration = Duration::from_millis(250);
const MEASURED_PER_ROUND: u32 = 512;

/// See the file's head.
pub(crate) struct Monitor {
    /// Its sleep for want of running workers.
    doze: Doze,
    bell: Bell,
    /// Times that a worker was found blocked in the kernel while threads waited.
    pub blocked: AtomicU64,
    /// Times that a thread had kept its worker for a tick while others waited.
    pub overruns: AtomicU64,
    /// Times that a spare worker was woken to stand in for a blocked one.
    pub spares: AtomicU64,
    /// Times that a full thread was made to yield.
    pub preempted: AtomicU64,
}

impl Monitor {
    pub fn new() -> Self {
        Monitor {
            doze: Doze::new(),
            bell: Bell::new(),
            blocked: AtomicU64::new(0),
            overruns: AtomicU64::new(0),
            spares: AtomicU64::new(0),
            preempted: AtomicU64::new(0),
        }
    }

    /// Makes its kernel thread.
    pub fn make(&'static self, runtime: &'static Runtime) -> io::Result<Helper> {
        self.bell.make()?;
        bed::make()?;
        let body = move || {
            Watch {
                runtime,
                tick: Duration::ZERO,
                last: clock::now_ns(),
                elapsed: 0,
                spinning: false,
                called: Called::default(),
                patrol: Patrol::default(),
                measured: 0,
                calm: Calm::new(),
                spares: Spares::new(),
                kept: Kept::new(),
                fair: Fair::default(),
            }
            .run();
        };
        Helper::make("heddle-monitor", body)
    }

    /// `worker`, whose kernel thread calls it, has left its sleep.
    #[inline]
    pub fn worker_awake(&self, worker: &Worker) {
        // A spare worker may have been woken for a thread that holds what it would make one with.
        if self.doze.is_begun() && (worker.is_spare() || !worker.alarm.set()) {
            self.doze.end();
        }
        self.bell.ring();
    }

    /// `worker` was given a thread to run: the monitor looks for another one, if it is blocked.
    #[inline]
    pub fn given(&self, worker: &Worker) {
        if worker.blocked.load(Relaxed) {
            self.doze.end();
            self.bell.ring();
        }
    }
}

/// What the monitor remembers of a worker from the tick before.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    switches: u64,
    /// Ticks, and ns, with that count.
    same_for: u32,
    same_ns: u64,
    /// CPU time that it has had meanwhile.
    same_cpu_ns: u64,
    /// Slices in a row that were used up.
    used_up: u32,
    /// Threads that were preempted had been given a turn at the last look; it may be over.
    granted: bool,
    /// Ticks in a row, of these, at which it slept in the kernel.
    asleep_for: u32,
    /// CPU time of its kernel thread at the last look; 0 = not known.
    cpu_ns: u64,
    /// What it has had since the look before.
    ran_ns: u64,
    /// What it did in this period.
    load: Load,
}

impl Seen {
    /// The count of switches at the last look.
    pub(crate) fn switches(&self) -> u64 {
        self.switches
    }

    /// The time, ns, for which it has been so.
    pub(crate) fn same_ns(&self) -> u64 {
        self.same_ns
    }
}

/// Looks how much CPU time `worker` has had since the last look.
fn look_at_clock(before: &mut Seen, worker: &'static Worker) {
    let now = clock::cpu_ns_of(worker.tid()).unwrap_or(0);
    let known = core::mem::replace(&mut before.cpu_ns, now);
    // Else nothing is known of what came before.
    before.ran_ns = if known == 0 { 0 } else { now.saturating_sub(known) };
}

/// Adds to what is shown of a full thread's CPU time while its stint goes on; see `cpu.rs`.
fn add_cpu(before: &Seen, worker: &'static Worker, thread: &'static Control) {
    let shown = thread.record().cpu();
    // What was read is that of the stint that was seen, or the sum has changed.
    if worker.switches.load(Relaxed) == before.switches {
        thread.record().try_add_cpu(shown, before.ran_ns);
    }
}

struct Watch {
    runtime: &'static Runtime,
    /// Time between two looks, now.
    tick: Duration,
    /// When it last looked, and the time since the look before that, ns.
    last: u64,
    elapsed: u64,
    /// A thread was preempted that had used its slice up at the tick before last, too.
    spinning: bool,
    called: Called,
    patrol: Patrol,
    /// The slot whose stack was measured last.
    measured: u32,
    calm: Calm,
    spares: Spares,
    kept: Kept,
    fair: Fair,
}

impl Watch {
    fn run(&mut self) -> ! {
        let (mut idle, mut round) = (Duration::ZERO, Duration::ZERO);
        // Since workers were found awake, or one has ended the monitor's sleep, and for how long it
        // looks on then.
        let (mut quiet, mut patience) = (Duration::ZERO, PAUSE);
        // No worker ran in this round; the last such one found nothing to give back.
        let (mut was_quiet, mut is_tidy) = (true, false);
        let steward = &self.runtime.steward;
        loop {
            self.tick = self.next_tick();
            self.sleep_for_tick();
            let busy = self.tick() || self.patrol.is_often();
            was_quiet &= !busy;
            round += self.tick;
            if round >= ROUND {
                round = Duration::ZERO;
                self.measure();
                cpu::compare();
                let surplus = self.spares.end_round(self.runtime);
                is_tidy = was_quiet && !surplus && !steward.decays.load(Relaxed);
                was_quiet = true;
                steward.decay();
            }
            is_tidy &= !busy;
            if busy {
                (idle, quiet) = (Duration::ZERO, Duration::ZERO);
                continue;
            }
            (idle, quiet) = (idle + self.tick, quiet + self.tick);
            if idle >= IDLE && is_tidy {
                self.sleep();
                // Who has woken it may have left something, and sleep again.
                (idle, is_tidy) = (Duration::ZERO, false);
                (quiet, patience) = (Duration::ZERO, Duration::ZERO);
            } else if quiet >= patience {
                let (paused, is_woken) = self.pause(ROUND.saturating_sub(round));
                (idle, round) = (idle + paused, round + paused);
                if is_woken {
                    // While it looked on, workers may have woken between two looks.
                    let known = if patience.is_zero() { quiet + paused } else { paused };
                    let is_often = known < RARE || bed::were_many();
                    patience = if is_often { PAUSE } else { Duration::ZERO };
                    quiet = Duration::ZERO;
                } else {
                    quiet += paused;
                }
            }
        }
    }

    /// Sleeps until a worker wakes.
    fn sleep(&self) {
        let doze = &self.runtime.monitor.doze;
        if !doze.begin(|| self.runtime.workers().any(|w| !w.sleeping.is_asleep())) {
            return;
        }
        let _counted = Waiting::new(&HELPERS_IDLE);
        self.runtime.steward.report();
        doze.wait();
    }

    /// Sleeps until a worker wakes, no longer than `most`. How long it has, and whether one woke.
    fn pause(&self, most: Duration) -> (Duration, bool) {
        let doze = &self.runtime.monitor.doze;
        let before = clock::now_ns();
        let is_woken = !doze.begin(|| self.runtime.workers().any(|w| !w.sleeping.is_asleep()))
            || doze.wait_for(most);
        (Duration::from_nanos(clock::now_ns() - before), is_woken)
    }

    /// Measures the stacks of some threads, so that `heddle ps` shows the peaks of living ones.
    fn measure(&mut self) {
        let made = stack::slots_made();
        for _ in 0..MEASURED_PER_ROUND.min(made) {
            self.measured = if self.measured + 1 < made { self.measured + 1 } else { 0 };
            let record = crate::table::record(self.measured);
            if record.read().is_some_and(|f| {
                matches!(f.kind, Kind::Light | Kind::Full) && f.state == State::Parked
            }) {
                // SAFETY: below the number of slots made.
                let _ = stack::peak::of(unsafe { control::at(self.measured) });
            }
        }
    }

    /// True when a worker is not asleep.
    fn tick(&mut self) -> bool {
        self.spinning = false;
        self.called.begin();
        let now = clock::now_ns();
        self.elapsed = now - core::mem::replace(&mut self.last, now);
        self.kept.begin();
        self.begin_patrol();
        let busy = self.attend(now);
        self.share();
        busy
    }

    fn look_at(&mut self, worker: &'static Worker) {
        let mut seen = worker.seen.get();
        // SAFETY: null or a slot of the slab; only its record and atomics are used.
        let running = unsafe { worker.current.load(Relaxed).as_ref() };
        let switches = worker.switches.load(Relaxed);
        let before = &mut seen;
        if before.switches != switches {
            // More switches than that of the thread that was asked to leave: not all use theirs up.
            let used_up = if switches == before.switches + 1 { before.used_up } else { 0 };
            let Seen { cpu_ns, granted, load, .. } = *before;
            *before = Seen { switches, used_up, cpu_ns, granted, load, ..Seen::default() };
        } else {
            before.same_for += 1;
            before.same_ns += self.elapsed;
        }
        let stuck = before.same_for > 0;
        self.patrol.note_awake(stuck);
        if !stuck && worker.has_not_looked_for(self.elapsed, self.last) {
            // It switches, but less often than it used to.
            worker.poll.store(1, Relaxed);
        }
        if full::exist() {
            look_at_clock(before, worker);
            before.same_cpu_ns += if stuck { before.ran_ns } else { 0 };
        }
        let is_full = running.is_some_and(|thread| thread.kind.get() == ThreadKind::Full);
        if let Some(thread) = running {
            // Blocked in the kernel it uses none.
            let ran_ns = match (full::exist(), worker.blocked.load(Relaxed)) {
                (true, _) => before.ran_ns,
                (false, true) => 0,
                (false, false) => self.tick.as_nanos() as u64,
            };
            if cpu::is_on() && is_full {
                if stuck {
                    add_cpu(before, worker, thread);
                }
            } else {
                thread.record().add_cpu(ran_ns);
            }
            worker.record.add_cpu(ran_ns);
            let waits = is_full && stuck && worker.blocked.load(Relaxed);
            self.call_again(worker, thread, waits, before.ran_ns);
            let waiting = worker.offered.fast_priority();
            if waiting != 0 {
                // Nor could it when that one became ready.
                preempt::make_room(worker, waiting, 0);
            }
        }
        if stuck && worker.has_waiting_full() {
            worker.rescue();
        }
        let waiting = does_anybody_wait(worker);
        let in_place = worker.in_place.load(Relaxed);
        let mut blocked = stuck && worker.blocked.load(Relaxed) && !in_place;
        if stuck && !in_place && (waiting && !blocked || full::exist() && is_due(&seen)) {
            blocked = self.relieve(worker, &mut seen, running, waiting);
        }
        let computes = running.is_some_and(|thread| self.kept.computes(thread));
        kept::give_turn(worker, &mut seen, computes);
        fair::keep(worker, seen, running);
        worker.blocked.store(blocked, Relaxed);
        if in_place && stuck {
            self.kept.add_in_place(worker);
        } else if is_full && (stuck || computes) && !blocked && !in_place {
            self.kept.add(worker);
        }
    }

    /// `thread`, which `worker` runs, may be called, and could not be interrupted where it was; or
    /// it waits again where that ends a wait.
    fn call_again(&mut self, worker: &Worker, thread: &Control, waits: bool, ran_ns: u64) {
        if sched::is_called(thread) || waits && sched::is_cancelled(thread) {
            preempt::interrupt(worker);
            self.called.note(ran_ns);
        }
    }

    /// A worker has not switched for a tick. True: it is blocked in the kernel, or its thread can't
    /// be made to leave.
    fn relieve(
        &mut self,
        worker: &'static Worker,
        before: &mut Seen,
        running: Option<&'static Control>,
        waiting: bool,
    ) -> bool {
        let monitor = &self.runtime.monitor;
        // The kernel's word of it costs ten times what its clock does.
        let state = || task::state_of(worker.tid());
        let state = if before.ran_ns >= self.elapsed / 2 { Some(b'R') } else { state() };
        if state == Some(task::UNKNOWN) {
            return worker.blocked.load(Relaxed);
        }
        if state == Some(b'R') {
            before.asleep_for = 0;
            if waiting {
                monitor.overruns.fetch_add(1, Relaxed);
                worker.poll.store(1, Relaxed);
                self.preempt(worker, before, running);
            }
            if worker.is_held() {
                // It may be where it can be left by now.
                preempt::interrupt(worker);
            }
            return worker.is_held();
        }
        before.asleep_for += 1;
        if before.asleep_for < 2 {
            // One look may have met a short sleep of a worker that waits for a CPU.
            return false;
        }
        monitor.blocked.fetch_add(1, Relaxed);
        let light = running.filter(|thread| thread.kind.get() == ThreadKind::Light);
        if let Some(thread) = light.filter(|_| waiting) {
            let role = thread.record().read().map(|fields| fields.role);
            role.into_iter().for_each(|role| self.runtime.steward.name(role));
        }
        true
    }

    /// Makes the full thread that `worker` runs yield if its slice is over.
    fn preempt(
        &mut self,
        worker: &'static Worker,
        before: &mut Seen,
        running: Option<&'static Control>,
    ) {
        let config = &self.runtime.config;
        let is_full = running.is_some_and(|thread| thread.kind.get() == ThreadKind::Full);
        if config.slice_ns == 0 || !is_full || preempt::missing().is_some() {
            return;
        }
        let others = worker.offered.len();
        let all_use_theirs = before.used_up > others;
        // Where all threads use up what they get and stay where they are, they may wait for each
        // other. Where they do not, and nobody has come, nobody is served sooner by a short slice;
        // of light threads it is not known before the worker has looked whether one has.
        let short = all_use_theirs && spins::may_spin(worker, others);
        self.spinning |= short;
        let none_came = worker.live.load(Relaxed) + worker.fresh.len() + worker.offered.come() == 0;
        let slice_ns = if short {
            config.slice_ns.min(SLICE_SHORT_NS)
        } else if all_use_theirs && none_came && !spins::any(worker) {
            config.slice_computing_ns
        } else {
            config.slice_ns
        };
        if before.same_ns >= slice_ns {
            before.used_up = before.used_up.saturating_add(1);
            running.into_iter().for_each(|thread| self.kept.note(thread));
            preempt::ask(worker, before.switches);
        }
        if before.same_cpu_ns >= slice_ns.saturating_add(HELD_NS) {
            worker.hold(before.switches);
            before.same_cpu_ns = 0;
        }
    }
}

/// Whether threads are ready that `worker` has to run.
fn does_anybody_wait(worker: &Worker) -> bool {
    worker.ready.load(Relaxed) != 0
        || worker.fresh.len() + worker.offered.len() != 0
        || !worker.inbox.is_empty()
}

/// Whether it is time to ask the kernel again what a worker does for which nobody waits, or which
/// was blocked: the less often, the longer it has been so.
fn is_due(seen: &Seen) -> bool {
    seen.same_for.is_power_of_two() || seen.same_for.is_multiple_of(LOOKS_PER_ASK)
}
