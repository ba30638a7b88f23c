//! Single cases on the simulated kernel: regions, bounds, and what programs change themselves.
//!
//! Invariant: time passes only where a case says so.

use heddle_preload::mediator::core::Core;
use heddle_preload::mediator::world::{Attributes, Loan};
use heddle_preload::mediator::{Means, Region};
use heddle_preload::sys::sched::{BATCH, IDLE, OTHER, Scheduling};
use heddle_record::Class;

use crate::sim::{MS, Part, Sim, Thread, classify, start};

#[test]
fn the_watchdog_is_told_what_the_kernel_made_of_it() {
    let mut core = start(Means::Nice { lowest: -20, way_back: true }, &[1], Vec::new());
    core.world().ignores_slices = true;
    classify(
        core.world(),
        0,
        Attributes { class: Class::TimeCritical, priority: 50, ..Attributes::default() },
    );
    core.world().threads.get_mut(&100).expect("it lives").active = true;
    core.step();
    let sim = core.world();
    let changed = sim.threads[&100];
    assert!(changed.now.nice < changed.truth.nice && changed.now.slice_ns == 0, "{changed:?}");
    sim.watchdog();
    assert_eq!(sim.threads[&100].now, changed.truth);
}

fn critical() -> Attributes {
    Attributes { class: Class::TimeCritical, priority: 50, ..Attributes::default() }
}

fn with(tid_class: &[(Class, u8)]) -> Core<Sim> {
    with_means(Means::Idle { way_back: true }, tid_class)
}

