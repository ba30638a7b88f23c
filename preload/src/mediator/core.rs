//! The Mediator's decisions: who is in which region, and when.
//!
//! Invariants
//! 1. A thread is changed only after the watchdog was told what it must get back.
//! 2. A thread that has something else than what it was given was changed by its program. What
//!    does not conflict is believed: its origin is that, too. Else it gets back whatever its
//!    program did not change, is left alone from then on, and reported once.
//! 3. After [`Core::restore`] each thread that was not left alone has its origin again, as far as
//!    the kernel permits; those that it does not are counted.
//! 4. Work per step is bounded by the number of threads, and by constants where nothing changed.
//!
//! Protocol of a step
//! 1. Look at births, deaths and classes. A newborn's origin is found by what it inherited.
//! 2. Look at the time-critical threads: one that is active opens the Fast region, or keeps it.
//! 3. Decide the region: divided while one was active within the hold time; a slice for the Lazy
//!    region when that has starved for its bound.
//! 4. Give each thread its aim (`apply.rs`).

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::time::Duration;

use heddle_record::Class;

use super::aims::{self, Aim, Means, Region};
use super::origin::{Traces, origin_after_exec, origin_of};
use super::report::{Conflict, Tally};
use super::world::{Activity, Attributes, Cell, Loan, Seen, World};
use crate::sys::sched::Scheduling;

pub(super) const MS: u64 = 1_000_000;
/// Between looks while the regions are divided: newborns inherit what is right for most.
const PERIOD_DIVIDED: Duration = Duration::from_millis(8);
/// While all time-critical threads sleep: how late a wake-up may be seen.
const PERIOD_WATCHING: Duration = Duration::from_millis(5);
/// While there is no time-critical thread.
const PERIOD_IDLE: Duration = Duration::from_millis(20);
/// While threads are being created, and for how long after.
const PERIOD_BIRTHS: Duration = Duration::from_millis(2);
const BIRTHS_NS: u64 = 200 * MS;
/// How long after a birth or a change of the region threads may still lack what they should have.
const SETTLING_NS: u64 = 1_000 * MS;
/// Between looks that spare nothing.
const THOROUGH_NS: u64 = 1_000 * MS;
/// Between looks for threads that their program changed.
const CONFLICTS_NS: u64 = 500 * MS;
/// How many threads are asked at a time whether their program changed them.
pub(super) const CONFLICTS_MAX: usize = 256;
/// How many threads are asked per step and question.
pub(super) const ASKED_MAX: usize = 64;
/// How many are asked whether they take CPU time, when that decides whether they are lowered: a
/// step more means to wait for a CPU behind all that were not asked.
pub(super) const WARMED_MAX: usize = 256;
/// Threads born while threads are restored: rounds until none is new.
const ROUNDS_MAX: usize = 8;
/// The Lazy region starves if it got less than this part of its bound.
const STARVING_PART: u64 = 20;

/// How the deciding part is set.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long the Fast region outlives the last activity.
    pub hold_ns: u64,
    /// How long the Lazy region may starve; `None`: for ever.
    pub lazy_bound_ns: Option<u64>,
}

/// A thread of the program.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub started: u64,
    pub image: u64,
    pub attributes: Attributes,
    pub origin: Scheduling,
    pub given: Scheduling,
    /// `None`: in whichever its creator was.
    pub cell: Option<Cell>,
    /// Its program knows better: never to be touched (again).
    pub left_alone: bool,
    /// The kernel said no: not to be tried again until its class changes.
    pub refused: bool,
    /// It was found runnable while it was lazy. Matters where lowering is for ever.
    pub is_hot: bool,
}

impl Task {
    pub fn is_fast(&self) -> bool {
        self.attributes.class == Class::TimeCritical
    }

    /// RESET_ON_FORK is easily given and can't always be taken back: having it is no difference.
    pub fn has(&self, aim: &Aim) -> bool {
        let (given, wanted) = (&self.given, &aim.scheduling);
        let same = (given.policy, given.priority, given.nice)
            == (wanted.policy, wanted.priority, wanted.nice);
        let slices = given.slice_ns == wanted.slice_ns || !wanted.is_fair();
        let forks = given.reset_on_fork || !wanted.reset_on_fork;
        same && slices && forks && self.cell == Some(aim.cell)
    }
}

