//! What this user may do to a program's threads, and which means follow from that.
//!
//! Invariants
//! - What can be tried is tried, on a thread made for it: security modules, containers and
//!   real-time budgets of control groups have their own opinions.
//! - [`choose`] is a pure function and says for each better means why it was not chosen.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::aims::Means;
use super::cgroup;
use crate::policy;
use crate::sys::sched::{self, IDLE, OTHER, RR, Scheduling};

/// The kernel runs its interrupt threads at 50 where it has any: events must get through.
const CEILING_MAX: u32 = 49;
/// CAP_SYS_NICE in the mask of capabilities.
const CAP_SYS_NICE: u64 = 1 << 23;

/// As /proc/PID/limits calls it.
const RT_PRIORITY: &str = "Max realtime priority";

/// The nice values that there are.
const NICE_MIN: i32 = -20;
const NICE_MAX: i32 = 19;

/// What may be done to the threads of a process.
#[derive(Clone, Debug)]
pub struct Powers {
    /// This process has CAP_SYS_NICE, and not only in a user namespace of its own.
    pub capable: bool,
    /// The process is of the same user (or we are capable).
    pub same_user: bool,
    /// Its RLIMIT_RTPRIO.
    pub rt_limit: u32,
    /// This process's own, by which the Mediator must be above all of them.
    pub own_rt_limit: u32,
    /// Its RLIMIT_RTTIME in us, if it has one: the kernel kills whoever runs that long under a
    /// real-time policy without sleeping.
    pub rt_time_us: Option<u64>,
    /// Its RLIMIT_NICE: nice values down to 20 minus this are permitted.
    pub nice_limit: u32,
    /// Whether a thread could be made real-time, and why not.
    pub rt_works: Result<(), String>,
    /// Whether a thread could be made idle, and why not.
    pub idle_works: Result<(), String>,
    /// The control group that may be divided, or why there is none.
    pub cgroup: Result<PathBuf, String>,
}

impl Powers {
    /// Looks and tries. Without a pid: for programs that this process would start.
    pub fn probe(pid: Option<i32>) -> Powers {
        let own = std::process::id() as i32;
        let target = pid.unwrap_or(own);
        let mask = status_number(own, "CapEff:", 16).unwrap_or(0);
        let capable = mask & CAP_SYS_NICE != 0 && may_raise();
        let limits = |pid| fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let (limits, own_limits) = (limits(target), limits(own));
        let small = |limits: &str, name| {
            soft_limit(limits, name).map_or(0, |it| u32::try_from(it).unwrap_or(u32::MAX))
        };
        Powers {
            capable,
            same_user: capable
                || status_number(own, "Uid:", 10) == status_number(target, "Uid:", 10),
            rt_limit: small(&limits, RT_PRIORITY),
            own_rt_limit: small(&own_limits, RT_PRIORITY),
            rt_time_us: soft_limit(&limits, "Max realtime timeout").filter(|it| *it != u64::MAX),
            nice_limit: small(&limits, "Max nice priority"),
            rt_works: try_on_a_thread(Scheduling {
                policy: RR,
                priority: 1,
                reset_on_fork: true,
                ..Scheduling::default()
            }),
            idle_works: try_on_a_thread(Scheduling { policy: IDLE, ..Scheduling::default() }),
            cgroup: cgroup::find(target),
        }
    }

    /// The priority that a thread of priority 99 may get, leaving one above for the Mediator.
    pub fn ceiling(&self) -> Option<u32> {
        match (self.capable, self.rt_limit) {
            _ if self.rt_works.is_err() || self.rt_time_us.is_some() => None,
            (true, _) => Some(CEILING_MAX),
            (false, limit) => {
                let ceiling = limit.min(self.own_rt_limit.saturating_sub(1)).min(CEILING_MAX);
                (ceiling > 0).then_some(ceiling)
            }
        }
    }

    /// Whether a thread of this nice value may come back from SCHED_IDLE or a higher value.
    pub fn may_return(&self, nice: i32) -> bool {
        self.capable || 20 - nice <= i64::from(self.nice_limit) as i32
    }

    /// The lowest nice value that may be given.
    pub fn lowest_nice(&self) -> i32 {
        if self.capable { NICE_MIN } else { (20 - self.nice_limit.min(40) as i32).min(NICE_MAX) }
    }
}

/// The first number behind a name in /proc/PID/status.
fn status_number(pid: i32, name: &str, radix: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(line.split_ascii_whitespace().next()?, radix).ok()
}

/// The soft limit in a line of /proc/PID/limits; the largest number for none.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// Whether the kernel knows of CAP_SYS_NICE, too: in a user namespace (a container without root)
/// the mask has it, but the kernel asks for it in the first namespace.
fn may_raise() -> bool {
    on_a_thread(|now| {
        // From above, so that it is a change for whoever has the lowest already.
        sched::set(0, &Scheduling { nice: (now.nice + 1).min(NICE_MAX), ..now })?;
        sched::set(0, &Scheduling { nice: NICE_MIN, ..now })
    })
    .is_ok()
}