fn with_means(means: Means, tid_class: &[(Class, u8)]) -> Core<Sim> {
    let mut core = start(means, &[0], Vec::new());
    for _ in 1..tid_class.len() {
        core.world().birth(0);
    }
    for (index, (class, priority)) in tid_class.iter().enumerate() {
        let attributes = Attributes { class: *class, priority: *priority, ..Attributes::default() };
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
fn a_lowered_thread_whose_nice_value_is_changed_is_mediated_on() {
    let mut core = with(&[(Class::TimeCritical, 50), (Class::Lazy, 0), (Class::Lazy, 0)]);
    core.world().threads.get_mut(&100).expect("it lives").active = true;
    core.step();
    core.world().own_part(1, Part::Nice(4));
    // Looked for now and then.
    advance(&mut core, 501);
    let lowered = Scheduling { policy: IDLE, nice: 4, ..Scheduling::default() };
    assert_eq!(core.world().threads[&101].now, lowered);
    assert_eq!(core.tally().conflicts.len(), 0);
    let before = core.world().threads.clone();
    core.world().watchdog();
    assert_eq!(core.world().threads[&101].now, Scheduling { policy: OTHER, ..lowered });
    core.world().threads = before;
    core.world().own_part(2, Part::Nice(6));
    assert_eq!(core.restore(), 0);
    for tid in [101, 102] {
        let thread = core.world().threads[&tid];
        assert_eq!(thread.now, thread.truth);
    }
}

#[test]
fn what_the_program_did_not_change_is_given_back() {
    let nice = Means::Nice { lowest: -20, way_back: true };
    let batch = Scheduling { policy: BATCH, nice: 1, ..Scheduling::default() };
    let mut core = start(nice, &[1], Vec::new());
    let attributes =
        Attributes { class: Class::TimeCritical, priority: 50, ..Attributes::default() };
    core.world().birth(0);
    classify(core.world(), 0, attributes);
    core.world().threads.get_mut(&100).expect("it lives").active = true;
    core.step();
    let lazy = core.world().threads.get_mut(&101).expect("it lives");
    assert_eq!(lazy.now.nice, 15);
    (lazy.now.policy, lazy.truth) = (OTHER, Scheduling { policy: OTHER, ..batch });
    let own = lazy.truth;
    let before = core.world().threads.clone();
    core.world().watchdog();
    assert_eq!(core.world().threads[&101].now, own);
    core.world().threads = before;
    advance(&mut core, 501);
    assert_eq!(core.region(), Region::Divided);
    assert_eq!(core.world().threads[&101].now, own, "at once, and left alone from then on");
    assert_eq!(core.tally().conflicts.len(), 1);
    assert!(!core.world().journal.contains_key(&101));
    assert_eq!(core.restore(), 0);
}

#[test]
fn a_kill_between_the_note_and_the_change_is_survived() {
    let origin = Scheduling::default();
    let before = Scheduling { policy: IDLE, ..origin };
    // On the way back: noted, not done.
    let loan = Loan { started: 1, origin, before, given: origin };
    assert_eq!(loan.own(&before), origin);
    assert_eq!(loan.own(&origin), origin);
    let nicer = Scheduling { nice: 4, ..before };
    assert_eq!(loan.own(&nicer), Scheduling { nice: 4, ..origin });
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

#[test]
fn one_starving_thread_among_many_sleeping_ones_is_found() {
    let mut core = with(&vec![(Class::Lazy, 0); 600]);
    classify(core.world(), 0, critical());
    // The last one to be asked.
    for tid in [100, 699] {
        core.world().threads.get_mut(&tid).expect("it lives").active = true;
    }
    core.step();
    assert_eq!(core.region(), Region::Divided);
    // After the bound some are asked in each step.
    advance(&mut core, 50 + 600 / 64 + 1);
    assert_eq!(core.tally().slices, 1);
}

#[test]
fn a_sleeping_lazy_region_gets_no_slice() {
    let mut core = with(&vec![(Class::Lazy, 0); 200]);
    classify(core.world(), 0, critical());
    core.world().threads.get_mut(&100).expect("it lives").active = true;
    advance(&mut core, 400);
    assert_eq!((core.region(), core.tally().slices), (Region::Divided, 0));
}

#[test]
fn the_bound_limits_how_long_a_step_may_be_put_off() {
    let mut core = with(&[(Class::TimeCritical, 50), (Class::Lazy, 0)]);
    assert_eq!(core.patience(0), None);
    core.world().threads.get_mut(&100).expect("it lives").active = true;
    advance(&mut core, 10);
    let now = core.world().now_ns;
    let patience = core.patience(now).expect("there is a bound");
    assert!(patience.as_millis() > 30 && patience.as_millis() <= 50, "{patience:?}");
    // A step that spares the look keeps the bound, too.
    core.world().threads.get_mut(&101).expect("it lives").active = true;
    core.world().now_ns = now + 50 * MS;
    core.step_as(true);
    assert_eq!(core.region(), Region::Slice);
}

#[test]
fn one_active_thread_among_many_time_critical_ones_keeps_the_region() {
    let mut core = with(&vec![(Class::TimeCritical, 50); 600]);
    core.world().threads.get_mut(&500).expect("it lives").active = true;
    advance(&mut core, 600 / 64 + 1);
    for _ in 0..50 {
        assert_eq!(core.region(), Region::Divided);
        core.world().now_ns += 20 * MS;
        core.step();
    }
}

#[test]
fn whoever_calls_exec_goes_on_as_the_main_thread() {
    let callers = [(101, Class::Lazy), (102, Class::TimeCritical)];
    // A look may come before who lives is asked for again: births and deaths are told late.
    // And the main thread has ended for a while before the caller takes its number.
    let ways = [(true, false), (false, false), (true, true)];
    let all = callers.into_iter().flat_map(|it| ways.map(|way| (it, way)));
    let means = [Means::Idle { way_back: true }, Means::Rr { ceiling: 10, groups: true }];
    let all = all.flat_map(|it| means.map(|means| (it, means)));
    for (((caller, class), (told, is_missed)), means) in all {
        let classes = [(Class::Lazy, 0), (Class::Lazy, 0), (Class::TimeCritical, 50)];
        let mut core = with_means(means, &classes);
        core.world().own_part(0, Part::Nice(2));
        core.world().threads.get_mut(&102).expect("it lives").active = true;
        core.step();
        core.world().now_ns += 10_000 * MS;
        core.step();
        let sim = core.world();
        let before = sim.threads.remove(&caller).expect("it lives");
        assert_eq!(before.attributes.class, class);
        let main = sim.threads[&100];
        if is_missed {
            sim.threads.remove(&100);
            sim.changed = true;
            core.step();
        }
        let sim = core.world();
        let after = Thread { started: main.started, image: 1, active: true, ..before };
        sim.threads = [(100, after)].into();
        sim.changed = told;
        for _ in 0..if told { 1 } else { 20 } {
            core.step();
            core.world().now_ns += 1000 * MS;
        }
        core.world().changed = true;
        core.step();
        assert_eq!(core.tally().conflicts.len(), 0, "{:?}", core.tally());
        // No other is left, so that nothing is divided, or only this one's slice is lent.
        core.world().watchdog();
        assert_eq!(core.world().threads[&100].now, before.truth);
        assert_eq!(core.restore(), 0);
        assert_eq!(core.world().threads[&100].now, before.truth);
    }
}