/// The deciding part.
#[derive(Debug)]
pub struct Core<W: World> {
    pub(super) world: W,
    pub(super) means: Means,
    /// Worse means, to be fallen back to if the kernel refuses, best first.
    pub(super) fallbacks: Vec<Means>,
    timing: Timing,
    pub(super) tasks: BTreeMap<i32, Task>,
    pub(super) traces: Traces,
    pub(super) region: Region,
    /// Something may differ from its aim.
    pub(super) dirty: bool,
    active_ns: Option<u64>,
    thorough_ns: Option<u64>,
    conflicts_ns: u64,
    /// When the Lazy region was last seen to run, and its CPU time then.
    fed: (u64, u64),
    /// How many lazy threads were asked whether they want to run, of those that are since then.
    asked: usize,
    slice_end_ns: u64,
    attending: bool,
    /// The kernel knows no slices of threads' own.
    pub(super) no_slices: bool,
    /// When the last newborn was seen.
    born_ns: Option<u64>,
    /// When the region changed last.
    entered_ns: Option<u64>,
    pub(super) cursors: Cursors,
    pub(super) tally: Tally,
}

/// Where the next round of questions begins, so that all threads have their turn.
#[derive(Debug)]
pub(super) struct Cursors {
    pub fast: i32,
    /// The time-critical thread that was seen to be active last.
    pub active: Option<i32>,
    pub lazy: i32,
    pub conflicts: i32,
}

impl<W: World> Core<W> {
    /// Changes nothing yet.
    pub fn new(world: W, means: Means, fallbacks: Vec<Means>, timing: Timing) -> Core<W> {
        Core {
            world,
            means,
            fallbacks,
            timing,
            tasks: BTreeMap::new(),
            traces: Traces::default(),
            region: Region::Open,
            dirty: false,
            active_ns: None,
            thorough_ns: None,
            conflicts_ns: 0,
            fed: (0, 0),
            asked: 0,
            slice_end_ns: 0,
            attending: false,
            no_slices: false,
            born_ns: None,
            entered_ns: None,
            cursors: Cursors { fast: i32::MIN, active: None, lazy: i32::MIN, conflicts: i32::MIN },
            tally: Tally::default(),
        }
    }

    /// Looks, decides, acts; returns when to do so again.
    pub fn step(&mut self) -> Duration {
        self.step_as(false)
    }

    /// The same, `sparing` the look for births and classes, but for one a second: what is left is
    /// what the Lazy region's bound needs.
    pub fn step_as(&mut self, sparing: bool) -> Duration {
        let now = self.world.now_ns();
        let thorough = self.thorough_ns.is_none_or(|last| now - last >= THOROUGH_NS);
        if thorough {
            self.thorough_ns = Some(now);
        }
        let seen = if sparing && !thorough { None } else { self.world.look(thorough) };
        if let Some(seen) = seen {
            self.merge(&seen, now);
        }
        if self.means == Means::None {
            return PERIOD_IDLE;
        }
        self.attend();
        if self.ask_fast(now) {
            self.active_ns = Some(now);
        }
        let region = self.decide(now);
        if region != self.region {
            self.enter(region, now);
        }
        if self.region == Region::Divided && !self.means.has_way_back() {
            self.warm_up();
        }
        if self.dirty {
            self.apply(now);
        }
        if self.region != Region::Open && now.saturating_sub(self.conflicts_ns) >= CONFLICTS_NS {
            self.conflicts_ns = now;
            self.find_conflicts(now);
        }
        self.period(now)
    }

    /// Gives every thread back what it had, and changes none any more unless stepped again.
    /// Returns how many could not be restored.
    pub fn restore(&mut self) -> usize {
        self.enter(Region::Open, self.world.now_ns());
        self.active_ns = None;
        for _ in 0..ROUNDS_MAX {
            let now = self.world.now_ns();
            let before = (self.tally.threads, self.tally.sets);
            if let Some(seen) = self.world.look(true) {
                self.merge(&seen, now);
            }
            self.apply_to_all(now, true);
            // A thread may have been born of one that had not been restored yet.
            if (self.tally.threads, self.tally.sets) == before {
                break;
            }
        }
        self.world.attend(None);
        self.attending = false;
        self.tasks.values().filter(|task| !task.has(&task.home())).count()
    }

    /// What was found and done so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The means in force.
    pub fn means(&self) -> Means {
        self.means
    }

    /// The region in force.
    pub fn region(&self) -> Region {
        self.region
    }

    /// Whether there is a time-critical thread.
    pub fn has_fast(&self) -> bool {
        self.tasks.values().any(Task::is_fast)
    }

    /// Whether a look that comes late would let a time-critical thread wait: until the first
    /// division, and for a while after births and divisions.
    pub fn is_settling(&self, now: u64) -> bool {
        let recent =
            |it: Option<u64>| it.is_some_and(|then| now.saturating_sub(then) < SETTLING_NS);
        let undivided = self.tally.divided == 0 || recent(self.born_ns) || recent(self.entered_ns);
        self.has_fast() && undivided
    }

