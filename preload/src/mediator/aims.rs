//! What each thread should have: the regions, translated into what the kernel understands.
//!
//! Invariants
//! - Pure functions of means, region, attributes and origin.
//! - In the open region the aim is the origin.
//! - No aim is more urgent than the origin but those of the Fast region under `rr` and `nice`,
//!   and of the group urgent where the way back is free.
//!
//! | means  | Fast region                   | Lazy region                                         |
//! |--------|-------------------------------|-----------------------------------------------------|
//! | rr     | SCHED_RR and RESET_ON_FORK    | by group: nice -4, 0, +5, SCHED_IDLE                |
//! | idle   | long slices                   | SCHED_IDLE                                          |
//! | cgroup | a group of weight 10000, too  | groups of weights 1 in all, shared by group; idle   |
//! | nice   | as low as permitted, too      | by group: nice 12, 15, 17, 19                       |
//!
//! Long slices: a thread that outweighs all others is still preempted at the end of each slice,
//! some 3 ms. Of 100 ms ones it has less than half as many involuntary switches, and waking up it
//! preempts others as before: their weight decides, and SCHED_IDLE always gives way.

use heddle_record::{Class, Group};
use serde::Serialize;

use super::world::{Attributes, Cell};
use crate::sys::sched::{BATCH, IDLE, OTHER, RR, Scheduling};

/// The longest that the kernel gives.
const FAST_SLICE_NS: u64 = 100_000_000;

/// How threads are moved between the regions.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Means {
    /// SCHED_RR for the Fast region.
    Rr {
        /// The priority that a thread of priority 99 gets.
        ceiling: u32,
        /// Whether nice values may be lowered again: only then are groups told apart.
        groups: bool,
    },
    /// SCHED_IDLE for the Lazy region.
    Idle {
        /// Whether threads may be brought back from it.
        way_back: bool,
    },
    /// Control groups with weights.
    Cgroup,
    /// Nice values for both.
    Nice {
        /// The lowest that is permitted.
        lowest: i32,
        /// Whether they may be lowered again.
        way_back: bool,
    },
    /// Nothing is changed.
    None,
}

impl Means {
    /// As it is called in the policy file.
    pub const fn word(self) -> &'static str {
        match self {
            Means::Rr { .. } => "rr",
            Means::Idle { .. } => "idle",
            Means::Cgroup => "cgroup",
            Means::Nice { .. } => "nice",
            Means::None => "none",
        }
    }

    /// Whether every thread can get back what it had, at any time.
    pub const fn has_way_back(self) -> bool {
        match self {
            Means::Rr { .. } | Means::Cgroup | Means::None => true,
            Means::Idle { way_back } | Means::Nice { way_back, .. } => way_back,
        }
    }
}

/// Which threads are to be preferred now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Region {
    /// None: all threads have what they had.
    Open,
    /// The time-critical ones.
    Divided,
    /// None, for a moment: the Lazy region gets its bound.
    Slice,
}

/// What a thread should have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Aim {
    /// Scheduling parameters.
    pub scheduling: Scheduling,
    /// Control group.
    pub cell: Cell,
}

/// What a thread with these attributes, which had `origin`, should have in this region.
pub fn aim(means: Means, region: Region, it: &Attributes, origin: &Scheduling) -> Aim {
    let fast = it.class == Class::TimeCritical;
    let (scheduling, cell) = match (region, fast) {
        (Region::Open, _) => (*origin, Cell::Home),
        (Region::Divided, false) if it.is_runtimes && it.priority != 0 => {
            beside_fast(means, it, origin)
        }
        (_, _) if it.is_runtimes && (!fast || it.priority == 0) => (*origin, Cell::Home),
        (Region::Divided, true) => fast_aim(means, it.priority, origin),
        // During a slice the two regions are equals, and the time-critical ones of no low group.
        (Region::Slice, true) => lazy_aim(means, Group::Normal, origin),
        (_, false) => lazy_aim(means, it.group, origin),
    };
    Aim { scheduling, cell }
}

fn fast_aim(means: Means, priority: u8, origin: &Scheduling) -> (Scheduling, Cell) {
    let patient = Scheduling { slice_ns: FAST_SLICE_NS, ..*origin };
    match means {
        Means::Rr { ceiling, .. } => {
            let priority = real_time_priority(priority, ceiling);
            let wanted = Scheduling { policy: RR, priority, reset_on_fork: true, ..*origin };
            (wanted, Cell::Home)
        }
        Means::Nice { lowest, .. } => {
            (Scheduling { nice: origin.nice.min(lowest), ..patient }, Cell::Home)
        }
        Means::Cgroup => (patient, Cell::Fast),
        Means::Idle { .. } => (patient, Cell::Home),
        Means::None => (*origin, Cell::Home),
    }
}

/// Where nothing else goes before the workers of a runtime, who serves them goes with them.
fn beside_fast(means: Means, it: &Attributes, origin: &Scheduling) -> (Scheduling, Cell) {
    match means {
        Means::Rr { .. } => fast_aim(means, it.priority, origin),
        _ => (*origin, Cell::Home),
    }
}

