//! What identifies a process beyond its number, which the kernel uses again.
//!
//! Invariant: a pid is believed to be "the same process" only if its start time is the same.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;

/// When `pid` started: field 22 of `/proc/PID/stat`; `None` if there is no such process (or no
/// `/proc`), or nothing can be said.
pub fn start_time(pid: i32) -> Option<u64> {
    look_up(pid).ok()?
}

/// As [`start_time`].
///
/// # Errors
/// When nothing can be said: no file descriptor is left, say.
fn look_up(pid: i32) -> io::Result<Option<u64>> {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(parse_start_time(&stat)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH) => Ok(None),
            _ => Err(error),
        },
    }
}

/// The program name may hold spaces and parentheses: fields are counted after the last ')'.
fn parse_start_time(stat: &[u8]) -> Option<u64> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after..]).ok()?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether the living can be told from the dead: without `/proc`, or with that of another pid
/// namespace, everybody looks dead.
pub fn are_known() -> bool {
    let own = own_pid();
    let itself = fs::read_link("/proc/self").ok();
    let is_of_here = itself.is_some_and(|it| it.as_os_str() == own.to_string().as_str());
    is_of_here && start_time(own).is_some()
}

/// The pid namespace of this process: the inode that names it, 0 if unknown. Numbers of processes
/// mean nothing outside of theirs.
pub fn own_namespace() -> u32 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |it| it.ino() as u32)
}

/// Whether the process that wrote a table with these two numbers still runs.
///
/// With an unknown start time (0) the existence of the pid decides. Of whom nothing can be said
/// lives: what is left of the dead is removed.
pub fn is_alive(pid: i32, start: u64) -> bool {
    match look_up(pid) {
        Ok(Some(now)) => start == 0 || start == now,
        Ok(None) => false,
        Err(_) => true,
    }
}

/// The number that this process gives its children's tables when it is a `heddle run`: its pid
/// in the low half, its start time (as far as it fits) in the high one. Never 0.
pub fn own_run() -> u64 {
    let pid = own_pid();
    run_of(pid, start_time(pid).unwrap_or(0))
}

/// Whether the `heddle run` with this number still runs, or nothing can be said of it; `false` for
/// 0, which is none.
pub fn is_run_alive(run: u64) -> bool {
    let Ok(pid) = i32::try_from(run & u64::from(u32::MAX)) else { return false };
    let is_it = |start: Option<u64>| start.is_some_and(|start| run_of(pid, start) == run);
    pid > 0 && look_up(pid).map_or(true, is_it)
}

fn run_of(pid: i32, start: u64) -> u64 {
    start << 32 | u64::from(pid.cast_unsigned())
}

/// The user whose rights `pid` has; `None` if there is no such process.
///
/// The kernel gives `/proc/PID` itself (not the files in it) to that user even if the process
/// cannot be dumped, as one cannot that has dropped its privileges.
pub(crate) fn effective_user(pid: i32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|entry| entry.uid())
}

/// The name of the program that `pid` runs.
pub fn program_name(pid: i32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// Filters on system calls (seccomp) that this process is under; 0 where the kernel tells none.
pub fn own_filters() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// This process.
pub(crate) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Now, on CLOCK_MONOTONIC.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_survives_a_hostile_program_name() {
        let stat = b"7 (a) b) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(parse_start_time(stat), Some(4711));
        assert_eq!(parse_start_time(b"7 (x R"), None);
        assert_eq!(parse_start_time(b"7 (x) R 1"), None);
    }

    #[test]
    fn a_process_has_its_effective_user() {
        assert_eq!(effective_user(own_pid()), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(effective_user(1 << 30), None);
    }

    #[test]
    fn a_run_is_alive_only_under_its_own_number() {
        let run = own_run();
        assert!(is_run_alive(run));
        assert!(!is_run_alive(run ^ 1 << 32), "another process with this number");
        assert!(!is_run_alive(0) && !is_run_alive(u64::MAX));
    }

    #[test]
    fn this_process_is_alive_only_with_its_own_start_time() {
        let pid = own_pid();
        let start = start_time(pid).expect("/proc is mounted");
        assert!(is_alive(pid, start));
        assert!(!is_alive(pid, start + 1));
    }
}