    /// How long the next step may be put off without the Lazy region missing its bound; `None`: as
    /// far as that is concerned, for ever.
    pub fn patience(&self, now: u64) -> Option<Duration> {
        let bound_ns = self.timing.lazy_bound_ns.filter(|_| self.means.has_way_back())?;
        let due = self.fed.0.saturating_add(bound_ns);
        let divided = self.region == Region::Divided;
        divided.then(|| Duration::from_nanos(due.saturating_sub(now)).max(PERIOD_DIVIDED))
    }

    /// The other side of the seam.
    pub fn world(&mut self) -> &mut W {
        &mut self.world
    }

    /// Whoever shares out the CPU must not be one of those who wait for it: from the first step
    /// on, before there is anything to divide.
    fn attend(&mut self) {
        if !std::mem::replace(&mut self.attending, true) {
            let ceiling = match self.means {
                Means::Rr { ceiling, .. } => ceiling,
                _ => 0,
            };
            self.world.attend(Some(ceiling + 1));
        }
    }

    fn period(&self, now: u64) -> Duration {
        let busy = self.born_ns.is_some_and(|born| now.saturating_sub(born) < BIRTHS_NS);
        match self.region {
            Region::Divided | Region::Open if busy => PERIOD_BIRTHS,
            Region::Slice => Duration::from_nanos(self.slice_end_ns.saturating_sub(now).max(MS)),
            Region::Divided => PERIOD_DIVIDED,
            Region::Open if self.has_fast() => PERIOD_WATCHING,
            Region::Open => PERIOD_IDLE,
        }
    }

    /// Takes over who lives, and who is what.
    fn merge(&mut self, seen: &[Seen], now: u64) {
        let living: HashMap<i32, u64> = seen.iter().map(|it| (it.tid, it.started)).collect();
        let (world, traces) = (&mut self.world, &mut self.traces);
        self.tasks.retain(|tid, task| {
            let lives = living.get(tid) == Some(&task.started);
            if !lives {
                world.note(*tid, None);
                // Its last children may be among those that are seen now.
                traces.add(task.origin, task.given, now);
            }
            lives
        });
        for it in seen {
            if self.tasks.get(&it.tid).is_some_and(|task| task.image != it.image) {
                self.follow(it, now);
            }
            match self.tasks.get_mut(&it.tid) {
                Some(task) if task.attributes == it.attributes => {}
                Some(task) => {
                    task.attributes = it.attributes;
                    task.refused = false;
                    self.dirty = true;
                }
                None => self.welcome(it, now),
            }
        }
    }

    /// The process of this main thread runs another program.
    pub(super) fn follow(&mut self, seen: &Seen, now: u64) {
        let Ok(given) = self.world.get(seen.tid) else { return };
        let living = self.tasks.values().map(|task| (task.origin, task.given));
        let origin = origin_after_exec(given, living, &self.traces, now);
        let cell = (self.means != Means::Cgroup).then_some(Cell::Home);
        let Some(task) = self.tasks.get_mut(&seen.tid) else { return };
        task.image = seen.image;
        if given == task.given {
            return;
        }
        (task.origin, task.given, task.cell) = (origin, given, cell);
        (task.left_alone, task.refused) = (!aims::is_ours(&origin), false);
        let loan = Loan { started: seen.started, origin, before: given, given };
        self.world.note(seen.tid, (origin != given).then_some(loan));
        self.dirty = true;
    }

    /// A thread not seen before.
    fn welcome(&mut self, seen: &Seen, now: u64) {
        // Already over, or not ours to look at: then not ours to change either.
        let Ok(given) = self.world.get(seen.tid) else { return };
        let living = self.tasks.values().map(|task| (task.origin, task.given));
        let mut origin = origin_of(given, living.clone(), &self.traces, now);
        if seen.image != 0 && !aims::is_ours(&origin) {
            // No child inherits that. A main thread that was not seen while its process was about
            // to run another program is new as that does.
            origin = origin_after_exec(given, living, &self.traces, now);
        }
        let left_alone = !aims::is_ours(&origin);
        // If its creator was left alone after it had been changed, nobody knows better.
        let origin = if left_alone { given } else { origin };
        let mut task = Task {
            started: seen.started,
            image: seen.image,
            attributes: seen.attributes,
            origin,
            given,
            cell: (self.means != Means::Cgroup || self.tally.divided == 0).then_some(Cell::Home),
            left_alone,
            refused: false,
            is_hot: false,
        };
        if left_alone {
            self.tally.conflict(seen.tid, Conflict::Before(given));
            if task.cell.replace(Cell::Home).is_none() {
                // Failing means that it ended, or that nobody can put it anywhere.
                let _ = self.world.place(seen.tid, Cell::Home);
            }
        } else if origin != given {
            let loan = Loan { started: seen.started, origin, before: given, given };
            task.refused = !self.world.note(seen.tid, Some(loan));
        }
        self.tally.threads += 1;
        self.born_ns = Some(now);
        self.tasks.insert(seen.tid, task);
        self.dirty = true;
    }

