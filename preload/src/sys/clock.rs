//! CPU-time clocks of threads and processes that are not the caller's.
//!
//! Invariant: reads clocks and nothing else.

/// CPU time that all threads of a process have used so far, in ns, those that ended included;
/// `None` if there is no such process. One system call whatever the number of threads.
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    // The kernel's own encoding of "scheduler clock of process `pid`" (clock_getcpuclockid(3)).
    cpu_ns((!pid << 3) | 2)
}

/// CPU time of the calling thread, in ns.
pub fn own_cpu_ns() -> u64 {
    cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// CPU time that the caller's children used, of those that it has waited for, theirs included.
pub fn children_cpu_ns() -> u64 {
    // SAFETY: all zero bytes are valid, and the call may write there.
    let usage = unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn cpu_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call may write.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_processes_run() {
        let pid = std::process::id() as i32;
        let before = process_cpu_ns(pid).expect("this process");
        while process_cpu_ns(pid).expect("this process") == before {
            std::hint::spin_loop();
        }
        assert!(own_cpu_ns() > 0);
        assert_eq!(process_cpu_ns(1 << 25), None);
    }

    #[test]
    fn children_count_once_they_were_waited_for() {
        let before = children_cpu_ns();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh").args(["-c", script]).status();
        assert!(status.expect("a shell").success());
        assert!(children_cpu_ns() > before);
    }
}
