//! How urgent a thread is, in POSIX's words: a full thread with a real-time policy and a priority
//! is time-critical in heddle's scheduler, any other one is lazy.
//!
//! The kernel is not asked: no privilege is needed, and no kernel thread changes. But what a policy
//! was that the process was started with (chrt), workers have, too: a thread is told that one until
//! it gets another, and it acts on nothing here.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and a `pthread_t` names a thread
//! that exists.

use core::ffi::c_int;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;

use libc::{pid_t, pthread_t, sched_param};

use super::attributes::Wanted;
use super::{Pthread, find_kept, inherited, said, this, with_number};
use crate::sys::scheduling;

/// Heddle's own policy (`<heddle/pthread_np.h>`): time-critical with a priority, else lazy.
pub const SCHED_HEDDLE: c_int = 0x48;

/// As the program has set it.
#[derive(Clone, Copy)]
pub struct Schedule {
    policy: c_int,
    priority: c_int,
    /// The policy and the priority are those that workers have.
    is_workers: bool,
    /// Those that it makes begin without what takes a privilege: `SCHED_RESET_ON_FORK`.
    is_reset: bool,
    /// Acts on nothing; `None`: the process's.
    niceness: Option<i8>,
    /// As `niceness`, in the form that `ioprio_set` has.
    disk_priority: Option<u16>,
}

impl Default for Schedule {
    fn default() -> Self {
        let (policy, priority) = (libc::SCHED_OTHER, 0);
        Schedule {
            policy,
            priority,
            is_workers: false,
            is_reset: false,
            niceness: None,
            disk_priority: None,
        }
    }
}

/// What becomes another one; `None`: it stays.
#[derive(Default)]
pub struct Change {
    /// Without [`RESET_ON_FORK`] its bit is taken away.
    pub policy: Option<c_int>,
    pub priority: Option<c_int>,
    pub niceness: Option<c_int>,
}

/// As the system calls tell it.
pub struct Told {
    pub policy: c_int,
    pub priority: c_int,
    pub niceness: Option<c_int>,
    pub disk_priority: Option<u16>,
}

impl Schedule {
    /// # Errors
    /// `EINVAL` for a policy that there is not, or a priority that it does not have.
    fn with(self, change: &Change) -> Result<Schedule, c_int> {
        let mut new = self;
        new.is_workers &= change.policy.is_none() && change.priority.is_none();
        if let Some(policy) = change.policy {
            new.policy = policy & !RESET_ON_FORK;
            new.is_reset = policy & RESET_ON_FORK != 0;
        }
        new.priority = change.priority.unwrap_or(self.priority);
        let priorities = match new.policy {
            libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE => 0..=0,
            libc::SCHED_FIFO | libc::SCHED_RR => 1..=99,
            SCHED_HEDDLE => 0..=99,
            _ => return Err(libc::EINVAL),
        };
        if let Some(niceness) = change.niceness {
            new.niceness = Some(niceness.clamp(-20, 19) as i8);
        }
        match priorities.contains(&new.priority) {
            true => Ok(new),
            false => Err(libc::EINVAL),
        }
    }

    /// What a thread has that this one makes.
    fn handed_on(self) -> Schedule {
        match self.critical() {
            _ if !self.is_reset => self,
            Some(_) => Schedule {
                niceness: Some(0),
                disk_priority: self.disk_priority,
                ..Schedule::default()
            },
            None => Schedule {
                is_reset: false,
                niceness: self.niceness.map(|niceness| niceness.max(0)),
                ..self
            },
        }
    }

    /// That of a new thread: the caller's, if it is a full thread and the attributes don't say
    /// otherwise. (They say `SCHED_OTHER` or `SCHED_HEDDLE` then: threads with another policy of
    /// their own are kernel threads.)
    pub fn inherited(wanted: &Wanted) -> Schedule {
        let of_kernel = || inherited::schedule().unwrap_or_else(Schedule::of_workers);
        let of_maker = this().map_or_else(of_kernel, |me| me.about().schedule.handed_on());
        let (policy, priority) = match wanted.heddle_priority {
            Some(priority) => (SCHED_HEDDLE, priority),
            None if wanted.is_explicit => (libc::SCHED_OTHER, 0),
            None => return of_maker,
        };
        Schedule { policy, priority, is_workers: false, is_reset: false, ..of_maker }
    }

    /// That of a thread that a kernel thread makes.
    fn of_workers() -> Schedule {
        let policy = POLICY_OF_WORKERS.load(Relaxed);
        let priority = PRIORITY_OF_WORKERS.load(Relaxed);
        Schedule { policy, priority, is_workers: true, ..Schedule::default() }
    }

    /// That of a thread that a kernel thread makes with these.
    pub fn of_kernel(
        policy: c_int,
        priority: c_int,
        niceness: c_int,
        disk_priority: c_int,
    ) -> Schedule {
        let is_reset = policy & RESET_ON_FORK != 0;
        let (policy, priority, niceness) = match policy & !RESET_ON_FORK {
            _ if is_reset && priority != 0 => (libc::SCHED_OTHER, 0, 0),
            policy if is_reset => (policy, priority, niceness.max(0)),
            policy => (policy, priority, niceness),
        };
        let mut new = Schedule { policy, priority, is_workers: true, ..Schedule::default() };
        new.keep(niceness, disk_priority);
        new
    }

