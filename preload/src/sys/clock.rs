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
}
