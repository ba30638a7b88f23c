//! What each changed thread must get back, written where the watchdog can read it after us.
//!
//! Invariants
//! - An entry is complete before its tid is stored (Release), and its tid is erased before the
//!   entry is used again: a reader sees whole entries or none.
//! - An entry that is written anew says at each moment what the thread has: what it had comes
//!   before what it is to have.
//! - The memory is shared with the watchdog alone and has room for [`ENTRIES_MAX`] threads; a
//!   thread that finds no room must not be changed.
//!
//! ```text
//! word 0      entries ever used
//! word 1      start times up to this one are known: later threads may have inherited
//! 2..66       processes of the program
//! 66..        entries of 5 words: tid, start time, origin, given, before
//! ```

use std::collections::HashMap;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::world::Loan;
use crate::sys::sched::Scheduling;
use crate::sys::shared::SharedWords;

/// As many threads as a program may have under the kernel's usual limit.
pub const ENTRIES_MAX: usize = 1 << 17;
/// Processes of one program.
pub const PIDS_MAX: usize = 64;

const PIDS_AT: usize = 2;
const ENTRIES_AT: usize = PIDS_AT + PIDS_MAX;
const ENTRY_WORDS: usize = 5;

/// The memory itself, as both sides see it.
#[derive(Debug)]
pub struct Shared(SharedWords);

impl Shared {
    /// Empty.
    ///
    /// # Errors
    /// If there is no address space for it.
    pub fn new() -> io::Result<Shared> {
        SharedWords::new(ENTRIES_AT + ENTRIES_MAX * ENTRY_WORDS).map(Shared)
    }

    fn entry(&self, slot: usize) -> &[AtomicU64] {
        let at = ENTRIES_AT + slot * ENTRY_WORDS;
        &self.0.words()[at..at + ENTRY_WORDS]
    }

    /// The threads that must get something back, by tid.
    pub fn loans(&self) -> Vec<(i32, Loan)> {
        let used = (self.0.words()[0].load(Acquire) as usize).min(ENTRIES_MAX);
        let loan = |slot| {
            let words = self.entry(slot);
            let tid = words[0].load(Acquire) as i32;
            let scheduling = |at: usize| unpack(words[at].load(Relaxed));
            let loan = Loan {
                started: words[1].load(Relaxed),
                origin: scheduling(2),
                given: scheduling(3),
                before: scheduling(4),
            };
            (tid > 0).then_some((tid, loan))
        };
        (0..used).filter_map(loan).collect()
    }

    /// The processes of the program.
    pub fn pids(&self) -> Vec<i32> {
        let words = &self.0.words()[PIDS_AT..ENTRIES_AT];
        words.iter().map(|word| word.load(Acquire) as i32).filter(|pid| *pid > 0).collect()
    }

    /// Threads that started after this may have inherited something and not be noted.
    pub fn known_until(&self) -> u64 {
        self.0.words()[1].load(Acquire)
    }
}

/// The writing side.
#[derive(Debug)]
pub struct Journal {
    shared: std::sync::Arc<Shared>,
    slots: HashMap<i32, usize>,
    free: Vec<usize>,
    used: usize,
}

impl Journal {
    /// Empty, on this memory.
    pub fn new(shared: std::sync::Arc<Shared>) -> Journal {
        Journal { shared, slots: HashMap::new(), free: Vec::new(), used: 0 }
    }

    /// Notes, or strikes out. `false`: no room.
    pub fn note(&mut self, tid: i32, loan: Option<Loan>) -> bool {
        match loan {
            Some(loan) => self.write(tid, &loan),
            None => {
                if let Some(slot) = self.slots.remove(&tid) {
                    self.shared.entry(slot)[0].store(0, Release);
                    self.free.push(slot);
                }
                true
            }
        }
    }

