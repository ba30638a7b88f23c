//! Gives the threads their aims, and finds those that their program changed.
//!
//! Invariant: between the note for the watchdog and the change nothing can fail silently; a
//! thread's `given` is what the kernel said that it has, not what was asked for.

use std::io;

use rustix::io::Errno;

use super::aims::{Aim, Means, Region, aim, is_ours};
use super::core::{CONFLICTS_MAX, Core, Task, WARMED_MAX};
use super::report::{Change, Conflict};
use super::world::{Cell, Loan, Seen, World};
use crate::sys::sched::{IDLE, Scheduling};

impl Task {
    /// What it has when nothing is divided.
    pub(super) fn home(&self) -> Aim {
        Aim { scheduling: self.origin, cell: Cell::Home }
    }

    /// Whether its program may have given it `current` without meaning anything that is ours to
    /// decide: it was not changed by us, or only in parameters that the program left alone.
    fn may_adopt(&self, current: &Scheduling) -> bool {
        let (given, origin) = (&self.given, &self.origin);
        let nothing_is_lent = given == origin && is_ours(current);
        let only_nice = Scheduling { nice: given.nice, ..*current } == *given;
        nothing_is_lent || only_nice && given.nice == origin.nice
    }
}

impl<W: World> Core<W> {
    /// Gives every thread its aim, with worse means if the kernel refuses these.
    pub(super) fn apply(&mut self, now: u64) {
        self.dirty = false;
        while !self.apply_to_all(now, false) {
            let Some(next) = self.fallbacks.first().copied() else {
                self.tally
                    .notes
                    .push(format!("{} was refused: nothing is done", self.means.word()));
                self.means = Means::None;
                self.apply_to_all(now, true);
                break;
            };
            self.fallbacks.remove(0);
            let (from, to) = (self.means.word(), next.word());
            self.tally.notes.push(format!("{from} was refused by the kernel: {to} is used"));
            self.means = next;
            self.tasks.values_mut().for_each(|task| task.refused = false);
        }
    }

    /// One round, the Fast region first. `false`: these means do not work. With `all`, also what
    /// the kernel will hardly permit.
    pub(super) fn apply_to_all(&mut self, now: u64, all: bool) -> bool {
        for fast in [true, false] {
            let tids: Vec<i32> = self
                .tasks
                .iter()
                .filter(|(_, task)| task.is_fast() == fast)
                .map(|(tid, _)| *tid)
                .collect();
            for tid in tids {
                if !self.give(tid, now, all) && !all {
                    return false;
                }
            }
        }
        true
    }

    /// Gives one thread its aim. `false`: the kernel refuses what these means are made of.
    fn give(&mut self, tid: i32, now: u64, all: bool) -> bool {
        let Some(task) = self.tasks.get(&tid) else { return true };
        let aim = self.aim_of(task);
        if task.left_alone || task.has(&aim) || (task.refused && !all) {
            return true;
        }
        if !all && self.is_for_ever(task, &aim) {
            return true;
        }
        if !self.is_untouched(tid, now) {
            return true;
        }
        let task = &self.tasks[&tid];
        let aim = self.aim_of(task);
        let (started, origin, before) = (task.started, task.origin, task.given);
        let loan = Loan { started, origin, before, given: aim.scheduling };
        if !self.world.note(tid, Some(loan)) {
            self.refuse(tid, "no room to note what it must get back");
            return true;
        }
        let result = self.change(tid, &aim);
        self.conclude(tid, &aim, result, now)
    }

    fn aim_of(&self, task: &Task) -> Aim {
        let mut aim = match self.means {
            Means::None => task.home(),
            means => aim(means, self.region, &task.attributes, &task.origin),
        };
        if self.no_slices {
            aim.scheduling.slice_ns = task.given.slice_ns;
        }
        aim
    }

    /// Whether this step has no way back (or is the way back that there is none of), and the
    /// thread has not earned it by taking time from others.
    fn is_for_ever(&self, task: &Task, aim: &Aim) -> bool {
        if self.means.has_way_back() || task.is_fast() {
            return false;
        }
        let lowers = aim.scheduling != task.origin;
        !lowers || !task.is_hot
    }

    fn change(&mut self, tid: i32, aim: &Aim) -> io::Result<()> {
        let task = &self.tasks[&tid];
        if task.cell != Some(aim.cell) {
            self.world.place(tid, aim.cell)?;
        }
        self.world.set(tid, &aim.scheduling)
    }

