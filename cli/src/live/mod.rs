//! A process as `ps`, `top` and attach mode see it while it lives: its table, completed by what
//! can be measured and resolved from outside, or, where it has no table, /proc alone.
//!
//! Invariant: looking changes nothing in the process, and costs it nothing but the kernel's time.

mod outside;
mod starts;

use heddle_preload::measure::Meter;
use heddle_preload::policy::Zones;
use heddle_record::{Error, Reader, Snapshot};

pub use outside::{LIMITS, look};
pub use starts::Starts;

/// The process as its table or else /proc has it.
///
/// # Errors
/// What is wrong with its table, or [`Error::NoTable`] if there is no such process at all.
pub fn take(pid: i32) -> Result<Snapshot, Error> {
    match Reader::open(pid) {
        // Of somebody who has this number elsewhere.
        Ok(reader) if !reader.is_of_here() => look(pid).ok_or(Error::NoTable { pid }),
        Ok(reader) => {
            let mut snapshot = reader.snapshot()?;
            snapshot.ask_kernel();
            Ok(snapshot)
        }
        Err(error @ Error::NoTable { .. }) => look(pid).ok_or(error),
        Err(error) => Err(error),
    }
}

/// Whether it was made from /proc alone: the numbers of a table are never 0.
pub fn is_outside(snapshot: &Snapshot) -> bool {
    snapshot.capacity == 0
}

/// Measures the stacks of the living threads that libheddle-preload told the places of. Up to
/// `threads_max` of them, the first ones `skip` left out; returns how many there were.
pub fn measure(snapshot: &mut Snapshot, skip: usize, threads_max: usize) -> usize {
    let Ok(meter) = Meter::new(snapshot.pid) else { return 0 };
    let small = |bytes| u32::try_from(bytes).unwrap_or(u32::MAX);
    let (mut count, mut measured) = (0, Vec::new());
    for (index, thread) in snapshot.threads.iter().enumerate() {
        let Some(stack) = thread.stack.filter(|stack| stack.low != 0) else { continue };
        count += 1;
        if !snapshot.alive || count <= skip || count > skip + threads_max {
            continue;
        }
        measured.extend(meter.peak(&stack).map(|peak| (index, stack, peak)));
    }
    if measured.is_empty() {
        return count;
    }
    let living = Reader::open(snapshot.pid).and_then(|reader| reader.living()).unwrap_or_default();
    for (index, stack, peak) in measured {
        let thread = &mut snapshot.threads[index];
        if !living.contains(&thread.id) {
            continue;
        }
        let fields = &mut thread.fields;
        fields.stack_peak = fields.stack_peak.max(small(peak.bytes));
        fields.stack_resident = small(peak.resident);
        let usable = stack.entry - stack.low;
        fields.zone = Zones::default().of(fields.stack_peak.into(), usable);
    }
    count
}
