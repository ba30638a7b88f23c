//! A copy of a process's table, every number of it checked.
//!
//! Invariants
//! - Nothing from the file is used as an offset, a length or an id before it was compared with
//!   the file's size or the header's limits. A lie in the header is an [`Error`]; a lie in a
//!   record is a [`SlotFault`] and the other records are still given.
//! - Work and memory are bounded by the format's limits, whatever the file says.
//!
//! Protocol
//! 1. Records and uses are copied as `copy.rs` says, so that none is half-written.
//! 2. Texts are read after the records: the writer makes a text before its id, so that every
//!    honest id is below the later `text_used`. Uses come last: a thread's use is there already.
//! 3. A thread is running if it is ready and a worker says that it runs it.

use std::fmt;
use std::sync::Arc;

use crate::copy::{self, Copy, PlaceBytes};
use crate::header::Header;
use crate::layout::{
    FLAG_ENDED, FLAG_NATIVE, FLAG_PARTIAL, FLAG_PRELOAD, FLAG_TEXTS_FULL, RECORDS_MAX, WORKER_NONE,
};
use crate::lookup::Texts;
use crate::source::Source;
use crate::stack::StackPlace;
use crate::uses::{self, Use, UseFault};
use crate::words::{Kind, State};
use crate::{Error, Fault, Fields, process};

/// More faults than this say nothing new.
const FAULTS_MAX: usize = 1024;

/// A thread's id: a slot of the table, and which of the slot's threads it is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ThreadId {
    /// Index of its record.
    pub slot: u32,
    /// How often the slot was given away before.
    pub generation: u32,
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.slot, self.generation))
    }
}

/// A thread or a worker, as its record described it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Thread {
    /// Which it is.
    pub id: ThreadId,
    /// The record's fields. `state` is [`State::Running`] if a worker says that it runs it.
    pub fields: Fields,
    /// What it is for.
    pub role: Option<Arc<str>>,
    /// Its start function.
    pub start: Option<Arc<str>>,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Of a worker: the slot of the thread that it runs.
    pub runs: Option<u32>,
    /// Where its stack lies, if its process says so.
    pub stack: Option<StackPlace>,
}

impl Thread {
    /// The worker it belongs to, or is.
    pub fn worker(&self) -> Option<u16> {
        (self.fields.worker != WORKER_NONE).then_some(self.fields.worker)
    }
}

/// Which record cannot be believed, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlotFault {
    /// Index of the record.
    pub slot: u32,
    /// What is wrong with it.
    pub fault: Fault,
}

impl fmt::Display for SlotFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: {}", self.slot, self.fault)
    }
}

/// A process's threads at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The process.
    pub pid: i32,
    /// Whether it still ran; `false` also for an image.
    pub alive: bool,
    /// When the copy was made, on CLOCK_MONOTONIC.
    pub taken_ns: u64,
    /// When the table was made, on CLOCK_MONOTONIC.
    pub created_ns: u64,
    /// Records that the table has room for.
    pub capacity: u32,
    /// Slots that were ever used.
    pub high_water: u32,
    /// The threads, by slot.
    pub threads: Vec<Thread>,
    /// The workers, by slot.
    pub workers: Vec<Thread>,
    /// Records that cannot be believed (the first 1024).
    pub faults: Vec<SlotFault>,
    /// Some threads have no public record, because memory ran out.
    pub partial: bool,
    /// Some texts are missing, because their area is full.
    pub texts_full: bool,
    /// The threads are kernel threads (native backend).
    pub native: bool,
    /// What the threads of each kind did, ended ones included, by index. Only
    /// libheddle-preload writes these.
    pub uses: Vec<Use>,
    /// Uses that cannot be believed, or only in part (the first 1024).
    pub use_faults: Vec<UseFault>,
    /// The `heddle run` that started the process, 0 if none did.
    pub run: u64,
    /// The table was written by libheddle-preload.
    pub preload: bool,
    /// The process has ended in order: all peaks were measured.
    pub ended: bool,
    /// Most threads at one time that `uses` count and no record shows.
    pub user_peak: u32,
}

impl Snapshot {
    /// Reads an image of a table: the bytes of a file that was saved.
    ///
    /// # Errors
    /// What is wrong with the table as a whole.
    pub fn from_bytes(image: &[u8]) -> Result<Snapshot, Error> {
        Snapshot::take(image)
    }

