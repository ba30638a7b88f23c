//! The clocks: monotonic nanoseconds, and those of the day.

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[inline]
pub fn now_ns() -> u64 {
    #[cfg(feature = "sim")]
    if let Some(now) = crate::sim::now() {
        return now;
    }
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU time of the calling kernel thread; 0 where the program has the kernel refuse that.
pub(crate) fn own_cpu_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU time of a kernel thread of this process; `None` when it is gone.
pub(crate) fn cpu_ns_of(tid: i32) -> Option<u64> {
    /// The kernel's number for the clock of one thread's CPU time.
    const OF_THREAD: libc::clockid_t = 6;
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place.
    let failed = unsafe { libc::clock_gettime(!tid << 3 | OF_THREAD, &mut now) };
    (failed == 0).then(|| now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Nanoseconds of `CLOCK_REALTIME`; 0 before 1970. A simulation has one clock only.
pub(crate) fn realtime_ns() -> u64 {
    #[cfg(feature = "sim")]
    if let Some(now) = crate::sim::now() {
        return now;
    }
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    u64::try_from(now.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000) + now.tv_nsec as u64
}

/// The time `duration` from now, in nanoseconds; saturates at "never".
pub(crate) fn deadline_after(duration: core::time::Duration) -> u64 {
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    now_ns().saturating_add(ns).max(1)
}