fn try_on_a_thread(wanted: Scheduling) -> Result<(), String> {
    on_a_thread(move |now| sched::set(0, &Scheduling { nice: now.nice, ..wanted }))
}

/// The attempt is told what its thread has now. The thread takes what it was given along when it
/// ends.
fn on_a_thread(
    attempt: impl FnOnce(Scheduling) -> io::Result<()> + Send + 'static,
) -> Result<(), String> {
    let attempt = std::thread::Builder::new().spawn(move || attempt(sched::get(0)?));
    match attempt.map(std::thread::JoinHandle::join) {
        Ok(Ok(result)) => result.map_err(|error| error.to_string()),
        _ => Err("no thread could be made to try it".into()),
    }
}

/// Which means, which after them, and why.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The best that is there, or what was asked for.
    pub means: Means,
    /// To be used if the kernel refuses these after all.
    pub fallbacks: Vec<Means>,
    /// One text per decision.
    pub why: Vec<String>,
}

/// Chooses. `bound`: the program ends with us, so that what cannot be undone does not outlive us.
pub fn choose(asked: policy::Means, powers: &Powers, nice: i32, bound: bool) -> Choice {
    let mut why = Vec::new();
    if !powers.same_user {
        why.push("the process belongs to another user and CAP_SYS_NICE is missing".into());
        return Choice { means: Means::None, fallbacks: Vec::new(), why };
    }
    let automatic = asked == policy::Means::Auto;
    let wanted = |means| automatic || asked == means;
    let mut found = Vec::new();
    if wanted(policy::Means::Rr) {
        match rr(powers, nice) {
            Ok(means) => found.push(means),
            Err(text) => why.push(format!("no SCHED_RR: {text}")),
        }
    }
    let way_back = powers.may_return(nice);
    let idle = powers.idle_works.clone().map(|()| Means::Idle { way_back });
    if wanted(policy::Means::Idle) && (way_back || !automatic) {
        match &idle {
            Ok(means) => found.push(*means),
            Err(text) => why.push(format!("no SCHED_IDLE: {text}")),
        }
    }
    if wanted(policy::Means::Cgroup) {
        match &powers.cgroup {
            Ok(_) => found.push(Means::Cgroup),
            Err(text) => why.push(format!("no control groups: {text}")),
        }
    }
    if automatic && !way_back {
        match (&idle, bound) {
            (Ok(means), true) => found.push(*means),
            (Ok(_), false) => why.push(
                "no SCHED_IDLE: RLIMIT_NICE is 0, so that threads could not be brought back; \
                 `means = \"idle\"` does it nevertheless"
                    .into(),
            ),
            (Err(text), _) => why.push(format!("no SCHED_IDLE: {text}")),
        }
    }
    if wanted(policy::Means::Nice) && (way_back || !automatic || bound) {
        found.push(Means::Nice { lowest: powers.lowest_nice(), way_back });
    }
    if found.is_empty() {
        if asked != policy::Means::None {
            why.push("no means are left: nothing is changed".into());
        }
        return Choice { means: Means::None, fallbacks: Vec::new(), why };
    }
    let means = found.remove(0);
    why.extend(remarks(means));
    Choice { means, fallbacks: found, why }
}

fn rr(powers: &Powers, nice: i32) -> Result<Means, String> {
    if let Some(ceiling) = powers.ceiling() {
        return Ok(Means::Rr { ceiling, groups: powers.may_return(nice) });
    }
    let few = powers.rt_limit > 0 && powers.own_rt_limit <= 1;
    Err(match &powers.rt_works {
        _ if let Some(us) = powers.rt_time_us => {
            format!("RLIMIT_RTTIME is {us} us, after which the kernel would kill the program")
        }
        Ok(()) if few => {
            "RLIMIT_RTPRIO leaves no priority for the Mediator above the threads".into()
        }
        Err(text) if powers.capable || powers.rt_limit > 0 => {
            format!("{text} (the control group may have no real-time budget)")
        }
        _ => "CAP_SYS_NICE is missing and RLIMIT_RTPRIO is 0".into(),
    })
}

/// What these means cannot do.
fn remarks(means: Means) -> Vec<String> {
    let one_way = "threads that were lowered stay so until they end: RLIMIT_NICE does not permit \
                   the way back, so that only those that take CPU time are lowered, and the \
                   kernel's weights are the only bound of the Lazy region";
    match means {
        Means::Rr { groups: false, .. } => {
            vec!["groups are not told apart: RLIMIT_NICE does not permit the way back".into()]
        }
        Means::Idle { way_back } => {
            let mut texts = vec!["SCHED_IDLE knows no order of groups".to_owned()];
            if !way_back {
                texts.push(one_way.into());
            }
            texts
        }
        Means::Nice { way_back: false, .. } => vec![one_way.into()],
        _ => Vec::new(),
    }
}

