//! What the Mediator's decisions need of the kernel and of the thread table: the seam at which a
//! simulated kernel takes the place of the real one.
//!
//! Invariant: everything that the deciding part learns or does goes through [`World`].

use std::io;

use heddle_record::{Class, Group};

use crate::sys::sched::Scheduling;

/// What the Mediator needs to know of a thread's record or rule.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Attributes {
    /// Whether it belongs to the Fast region.
    pub class: Class,
    /// 1..99 in the time-critical class; see `is_runtimes`.
    pub priority: u8,
    /// Its place in the Lazy region.
    pub group: Group,
    /// It belongs to a runtime for user-level threads: it runs them, or serves who does, so it is
    /// never lowered; and raised as far as it has a priority.
    pub is_runtimes: bool,
}

/// A living thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// Its kernel thread id.
    pub tid: i32,
    /// When it started: with the tid, who it is.
    pub started: u64,
    /// Of a main thread: another number for each program that its process runs (exec). Whichever
    /// thread called exec goes on as this one, with the scheduling that it had.
    pub image: u64,
    /// What is known of it.
    pub attributes: Attributes,
}

/// What a time-critical thread has been doing since it was last looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Activity {
    /// It ran, or waits for a CPU.
    Active,
    /// It slept all the time.
    Asleep,
    /// It is no more.
    Gone,
}

/// The control group that a thread is put into.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Cell {
    /// Where it was.
    #[default]
    Home,
    /// That of the Fast region.
    Fast,
    /// That of its group in the Lazy region.
    Lazy(Group),
}

/// What a thread gets back, and what it has meanwhile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Loan {
    /// When the thread started.
    pub started: u64,
    /// What it is to get back.
    pub origin: Scheduling,
    /// What the Mediator gave it the last time: the kernel may not have got further.
    pub before: Scheduling,
    /// What the Mediator gives it.
    pub given: Scheduling,
}

impl Loan {
    /// What a thread that has `current` would have if nothing had been changed: of each parameter
    /// its origin, or what its program set meanwhile. A policy and its priority are one parameter.
    #[must_use]
    pub fn own(&self, current: &Scheduling) -> Scheduling {
        let (lent, origin) = ([&self.given, &self.before], &self.origin);
        let policy_of = |it: &Scheduling| (it.policy, it.priority);
        let is_lent = |same: &dyn Fn(&Scheduling) -> bool| lent.iter().any(|it| same(it));
        let policy = is_lent(&|it| policy_of(it) == policy_of(current));
        let (policy, priority) = policy_of(if policy { origin } else { current });
        let nice = if is_lent(&|it| it.nice == current.nice) { origin } else { current };
        let slice = if is_lent(&|it| it.slice_ns == current.slice_ns) { origin } else { current };
        let fork =
            if is_lent(&|it| it.reset_on_fork == current.reset_on_fork) { origin } else { current };
        Scheduling {
            policy,
            priority,
            nice: nice.nice,
            reset_on_fork: fork.reset_on_fork,
            slice_ns: slice.slice_ns,
        }
    }
}

/// The kernel's side.
pub trait World {
    /// Now, on a clock that only goes forward.
    fn now_ns(&self) -> u64;

    /// The program's living threads; `None` if none was born and no class has changed since the
    /// last look, as far as can be told cheaply. `thorough` spares nothing and always tells.
    fn look(&mut self, thorough: bool) -> Option<Vec<Seen>>;

    /// What a time-critical thread has been doing.
    fn activity(&mut self, tid: i32) -> Activity;

    /// Whether a thread runs or waits for a CPU now.
    fn is_runnable(&mut self, tid: i32) -> bool;

    /// CPU time that the program's threads, but for the time-critical ones that `activity` was
    /// asked about, have used so far. May be wrong by some milliseconds.
    fn lazy_cpu_ns(&mut self) -> u64;

    /// How the kernel schedules a thread.
    ///
    /// # Errors
    /// ESRCH if it is no more.
    fn get(&mut self, tid: i32) -> io::Result<Scheduling>;

    /// What [`Seen::image`] of a main thread is now; of others what it was.
    fn image(&mut self, tid: i32) -> u64;

    /// Makes the kernel schedule it like this.
    ///
    /// # Errors
    /// ESRCH if it is no more; EPERM if that is not allowed.
    fn set(&mut self, tid: i32, wanted: &Scheduling) -> io::Result<()>;

    /// Puts a thread into a control group.
    ///
    /// # Errors
    /// ESRCH if it is no more; what the kernel has against it.
    fn place(&mut self, tid: i32, cell: Cell) -> io::Result<()>;

    /// Makes the Mediator's own thread punctual, by this real-time priority or whatever else is
    /// permitted, or (`None`) what it was before. Failing is no harm but to punctuality.
    fn attend(&mut self, priority: Option<u32>);

    /// Notes for the watchdog, before the change is made, what a thread must get back; `None`
    /// after it got it. `false` if there is no more room: then the thread must not be changed.
    fn note(&mut self, tid: i32, loan: Option<Loan>) -> bool;
}
