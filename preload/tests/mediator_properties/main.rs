//! The Mediator's decisions on a simulated kernel: whatever the order of births, deaths, changes
//! of class, changes by the program itself and sleeps, everything is as it would have been.
//!
//! Invariant: what is drawn here is what a Mediator can tell apart; `cases.rs` has single cases.

mod cases;
mod sim;

use std::time::Duration;

use heddle_preload::mediator::Means;
use heddle_preload::mediator::core::Core;
use heddle_preload::mediator::world::{Attributes, Cell};
use heddle_preload::sys::sched::{BATCH, IDLE, RR, Scheduling};
use heddle_record::{Class, Group};
use proptest::prelude::*;

use sim::{MS, Part, Sim, classify, start};

#[derive(Clone, Copy, Debug)]
enum Event {
    Birth(usize),
    BirthWithin(usize, usize),
    Death(usize),
    Fast(usize, u8),
    Lazy(usize, Group),
    Own(usize, Scheduling),
    OwnPart(usize, Part),
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
        Scheduling { policy: IDLE, nice: 16, ..Scheduling::default() },
    ]);
    let part = prop::sample::select(vec![
        Part::Nice(2),
        Part::Nice(8),
        Part::Nice(-14),
        Part::Nice(18),
        Part::RealTime,
    ]);
    let who = 0..50_usize;
    let event = prop_oneof![
        4 => who.clone().prop_map(Event::Birth),
        2 => (0..6_usize, who.clone()).prop_map(|(after, it)| Event::BirthWithin(after, it)),
        2 => who.clone().prop_map(Event::Death),
        3 => (who.clone(), 1..=99_u8).prop_map(|(it, priority)| Event::Fast(it, priority)),
        2 => (who.clone(), group).prop_map(|(it, group)| Event::Lazy(it, group)),
        1 => (who.clone(), own).prop_map(|(it, own)| Event::Own(it, own)),
        2 => (who.clone(), part).prop_map(|(it, part)| Event::OwnPart(it, part)),
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
                sim.met.remove(&tid);
                sim.unseen.remove(&tid);
            }
        }
        Event::Fast(index, priority) => {
            let attributes =
                Attributes { class: Class::TimeCritical, priority, ..Attributes::default() };
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
        Event::OwnPart(index, Part::Nice(_))
            if matches!(means, Means::Nice { .. } | Means::Rr { .. }) =>
        {
            sim.own_part(index, Part::RealTime);
        }
        Event::OwnPart(index, part) => sim.own_part(index, part),
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

fn means() -> impl Strategy<Value = (Means, Vec<i32>)> {
    prop_oneof![
        Just((Means::Idle { way_back: true }, vec![0, 5, -2, 11])),
        Just((Means::Rr { ceiling: 49, groups: true }, vec![0])),
        Just((Means::Rr { ceiling: 9, groups: false }, vec![7])),
        Just((Means::Nice { lowest: -20, way_back: true }, vec![1])),
        Just((Means::Cgroup, vec![0, 5, 6])),
    ]
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
