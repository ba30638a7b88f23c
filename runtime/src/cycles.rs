//! Cycles in the wait-for graph: threads that wait for each other for good, while others go on.
//!
//! The deadlock report (`deadlock.rs`) is of a process in which nothing can happen any more. Few
//! programs come to that: a handler, a timer, a socket remains, while some of their threads wait
//! for what none of them gives back. So the steward looks from time to time, in three steps:
//! 1. which waits for something that one thread may hold have lasted since the look before, and
//!    have no deadline;
//! 2. who holds what they are for;
//! 3. which of them still last.
//!
//! A thread whose wait lasts from 1 to 3 holds after step 2 what it was found to hold there. So if
//! each in a cycle waits for the next, all of them do so at once, and none goes on by itself.
//!
//! A mutex may be unlocked by a thread that has not locked it; POSIX does not define that, but
//! programs do it. So who waits for what it has locked itself, or what a thread has left locked
//! that has ended, is told of only after a longer time.
//!
//! Invariant: what is told was so at one moment, for all that is told at once.
//!
//! Not here: waits of `sync`, which knows no holders, and for what many may hold at once
//! (semaphores, readers of a lock); who waits behind [`MOST`] others in a bucket of the lot.

use core::fmt::Write;

use heddle_record::{Fields, Kind, State};

use crate::control::{self, Control};
use crate::deadlock::{Explain, Holder, Waited, explain, name_kernel_thread};
use crate::lot;
use crate::lot::node::Node;
use crate::stack::{self, overflow};
use crate::table;

/// Least time between two looks, ns.
const PAUSE_NS: u64 = 1_000_000_000;
/// How long a wait has lasted at least that may be for another thread than the holder, ns.
const LONG_NS: u64 = 10_000_000_000;
/// Waits that are looked at under the lock of one bucket.
const MOST: usize = 256;
/// Reports in all.
const REPORTS_MAX: usize = 8;

/// A wait that was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Wait {
    slot: u32,
    generation: u32,
    /// Its id, of a kernel thread; else 0.
    tid: i32,
    /// Which of its waits it is.
    number: u32,
    waited: Waited,
}

impl Wait {
    const NONE: Wait = Wait {
        slot: 0,
        generation: 0,
        tid: 0,
        number: 0,
        waited: Waited { what: 0, address: 0, then: 0 },
    };

    /// Under the lock of the bucket in which `thread` waits.
    fn of(thread: &'static Control, node: &Node, explain: &Explain) -> Option<Wait> {
        let (what, address, then) = (node.what.get(), node.address.get(), node.then.get());
        let waited = Waited { what, address, then };
        if what == 0 || node.has_deadline.get() || !(explain.can_be_held)(&waited) {
            return None;
        }
        let fields = thread.record().read()?;
        let tid = if fields.kind == Kind::KernelThread { fields.tid } else { 0 };
        let (slot, number) = (thread.slot(), node.waits.get());
        Some(Wait { slot, generation: fields.generation, tid, number, waited })
    }

    fn tell(&self, explain: &Explain, out: &mut String) -> core::fmt::Result {
        write!(out, "  ")?;
        match self.tid {
            // SAFETY: the slot of a thread that was seen.
            0 => overflow::name_with_role(unsafe { control::at(self.slot) }, out)?,
            tid => name_kernel_thread(tid, out)?,
        }
        write!(out, " waits in ")?;
        (explain.describe)(&self.waited, out)?;
        writeln!(out)
    }
}

/// All waits for what one thread may hold, by slots.
fn see(explain: &Explain) -> Vec<Wait> {
    let (mut all, mut some) = (Vec::new(), [Wait::NONE; MOST]);
    for index in 0..lot::BUCKETS {
        let mut count = 0;
        // Nothing is allocated under the lock: an allocator may wait for it.
        lot::for_each_waiter(index, MOST, |thread, node| {
            if let Some(wait) = Wait::of(thread, node, explain) {
                some[count] = wait;
                count += 1;
            }
        });
        all.extend_from_slice(&some[..count]);
    }
    all.sort_unstable_by_key(|wait| wait.slot);
    all
}

/// Who keeps a thread waiting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeper {
    /// One that waits itself, by its place in the list.
    Waits(usize),
    /// One that has ended.
    Ended,
    /// Nobody, one that goes on, or it is not known.
    Other,
}

/// A wait that has lasted, since then (ns).
#[derive(Clone, Copy)]
struct Lasting {
    wait: Wait,
    since: u64,
}

