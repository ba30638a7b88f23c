//! The workers of a process's runtime: which of them runs, or has ready, a time-critical thread.
//!
//! To the kernel a user-level thread is whatever worker runs it. So a worker is in the Fast region
//! as long as a time-critical thread belongs to it, and has the priority of the most urgent one of
//! those that were active since the last look, 0 if none was.
//!
//! Invariant: a worker is never in the Lazy region, whatever it runs: the next thread of it may be
//! time-critical, and the runtime prefers that one by itself.

use std::collections::HashMap;

use heddle_record::{Class, Fields, Kind, Reader, State};

use super::world::Attributes;

/// Workers by tid.
#[derive(Debug, Default)]
pub struct Workers {
    known: HashMap<i32, Attributes>,
    /// Of time-critical threads by slot: generation, and how often they had been switched to.
    switches: HashMap<u32, (u32, u32)>,
}

/// What one look finds.
#[derive(Default)]
struct Look {
    tids: HashMap<u16, i32>,
    /// By worker: the highest priority among its active threads.
    priorities: HashMap<u16, u8>,
    switches: HashMap<u32, (u32, u32)>,
}

impl Look {
    fn take(&mut self, slot: u32, fields: &Fields, before: Option<&(u32, u32)>) {
        let living = !matches!(fields.state, State::Free | State::New | State::Finished);
        match fields.kind {
            Kind::Worker if fields.tid > 0 => {
                self.tids.insert(fields.worker, fields.tid);
            }
            Kind::Light | Kind::Full if living && fields.class == Class::TimeCritical => {
                let now = (fields.generation, fields.switches);
                let is_active = fields.state == State::Ready || before != Some(&now);
                let priority = self.priorities.entry(fields.worker).or_default();
                *priority = (*priority).max(if is_active { fields.priority } else { 0 });
                self.switches.insert(slot, now);
            }
            _ => {}
        }
    }

    fn attributes(&self, worker: u16) -> Attributes {
        let of_runtime = Attributes { is_runtimes: true, ..Attributes::default() };
        match self.priorities.get(&worker) {
            Some(&priority) => Attributes { class: Class::TimeCritical, priority, ..of_runtime },
            None => of_runtime,
        }
    }
}

impl Workers {
    /// Reads the runtime's table. Whether anything is otherwise than it was.
    pub fn read(&mut self, reader: &Reader) -> bool {
        let mut look = Look::default();
        let result = reader.visit(|slot, record| {
            if let Ok(fields) = record {
                look.take(slot, &fields, self.switches.get(&slot));
            }
        });
        result.is_ok() && self.learn(look)
    }

    fn learn(&mut self, look: Look) -> bool {
        let known = look.tids.iter().map(|(worker, tid)| (*tid, look.attributes(*worker)));
        let known: HashMap<i32, Attributes> = known.collect();
        self.switches = look.switches;
        let changed = known != self.known;
        self.known = known;
        changed
    }

    /// What a kernel thread is as a worker, if it is one.
    pub fn attributes(&self, tid: i32) -> Option<Attributes> {
        self.known.get(&tid).copied()
    }

    /// Whether one of its time-critical threads was active since the last look; `None`: it is no
    /// worker.
    pub fn is_active(&self, tid: i32) -> Option<bool> {
        self.known.get(&tid).map(|it| it.priority != 0)
    }

    /// The table is another one, or none.
    pub fn clear(&mut self) {
        *self = Workers::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(index: u16) -> Fields {
        let (kind, state) = (Kind::Worker, State::Ready);
        Fields { kind, state, tid: 100 + i32::from(index), worker: index, ..Fields::default() }
    }

    fn critical(worker: u16, priority: u8, state: State, switches: u32) -> Fields {
        let (kind, class) = (Kind::Full, Class::TimeCritical);
        Fields { kind, class, priority, state, worker, switches, ..Fields::default() }
    }

    fn look(workers: &mut Workers, records: &[Fields]) -> bool {
        let mut look = Look::default();
        for (slot, fields) in (0..).zip(records) {
            look.take(slot, fields, workers.switches.get(&slot));
        }
        workers.learn(look)
    }

    fn said(workers: &Workers, tid: i32) -> (Class, u8) {
        let it = workers.attributes(tid).expect("a worker");
        assert!(it.is_runtimes);
        (it.class, it.priority)
    }

    #[test]
    fn a_worker_is_as_urgent_as_its_active_threads() {
        let mut workers = Workers::default();
        let lazy = Fields { class: Class::Lazy, ..critical(1, 0, State::Ready, 1) };
        let records = |first: Fields| [worker(0), worker(1), first, lazy];
        assert!(look(&mut workers, &records(critical(0, 7, State::Ready, 1))));
        assert_eq!(said(&workers, 100), (Class::TimeCritical, 7));
        assert_eq!(said(&workers, 101), (Class::Lazy, 0));
        assert_eq!(workers.attributes(102), None);
        // It parks without having run, which is seen once; it runs in between and parks.
        for (switches, active) in [(1, 0), (1, 0), (2, 7), (2, 0)] {
            look(&mut workers, &records(critical(0, 7, State::Parked, switches)));
            assert_eq!(said(&workers, 100), (Class::TimeCritical, active));
            assert_eq!(workers.is_active(100), Some(active != 0));
        }
        // It is taken by the other worker; it ends.
        assert!(look(&mut workers, &records(critical(1, 7, State::Ready, 2))));
        assert_eq!((said(&workers, 100).1, said(&workers, 101).1), (0, 7));
        assert!(look(&mut workers, &records(critical(1, 7, State::Finished, 3))));
        assert_eq!(said(&workers, 101), (Class::Lazy, 0));
        assert!(!look(&mut workers, &records(critical(1, 7, State::Finished, 3))));
    }
}