fn lazy_aim(means: Means, group: Group, origin: &Scheduling) -> (Scheduling, Cell) {
    let idle = Scheduling { policy: IDLE, priority: 0, ..*origin };
    let nicer = |by: i32| Scheduling { nice: (origin.nice + by).clamp(-20, 19), ..*origin };
    let at_least = |nice: i32| Scheduling { nice: origin.nice.max(nice), ..*origin };
    let scheduling = match (means, group) {
        (Means::Rr { groups: true, .. }, Group::Urgent) => nicer(-4),
        (Means::Rr { groups: true, .. }, Group::Service) => nicer(5),
        (Means::Rr { groups: true, .. }, Group::Background) => idle,
        (Means::Idle { .. }, _) => idle,
        (Means::Nice { .. }, Group::Urgent) => at_least(12),
        (Means::Nice { .. }, Group::Normal) => at_least(15),
        (Means::Nice { .. }, Group::Service) => at_least(17),
        (Means::Nice { .. }, Group::Background) => at_least(19),
        _ => *origin,
    };
    let cell = if means == Means::Cgroup { Cell::Lazy(group) } else { Cell::Home };
    (scheduling, cell)
}

/// A priority of 1..99 spread over 1..=ceiling, keeping the order.
pub fn real_time_priority(priority: u8, ceiling: u32) -> u32 {
    let (priority, ceiling) = (u32::from(priority.clamp(1, 99)), ceiling.max(1));
    1 + (priority - 1) * (ceiling - 1) / 98
}

/// Whether the Mediator may touch a thread that the program, or whoever started it, gave this.
/// Real-time and deadline threads were set by the program, which knows why; idle ones are as lazy
/// as can be.
pub fn is_ours(origin: &Scheduling) -> bool {
    matches!(origin.policy, OTHER | BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RR_MEANS: Means = Means::Rr { ceiling: 49, groups: true };

    fn lazy(group: Group) -> Attributes {
        Attributes { group, ..Attributes::default() }
    }

    fn fast(priority: u8) -> Attributes {
        Attributes { class: Class::TimeCritical, priority, ..Attributes::default() }
    }

    #[test]
    fn priorities_keep_their_order_in_any_room() {
        for ceiling in [1, 2, 10, 49, 98, 99] {
            let all: Vec<_> = (1..=99).map(|it| real_time_priority(it, ceiling)).collect();
            assert!(all.is_sorted() && all[0] == 1 && all[98] == ceiling, "{ceiling}: {all:?}");
        }
        assert_eq!(real_time_priority(0, 49), 1);
        assert_eq!(real_time_priority(255, 49), 49);
    }

    #[test]
    fn groups_are_ordered_where_the_means_can() {
        let origin = Scheduling { nice: 2, ..Scheduling::default() };
        let nices = |means| {
            Group::ALL.iter().map(move |group| {
                let it = aim(means, Region::Divided, &lazy(*group), &origin).scheduling;
                if it.policy == IDLE { 100 } else { it.nice }
            })
        };
        assert!(nices(RR_MEANS).eq([-2, 2, 7, 100]));
        assert!(nices(Means::Nice { lowest: -20, way_back: true }).eq([12, 15, 17, 19]));
        assert!(nices(Means::Idle { way_back: true }).all(|it| it == 100));
        assert!(nices(Means::Rr { ceiling: 9, groups: false }).all(|it| it == 2));
    }

    #[test]
    fn a_runtimes_threads_are_raised_or_left_but_never_lowered() {
        let origin = Scheduling { nice: 1, ..Scheduling::default() };
        let idle = Means::Idle { way_back: true };
        let nice = Means::Nice { lowest: -5, way_back: true };
        let divided = |means, it: &Attributes| aim(means, Region::Divided, it, &origin);
        let of_runtime = |it| Attributes { is_runtimes: true, ..it };
        let home = Aim { scheduling: origin, cell: Cell::Home };
        for means in [RR_MEANS, idle, nice, Means::Cgroup] {
            // A worker whose time-critical threads sleep, one without any, one that has an active
            // one, and the monitor.
            assert_eq!(divided(means, &of_runtime(fast(0))), home);
            assert_eq!(divided(means, &of_runtime(lazy(Group::Background))), home);
            assert_eq!(divided(means, &of_runtime(fast(50))), divided(means, &fast(50)));
        }
        let monitor = Attributes { priority: 99, ..of_runtime(lazy(Group::Normal)) };
        assert_eq!(divided(RR_MEANS, &monitor).scheduling.priority, 49);
        assert_eq!(divided(idle, &monitor), home);
        assert_eq!(aim(RR_MEANS, Region::Slice, &monitor, &origin), home);
    }

    #[test]
    fn the_open_region_is_the_origin() {
        let origin = Scheduling { policy: BATCH, nice: 3, ..Scheduling::default() };
        let idle = Means::Idle { way_back: false };
        for means in [RR_MEANS, idle, Means::Cgroup, Means::None] {
            for it in [fast(99), lazy(Group::Background)] {
                let aim = aim(means, Region::Open, &it, &origin);
                assert_eq!(aim, Aim { scheduling: origin, cell: Cell::Home });
            }
        }
    }

    #[test]
    fn the_fast_region_is_above_the_lazy_one() {
        let origin = Scheduling::default();
        let of = |means, it: &Attributes| aim(means, Region::Divided, it, &origin);
        let rr = of(RR_MEANS, &fast(99)).scheduling;
        assert_eq!((rr.policy, rr.priority, rr.reset_on_fork), (RR, 49, true));
        assert_eq!(of(Means::Cgroup, &fast(1)).cell, Cell::Fast);
        assert_eq!(of(Means::Cgroup, &lazy(Group::Service)).cell, Cell::Lazy(Group::Service));
        let idle = of(Means::Idle { way_back: true }, &fast(1)).scheduling;
        assert_eq!(idle, Scheduling { slice_ns: FAST_SLICE_NS, ..origin });
        let slice = aim(RR_MEANS, Region::Slice, &fast(99), &origin);
        assert_eq!(slice.scheduling, origin);
    }
}
