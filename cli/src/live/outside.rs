//! A process without a thread table, from /proc/PID/task: Go, static programs, programs that were
//! started without heddle.
//!
//! Invariants
//! - What /proc does not say is not guessed: such fields are empty, [`LIMITS`] says which.
//! - A thread that ends while it is looked at is left out.

use std::fs;
use std::sync::Arc;

use heddle_preload::sys::sched;
use heddle_record::process::now_ns;
use heddle_record::{Fields, Kind, Snapshot, State, Thread, ThreadId};

/// What cannot be known of such a process, for people.
pub const LIMITS: &str = "no thread table: roles, start functions, stacks and groups are not known \
                          (start it with `heddle run` to see them)";

/// Clock ticks per second in /proc, on every machine that Linux runs on today.
const TICKS: u64 = 100;

/// `None` if there is no such process.
pub fn look(pid: i32) -> Option<Snapshot> {
    let folder = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&folder).ok()?;
    let tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut tids: Vec<i32> = tids.collect();
    tids.sort_unstable();
    let boot_ns = boot_offset_ns();
    let thread = |(slot, tid)| thread(&folder, tid, slot, boot_ns);
    let threads: Vec<Thread> = (0..).zip(tids).filter_map(thread).collect();
    if threads.is_empty() {
        return None;
    }
    Some(Snapshot {
        pid,
        alive: true,
        taken_ns: now_ns(),
        created_ns: threads.iter().map(|it| it.fields.created_ns).min().unwrap_or(0),
        capacity: 0,
        high_water: 0,
        threads,
        workers: Vec::new(),
        faults: Vec::new(),
        partial: false,
        texts_full: false,
        native: true,
        uses: Vec::new(),
        use_faults: Vec::new(),
        run: 0,
        preload: false,
        ended: false,
        user_peak: 0,
    })
}

/// What CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC: threads' start times count from boot.
fn boot_offset_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let boot_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    boot_ns.saturating_sub(now_ns())
}

fn thread(folder: &str, tid: i32, slot: u32, boot_ns: u64) -> Option<Thread> {
    let stat = fs::read(format!("{folder}/{tid}/stat")).ok()?;
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(&stat[close + 1..]).ok()?;
    let numbers: Vec<&str> = rest.split_ascii_whitespace().collect();
    let started: u64 = numbers.get(19)?.parse().ok()?;
    let (cpu_ns, switches) = schedstat(&format!("{folder}/{tid}/schedstat"));
    let policy = sched::get(tid).map_or(0, |it| it.policy);
    let created_ns = started * (1_000_000_000 / TICKS);
    let fields = Fields {
        tid,
        kind: Kind::KernelThread,
        state: state(numbers.first()?),
        policy: u8::try_from(policy).unwrap_or(u8::MAX),
        created_ns: created_ns.saturating_sub(boot_ns),
        cpu_ns,
        switches,
        ..Fields::default()
    };
    Some(Thread {
        id: ThreadId { slot, generation: 0 },
        fields,
        role: None,
        start: None,
        name: Some(Arc::from(name)),
        runs: None,
        stack: None,
    })
}

fn state(letter: &str) -> State {
    match letter {
        "R" => State::Running,
        "Z" | "X" => State::Finished,
        _ => State::Parked,
    }
}

/// CPU time and times on a CPU; zeros where the kernel was built without them.
fn schedstat(path: &str) -> (u64, u32) {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    let (cpu_ns, _waited_ns, slices) = (next(), next(), next());
    (cpu_ns, u32::try_from(slices).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_from_outside() {
        let named = std::thread::Builder::new().name("watched".into());
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let (here, started) = std::sync::mpsc::channel();
        let thread = named.spawn(move || {
            here.send(()).expect("the test listens");
            wait.recv().expect_err("the end");
        });
        started.recv().expect("it started");
        let find = |_| {
            let threads = look(std::process::id() as i32).expect("this process").threads;
            threads.into_iter().find(|it| it.name.as_deref() == Some("watched"))
        };
        // The kernel's list may leave some out when others end while it is read.
        let fields = (0..100).find_map(find).expect("the thread").fields;
        assert!(fields.kind == Kind::KernelThread && fields.tid > 0 && fields.role == 0);
        assert!(fields.created_ns <= now_ns() && fields.created_ns > 0);
        drop(stop);
        thread.expect("a thread").join().expect("no panic");
        assert!(look(1 << 25).is_none());
    }
}
