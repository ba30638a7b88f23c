//! What this machine supports, and what heddle does where it does not.
//!
//! Invariant: every fallback that heddle may take on its own is a [`Check`] here: nothing falls
//! back silently. A check tells what was found, how good that is, and what follows from it; it
//! never fails itself.
//!
//! ```
//! for check in heddle::doctor::examine() {
//!     println!("{}: {} ({}): {}", check.name, check.value, check.verdict, check.consequence);
//! }
//! ```

mod limits;
mod reactor;
mod stacks;

use std::fmt;
use std::io;

use crate::config::{Config, misspelled_names};

/// What a check is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Area {
    /// Kernel and processor.
    Machine,
    /// How threads wait for sockets, files and time.
    Io,
    /// Memory of threads.
    Stacks,
    /// What the system lets one process have.
    Limits,
    /// Records, debuggers, profilers.
    Tools,
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Area::Machine => "machine",
            Area::Io => "i/o",
            Area::Stacks => "stacks",
            Area::Limits => "limits",
            Area::Tools => "tools",
        })
    }
}

/// How good a check's finding is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// The best way is in force.
    Good,
    /// A fallback is in force, or a limit is near.
    Fallback,
    /// Something is not possible on this machine.
    Missing,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Good => "good",
            Verdict::Fallback => "fallback",
            Verdict::Missing => "missing",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Check {
    /// What it is about.
    pub area: Area,
    /// What was looked at; unique among the checks.
    pub name: &'static str,
    /// What was found.
    pub value: String,
    /// How good that is.
    pub verdict: Verdict,
    /// What follows from it, and what can be done about it.
    pub consequence: String,
}

impl Check {
    fn new(
        area: Area,
        name: &'static str,
        verdict: Verdict,
        value: impl Into<String>,
        consequence: impl Into<String>,
    ) -> Check {
        Check { area, name, value: value.into(), verdict, consequence: consequence.into() }
    }

    /// A feature that was tried: what follows if it works, and what happens instead.
    fn tried(
        area: Area,
        name: &'static str,
        result: io::Result<()>,
        good: &str,
        fallback: &str,
    ) -> Check {
        match result {
            Ok(()) => Check::new(area, name, Verdict::Good, "yes", good),
            Err(error) => Check::new(area, name, Verdict::Fallback, no(&error), fallback),
        }
    }
}

/// "no", with the reason if it is more than "not supported here".
fn no(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP) | None => "no".into(),
        Some(_) => format!("no ({error})"),
    }
}

/// Looks at everything. Takes some milliseconds; starts no runtime and changes nothing.
pub fn examine() -> Vec<Check> {
    let mut checks = machine();
    checks.extend(reactor::checks());
    checks.extend(stacks::checks());
    checks.extend(limits::checks());
    checks
}

/// A small file of /proc or /sys, without its line end.
fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn machine() -> Vec<Check> {
    let area = Area::Machine;
    let kernel = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut checks = vec![
        Check::new(
            area,
            "kernel",
            Verdict::Good,
            format!("Linux {kernel}, {}", std::env::consts::ARCH),
            "what it can do was tried, not concluded from its version",
        ),
        Check::new(
            area,
            "cpus",
            Verdict::Good,
            cpus.to_string(),
            format!("{cpus} workers unless HEDDLE_WORKERS says otherwise"),
        ),
        settings(),
        clock(),
    ];
    checks.extend(crate::sys::probe::fsgsbase().map(|has| {
        let (verdict, value, consequence) = if has {
            (Verdict::Good, "yes", "a thread with TLS of its own can set it by one instruction")
        } else {
            (Verdict::Missing, "no", "threads with TLS of their own are not possible")
        };
        Check::new(area, "fsgsbase", verdict, value, consequence)
    }));
    #[cfg(target_arch = "x86_64")]
    if crate::sys::probe::fsgsbase() == Some(true) {
        checks.push(segments(area));
    }
    checks.push(full_threads());
    checks.push(preemption());
    checks
}

