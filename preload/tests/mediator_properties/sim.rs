//! The kernel, and the program on it.
//!
//! The simulation knows of each thread what it would have had if nothing had ever been changed
//! (its truth): creators hand theirs down. Threads of one look have one truth here, because the
//! kernel says nothing that would tell them apart.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use heddle_preload::mediator::Means;
use heddle_preload::mediator::core::{Core, Timing};
use heddle_preload::mediator::world::{Activity, Attributes, Cell, Loan, Seen, World};
use heddle_preload::sys::sched::{BATCH, IDLE, OTHER, RR, Scheduling};
use rustix::io::Errno;

pub const MS: u64 = 1_000_000;
pub const TIMING: Timing = Timing { hold_ns: 100 * MS, lazy_bound_ns: Some(50 * MS) };

#[derive(Clone, Copy, Debug)]
pub struct Thread {
    pub started: u64,
    /// How often its process has begun another program.
    pub image: u64,
    pub now: Scheduling,
    pub truth: Scheduling,
    pub cell: Cell,
    pub attributes: Attributes,
    pub active: bool,
}

/// The kernel, and the program on it.
#[derive(Debug, Default)]
pub struct Sim {
    pub now_ns: u64,
    pub threads: BTreeMap<i32, Thread>,
    pub journal: BTreeMap<i32, Loan>,
    pub births: u64,
    pub changed: bool,
    /// Births that happen in the middle of the Mediator's work: after so many changes, by whom.
    pub ambush: VecDeque<(usize, usize)>,
    /// The Mediator is at work.
    pub acting: bool,
    /// Changed by their program and not looked at since: what their children inherit, nobody
    /// could tell from what others have, so they have none.
    pub unseen: BTreeSet<i32>,
    /// Looked at before.
    pub met: BTreeSet<i32>,
    pub lazy_cpu_ns: u64,
    pub way_back: bool,
    pub rr_allowed: bool,
    /// As kernels before 6.12 do.
    pub ignores_slices: bool,
    pub sets: usize,
}

impl Sim {
    pub fn nth(&self, index: usize) -> Option<i32> {
        let count = self.threads.len();
        (count > 0).then(|| *self.threads.keys().nth(index % count).expect("within"))
    }

    pub fn first(&mut self, it: Scheduling) {
        self.add(Thread {
            started: 0,
            image: 0,
            now: it,
            truth: it,
            cell: Cell::Home,
            attributes: Attributes::default(),
            active: false,
        });
    }

    pub fn add(&mut self, mut thread: Thread) {
        self.births += 1;
        thread.started = self.births;
        // Numbers are used again, but never within the instant between a look and a change.
        let from = if self.acting { 1_000_000 + self.births as i32 } else { 100 };
        let tid = (from..).find(|tid| !self.threads.contains_key(tid)).expect("a number");
        self.threads.insert(tid, thread);
        self.changed = true;
    }

    pub fn birth(&mut self, creator: usize) {
        let seen = self.nth(creator).filter(|tid| !self.unseen.contains(tid));
        let Some(creator) = seen.map(|tid| self.threads[&tid]) else { return };
        self.add(Thread {
            now: creator.now.of_child(),
            truth: creator.truth.of_child(),
            attributes: Attributes::default(),
            active: false,
            ..creator
        });
    }

    pub fn own(&mut self, index: usize, it: Scheduling) {
        let Some(tid) = self.nth(index) else { return };
        let thread = self.threads.get_mut(&tid).expect("it lives");
        // A lowered thread, or a newborn that may be a child of one, that is made idle by its
        // program, too, looks as if that was not.
        let is_lowered = self.journal.get(&tid).is_some_and(|loan| loan.given.policy == IDLE);
        if it.policy != IDLE || !is_lowered && self.met.contains(&tid) {
            (thread.now, thread.truth) = (it, it);
            self.unseen.insert(tid);
        }
    }

    /// Its program changes one parameter and leaves the others as they are.
    pub fn own_part(&mut self, index: usize, part: Part) {
        // Of a newborn nobody could tell the rest.
        let Some(tid) = self.nth(index).filter(|tid| self.met.contains(tid)) else { return };
        let thread = self.threads.get_mut(&tid).expect("it lives");
        let policy = thread.truth.policy;
        if policy == IDLE {
            return;
        }
        for it in [&mut thread.now, &mut thread.truth] {
            match part {
                // Policies are told apart by the nice value here.
                Part::Nice(nice) => it.nice = nice + i32::from(policy == BATCH),
                Part::RealTime => {
                    (it.policy, it.priority) = (RR, 77);
                    // As the kernel does at a new policy.
                    (it.reset_on_fork, it.slice_ns) = (false, 0);
                }
            }
        }
        self.unseen.insert(tid);
    }