    /// Whether a time-critical thread is active. The first one that is answers for all.
    fn ask_fast(&mut self, now: u64) -> bool {
        let (mut gone, mut active) = (Vec::new(), false);
        // Of more than are asked at a time, the one that was active is the most likely to be so.
        let last = self.cursors.active.filter(|tid| self.tasks.get(tid).is_some_and(Task::is_fast));
        let asked = self.some(self.cursors.fast, ASKED_MAX, Task::is_fast);
        if let Some(tid) = asked.last() {
            self.cursors.fast = *tid;
        }
        for tid in last.into_iter().chain(asked.into_iter().filter(|tid| Some(*tid) != last)) {
            match self.world.activity(tid) {
                Activity::Active => (active, self.cursors.active) = (true, Some(tid)),
                Activity::Asleep => {}
                Activity::Gone => gone.push(tid),
            }
        }
        for tid in gone {
            self.forget(tid, now);
        }
        active
    }

    /// This thread is no more. Its last children may be seen later, and so may the program that it
    /// made its process run.
    pub(super) fn forget(&mut self, tid: i32, now: u64) {
        if let Some(task) = self.tasks.remove(&tid) {
            self.traces.add(task.origin, task.given, now);
        }
        self.world.note(tid, None);
    }

    /// Up to `most` threads behind the cursor, going round.
    pub(super) fn some(&self, cursor: i32, most: usize, which: impl Fn(&Task) -> bool) -> Vec<i32> {
        let behind = self.tasks.range((Bound::Excluded(cursor), Bound::Unbounded));
        let before = self.tasks.range(..=cursor);
        let chosen = behind.chain(before).filter(|(_, task)| which(task));
        chosen.map(|(tid, _)| *tid).take(most).collect()
    }

    fn decide(&mut self, now: u64) -> Region {
        let held = |last: u64| now.saturating_sub(last) <= self.timing.hold_ns;
        if !self.active_ns.is_some_and(held) || !self.tasks.values().any(Task::is_fast) {
            return Region::Open;
        }
        let slice = match self.region {
            Region::Open => false,
            Region::Slice => now < self.slice_end_ns,
            Region::Divided => self.lazy_starves(now),
        };
        if slice { Region::Slice } else { Region::Divided }
    }

    /// Whether the Lazy region wants to run and hardly did for the time of its bound.
    fn lazy_starves(&mut self, now: u64) -> bool {
        let Some(bound_ns) = self.timing.lazy_bound_ns else { return false };
        let (since, cpu_before) = self.fed;
        if !self.means.has_way_back() || now.saturating_sub(since) < bound_ns {
            return false;
        }
        let cpu = self.world.lazy_cpu_ns();
        if cpu.saturating_sub(cpu_before) >= bound_ns / STARVING_PART {
            self.feed(now, cpu);
            return false;
        }
        let asked = self.some(self.cursors.lazy, ASKED_MAX, |task| !task.is_fast());
        self.asked += asked.len();
        for tid in asked {
            self.cursors.lazy = tid;
            if self.world.is_runnable(tid) {
                return true;
            }
        }
        // Only once all were asked it is known that none wants to run.
        if self.asked >= self.tasks.values().filter(|task| !task.is_fast()).count() {
            self.feed(now, cpu);
        }
        false
    }

    /// The Lazy region has, or had for what it wanted, so much CPU time.
    fn feed(&mut self, now: u64, cpu_ns: u64) {
        self.fed = (now, cpu_ns);
        self.asked = 0;
    }

    fn enter(&mut self, region: Region, now: u64) {
        match region {
            Region::Slice => {
                let bound_ns = self.timing.lazy_bound_ns.unwrap_or(0);
                self.slice_end_ns = now + (bound_ns / STARVING_PART).clamp(2 * MS, 10 * MS);
                self.tally.slices += 1;
            }
            Region::Divided => {
                let cpu_ns = self.world.lazy_cpu_ns();
                self.feed(now, cpu_ns);
                self.conflicts_ns = now;
                if self.region == Region::Open {
                    self.entered_ns = Some(now);
                    self.tally.divided += 1;
                    self.tally.divided_since = Some(now);
                }
            }
            Region::Open => {
                let since = self.tally.divided_since.take();
                self.tally.divided_ns += since.map_or(0, |since| now.saturating_sub(since));
            }
        }
        self.region = region;
        self.dirty = true;
    }
}