/// How switches of full threads set the thread pointer.
#[cfg(target_arch = "x86_64")]
fn segments(area: Area) -> Check {
    use crate::sys::segments::{examine, is_faster};
    let examined = match crate::config::wants_segments() {
        Ok(true) => examine(),
        Ok(false) => Err("HEDDLE_SEGMENTS=off"),
        Err(_) => Err("HEDDLE_SEGMENTS is not understood"),
    };
    let (verdict, value, consequence) = match examined {
        Ok(cycles) => {
            let [instruction, segment] = cycles;
            let consequence = if is_faster(cycles) {
                "switches of full threads use them"
            } else {
                "switches of full threads set it by the instruction"
            };
            (Verdict::Good, format!("{segment} cycles, wrfsbase {instruction}"), consequence)
        }
        Err(reason) => (
            Verdict::Fallback,
            format!("no: {reason}"),
            "switches of full threads set it by the instruction, which may be slower",
        ),
    };
    Check::new(area, "segments", verdict, value, consequence)
}

/// Whether a runtime that starts now would take what the environment says of it.
fn settings() -> Check {
    let (verdict, value, consequence) = match Config::new().resolve() {
        Err(error) => (Verdict::Missing, error.to_string(), "no runtime starts".to_owned()),
        Ok(_) => match misspelled_names().next() {
            Some((name, meant)) => {
                (Verdict::Fallback, format!("{name} is not read"), format!("{meant} is"))
            }
            None => {
                let consequence = "all of the environment that is meant for heddle is read";
                (Verdict::Good, "understood".to_owned(), consequence.to_owned())
            }
        },
    };
    Check::new(Area::Machine, "settings", verdict, value, consequence)
}

/// Whether there can be full threads: their thread-local storage is made as the C library does it.
fn full_threads() -> Check {
    let (verdict, value, consequence) = match crate::sys::libc_tls::library() {
        Ok(library) => {
            let bytes = library.block_bytes();
            let value = format!("yes, {bytes} bytes of TLS each");
            if crate::sys::identities::are_changed_by_all() {
                let consequence = "Builder::full gives a thread thread-local storage of its own";
                (Verdict::Good, value, consequence)
            } else {
                let consequence = "one that calls setuid or its like stands still: the C \
                                   library's signal for it could not be taken over";
                (Verdict::Fallback, value, consequence)
            }
        }
        Err(why) => {
            let consequence = "Builder::full is refused; the native backend has such threads";
            (Verdict::Missing, format!("no ({why})"), consequence)
        }
    };
    Check::new(Area::Machine, "full threads", verdict, value, consequence)
}

/// Why there can be no full threads in this process, by the self-test of its C library.
pub fn full_threads_refusal() -> Option<&'static str> {
    crate::sys::libc_tls::library().err()
}

fn preemption() -> Check {
    let (verdict, value, consequence) = match crate::preempt::missing() {
        None => {
            let value = String::from("yes, by SIGURG");
            (Verdict::Good, value, "a full thread that keeps its worker for long makes room")
        }
        Some(why) => {
            let consequence = "a full thread keeps its worker until it waits or yields";
            (Verdict::Missing, format!("no ({why})"), consequence)
        }
    };
    Check::new(Area::Machine, "preemption", verdict, value, consequence)
}

fn clock() -> Check {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = read(SOURCE).unwrap_or_else(|| "unknown".into());
    // The sources that the kernel's shared page (vDSO) can read.
    let fast = matches!(
        source.as_str(),
        "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "arch_sys_counter"
    );
    let (verdict, consequence) = if fast {
        (Verdict::Good, "time is read without a system call")
    } else {
        (Verdict::Fallback, "reading the time may cost a system call: timed waits are dearer")
    };
    Check::new(Area::Machine, "clock", verdict, source, consequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_says_something_and_only_once() {
        let checks = examine();
        let mut names: Vec<_> = checks.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), checks.len(), "names are unique");
        for check in &checks {
            assert!(!check.value.is_empty() && !check.consequence.is_empty(), "{check:?}");
            assert!(!check.consequence.contains('\n') && !check.value.contains('\n'), "{check:?}");
        }
        assert!(checks.is_sorted_by_key(|check| check.area));
    }

    #[test]
    fn features_that_are_not_there_are_plain_words() {
        assert_eq!(no(&io::Error::from_raw_os_error(libc::EINVAL)), "no");
        assert_eq!(no(&io::ErrorKind::Unsupported.into()), "no");
        assert!(no(&io::Error::from_raw_os_error(libc::EPERM)).starts_with("no ("));
    }
}