fn keeper(wait: &Wait, all: &[Lasting], explain: &Explain) -> Keeper {
    let is_it = |holds: &dyn Fn(&Wait) -> bool| {
        all.iter().position(|it| holds(&it.wait)).map_or(Keeper::Other, Keeper::Waits)
    };
    let holder = (explain.holder)(&wait.waited);
    let found = match holder {
        None => Keeper::Other,
        Some(Holder::KernelThread(tid)) => is_it(&|other| other.tid == tid),
        Some(Holder::Slot(slot, generation)) => {
            let is_its = |other: &Wait| {
                other.slot == slot && generation.is_none_or(|it| it == other.generation)
            };
            match is_it(&is_its) {
                // Who joins one that has ended goes on.
                Keeper::Other if generation.is_some_and(|it| has_ended(slot, it)) => Keeper::Ended,
                other => other,
            }
        }
    };
    // Who held it may have given it up since, and ended: others have it, and the wait lasts. Nor
    // is a mark of two words read at once: its halves may be of two holders.
    if (explain.holder)(&wait.waited) == holder { found } else { Keeper::Other }
}

fn has_ended(slot: u32, generation: u32) -> bool {
    if slot >= stack::slots_made() {
        return false;
    }
    let lives =
        |it: &Fields| it.generation == generation && it.is_used() && it.state != State::Finished;
    table::record(slot).read().is_some_and(|fields| !lives(&fields))
}

/// The steward's looks.
#[derive(Default)]
pub(crate) struct Cycles {
    looked: u64,
    before: Vec<Lasting>,
    /// Waits that were told of, and reports.
    told: Vec<Wait>,
    reports: usize,
}

impl Cycles {
    /// Looks, if the time has come; the report, if there is something new to tell.
    pub fn look(&mut self, now: u64) -> Option<String> {
        let explain = explain()?;
        if self.reports == REPORTS_MAX || now.saturating_sub(self.looked) < PAUSE_NS {
            return None;
        }
        self.looked = now;
        let since = |wait: &Wait| {
            let found = self.before.binary_search_by_key(&wait.slot, |it| it.wait.slot).ok();
            let same = found.map(|at| self.before[at]).filter(|it| it.wait == *wait);
            same.map_or(now, |it| it.since)
        };
        let seen: Vec<_> =
            see(explain).into_iter().map(|wait| Lasting { wait, since: since(&wait) }).collect();
        let lasting: Vec<_> = seen.iter().filter(|it| it.since < now).copied().collect();
        self.before = seen;
        self.told.retain(|told| lasting.iter().any(|it| it.wait == *told));
        if lasting.is_empty() { None } else { self.find(&lasting, now, explain) }
    }

    fn find(&mut self, lasting: &[Lasting], now: u64, explain: &Explain) -> Option<String> {
        let keepers: Vec<_> = lasting.iter().map(|it| keeper(&it.wait, lasting, explain)).collect();
        let is_old = |place: &usize| now.saturating_sub(lasting[*place].since) >= LONG_NS;
        let is_new = |circle: &Vec<usize>| {
            circle.iter().all(|&place| !self.told.contains(&lasting[place].wait))
        };
        let ended =
            (0..lasting.len()).filter(|&it| keepers[it] == Keeper::Ended).map(|it| vec![it]);
        let found = circles(&keepers)
            .chain(ended)
            .filter(|it| it.len() > 1 || it.iter().all(is_old))
            .find(is_new)?;
        let still = see(explain);
        if !found.iter().all(|&place| still.contains(&lasting[place].wait)) {
            return None;
        }
        let behind: Vec<_> =
            (0..lasting.len()).filter(|&it| waits_behind(it, &found, &keepers, lasting)).collect();
        self.reports += 1;
        self.told.extend(found.iter().chain(&behind).map(|&place| lasting[place].wait));
        let threads = found.iter().map(|&place| &lasting[place].wait);
        Some(report(threads, keepers[found[0]] == Keeper::Ended, behind.len(), explain))
    }
}

