//! What `heddle run` and its Mediator can do here for programs of this user.
//!
//! Invariant: each row says what is used, why nothing better is, and what would change that.

use std::fs;
use std::path::Path;

use heddle::doctor::Verdict;
use heddle_preload::mediator::{Means, Powers, choose};
use heddle_preload::{library, measure, policy};

use super::Row;

const AREA: &str = "programs";

/// Every check of this area.
pub fn examine() -> Vec<Row> {
    let powers = Powers::probe(None);
    let mut rows = vec![library_row(), library_32_row(), peaks_row(), ptrace_row()];
    rows.extend([mediator_row(&powers), real_time_row(&powers), way_back_row(&powers)]);
    rows.extend([cgroup_row(&powers), kernel_row()]);
    rows
}

fn row(name: &str, value: String, verdict: Verdict, consequence: impl Into<String>) -> Row {
    let (area, name) = (AREA.to_owned(), name.to_owned());
    Row { area, name, value, verdict, consequence: consequence.into() }
}

fn library_row() -> Row {
    let name = "preload library";
    match library::directory() {
        Ok(found) => row(
            name,
            found.root().display().to_string(),
            Verdict::Good,
            "`heddle run` can name, size and prioritise threads of unmodified programs",
        ),
        Err(error) => row(
            name,
            "none".into(),
            Verdict::Missing,
            format!("`heddle run` runs programs without looking into them: {error}"),
        ),
    }
}

fn library_32_row() -> Row {
    let name = "32-bit programs";
    match library::MISSING_32 {
        None => row(name, "yes".into(), Verdict::Good, "32-bit programs are followed as well"),
        Some(why) => row(
            name,
            "no".into(),
            Verdict::Missing,
            format!("32-bit programs run without the preload library: {why}"),
        ),
    }
}

fn peaks_row() -> Row {
    let name = "stacks of other processes";
    match measure::Meter::new(std::process::id() as i32) {
        Ok(meter) if meter.is_exact() => {
            row(name, "to the word".into(), Verdict::Good, "stacks are measured while threads live")
        }
        Ok(_) => row(
            name,
            "to the page".into(),
            Verdict::Fallback,
            "/proc/PID/mem cannot be read: peaks of living threads are rounded up to pages",
        ),
        Err(error) => row(
            name,
            "no".into(),
            Verdict::Missing,
            format!("stacks are measured only when threads end: {error}"),
        ),
    }
}

fn ptrace_row() -> Row {
    let name = "ptrace_scope";
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "" => row(name, "none".into(), Verdict::Good, "this user's processes can be looked into"),
        "0" => row(name, "0".into(), Verdict::Good, "this user's processes can be looked into"),
        "1" => row(
            name,
            "1".into(),
            Verdict::Fallback,
            "only programs started by `heddle run` can be looked into, or as root; \
             kernel.yama.ptrace_scope = 0 would allow others",
        ),
        scope => row(
            name,
            scope.into(),
            Verdict::Fallback,
            "only root can look into running processes (kernel.yama.ptrace_scope)",
        ),
    }
}

/// The means that would be used, and why not better ones.
fn mediator_row(powers: &Powers) -> Row {
    let choice = choose(policy::Means::Auto, powers, 0, true);
    let verdict = match choice.means {
        Means::Rr { groups: true, .. } => Verdict::Good,
        Means::None => Verdict::Missing,
        _ => Verdict::Fallback,
    };
    let what = match choice.means {
        Means::Rr { .. } => "time-critical threads run as real-time threads",
        Means::Idle { .. } => "the other threads run in SCHED_IDLE",
        Means::Cgroup => "control groups weigh the regions",
        Means::Nice { .. } => "nice values weigh the regions",
        Means::None => "time-critical threads are not preferred",
    };
    let text = [&[what.to_owned()], &choice.why[..]].concat().join("; ");
    row("mediator", choice.means.word().into(), verdict, text)
}

fn real_time_row(powers: &Powers) -> Row {
    let name = "real-time threads";
    match (powers.ceiling(), &powers.rt_works) {
        (Some(ceiling), _) => row(
            name,
            format!("up to {ceiling}"),
            Verdict::Good,
            "SCHED_RR is permitted (CAP_SYS_NICE or RLIMIT_RTPRIO)",
        ),
        (None, Err(error)) if powers.capable || powers.rt_limit > 0 => row(
            name,
            "no".into(),
            Verdict::Fallback,
            format!("SCHED_RR fails: {error}; the control group may have no real-time budget"),
        ),
        (None, _) => row(
            name,
            "no".into(),
            Verdict::Fallback,
            "SCHED_RR needs CAP_SYS_NICE or an rtprio limit (/etc/security/limits.d, LimitRTPRIO=)",
        ),
    }
}

fn way_back_row(powers: &Powers) -> Row {
    let name = "way back from SCHED_IDLE";
    if powers.may_return(0) {
        let text = "threads that were lowered get back what they had";
        return row(name, "yes".into(), Verdict::Good, text);
    }
    row(
        name,
        "no".into(),
        Verdict::Fallback,
        "threads that were lowered stay so until they end; a nice limit of 0 \
         (`- nice 0` in /etc/security/limits.d, LimitNICE=0) or CAP_SYS_NICE would permit it",
    )
}

fn cgroup_row(powers: &Powers) -> Row {
    let name = "control groups";
    match &powers.cgroup {
        Ok(path) => row(
            name,
            path.display().to_string(),
            Verdict::Good,
            "`means = \"cgroup\"` can weigh the regions",
        ),
        Err(why) => row(
            name,
            "no".into(),
            Verdict::Fallback,
            format!(
                "`means = \"cgroup\"` is not possible: {why}; systemd delegates by Delegate=cpu"
            ),
        ),
    }
}

fn kernel_row() -> Row {
    let name = "regions in the kernel";
    let able = Path::new("/sys/kernel/sched_ext").exists();
    let text = if able {
        "the kernel has sched_ext, but heddled does not run: policies are set from outside"
    } else {
        "the kernel has no sched_ext: policies are set from outside"
    };
    row(name, "no".into(), Verdict::Fallback, text)
}
