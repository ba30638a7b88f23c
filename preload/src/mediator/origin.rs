//! Which scheduling a new thread or process would have had if nothing had been changed.
//!
//! Invariant: if all threads that could have created it would have given it the same, it is that.
//!
//! The kernel copies the creator's scheduling to the child, and says nowhere who the creator was.
//! A child of a thread that is in SCHED_IDLE for the moment must nevertheless get back what its
//! creator had. So: of all that could have created it, by what they have now, each says what its
//! child would have had; the most frequent answer counts. Answers differ only in programs that
//! give their threads different policies of the same look; nice values survive SCHED_IDLE and
//! tell most of those apart.

use std::collections::HashMap;

use super::world::Loan;
use crate::sys::sched::Scheduling;

/// How long after a change children of the changed thread may still turn up.
const MEMORY_NS: u64 = 5_000_000_000;
/// More different changes than this are no memory but noise.
const TRACES_MAX: usize = 64;

/// A change that was made: threads that had `origin` were given `given`, until `last_ns`.
#[derive(Clone, Copy, Debug)]
struct Trace {
    origin: Scheduling,
    given: Scheduling,
    last_ns: u64,
}

/// The changes of the last seconds.
#[derive(Debug, Default)]
pub struct Traces(Vec<Trace>);

impl Traces {
    /// Notes that a thread of this origin has, or has had until now, this scheduling.
    pub fn add(&mut self, origin: Scheduling, given: Scheduling, now_ns: u64) {
        // Children of what was never changed are as they look, unless they look lowered or raised.
        if origin == given && given.is_fair() {
            return;
        }
        let known = self.0.iter_mut().find(|it| it.origin == origin && it.given == given);
        if let Some(trace) = known {
            trace.last_ns = now_ns;
            return;
        }
        self.0.retain(|it| now_ns.saturating_sub(it.last_ns) < MEMORY_NS);
        if self.0.len() < TRACES_MAX {
            self.0.push(Trace { origin, given, last_ns: now_ns });
        }
    }

    fn recent(&self, now_ns: u64) -> impl Iterator<Item = (Scheduling, Scheduling)> {
        let recent = move |it: &&Trace| now_ns.saturating_sub(it.last_ns) < MEMORY_NS;
        self.0.iter().filter(recent).map(|it| (it.origin, it.given))
    }
}

/// What a newborn that has `current` should get back. `living` are all threads known so far, each
/// with its origin and what it has now.
pub fn origin_of(
    current: Scheduling,
    living: impl Iterator<Item = (Scheduling, Scheduling)> + Clone,
    traces: &Traces,
    now_ns: u64,
) -> Scheduling {
    for answer in [wholly, partly] {
        let answers = |(origin, given): (Scheduling, Scheduling)| {
            answer(origin.of_child(), given.of_child(), current)
        };
        let found = most_frequent(current, &mut living.clone().filter_map(answers));
        let recent = || most_frequent(current, &mut traces.recent(now_ns).filter_map(answers));
        if let Some(origin) = found.or_else(recent) {
            return origin;
        }
    }
    current
}

/// What a main thread that has `current` since its process runs another program should get back:
/// it has what the thread had that called exec.
pub fn origin_after_exec(
    current: Scheduling,
    living: impl Iterator<Item = (Scheduling, Scheduling)>,
    traces: &Traces,
    now_ns: u64,
) -> Scheduling {
    let same = |(origin, given): (Scheduling, Scheduling)| (given == current).then_some(origin);
    let mut all = living.chain(traces.recent(now_ns)).filter_map(same);
    most_frequent(current, &mut all).unwrap_or(current)
}

/// For a child that has what it inherited.
fn wholly(origin: Scheduling, given: Scheduling, current: Scheduling) -> Option<Scheduling> {
    (given == current).then_some(origin)
}

