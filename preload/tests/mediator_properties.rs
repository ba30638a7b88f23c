//! The Mediator's decisions on a simulated kernel: whatever the order of births, deaths, changes
//! of class, changes by the program itself and sleeps, everything is as it would have been.
//!
//! The simulation knows of each thread what it would have had if nothing had ever been changed
//! (its truth): creators hand theirs down. Threads of one look have one truth here, because the
//! kernel says nothing that would tell them apart.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use heddle_preload::mediator::core::{Core, Timing};
use heddle_preload::mediator::world::{Activity, Attributes, Cell, Loan, Seen, World};
use heddle_preload::mediator::{Means, Region};
use heddle_preload::sys::sched::{BATCH, IDLE, OTHER, RR, Scheduling};
use heddle_record::{Class, Group};
use proptest::prelude::*;
use rustix::io::Errno;

const MS: u64 = 1_000_000;
const TIMING: Timing = Timing { hold_ns: 100 * MS, lazy_bound_ns: Some(50 * MS) };

#[derive(Clone, Copy, Debug)]
struct Thread {
    started: u64,
    now: Scheduling,
    truth: Scheduling,
    cell: Cell,
    attributes: Attributes,
    active: bool,
}

/// The kernel, and the program on it.
#[derive(Debug, Default)]
struct Sim {
    now_ns: u64,
    threads: BTreeMap<i32, Thread>,
    journal: BTreeMap<i32, Loan>,
    births: u64,
    changed: bool,
    /// Births that happen in the middle of the Mediator's work: after so many changes, by whom.
    ambush: VecDeque<(usize, usize)>,
    /// The Mediator is at work.
    acting: bool,
    lazy_cpu_ns: u64,
    way_back: bool,
    rr_allowed: bool,
    /// As kernels before 6.12 do.
    ignores_slices: bool,
    sets: usize,
}

impl Sim {
    fn nth(&self, index: usize) -> Option<i32> {
        let count = self.threads.len();
        (count > 0).then(|| *self.threads.keys().nth(index % count).expect("within"))
    }

    fn first(&mut self, it: Scheduling) {
        self.add(Thread {
            started: 0,
            now: it,
            truth: it,
            cell: Cell::Home,
            attributes: Attributes::default(),
            active: false,
        });
    }

    fn add(&mut self, mut thread: Thread) {
        self.births += 1;
        thread.started = self.births;
        // Numbers are used again, but never within the instant between a look and a change.
        let from = if self.acting { 1_000_000 + self.births as i32 } else { 100 };
        let tid = (from..).find(|tid| !self.threads.contains_key(tid)).expect("a number");
        self.threads.insert(tid, thread);
        self.changed = true;
    }

    fn birth(&mut self, creator: usize) {
        let Some(creator) = self.nth(creator).map(|tid| self.threads[&tid]) else { return };
        self.add(Thread {
            now: creator.now.of_child(),
            truth: creator.truth.of_child(),
            attributes: Attributes::default(),
            active: false,
            ..creator
        });
    }

    fn own(&mut self, index: usize, it: Scheduling) {
        let Some(tid) = self.nth(index) else { return };
        let thread = self.threads.get_mut(&tid).expect("it lives");
        (thread.now, thread.truth) = (it, it);
    }

