//! Limits of one process, and what the tools need.

use rustix::process::{Resource, getrlimit};

use super::{Area, Check, Verdict, read};

pub(super) fn checks() -> Vec<Check> {
    vec![
        files(),
        address_space(),
        locked_memory(),
        kernel_threads(),
        realtime(),
        memory_group(),
        shared_memory(),
        perf(),
        ptrace(),
    ]
}

/// A limit as people write it.
fn shown(limit: Option<u64>) -> String {
    limit.map_or("unlimited".into(), |value| value.to_string())
}

fn files() -> Check {
    const PLENTY: u64 = 65536;
    let limit = getrlimit(Resource::Nofile);
    let value = format!("{} (at most {})", shown(limit.current), shown(limit.maximum));
    let (verdict, consequence) = match limit.maximum {
        Some(hard) if hard < PLENTY => (
            Verdict::Fallback,
            format!("fewer than {hard} connections at a time; root may raise it by `ulimit -Hn`"),
        ),
        _ => (Verdict::Good, "the web server raises it by itself as far as it goes".into()),
    };
    Check::new(Area::Limits, "open files (RLIMIT_NOFILE)", verdict, value, consequence)
}

fn address_space() -> Check {
    let limit = getrlimit(Resource::As).current;
    let (verdict, consequence) = match limit {
        None => (Verdict::Good, "stacks may be reserved ahead"),
        Some(_) => (Verdict::Fallback, "reservations of stacks and of the thread table count here"),
    };
    Check::new(Area::Limits, "address space (RLIMIT_AS)", verdict, shown(limit), consequence)
}

fn locked_memory() -> Check {
    const RING: u64 = 1 << 20;
    let limit = getrlimit(Resource::Memlock).current;
    let (verdict, consequence) = match limit {
        Some(bytes) if bytes < RING => {
            (Verdict::Fallback, "may be too little for a ring per worker on kernels before 5.12")
        }
        _ => (Verdict::Good, "enough for the rings"),
    };
    Check::new(Area::Limits, "locked memory (RLIMIT_MEMLOCK)", verdict, shown(limit), consequence)
}

/// The tightest of the limits on kernel threads, which bind the native backend.
fn kernel_threads() -> Check {
    let user = getrlimit(Resource::Nproc).current;
    let number = |path: &str| read(path).and_then(|text| text.parse::<u64>().ok());
    let group = own_group().and_then(|group| number(&format!("{group}/pids.max")));
    let limits = [
        ("RLIMIT_NPROC", user),
        ("kernel.threads-max", number("/proc/sys/kernel/threads-max")),
        ("kernel.pid_max", number("/proc/sys/kernel/pid_max")),
        ("pids.max", group),
    ];
    let tightest = limits.iter().filter_map(|(name, limit)| Some(((*limit)?, *name))).min();
    let value = tightest.map_or("unlimited".into(), |(limit, name)| format!("{limit} ({name})"));
    let consequence = "binds the native backend, workers and blocking calls, not threads";
    Check::new(Area::Limits, "kernel threads", Verdict::Good, value, consequence)
}

fn realtime() -> Check {
    let limit = getrlimit(Resource::Rtprio).current;
    let root = rustix::process::geteuid().is_root();
    let (verdict, consequence) = if limit == Some(0) && !root {
        (Verdict::Fallback, "the program cannot give its workers a real-time priority")
    } else {
        (Verdict::Good, "the program may give its workers a real-time priority")
    };
    Check::new(Area::Limits, "real-time (RLIMIT_RTPRIO)", verdict, shown(limit), consequence)
}

/// This process's control group (version 2).
fn own_group() -> Option<String> {
    let groups = read("/proc/self/cgroup")?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(format!("/sys/fs/cgroup{}", path.trim_end_matches('/')))
}

fn memory_group() -> Check {
    let limit = own_group().and_then(|group| read(&format!("{group}/memory.max")));
    let limit = limit.filter(|limit| limit != "max");
    let (verdict, consequence) = match limit {
        Some(_) => (Verdict::Fallback, "beyond it the kernel kills, whatever malloc returned"),
        None => (Verdict::Good, "the machine's memory is the limit"),
    };
    let value = limit.unwrap_or_else(|| "unlimited".into());
    Check::new(Area::Limits, "memory of the group (memory.max)", verdict, value, consequence)
}

fn shared_memory() -> Check {
    /// Records of 100 000 threads.
    const PLENTY: u64 = 6_400_000;
    let name = "thread table (/dev/shm)";
    let at = |verdict, value: String, consequence| {
        Check::new(Area::Tools, name, verdict, value, consequence)
    };
    let shm = std::path::Path::new("/dev/shm");
    let writable = rustix::fs::access(shm, rustix::fs::Access::WRITE_OK);
    match (writable, rustix::fs::statvfs(shm)) {
        (Ok(()), Ok(space)) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let value = format!("{} MiB free", free >> 20);
            if free < PLENTY {
                at(Verdict::Fallback, value, "threads beyond this have no public record")
            } else {
                at(Verdict::Good, value, "`heddle ps` shows threads, after a crash too")
            }
        }
        (Err(error), _) | (_, Err(error)) => {
            let consequence = "tables live in a memfd: readable, but gone with their process";
            at(Verdict::Fallback, format!("no ({})", std::io::Error::from(error)), consequence)
        }
    }
}

fn perf() -> Check {
    let level = read("/proc/sys/kernel/perf_event_paranoid");
    let allowed = level.as_deref().and_then(|level| level.parse::<i32>().ok());
    let root = rustix::process::geteuid().is_root();
    let (verdict, consequence) = match allowed {
        None => (Verdict::Missing, "this kernel has no perf events"),
        Some(level) if level <= 2 || root => (Verdict::Good, "programs can be profiled"),
        Some(_) => (Verdict::Fallback, "only root can profile (kernel.perf_event_paranoid)"),
    };
    let value = level.unwrap_or_else(|| "no".into());
    Check::new(Area::Tools, "perf (perf_event_paranoid)", verdict, value, consequence)
}

fn ptrace() -> Check {
    let scope = read("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_else(|| "0".into());
    let root = rustix::process::geteuid().is_root();
    let (verdict, consequence) = match scope.as_str() {
        "0" => (Verdict::Good, "gdb can attach to a running program"),
        "3" => (Verdict::Missing, "gdb can attach to nothing"),
        _ if root => (Verdict::Good, "gdb can attach, as root"),
        _ => (Verdict::Fallback, "gdb must start the program, or be root, to see its threads"),
    };
    Check::new(Area::Tools, "gdb (ptrace_scope)", verdict, scope, consequence)
}