    fn conclude(&mut self, tid: i32, aim: &Aim, result: io::Result<()>, now: u64) -> bool {
        let Ok(given) = self.world.get(tid) else {
            // It ended meanwhile.
            self.forget(tid, now);
            return true;
        };
        let Some(task) = self.tasks.get_mut(&tid) else { return true };
        self.traces.add(task.origin, task.given, now);
        self.traces.add(task.origin, given, now);
        task.given = given;
        if given != task.origin {
            // The watchdog gives back only what the note says: a kernel that ignores slices, or
            // refuses the second half, must not make it take this for the program's own doing.
            let loan = Loan { started: task.started, origin: task.origin, before: given, given };
            self.world.note(tid, Some(loan));
        }
        match result {
            Ok(()) => {
                self.tally.sets += 1;
                let ignored = aim.scheduling.is_fair() && given.slice_ns != aim.scheduling.slice_ns;
                self.no_slices |= ignored;
                task.cell = Some(aim.cell);
                if task.has(&task.home()) {
                    self.world.note(tid, None);
                } else {
                    let change = Change { fast: task.is_fast(), origin: task.origin, given };
                    self.tally.change(tid, change);
                }
                true
            }
            Err(error) => self.refused(tid, &error),
        }
    }

    /// The kernel said no. `false` if that says something about the means, not about the thread.
    fn refused(&mut self, tid: i32, error: &io::Error) -> bool {
        let task = &self.tasks[&tid];
        let fast = task.is_fast() && matches!(self.means, Means::Rr { .. } | Means::Nice { .. });
        let by_means = self.region == Region::Divided && (fast || self.means == Means::Cgroup);
        let denied = [Errno::PERM, Errno::ACCESS, Errno::OPNOTSUPP, Errno::BUSY]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
        if by_means && denied {
            return false;
        }
        self.refuse(tid, &error.to_string());
        true
    }

    fn refuse(&mut self, tid: i32, why: &str) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.refused = true;
            self.tally.refused(tid, why);
        }
    }

    /// Whether the thread has what it was given, or what its program made of that is no conflict.
    fn is_untouched(&mut self, tid: i32, now: u64) -> bool {
        let Ok(current) = self.world.get(tid) else {
            self.forget(tid, now);
            return false;
        };
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        if current == task.given {
            return true;
        }
        // Another thread may have called exec, and go on as this one with what that one was given.
        let seen = Seen {
            tid,
            started: task.started,
            image: self.world.image(tid),
            attributes: task.attributes,
        };
        if task.image != seen.image {
            self.follow(&seen, now);
            return false;
        }
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        let (started, before) = (task.started, task.given);
        self.traces.add(task.origin, before, now);
        let own = Loan { started, origin: task.origin, before, given: before }.own(&current);
        if !task.may_adopt(&current) {
            self.leave_alone(tid, &current, own);
            return false;
        }
        (task.origin, task.given) = (own, current);
        let loan = Loan { started, origin: own, before: current, given: current };
        self.world.note(tid, (own != current).then_some(loan));
        true
    }

    /// Gives back what is still lent, for the last time.
    fn leave_alone(&mut self, tid: i32, current: &Scheduling, own: Scheduling) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let started = task.started;
        (task.left_alone, task.origin, task.given) = (true, own, *current);
        if task.cell.replace(Cell::Home) != Some(Cell::Home) {
            // Failing means that it ended, or that nobody can put it anywhere.
            let _ = self.world.place(tid, Cell::Home);
        }
        let home = task.home();
        let loan = Loan { started, origin: own, before: *current, given: own };
        if !task.has(&home) && self.world.note(tid, Some(loan)) {
            let result = self.world.set(tid, &own);
            let given = self.world.get(tid);
            if let (Some(task), Ok(given)) = (self.tasks.get_mut(&tid), given) {
                task.given = given;
            }
            if let Err(error) = result {
                self.refuse(tid, &error.to_string());
            }
        }
        self.world.note(tid, None);
        self.tally.conflict(tid, Conflict::After(own));
    }

    /// Asks some threads whether their program changed them.
    pub(super) fn find_conflicts(&mut self, now: u64) {
        let changed = |task: &Task| !task.left_alone && task.given != task.origin;
        for tid in self.some(self.cursors.conflicts, CONFLICTS_MAX, changed) {
            self.cursors.conflicts = tid;
            self.is_untouched(tid, now);
        }
    }

    /// Where lowering is for ever, only threads that take CPU time are lowered: those that only
    /// wait, and create others, would pass it on to threads that are time-critical.
    pub(super) fn warm_up(&mut self) {
        let cold = |task: &Task| {
            !task.is_fast() && !task.left_alone && !task.is_hot && task.given.policy != IDLE
        };
        for tid in self.some(self.cursors.lazy, WARMED_MAX, cold) {
            self.cursors.lazy = tid;
            if self.world.is_runnable(tid)
                && let Some(task) = self.tasks.get_mut(&tid)
            {
                task.is_hot = true;
                self.dirty = true;
            }
        }
    }
}
