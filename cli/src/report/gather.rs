//! From the tables of a run to its report.
//!
//! Invariant: each kind of thread that a table names is in the report, also if nothing could be
//! resolved about it.

use std::collections::HashMap;

use heddle_preload::key::Key;
use heddle_preload::policy::Zones;
use heddle_record::{CodePlace, State, Use};

use super::{Kind, Process, advice};
use crate::run::collect;
use crate::symbols::{Symbols, species};

/// A program that nothing told the path of.
pub const UNKNOWN_PROGRAM: &str = "?";

/// The processes that were seen, in the order of their start. `said` are the kinds whose stacks
/// have their size from the policy.
pub fn processes(
    seen: &[collect::Process],
    symbols: &mut Symbols,
    zones: Zones,
    said: &[Key],
) -> Vec<Process> {
    let mut seen: Vec<_> = seen.iter().collect();
    seen.sort_by_key(|it| it.snapshot.created_ns);
    let mut processes: Vec<Process> =
        seen.iter().map(|it| process(it, symbols, zones, said)).collect();
    part_main_cpu(&seen, &mut processes);
    processes
}

/// An exec does not set back the clock of the thread that calls it: what the main thread had used
/// until then was the program's before.
fn part_main_cpu(seen: &[&collect::Process], processes: &mut [Process]) {
    let mut before: HashMap<i32, u64> = HashMap::new();
    for (seen, process) in seen.iter().zip(processes) {
        let until_now = before.remove(&process.pid).unwrap_or(0);
        for kind in process.kinds.iter_mut().filter(|kind| kind.main) {
            if seen.replaced {
                before.insert(process.pid, kind.cpu_ns);
            }
            kind.cpu_ns = kind.cpu_ns.saturating_sub(until_now);
        }
    }
}

fn process(seen: &collect::Process, symbols: &mut Symbols, zones: Zones, said: &[Key]) -> Process {
    let snapshot = &seen.snapshot;
    // A trampoline whose threads are told by their names has an account of its own: nothing in it.
    let uses = snapshot.uses.iter().filter(|it| it.created > 0 || it.failed > 0);
    let mut kinds: Vec<Kind> = uses.map(|it| kind(it, seen, symbols, zones, said)).collect();
    kinds.sort_by_key(|kind| !kind.main);
    let keys: Vec<String> = kinds.iter().map(|kind| kind.key.clone()).collect();
    for kind in kinds.iter_mut().filter(|kind| !kind.key.is_empty() && !kind.main) {
        kind.by_name = keys.iter().filter(|key| **key == kind.key).count() > 1;
    }
    Process {
        pid: snapshot.pid,
        program: seen.program.clone().unwrap_or_else(|| UNKNOWN_PROGRAM.into()),
        in_order: snapshot.ended,
        running: seen.is_running(),
        threads_peak: snapshot.high_water + snapshot.user_peak,
        kinds,
    }
}

fn kind(
    of: &Use,
    seen: &collect::Process,
    symbols: &mut Symbols,
    zones: Zones,
    said: &[Key],
) -> Kind {
    let key = Key::of_use(of);
    let (start, refine) = of.places();
    let named = start.as_ref().filter(|_| !of.is_main());
    let named = named.map(|start| symbols.name(start, refine.as_ref()));
    let site = of.site.as_deref().and_then(CodePlace::parse);
    let outside = seen.peaks.get(&of.index).copied().unwrap_or_default();
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
    let module = start.map(|it| it.path).unwrap_or_default();
    let file = std::fs::canonicalize(&module).unwrap_or_else(|_| module.clone().into());
    let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut kind = Kind {
        species: named.as_ref().and_then(|named| {
            let unnamed = named.function.is_none();
            named.species.or_else(|| species(&file).filter(|_| unnamed))
        }),
        key: key.map(|key| key.to_string()).unwrap_or_default(),
        start: named.as_ref().and_then(|it| it.function.clone()),
        place: named.as_ref().map(|it| it.place.clone()).unwrap_or_default(),
        module,
        site: site.and_then(|it| symbols.line_of_call(&it)),
        defined_at: named.and_then(|it| it.source),
        role: text(&of.role),
        name: text(&of.name),
        class: of.class.word(),
        priority: of.priority,
        group: of.group.word(),
        category: of.category.word(),
        created: of.created.into(),
        failed: of.failed.into(),
        ended: of.ended.into(),
        stack_asked: of.stack_asked.into(),
        stack_given: of.stack_given.into(),
        peak: u64::from(of.peak).max(outside.bytes),
        resident: u64::from(of.resident).max(outside.resident),
        reserved_peak: of.reserved_peak,
        cpu_ns: of.cpu_ns + living_cpu_ns(of.index, seen),
        main: of.is_main(),
        explicit: of.is_explicit(),
        user_stack: of.is_user_stack(),
        tuned: of.is_tuned(),
        by_policy: of.is_tuned() && key.is_some_and(|key| said.iter().any(|it| it.covers(&key))),
        overflowed: of.has_overflowed(),
        tripped: of.has_tripped(),
        ..Kind::default()
    };
    kind.zone = zones.of(kind.peak, kind.stack_given);
    kind.advice = advice::for_kind(&kind);
    kind
}

/// CPU time of the threads of one kind that had not ended when the table was last read, as far as
/// it is not in the kind's sum.
fn living_cpu_ns(index: u32, seen: &collect::Process) -> u64 {
    let living = seen.snapshot.threads.iter().filter(|thread| {
        thread.fields.state != State::Finished
            && thread.stack.as_ref().is_some_and(|stack| stack.use_index == Some(index))
    });
    living
        .map(|thread| {
            let of = |times: &HashMap<_, u64>| times.get(&thread.id).copied().unwrap_or(0);
            let used = of(&seen.cpu_ns).max(thread.fields.cpu_ns);
            used.saturating_sub(of(&seen.counted_ns))
        })
        .sum()
}
