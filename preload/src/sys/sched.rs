//! The kernel's scheduling parameters of one thread: read them, set them.
//!
//! Invariants
//! - [`set`] touches what differs and nothing else: utilization clamps and, under SCHED_IDLE, the
//!   nice value and the time slice stay as they are. (That is why `sched_setattr`, which takes
//!   everything at once, is used for slices only.)
//! - A thread id is given to the kernel as it is. Whether it still names the same thread is the
//!   caller's business.

use std::io;
use std::sync::OnceLock;

use rustix::process::Pid;

/// SCHED_OTHER.
pub const OTHER: u32 = 0;
/// SCHED_FIFO.
pub const FIFO: u32 = 1;
/// SCHED_RR.
pub const RR: u32 = 2;
/// SCHED_BATCH.
pub const BATCH: u32 = 3;
/// SCHED_IDLE.
pub const IDLE: u32 = 5;
/// SCHED_DEADLINE.
pub const DEADLINE: u32 = 6;

/// SCHED_FLAG_RESET_ON_FORK in `struct sched_attr`.
const FLAG_RESET_ON_FORK: u64 = 1;

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Scheduling {
    /// SCHED_*.
    pub policy: u32,
    /// 1..99 under SCHED_FIFO and SCHED_RR, else 0.
    pub priority: u32,
    /// -20..19. Kept, without effect, under the policies that have none.
    pub nice: i32,
    /// Threads and processes that it creates start with SCHED_OTHER and a nice value of 0 at
    /// least, if this one is real-time.
    pub reset_on_fork: bool,
    /// Its own time slice in ns, 0 if it has the usual one. Means something to the fair policies
    /// only, and 0 is all that kernels before 6.12 say.
    pub slice_ns: u64,
}

impl Scheduling {
    /// Whether the kernel shares time fairly among threads of this policy.
    pub fn is_fair(&self) -> bool {
        matches!(self.policy, OTHER | BATCH)
    }

    /// What a thread or process gets that is created by one with this scheduling (the kernel's
    /// `sched_fork`).
    #[must_use]
    pub fn of_child(self) -> Scheduling {
        if !self.reset_on_fork {
            return self;
        }
        let child = Scheduling { reset_on_fork: false, slice_ns: 0, ..self };
        match self.policy {
            FIFO | RR | DEADLINE => Scheduling { policy: OTHER, priority: 0, nice: 0, ..child },
            _ => Scheduling { nice: self.nice.max(0), ..child },
        }
    }
}

/// `struct sched_attr`, its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// How the kernel schedules a thread of any process; 0 is the calling thread.
///
/// # Errors
/// ESRCH if there is no such thread, EPERM or EACCES by a security module.
pub fn get(tid: i32) -> io::Result<Scheduling> {
    let attr = attr(tid)?;
    // Under a real-time policy the kernel reports no nice value, but keeps one.
    let nice = if attr.policy == OTHER || attr.policy == BATCH { attr.nice } else { nice(tid)? };
    Ok(Scheduling {
        policy: attr.policy,
        priority: attr.priority,
        nice,
        reset_on_fork: attr.flags & FLAG_RESET_ON_FORK != 0,
        slice_ns: if attr.runtime == usual_slice_ns() { 0 } else { attr.runtime },
    })
}

/// The slice of threads that have none of their own: what this process's first thread has before
/// anything here changed it.
fn usual_slice_ns() -> u64 {
    static USUAL_NS: OnceLock<u64> = OnceLock::new();
    *USUAL_NS.get_or_init(|| attr(std::process::id() as i32).map_or(0, |attr| attr.runtime))
}

fn attr(tid: i32) -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as u32;
    // SAFETY: `attr` is `size` bytes of plain numbers, and the kernel writes no more than that.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size, 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(attr)
}

fn nice(tid: i32) -> io::Result<i32> {
    Ok(rustix::process::getpriority_process(Pid::from_raw(tid))?)
}

/// Makes the kernel schedule a thread like this; 0 is the calling thread.
///
/// # Errors
/// EPERM where a limit or a missing capability forbids it; then nothing, or only the policy, was
/// changed. ESRCH if there is no such thread. EINVAL for SCHED_DEADLINE, which has parameters
/// that are not known here.
pub fn set(tid: i32, wanted: &Scheduling) -> io::Result<()> {
    let now = get(tid)?;
    if (now.policy, now.priority, now.reset_on_fork)
        != (wanted.policy, wanted.priority, wanted.reset_on_fork)
    {
        set_policy(tid, wanted)?;
    }
    if now.nice != wanted.nice {
        rustix::process::setpriority_process(Pid::from_raw(tid), wanted.nice)?;
    }
    if now.slice_ns != wanted.slice_ns && wanted.is_fair() && usual_slice_ns() != 0 {
        set_slice(tid, wanted)?;
    }
    Ok(())
}

/// All parameters of a thread with a fair policy, the slice among them.
fn set_slice(tid: i32, wanted: &Scheduling) -> io::Result<()> {
    let size = size_of::<SchedAttr>() as u32;
    let attr = SchedAttr {
        size,
        policy: wanted.policy,
        nice: wanted.nice,
        flags: if wanted.reset_on_fork { FLAG_RESET_ON_FORK } else { 0 },
        runtime: wanted.slice_ns,
        ..SchedAttr::default()
    };
    // SAFETY: `attr` is `size` bytes that the kernel only reads, and outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks for a time slice of its own for the calling thread, 0 for the usual one: with a short one
/// it runs at once when it wakes, whoever else runs, and needs no permission for it. Kernels
/// before 6.12 ignore it.
///
/// # Errors
/// EPERM if a filter forbids the call.
pub fn set_own_slice(slice_ns: u64) -> io::Result<()> {
    let now = get(0)?;
    if now.is_fair() { set_slice(0, &Scheduling { slice_ns, ..now }) } else { Ok(()) }
}

fn set_policy(tid: i32, wanted: &Scheduling) -> io::Result<()> {
    let reset = if wanted.reset_on_fork { libc::SCHED_RESET_ON_FORK } else { 0 };
    let policy = wanted.policy as i32 | reset;
    let priority = wanted.priority as i32;
    // The raw call: musl's wrapper refuses with ENOSYS.
    // SAFETY: a `struct sched_param` is one int, which outlives the call.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &raw const priority) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gives_back_what_was_set() {
        std::thread::spawn(|| {
            let before = get(0).expect("own scheduling");
            let lowered = Scheduling { policy: IDLE, priority: 0, ..before };
            set(0, &lowered).expect("going down needs no permission");
            assert_eq!(get(0).expect("own scheduling"), lowered);
            let nicer = Scheduling { nice: before.nice.max(7), ..lowered };
            set(0, &nicer).expect("getting nicer needs no permission");
            assert_eq!(get(0).expect("own scheduling"), nicer);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn children_start_as_the_kernel_has_it() {
        let plain = Scheduling { nice: 5, ..Scheduling::default() };
        assert_eq!(plain.of_child(), plain);
        let rr = Scheduling { policy: RR, priority: 9, nice: 5, reset_on_fork: true, slice_ns: 0 };
        assert_eq!(rr.of_child(), Scheduling::default());
        let idle = Scheduling { policy: IDLE, priority: 0, nice: -3, ..rr };
        assert_eq!(idle.of_child(), Scheduling { policy: IDLE, ..Scheduling::default() });
    }

    #[test]
    fn nobody_is_an_error() {
        let error = get(i32::MAX).expect_err("pids end at 2^22");
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
