//! One line per thread of a process without a table.
//!
//! Invariant: shows what /proc knows and no column for what it does not.

use std::io::{self, Write};

use heddle_preload::mediator::scheduling_words;
use heddle_preload::sys::sched;
use heddle_record::{Snapshot, Thread};

use super::state;
use crate::text::{duration, harmless};

pub fn write(out: &mut impl Write, snapshot: &Snapshot) -> io::Result<()> {
    let policies: Vec<String> = snapshot.threads.iter().map(scheduling).collect();
    let width = policies.iter().map(String::len).max().unwrap_or(0).max("SCHEDULING".len());
    writeln!(
        out,
        "{:>8}  {:<8}  {:<width$}  {:>8}  {:>10}  NAME",
        "TID", "STATE", "SCHEDULING", "CPU", "SWITCHES"
    )?;
    for (thread, policy) in snapshot.threads.iter().zip(&policies) {
        let fields = &thread.fields;
        writeln!(
            out,
            "{:>8}  {:<8}  {policy:<width$}  {:>8}  {:>10}  {}",
            fields.tid,
            state(thread),
            duration(fields.cpu_ns),
            fields.switches,
            harmless(thread.name.as_deref().unwrap_or("-")),
        )?;
    }
    Ok(())
}

/// "other", "other, nice 5", "rr 49", "-" for a thread that has ended meanwhile.
fn scheduling(thread: &Thread) -> String {
    sched::get(thread.fields.tid).map_or("-".into(), |it| scheduling_words(&it))
}