/// What a thread of ours would come back to: the reference for the way back.
pub fn usual_nice(pid: i32) -> i32 {
    sched::get(pid).map_or(0, |it| if it.policy == OTHER { it.nice } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Means as Asked;

    fn nobody() -> Powers {
        Powers {
            capable: false,
            same_user: true,
            rt_limit: 0,
            own_rt_limit: 0,
            rt_time_us: None,
            nice_limit: 0,
            rt_works: Err("Operation not permitted".into()),
            idle_works: Ok(()),
            cgroup: Err("not delegated".into()),
        }
    }

    fn root() -> Powers {
        Powers { capable: true, rt_works: Ok(()), ..nobody() }
    }

    #[test]
    fn the_best_available_means_is_chosen() {
        let choice = choose(Asked::Auto, &root(), 0, true);
        assert_eq!(choice.means, Means::Rr { ceiling: 49, groups: true });
        assert_eq!(choice.fallbacks[0], Means::Idle { way_back: true });
        let limited = Powers { rt_limit: 10, own_rt_limit: 10, rt_works: Ok(()), ..nobody() };
        let means = choose(Asked::Auto, &limited, 0, true).means;
        assert_eq!(means, Means::Rr { ceiling: 9, groups: false });
        let nice = Powers { nice_limit: 20, ..nobody() };
        assert_eq!(choose(Asked::Auto, &nice, 0, false).means, Means::Idle { way_back: true });
        assert_eq!(choose(Asked::Auto, &nice, -1, false).means, Means::None);
    }

    #[test]
    fn one_way_means_only_where_the_program_ends_with_us() {
        let choice = choose(Asked::Auto, &nobody(), 0, true);
        assert_eq!(choice.means, Means::Idle { way_back: false });
        assert!(choice.why.iter().any(|why| why.contains("stay so")), "{:?}", choice.why);
        let attached = choose(Asked::Auto, &nobody(), 0, false);
        assert_eq!(attached.means, Means::None);
        assert!(attached.why.iter().any(|why| why.contains("RLIMIT_NICE")), "{:?}", attached.why);
        let insisted = choose(Asked::Idle, &nobody(), 0, false);
        assert_eq!(insisted.means, Means::Idle { way_back: false });
    }

    #[test]
    fn refusals_have_reasons() {
        let choice = choose(Asked::Rr, &nobody(), 0, true);
        assert_eq!(choice.means, Means::None);
        assert!(choice.why[0].contains("RLIMIT_RTPRIO is 0"), "{:?}", choice.why);
        let stranger = Powers { same_user: false, ..nobody() };
        assert_eq!(choose(Asked::Auto, &stranger, 0, true).means, Means::None);
        assert!(choose(Asked::None, &root(), 0, true).why.is_empty());
    }

    #[test]
    fn the_mediator_is_above_all_or_there_is_no_real_time() {
        let limited = |rt_limit, own_rt_limit| {
            let limited = Powers { rt_limit, own_rt_limit, rt_works: Ok(()), ..nobody() };
            choose(Asked::Auto, &limited, 0, true)
        };
        let ceiling = |ceiling| Means::Rr { ceiling, groups: false };
        assert_eq!(limited(2, 2).means, ceiling(1));
        assert_eq!(limited(30, 10).means, ceiling(9));
        assert_eq!(limited(3, 90).means, ceiling(3));
        for (program, own) in [(1, 1), (30, 1), (30, 0)] {
            let choice = limited(program, own);
            assert_eq!(choice.means, Means::Idle { way_back: false });
            assert!(choice.why[0].contains("no priority for the Mediator"), "{:?}", choice.why);
        }
    }

    #[test]
    fn nobody_is_made_real_time_where_that_would_kill() {
        let deadly = Powers { rt_time_us: Some(200_000), ..root() };
        let choice = choose(Asked::Auto, &deadly, 0, true);
        assert_eq!(choice.means, Means::Idle { way_back: true });
        assert!(choice.why[0].contains("RLIMIT_RTTIME is 200000 us"), "{:?}", choice.why);
    }

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max nice priority         20                   40                   \n\
                    Max realtime priority     unlimited            unlimited            \n";
        assert_eq!(soft_limit(text, "Max nice priority"), Some(20));
        assert_eq!(soft_limit(text, "Max realtime priority"), Some(u64::MAX));
        assert_eq!(soft_limit(text, "Max locked memory"), None);
        assert!(Powers::probe(None).same_user);
    }
}