/// The cycles among those who wait, each once: each waits for one other at most.
fn circles(keepers: &[Keeper]) -> impl Iterator<Item = Vec<usize>> {
    // By which walk a place was reached first; 0 = not yet.
    let mut reached = vec![0; keepers.len()];
    (0..keepers.len()).filter_map(move |start| {
        let (walk, mut at) = (start + 1, start);
        while reached[at] == 0 {
            reached[at] = walk;
            match keepers[at] {
                Keeper::Waits(next) => at = next,
                _ => return None,
            }
        }
        if reached[at] != walk {
            return None;
        }
        let next = |&it: &usize| match keepers[it] {
            Keeper::Waits(next) if next != at => Some(next),
            _ => None,
        };
        Some(core::iter::successors(Some(at), next).collect())
    })
}

/// Whether who waits there waits, by way of others perhaps, for one of `found`, and is none of
/// them; or for what one of them waits for.
fn waits_behind(place: usize, found: &[usize], keepers: &[Keeper], all: &[Lasting]) -> bool {
    if found.contains(&place) {
        return false;
    }
    let next = |&it: &usize| match keepers[it] {
        Keeper::Waits(next) => Some(next),
        _ => None,
    };
    let mut way = core::iter::successors(Some(place), next).take(all.len());
    let address = |it: usize| all[it].wait.waited.address;
    way.any(|it| found.iter().any(|&other| other == it || address(other) == address(it)))
}

fn report<'a>(
    threads: impl ExactSizeIterator<Item = &'a Wait>,
    has_ended: bool,
    behind: usize,
    explain: &Explain,
) -> String {
    let mut text = match threads.len() {
        1 if has_ended => "heddle: a thread waits for what one holds that has ended:\n".to_owned(),
        1 => "heddle: a thread waits for what it holds:\n".to_owned(),
        count => format!("heddle: {count} threads wait for each other:\n"),
    };
    for wait in threads {
        // A text takes all that is written.
        let _ = wait.tell(explain, &mut text);
    }
    let _ = match behind {
        0 => Ok(()),
        1 => writeln!(text, "  1 more waits behind"),
        _ => writeln!(text, "  {behind} more wait behind"),
    };
    text
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;
    use core::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn each_cycle_is_found_once() {
        use Keeper::{Ended, Other, Waits};
        let keepers = [Waits(1), Waits(2), Waits(1), Other, Waits(4), Waits(0), Ended, Waits(6)];
        let found: Vec<_> = circles(&keepers).collect();
        assert_eq!(found, [vec![1, 2], vec![4]]);
        assert_eq!(circles(&[]).count(), 0);
    }

    #[test]
    fn who_has_ended_holds_nothing_that_others_have_had_since() {
        static MARK: AtomicU64 = AtomicU64::new(0);
        fn stays(_: &Waited) -> Option<Holder> {
            let mark = MARK.load(Relaxed);
            Some(Holder::Slot(mark as u32, Some((mark >> 32) as u32)))
        }
        /// At the next look it is nobody's.
        fn goes(waited: &Waited) -> Option<Holder> {
            let held = stays(waited).filter(|_| MARK.load(Relaxed) != 0);
            MARK.store(0, Relaxed);
            held
        }
        let thread = crate::thread::spawn(|| crate::thread::current().id().as_u64());
        let id = thread.join().expect("a thread");
        // Its joiner is told before it has left.
        while !has_ended(id as u32, (id >> 32) as u32) {
            std::thread::yield_now();
        }
        let (describe, can_be_held): (_, fn(&Waited) -> bool) =
            (|_: &Waited, _: &mut dyn Write| Ok(()), |_| true);
        for (holder, keeps) in [(stays as fn(&Waited) -> _, Keeper::Ended), (goes, Keeper::Other)] {
            MARK.store(id, Relaxed);
            assert!(keeper(&Wait::NONE, &[], &Explain { describe, can_be_held, holder }) == keeps);
        }
    }

    #[test]
    fn who_waits_behind_a_cycle_is_told_from_who_does_not() {
        use Keeper::{Ended, Waits};
        let keepers = [Waits(1), Waits(2), Waits(1), Ended, Waits(0), Ended];
        let lasting = |address: usize| {
            let waited = Waited { what: 1, address, then: 0 };
            Lasting { wait: Wait { waited, ..Wait::NONE }, since: 0 }
        };
        // The last waits for the same as the third before it.
        let all = [10, 11, 12, 13, 14, 13].map(lasting);
        let behind = |found: &[usize]| -> Vec<usize> {
            (0..keepers.len()).filter(|&it| waits_behind(it, found, &keepers, &all)).collect()
        };
        assert_eq!(behind(&[1, 2]), [0, 4]);
        assert_eq!(behind(&[3]), [5]);
    }
}