    fn write(&mut self, tid: i32, loan: &Loan) -> bool {
        let known = self.slots.get(&tid).copied();
        let Some(slot) = known.or_else(|| self.free.pop()).or_else(|| {
            let slot = self.used;
            self.used += usize::from(slot < ENTRIES_MAX);
            (slot < ENTRIES_MAX).then_some(slot)
        }) else {
            return false;
        };
        self.slots.insert(tid, slot);
        let words = self.shared.entry(slot);
        words[1].store(loan.started, Relaxed);
        words[4].store(pack(&loan.before), Relaxed);
        // ORDER: none but this process's end comes between; the watchdog reads after it.
        words[3].store(pack(&loan.given), Release);
        words[2].store(pack(&loan.origin), Release);
        words[0].store(u64::from(tid.cast_unsigned()), Release);
        self.shared.0.words()[0].store(self.used as u64, Release);
        true
    }

    /// Says which processes belong to the program.
    pub fn set_pids(&self, pids: impl Iterator<Item = i32>) {
        let words = &self.shared.0.words()[PIDS_AT..ENTRIES_AT];
        let pids = pids.map(|pid| u64::from(pid.cast_unsigned())).chain(std::iter::repeat(0));
        words.iter().zip(pids).for_each(|(word, pid)| word.store(pid, Release));
    }

    /// Says that all threads that started before this are known.
    pub fn set_known_until(&self, started: u64) {
        self.shared.0.words()[1].store(started, Release);
    }
}

/// The kernel's own limit is 100 ms.
const SLICE_NS_MAX: u64 = u32::MAX as u64;

fn pack(it: &Scheduling) -> u64 {
    let nice = (it.nice + 128) as u64;
    u64::from(it.policy & 0xff)
        | u64::from(it.priority & 0xff) << 8
        | nice << 16
        | u64::from(it.reset_on_fork) << 24
        | it.slice_ns.min(SLICE_NS_MAX) << 32
}

fn unpack(word: u64) -> Scheduling {
    Scheduling {
        policy: (word & 0xff) as u32,
        priority: (word >> 8 & 0xff) as u32,
        nice: (word >> 16 & 0xff) as i32 - 128,
        reset_on_fork: word >> 24 & 1 != 0,
        slice_ns: word >> 32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::sched::{IDLE, RR};

    fn loan(started: u64) -> Loan {
        let origin = Scheduling { nice: -20, ..Scheduling::default() };
        let before = Scheduling { nice: 7, ..origin };
        Loan { started, origin, before, given: Scheduling { policy: IDLE, ..origin } }
    }

    #[test]
    fn scheduling_survives_packing() {
        for nice in [-20, 0, 19] {
            for reset_on_fork in [false, true] {
                let it = Scheduling {
                    policy: RR,
                    priority: 99,
                    nice,
                    reset_on_fork,
                    slice_ns: 100_000_000,
                };
                assert_eq!(unpack(pack(&it)), it);
            }
        }
    }

    #[test]
    fn struck_out_entries_are_used_again() {
        let shared = std::sync::Arc::new(Shared::new().expect("memory"));
        let mut journal = Journal::new(shared.clone());
        assert!(journal.note(10, Some(loan(1))) && journal.note(11, Some(loan(2))));
        assert_eq!(shared.loans(), [(10, loan(1)), (11, loan(2))]);
        journal.note(10, None);
        assert_eq!(shared.loans(), [(11, loan(2))]);
        assert!(journal.note(12, Some(loan(3))) && journal.note(11, Some(loan(9))));
        assert_eq!(shared.loans(), [(12, loan(3)), (11, loan(9))]);
        assert_eq!(journal.used, 2);
        journal.set_pids([5, 6].into_iter());
        assert_eq!(shared.pids(), [5, 6]);
    }

    #[test]
    fn a_full_journal_says_so() {
        let mut journal = Journal::new(std::sync::Arc::new(Shared::new().expect("memory")));
        assert!((1..=ENTRIES_MAX as i32).all(|tid| journal.note(tid, Some(loan(0)))));
        assert!(!journal.note(i32::MAX, Some(loan(0))));
        assert!(journal.note(1, None) && journal.note(i32::MAX, Some(loan(0))));
    }
}