    pub(crate) fn take<S: Source + ?Sized>(source: &S) -> Result<Snapshot, Error> {
        let header = Header::read(source)?;
        let taken_ns = process::now_ns();
        let mut found = Vec::new();
        let mut faults = Faults(Vec::new());
        copy::visit(source, &header, |slot, result| match result {
            Ok(copy) if copy.fields.is_used() => found.push((slot, copy)),
            Ok(_) => {}
            Err(fault) => faults.push(slot, fault),
        })?;
        // After the records: their uses and texts are below what is in use now.
        let use_copies = copy::uses(source, &Header::read(source)?)?;
        let header = Header { high_water: header.high_water, ..Header::read(source)? };
        let mut resolver = Resolver { texts: Texts::read(source, &header)?, faults, header };
        let (mut threads, mut workers) = (Vec::new(), Vec::new());
        for (slot, copy) in found {
            let thread = resolver.resolve(slot, &copy);
            let is_worker = thread.fields.kind == Kind::Worker;
            if is_worker { &mut workers } else { &mut threads }.push(thread);
        }
        mark_running(&mut threads, &workers);
        let (uses, use_faults) = uses::resolve(use_copies, &mut resolver.texts, FAULTS_MAX);
        Ok(Snapshot {
            pid: header.pid,
            alive: false,
            taken_ns,
            created_ns: header.created_ns,
            capacity: header.capacity,
            high_water: header.high_water,
            threads,
            workers,
            faults: resolver.faults.0,
            partial: header.flags & FLAG_PARTIAL != 0,
            texts_full: header.flags & FLAG_TEXTS_FULL != 0,
            native: header.flags & FLAG_NATIVE != 0,
            uses,
            use_faults,
            run: header.run,
            preload: header.flags & FLAG_PRELOAD != 0,
            ended: header.flags & FLAG_ENDED != 0,
            user_peak: header.user_peak,
        })
    }

    /// What the threads of the same kind as `thread` did; `None` if that is not known.
    pub fn use_of(&self, thread: &Thread) -> Option<&Use> {
        let index = thread.stack?.use_index?;
        let at = self.uses.binary_search_by_key(&index, |it| it.index).ok()?;
        Some(&self.uses[at])
    }
}

/// A runtime writes "ready" for running threads as well; the workers know better.
fn mark_running(threads: &mut [Thread], workers: &[Thread]) {
    for worker in workers {
        let Some(slot) = worker.runs else { continue };
        // Not found: it ended between the two looks.
        let Ok(index) = threads.binary_search_by_key(&slot, |thread| thread.id.slot) else {
            continue;
        };
        let fields = &mut threads[index].fields;
        if fields.state == State::Ready {
            fields.state = State::Running;
            fields.worker = worker.fields.worker;
            fields.tid = worker.fields.tid;
        }
    }
}

/// The faults found so far, not more than say something.
struct Faults(Vec<SlotFault>);

impl Faults {
    fn push(&mut self, slot: u32, fault: Fault) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(SlotFault { slot, fault });
        }
    }
}

/// Turns a record's ids into what they stand for.
struct Resolver {
    texts: Texts,
    faults: Faults,
    header: Header,
}

impl Resolver {
    fn resolve(&mut self, slot: u32, copy: &Copy) -> Thread {
        let fields = copy.fields;
        let is_worker = fields.kind == Kind::Worker;
        let role = self.texts.role(fields.role);
        let name = self.texts.text("name", fields.name);
        let start = if is_worker { Ok(None) } else { self.texts.text("start", fields.start) };
        let runs = if is_worker { self.slot_of(fields.start) } else { Ok(None) };
        Thread {
            id: ThreadId { slot, generation: fields.generation },
            fields,
            role: self.or_fault(slot, role),
            start: self.or_fault(slot, start),
            name: self.or_fault(slot, name),
            runs: self.or_fault(slot, runs),
            stack: self.stack(slot, &copy.place),
        }
    }

    fn stack(&mut self, slot: u32, place: &PlaceBytes) -> Option<StackPlace> {
        let stack = StackPlace::from_bytes(place, self.header.uses_capacity);
        self.or_fault(slot, stack)
    }

    fn or_fault<T>(&mut self, slot: u32, result: Result<Option<T>, Fault>) -> Option<T> {
        result.unwrap_or_else(|fault| {
            self.faults.push(slot, fault);
            None
        })
    }

    /// A worker's `start` is a slot plus one. The thread may be newer than our look at the high
    /// water, so a slot just beyond it is no lie; it is only of no use.
    fn slot_of(&self, start: u32) -> Result<Option<u32>, Fault> {
        match start.checked_sub(1) {
            Some(slot) if slot >= RECORDS_MAX => Err(Fault::Id { field: "start", raw: start }),
            Some(slot) => Ok((slot < self.header.high_water).then_some(slot)),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_with_a_width() {
        let id = ThreadId { slot: 3, generation: 1 };
        assert_eq!(format!("{id:>6}|"), "   3.1|");
    }
}