    /// What the watchdog does with the notes of a Mediator that was killed.
    fn watchdog(&mut self) {
        for (tid, loan) in &self.journal {
            if let Some(thread) = self.threads.get_mut(tid)
                && thread.started == loan.started
                && thread.now == loan.given
            {
                thread.now = loan.origin;
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
        self.threads.get(&tid).map(|thread| thread.now).ok_or_else(gone)
    }

    fn set(&mut self, tid: i32, wanted: &Scheduling) -> io::Result<()> {
        self.sets += 1;
        let loan = self.journal.get(&tid).copied();
        let (rr_allowed, way_back) = (self.rr_allowed, self.way_back);
        let thread = self.threads.get_mut(&tid).ok_or_else(gone)?;
        let loan = loan.expect("noted before it is changed");
        assert_eq!((loan.started, loan.given), (thread.started, *wanted));
        let raises_idle = thread.now.policy == IDLE && wanted.policy != IDLE;
        let denied = (wanted.policy == RR && !rr_allowed)
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

#[derive(Clone, Copy, Debug)]
enum Event {
    Birth(usize),
    BirthWithin(usize, usize),
    Death(usize),
    Fast(usize, u8),
    Lazy(usize, Group),
    Own(usize, Scheduling),
    Active(usize, bool),
    Feed,
    Step(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let group = prop::sample::select(Group::ALL);
    // None of these looks like anything that the Mediator gives.
    let own = prop::sample::select(vec![
        Scheduling { policy: BATCH, nice: 3, ..Scheduling::default() },
        Scheduling { policy: RR, priority: 77, ..Scheduling::default() },
        Scheduling { policy: IDLE, nice: 18, ..Scheduling::default() },
    ]);
    let who = 0..50_usize;
    let event = prop_oneof![
        4 => who.clone().prop_map(Event::Birth),
        2 => (0..6_usize, who.clone()).prop_map(|(after, it)| Event::BirthWithin(after, it)),
        2 => who.clone().prop_map(Event::Death),
        3 => (who.clone(), 1..=99_u8).prop_map(|(it, priority)| Event::Fast(it, priority)),
        2 => (who.clone(), group).prop_map(|(it, group)| Event::Lazy(it, group)),
        1 => (who.clone(), own).prop_map(|(it, own)| Event::Own(it, own)),
        4 => (who, any::<bool>()).prop_map(|(it, on)| Event::Active(it, on)),
        1 => Just(Event::Feed),
        8 => (0..120_u64).prop_map(Event::Step),
    ];
    prop::collection::vec(event, 1..80)
}

fn happen(core: &mut Core<Sim>, event: Event) {
    let means = core.means();
    let sim = core.world();
    match event {
        Event::Birth(creator) => sim.birth(creator),
        Event::BirthWithin(after, creator) => sim.ambush.push_back((after, creator)),
        Event::Death(index) => {
            if let Some(tid) = sim.nth(index).filter(|_| sim.threads.len() > 1) {
                sim.threads.remove(&tid);
            }
        }
        Event::Fast(index, priority) => {
            let attributes =
                Attributes { class: Class::TimeCritical, priority, group: Group::Normal };
            classify(sim, index, attributes);
        }
        Event::Lazy(index, group) => {
            classify(sim, index, Attributes { group, ..Attributes::default() });
        }
        // Threads of two origins that would look alike.
        Event::Own(index, it)
            if matches!(means, Means::Nice { .. } | Means::Rr { .. }) && it.policy == BATCH =>
        {
            sim.own(index, Scheduling { policy: RR, priority: 77, ..it });
        }
        Event::Own(index, it) => sim.own(index, it),
        Event::Active(index, on) => {
            if let Some(tid) = sim.nth(index) {
                sim.threads.get_mut(&tid).expect("it lives").active = on;
            }
        }
        Event::Feed => sim.lazy_cpu_ns += 40 * MS,
        Event::Step(ms) => {
            sim.now_ns += ms * MS;
            let period = core.step();
            assert!(period > Duration::ZERO && period < Duration::from_secs(1));
        }
    }
}

fn classify(sim: &mut Sim, index: usize, attributes: Attributes) {
    if let Some(tid) = sim.nth(index) {
        sim.threads.get_mut(&tid).expect("it lives").attributes = attributes;
        sim.changed = true;
    }
}

/// Means, and the nice values that threads may have at first without looking alike later.
fn means() -> impl Strategy<Value = (Means, Vec<i32>)> {
    prop_oneof![
        Just((Means::Idle { way_back: true }, vec![0, 5, -2, 11])),
        Just((Means::Rr { ceiling: 49, groups: true }, vec![0])),
        Just((Means::Rr { ceiling: 9, groups: false }, vec![7])),
        Just((Means::Nice { lowest: -20, way_back: true }, vec![1])),
        Just((Means::Cgroup, vec![0, 5, 6])),
    ]
}

fn start(means: Means, nices: &[i32], fallbacks: Vec<Means>) -> Core<Sim> {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None,
                                        ..ProptestConfig::default() })]

    #[test]
    fn everything_is_restored((means, nices) in means(), events in events()) {
        let mut core = start(means, &nices, Vec::new());
        for event in events {
            happen(&mut core, event);
        }
        prop_assert_eq!(core.restore(), 0);
        let sim = core.world();
        for (tid, it) in &sim.threads {
            prop_assert_eq!(it.now, it.truth, "thread {}", tid);
            prop_assert!(it.cell == Cell::Home, "thread {} in {:?}", tid, it.cell);
        }
        prop_assert!(sim.journal.is_empty(), "{:?}", sim.journal);
    }

    #[test]
    fn the_watchdog_restores_what_was_known((means, nices) in means(), events in events()) {
        let mut core = start(means, &nices, Vec::new());
        for event in events {
            happen(&mut core, event);
            if matches!(event, Event::Step(_)) && core.world().ambush.is_empty() {
                let sim = core.world();
                let (before, sets) = (sim.threads.clone(), sim.sets);
                sim.watchdog();
                for (tid, it) in &sim.threads {
                    // Born or changed by its program after the last look: it is found by name.
                    if !sim.changed {
                        prop_assert_eq!(it.now, it.truth, "thread {} after {} sets", tid, sets);
                    }
                }
                sim.threads = before;
            }
        }
    }

    #[test]
    fn without_a_way_back_nothing_but_hot_lazy_threads_is_changed(events in events()) {
        let mut core = start(Means::Idle { way_back: false }, &[0], Vec::new());
        core.world().way_back = false;
        for event in events {
            happen(&mut core, event);
        }
        core.restore();
        for it in core.world().threads.values() {
            let lowered = Scheduling { policy: IDLE, ..it.truth };
            prop_assert!(it.now == it.truth || it.now == lowered, "{:?}", it);
        }
    }

    #[test]
    fn refused_means_fall_back(events in events()) {
        let fallbacks = vec![Means::Idle { way_back: true }];
        let mut core = start(Means::Rr { ceiling: 49, groups: true }, &[0], fallbacks);
        core.world().rr_allowed = false;
        for event in events {
            happen(&mut core, event);
        }
        prop_assert_eq!(core.restore(), 0);
        for it in core.world().threads.values() {
            prop_assert_eq!(it.now, it.truth);
        }
    }
}

#[test]
fn the_watchdog_is_told_what_the_kernel_made_of_it() {
    let mut core = start(Means::Nice { lowest: -20, way_back: true }, &[1], Vec::new());
    core.world().ignores_slices = true;
    classify(
        core.world(),
        0,
        Attributes { class: Class::TimeCritical, priority: 50, group: Group::Normal },
    );
    core.world().threads.get_mut(&100).expect("it lives").active = true;
    core.step();
    let sim = core.world();
    let changed = sim.threads[&100];
    assert!(changed.now.nice < changed.truth.nice && changed.now.slice_ns == 0, "{changed:?}");
    sim.watchdog();
    assert_eq!(sim.threads[&100].now, changed.truth);
}

fn with(tid_class: &[(Class, u8)]) -> Core<Sim> {
    let mut core = start(Means::Idle { way_back: true }, &[0], Vec::new());
    for _ in 1..tid_class.len() {
        core.world().birth(0);
    }
    for (index, (class, priority)) in tid_class.iter().enumerate() {
        let attributes = Attributes { class: *class, priority: *priority, group: Group::Normal };
        classify(core.world(), index, attributes);
    }
    core.step();
    core
}

fn advance(core: &mut Core<Sim>, ms: u64) {
    for _ in 0..ms {
        core.world().now_ns += MS;
        core.step();
    }
}

#[test]
fn regions_follow_activity_and_hold() {
    let mut core = with(&[(Class::TimeCritical, 50), (Class::Lazy, 0)]);
    assert_eq!(core.region(), Region::Open);
    core.world().threads.get_mut(&100).expect("it lives").active = true;
    core.step();
    assert_eq!(core.region(), Region::Divided);
    assert_eq!(core.world().threads[&101].now.policy, IDLE);
    core.world().threads.get_mut(&100).expect("it lives").active = false;
    advance(&mut core, 100);
    assert_eq!(core.region(), Region::Divided);
    advance(&mut core, 1);
    assert_eq!(core.region(), Region::Open);
    assert_eq!(core.world().threads[&101].now.policy, OTHER);
}

#[test]
fn the_end_of_the_last_critical_thread_restores_at_once() {
    let mut core = with(&[(Class::TimeCritical, 50), (Class::Lazy, 0)]);
    core.world().threads.get_mut(&100).expect("it lives").active = true;
    core.step();
    assert_eq!(core.region(), Region::Divided);
    core.world().threads.remove(&100);
    core.step();
    assert_eq!(core.region(), Region::Open);
    let lazy = core.world().threads[&101];
    assert_eq!(lazy.now, lazy.truth);
}

#[test]
fn a_starving_lazy_region_gets_its_bound() {
    let mut core = with(&[(Class::TimeCritical, 50), (Class::Lazy, 0)]);
    for tid in [100, 101] {
        core.world().threads.get_mut(&tid).expect("it lives").active = true;
    }
    advance(&mut core, 1);
    let mut slices = 0;
    for _ in 0..500 {
        let before = core.region();
        advance(&mut core, 1);
        slices += u32::from(before == Region::Divided && core.region() == Region::Slice);
        if core.region() == Region::Slice {
            assert_eq!(core.world().threads[&100].now.policy, IDLE, "equals during a slice");
        }
    }
    // 50 ms of starving, then a slice of 2.5 ms at least.
    assert!((8..=10).contains(&slices), "{slices}");
    // Fed: none any more.
    for _ in 0..100 {
        core.world().lazy_cpu_ns += MS;
        advance(&mut core, 1);
    }
    let fed = core.tally().slices;
    for _ in 0..200 {
        core.world().lazy_cpu_ns += MS;
        advance(&mut core, 1);
    }
    assert_eq!(core.tally().slices, fed);
}
