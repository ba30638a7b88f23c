//! The watchdog: a process that gives everything back when the Mediator dies without doing so.
//!
//! Invariants
//! - It waits on a pipe of which the Mediator holds the other end. A byte is the Mediator's word
//!   that all is done; the end without it is the Mediator's death.
//! - It changes a thread only if that is the noted one (start time), and only those parameters
//!   that are still what they were made; and threads that started after the Mediator's last look,
//!   if they look like children of changed ones.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::cgroup::Groups;
use super::family::Kin;
use super::journal::Shared;
use super::origin::{Traces, origin_of};
use super::proc::{self, Stat};
use super::world::Loan;
use crate::sys::{fork, sched};

/// Threads may go on creating threads while they are restored.
const ROUNDS_MAX: usize = 8;

/// The Mediator's end of the pipe.
#[derive(Debug)]
pub struct Twin(File);

impl Twin {
    /// Starts the watchdog.
    ///
    /// # Errors
    /// If there is no pipe or no process to be had.
    pub fn start(shared: &Arc<Shared>, groups: Option<&Groups>, kin: &Kin) -> io::Result<Twin> {
        let (reader, writer) = io::pipe()?;
        let reader = OwnedFd::from(reader);
        fork::helper(&reader, c"heddle-restore", || {
            if !waits_for_a_word(&reader) {
                restore(shared, kin);
                if let Some(groups) = groups {
                    groups.remove();
                }
            }
        })?;
        Ok(Twin(File::from(OwnedFd::from(writer))))
    }

    /// Tells the watchdog that there is nothing to do any more.
    pub fn dismiss(mut self) {
        // Failing means that it died before.
        let _ = self.0.write_all(b".");
    }
}

/// Whether the Mediator said that all is done, rather than died.
fn waits_for_a_word(reader: &OwnedFd) -> bool {
    let mut word = [0];
    loop {
        match rustix::io::read(reader, &mut word) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Gives back what is noted, and what was inherited from it.
fn restore(shared: &Shared, kin: &Kin) {
    let loans: HashMap<i32, Loan> = shared.loans().into_iter().collect();
    let mut couples: Vec<_> = loans.values().map(|loan| (loan.origin, loan.given)).collect();
    for (tid, loan) in &loans {
        let same = Stat::of(*tid).is_some_and(|stat| stat.started == loan.started);
        let (true, Ok(current)) = (same, sched::get(*tid)) else { continue };
        let own = loan.own(&current);
        if own != current {
            give_back(*tid, &own);
            couples.push((own, current));
        }
    }
    let since = shared.known_until();
    let known: HashSet<i32> = loans.keys().copied().collect();
    for _ in 0..ROUNDS_MAX {
        if restore_newborns(&family(shared, kin, since), since, &known, &couples) == 0 {
            break;
        }
    }
}

/// As much of it as is permitted: without CAP_SYS_NICE the flag cannot be taken back.
fn give_back(tid: i32, origin: &sched::Scheduling) {
    if sched::set(tid, origin).is_err() {
        let _ = sched::set(tid, &sched::Scheduling { reset_on_fork: true, ..*origin });
    }
}

/// The program's processes, and those that they started since they were looked at.
fn family(shared: &Shared, kin: &Kin, since: u64) -> HashSet<i32> {
    let own = std::process::id() as i32;
    let mut family: HashSet<i32> = shared.pids().into_iter().collect();
    let all = proc::processes();
    let young: Vec<(i32, Stat)> = all
        .into_iter()
        .filter_map(|pid| Some((pid, Stat::of(pid)?)))
        .filter(|(pid, stat)| stat.started >= since && *pid != own)
        .collect();
    family.extend(young.iter().filter(|(pid, stat)| kin.has(*pid, stat)).map(|(pid, _)| *pid));
    loop {
        let before = family.len();
        let ours = young.iter().filter(|(_, stat)| family.contains(&stat.parent));
        let ours: Vec<i32> = ours.map(|(pid, _)| *pid).collect();
        family.extend(ours);
        if family.len() == before {
            return family;
        }
    }
}

/// How many there were that had inherited something.
fn restore_newborns(
    family: &HashSet<i32>,
    since: u64,
    known: &HashSet<i32>,
    couples: &[(sched::Scheduling, sched::Scheduling)],
) -> usize {
    let mut restored = 0;
    for pid in family {
        for tid in proc::threads(*pid).into_iter().filter(|tid| !known.contains(tid)) {
            let young = Stat::of_thread(*pid, tid).is_some_and(|stat| stat.started >= since);
            let (true, Ok(current)) = (young, sched::get(tid)) else { continue };
            let couples = couples.iter().copied();
            let origin = origin_of(current, couples, &Traces::default(), 0);
            if origin != current {
                give_back(tid, &origin);
                restored += 1;
            }
        }
    }
    restored
}