    /// What the watchdog does with the notes of a Mediator that was killed.
    pub fn watchdog(&mut self) {
        for (tid, loan) in &self.journal {
            if let Some(thread) = self.threads.get_mut(tid)
                && thread.started == loan.started
            {
                thread.now = loan.own(&thread.now);
            }
        }
    }
}

fn gone() -> io::Error {
    Errno::SRCH.into()
}

impl World for Sim {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn look(&mut self, thorough: bool) -> Option<Vec<Seen>> {
        let seen = |(tid, it): (&i32, &Thread)| Seen {
            tid: *tid,
            started: it.started,
            image: it.image,
            attributes: it.attributes,
        };
        let news = std::mem::take(&mut self.changed) || thorough;
        news.then(|| self.threads.iter().map(seen).collect())
    }

    fn activity(&mut self, tid: i32) -> Activity {
        match self.threads.get(&tid) {
            None => Activity::Gone,
            Some(thread) if thread.active => Activity::Active,
            Some(_) => Activity::Asleep,
        }
    }

    fn is_runnable(&mut self, tid: i32) -> bool {
        self.threads.get(&tid).is_some_and(|thread| thread.active)
    }

    fn lazy_cpu_ns(&mut self) -> u64 {
        self.lazy_cpu_ns
    }

    fn get(&mut self, tid: i32) -> io::Result<Scheduling> {
        let now = self.threads.get(&tid).map(|thread| thread.now).ok_or_else(gone)?;
        self.unseen.remove(&tid);
        // Not of one that is gone: its number will be another's, whom nobody has looked at.
        self.met.insert(tid);
        Ok(now)
    }

    fn image(&mut self, tid: i32) -> u64 {
        self.threads.get(&tid).map_or(0, |thread| thread.image)
    }

    fn set(&mut self, tid: i32, wanted: &Scheduling) -> io::Result<()> {
        self.sets += 1;
        let loan = self.journal.get(&tid).copied();
        let (rr_allowed, way_back) = (self.rr_allowed, self.way_back);
        let thread = self.threads.get_mut(&tid).ok_or_else(gone)?;
        let loan = loan.expect("noted before it is changed");
        assert_eq!((loan.started, loan.given), (thread.started, *wanted));
        assert_eq!(loan.before, thread.now, "a kill now must not lose what it has");
        let raises_idle = thread.now.policy == IDLE && wanted.policy != IDLE;
        let denied = (wanted.policy == RR && thread.now.policy != RR && !rr_allowed)
            || (!way_back && (raises_idle || wanted.nice < thread.now.nice));
        if denied {
            return Err(Errno::PERM.into());
        }
        let slice_ns = if self.ignores_slices { thread.now.slice_ns } else { wanted.slice_ns };
        thread.now = Scheduling { slice_ns, ..*wanted };
        if let Some((countdown, creator)) = self.ambush.front_mut() {
            if *countdown == 0 {
                let creator = *creator;
                self.ambush.pop_front();
                self.acting = true;
                self.birth(creator);
                self.acting = false;
            } else {
                *countdown -= 1;
            }
        }
        Ok(())
    }

    fn place(&mut self, tid: i32, cell: Cell) -> io::Result<()> {
        self.threads.get_mut(&tid).ok_or_else(gone)?.cell = cell;
        Ok(())
    }

    fn attend(&mut self, _priority: Option<u32>) {}

    fn note(&mut self, tid: i32, loan: Option<Loan>) -> bool {
        match loan {
            Some(loan) => self.journal.insert(tid, loan),
            None => self.journal.remove(&tid),
        };
        true
    }
}

/// What a program may change of a thread without touching the rest.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    Nice(i32),
    RealTime,
}

pub fn classify(sim: &mut Sim, index: usize, attributes: Attributes) {
    if let Some(tid) = sim.nth(index) {
        sim.threads.get_mut(&tid).expect("it lives").attributes = attributes;
        sim.changed = true;
    }
}

pub fn start(means: Means, nices: &[i32], fallbacks: Vec<Means>) -> Core<Sim> {
    let mut sim = Sim { way_back: true, rr_allowed: true, ..Sim::default() };
    for nice in nices {
        // Policies are told apart by the nice value, as long as that is different.
        let policy = if nice % 2 == 0 { OTHER } else { BATCH };
        sim.first(Scheduling { policy, nice: *nice, ..Scheduling::default() });
    }
    let mut core = Core::new(sim, means, fallbacks, TIMING);
    core.step();
    core
}