    /// It has these from now on, where it has none of its own; a priority below 0 is not known.
    pub fn keep(&mut self, niceness: c_int, disk_priority: c_int) {
        self.niceness.get_or_insert(niceness.clamp(-20, 19) as i8);
        self.disk_priority = self.disk_priority.or(u16::try_from(disk_priority).ok());
    }

    /// Whether the program has said how urgent it is, in heddle's words.
    pub fn is_said(self) -> bool {
        self.policy == SCHED_HEDDLE
    }

    /// The priority of a time-critical thread.
    pub fn critical(self) -> Option<u8> {
        u8::try_from(self.priority).ok().filter(|&priority| priority != 0 && !self.is_workers)
    }
}

/// What the kernel has given the workers.
static POLICY_OF_WORKERS: AtomicI32 = AtomicI32::new(libc::SCHED_OTHER);
static PRIORITY_OF_WORKERS: AtomicI32 = AtomicI32::new(0);

/// The caller, a kernel thread, is about to start them: they inherit its policy.
pub fn note_workers() {
    let mut param = sched_param { sched_priority: 0 };
    // SAFETY: the calling thread, and a valid place.
    let (policy, failed) =
        unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &mut param) != 0) };
    // One that is not handed on has its bit beside it.
    let is_one =
        matches!(policy, libc::SCHED_BATCH | libc::SCHED_IDLE | libc::SCHED_FIFO | libc::SCHED_RR);
    if is_one && !failed {
        POLICY_OF_WORKERS.store(policy, Relaxed);
        PRIORITY_OF_WORKERS.store(param.sched_priority, Relaxed);
    }
}

/// The calling thread's priority; 0 when it has a policy without any, or is a kernel thread.
pub fn priority() -> c_int {
    this().map_or(0, |me| me.about().schedule.priority)
}

/// Gives a child of `me` what it would have inherited, but for privileges: those policies acted in
/// heddle's scheduler alone. The child is the calling kernel thread (0), if it was forked. Another
/// one may have set something for itself by now: what is not the worker's any more stays.
pub fn give_child(me: &Pthread, child: pid_t, has_own_policy: bool) {
    let schedule = me.about().schedule.handed_on();
    let plain = sched_param { sched_priority: 0 };
    let has_kept = |get: fn(pid_t) -> c_int| child == 0 || get(child) == get(0);
    let policy = |task| {
        // SAFETY: no pointers.
        unsafe { libc::sched_getscheduler(task) }
    };
    let niceness = |task| {
        // SAFETY: no pointers.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, task as u32) }
    };
    // SAFETY: a valid place. Where it is refused the worker's remain.
    unsafe {
        if matches!(schedule.policy, libc::SCHED_BATCH | libc::SCHED_IDLE)
            && !has_own_policy
            && has_kept(policy)
        {
            libc::sched_setscheduler(child, schedule.policy, &plain);
        }
        if let Some(wanted) = schedule.niceness.filter(|_| has_kept(niceness)) {
            libc::setpriority(libc::PRIO_PROCESS, child as u32, wanted.into());
        }
    }
    let wanted = schedule.disk_priority.filter(|_| has_kept(scheduling::disk_priority_of));
    if let Some(priority) = wanted {
        scheduling::give_disk_priority(child, priority);
    }
}

pub fn of_number(number: u32) -> Option<Told> {
    with_number(number, |target| {
        let it = target.about().schedule;
        Told {
            policy: it.policy | if it.is_reset { RESET_ON_FORK } else { 0 },
            priority: it.priority,
            niceness: it.niceness.map(c_int::from),
            disk_priority: it.disk_priority,
        }
    })
}

/// What the system calls change; an error number.
pub fn change_number(number: u32, change: Change) -> c_int {
    with_number(number, |target| apply(target, |now| now.with(&change))).unwrap_or(libc::ESRCH)
}

/// `None`: there is no such thread.
pub fn set_disk_priority(number: u32, priority: u16) -> Option<()> {
    with_number(number, |target| target.about().schedule.disk_priority = Some(priority))
}

const RESET_ON_FORK: c_int = libc::SCHED_RESET_ON_FORK;

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
    let target = unsafe { find_kept(thread) }?;
    if target.has_ended() {
        return Some(libc::ESRCH);
    }
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
        let wanted = Change { policy: Some(policy), priority: Some(priority), niceness: None };
        change(thread, |now| now.with(&wanted)).unwrap_or_else(|| {
            inherited::may_change();
            let error = libc::pthread_setschedparam(thread, policy, param);
            if error == 0 {
                inherited::changed(Some(policy));
            }
            error
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_setschedprio(thread: pthread_t, priority: c_int) -> c_int {
    // SAFETY: the caller's thread.
    unsafe {
        let wanted = Change { priority: Some(priority), ..Change::default() };
        change(thread, |now| now.with(&wanted)).unwrap_or_else(|| {
            inherited::may_change();
            let error = libc::pthread_setschedprio(thread, priority);
            if error == 0 {
                inherited::changed_priority();
            }
            error
        })
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
        let Some(target) = find_kept(thread) else {
            return libc::pthread_getschedparam(thread, policy, param);
        };
        if target.has_ended() {
            return libc::ESRCH;
        }
        let schedule = target.about().schedule;
        policy.write(schedule.policy);
        (*param).sched_priority = schedule.priority;
    }
    0
}
