//! How urgent a thread is, in POSIX's words: a full thread with a real-time policy and a priority
//! is time-critical in heddle's scheduler, any other one is lazy.
//!
//! The kernel is not asked: no privilege is needed, and no kernel thread changes.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and a `pthread_t` names a thread
//! that exists.

use core::ffi::c_int;

use libc::{pthread_t, sched_param};

use super::attributes::Wanted;
use super::{Pthread, find, said, this, with_number};

/// Heddle's own policy (`<heddle/pthread_np.h>`): time-critical with a priority, else lazy.
pub const SCHED_HEDDLE: c_int = 0x48;

/// Policy and priority as the program has set them.
#[derive(Clone, Copy)]
pub struct Schedule {
    policy: c_int,
    priority: c_int,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule { policy: libc::SCHED_OTHER, priority: 0 }
    }
}

impl Schedule {
    /// # Errors
    /// `EINVAL` for a policy that there is not, or a priority that it does not have.
    fn new(policy: c_int, priority: c_int) -> Result<Schedule, c_int> {
        let priorities = match policy {
            libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE => 0..=0,
            libc::SCHED_FIFO | libc::SCHED_RR => 1..=99,
            SCHED_HEDDLE => 0..=99,
            _ => return Err(libc::EINVAL),
        };
        match priorities.contains(&priority) {
            true => Ok(Schedule { policy, priority }),
            false => Err(libc::EINVAL),
        }
    }

    /// That of a new thread: the caller's, if it is a full thread and the attributes don't say
    /// otherwise. (They say `SCHED_OTHER` or `SCHED_HEDDLE` then: threads with another policy of
    /// their own are kernel threads.)
    pub fn inherited(wanted: &Wanted) -> Schedule {
        match (wanted.heddle_priority, this()) {
            (Some(priority), _) => Schedule { policy: SCHED_HEDDLE, priority },
            (None, Some(me)) if !wanted.is_explicit => me.about().schedule,
            _ => Schedule::default(),
        }
    }

    /// Whether the program has said how urgent it is, in heddle's words.
    pub fn is_said(self) -> bool {
        self.policy == SCHED_HEDDLE
    }

    /// The priority of a time-critical thread.
    pub fn critical(self) -> Option<u8> {
        u8::try_from(self.priority).ok().filter(|&priority| priority != 0)
    }
}

/// The calling thread's priority; 0 when it has a policy without any, or is a kernel thread.
pub fn priority() -> c_int {
    this().map_or(0, |me| me.about().schedule.priority)
}

/// As the system calls tell it: policy and priority.
pub fn of_number(number: u32) -> Option<(c_int, c_int)> {
    with_number(number, |target| {
        let Schedule { policy, priority } = target.about().schedule;
        (policy, priority)
    })
}

/// What the system calls change: the policy if one is given, and the priority; an error number.
pub fn change_number(number: u32, policy: Option<c_int>, priority: c_int) -> c_int {
    with_number(number, |target| {
        apply(target, |now| {
            Schedule::new(policy.map_or(now.policy, |it| it & !SCHED_RESET_ON_FORK), priority)
        })
    })
    .unwrap_or(libc::ESRCH)
}

/// What has no meaning for threads that a fork leaves behind.
const SCHED_RESET_ON_FORK: c_int = 0x4000_0000;

fn apply(target: &Pthread, new: impl FnOnce(Schedule) -> Result<Schedule, c_int>) -> c_int {
    let mut about = target.about();
    let schedule = match new(about.schedule) {
        Ok(schedule) => schedule,
        Err(error) => return error,
    };
    about.is_said |= schedule.is_said();
    about.schedule = schedule;
    if let Some(thread) = &about.thread {
        // Priorities were checked.
        let _ = thread.set_priority(schedule.critical());
    }
    0
}

/// # Safety
/// As the exported functions; `None` for a kernel thread.
unsafe fn change(
    thread: pthread_t,
    new: impl FnOnce(Schedule) -> Result<Schedule, c_int>,
) -> Option<c_int> {
    // SAFETY: passed on.
    let target = unsafe { find(thread) }?;
    let error = apply(target, new);
    if error == 0 {
        said::tell_account(thread, target);
    }
    Some(error)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_setschedparam(
    thread: pthread_t,
    policy: c_int,
    param: *const sched_param,
) -> c_int {
    // SAFETY: the caller's thread and parameter.
    unsafe {
        let priority = (*param).sched_priority;
        change(thread, |_| Schedule::new(policy, priority))
            .unwrap_or_else(|| libc::pthread_setschedparam(thread, policy, param))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_setschedprio(thread: pthread_t, priority: c_int) -> c_int {
    // SAFETY: the caller's thread.
    unsafe {
        change(thread, |now| Schedule::new(now.policy, priority))
            .unwrap_or_else(|| libc::pthread_setschedprio(thread, priority))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_getschedparam(
    thread: pthread_t,
    policy: *mut c_int,
    param: *mut sched_param,
) -> c_int {
    // SAFETY: the caller's thread and places.
    unsafe {
        let Some(target) = find(thread) else {
            return libc::pthread_getschedparam(thread, policy, param);
        };
        let schedule = target.about().schedule;
        policy.write(schedule.policy);
        (*param).sched_priority = schedule.priority;
    }
    0
}