/// For one that has changed something of it already: usually its nice value, which is what
/// programs set first and without asking for the rest.
fn partly(origin: Scheduling, given: Scheduling, current: Scheduling) -> Option<Scheduling> {
    let policy_of = |it: &Scheduling| (it.policy, it.priority);
    let policy =
        policy_of(&given) != policy_of(&origin) && policy_of(&given) == policy_of(&current);
    let slice = given.slice_ns != origin.slice_ns && given.slice_ns == current.slice_ns;
    let loan = Loan { started: 0, origin, before: given, given };
    (policy || slice).then(|| loan.own(&current))
}

/// Of equals the one that is as it looks, and else any, but always the same.
fn most_frequent(
    current: Scheduling,
    answers: &mut dyn Iterator<Item = Scheduling>,
) -> Option<Scheduling> {
    let mut votes: HashMap<Scheduling, usize> = HashMap::new();
    answers.for_each(|it| *votes.entry(it).or_default() += 1);
    let rank = |(origin, count): &(Scheduling, usize)| {
        (*count, *origin == current, origin.policy, origin.nice)
    };
    votes.into_iter().max_by_key(rank).map(|(origin, _)| origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::sched::{BATCH, IDLE, RR};

    fn plain(nice: i32) -> Scheduling {
        Scheduling { nice, ..Scheduling::default() }
    }

    fn lowered(it: Scheduling) -> (Scheduling, Scheduling) {
        (it, Scheduling { policy: IDLE, ..it })
    }

    fn raised(it: Scheduling) -> (Scheduling, Scheduling) {
        (it, Scheduling { policy: RR, priority: 5, reset_on_fork: true, ..it })
    }

    fn origin(current: Scheduling, living: &[(Scheduling, Scheduling)]) -> Scheduling {
        origin_of(current, living.iter().copied(), &Traces::default(), 0)
    }

    #[test]
    fn children_of_lowered_threads_get_what_their_creators_had() {
        let idle = |nice| Scheduling { policy: IDLE, ..plain(nice) };
        let living = [lowered(plain(0)), lowered(plain(5))];
        assert_eq!(origin(idle(5), &living), plain(5));
        assert_eq!(origin(idle(0), &living), plain(0));
        let batch = Scheduling { policy: BATCH, ..plain(0) };
        assert_eq!(origin(idle(0), &[lowered(batch)]), batch);
    }

    #[test]
    fn children_of_real_time_threads_get_the_nice_value_back() {
        assert_eq!(origin(plain(0), &[raised(plain(7)), lowered(plain(7))]), plain(7));
        assert_eq!(origin(plain(0), &[raised(plain(7)), (plain(0), plain(0))]), plain(0));
    }

    #[test]
    fn what_nobody_could_have_given_is_its_own() {
        assert_eq!(origin(plain(3), &[lowered(plain(0))]), plain(3));
        let idle = Scheduling { policy: IDLE, ..plain(0) };
        assert_eq!(origin(idle, &[(plain(0), plain(0))]), idle);
    }

    #[test]
    fn what_a_newborn_changed_itself_is_its_own() {
        let (idle, slice) = (Scheduling { policy: IDLE, ..plain(9) }, 100_000_000);
        assert_eq!(origin(idle, &[lowered(plain(0)), (plain(1), plain(1))]), plain(9));
        let patient = Scheduling { slice_ns: slice, ..plain(0) };
        let nicer = Scheduling { slice_ns: slice, ..plain(4) };
        assert_eq!(origin(nicer, &[(plain(0), patient)]), plain(4));
        // Exactly what others gave goes before.
        assert_eq!(origin(idle, &[lowered(plain(0)), (idle, idle)]), idle);
    }

    #[test]
    fn changes_are_remembered_for_a_while() {
        let mut traces = Traces::default();
        let (before, given) = lowered(plain(0));
        traces.add(before, given, 1_000);
        let none = std::iter::empty;
        assert_eq!(origin_of(given, none(), &traces, 2_000), before);
        assert_eq!(origin_of(given, none(), &traces, 2_000 + MEMORY_NS), given);
    }
}
