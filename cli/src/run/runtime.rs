//! A program on heddle's own runtime, seen from its run.
//!
//! Such a program has a table of its own in the place of the library's: its threads are
//! user-level threads, which its runtime names, sizes and schedules. The run only says what that
//! table shows.
//!
//! Invariant: numbers are the highest that any look found; a look that fails changes nothing.

use std::collections::BTreeMap;

use heddle_record::{Kind, Reader, Snapshot};

/// What the looks found, by role.
#[derive(Debug, Default)]
pub struct Seen {
    roles: BTreeMap<String, Role>,
    most: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Role {
    threads: usize,
    stack_bytes: u32,
    peak_bytes: u32,
}

impl Seen {
    /// Looks at the table of `pid` once more. `false`: it has none that a runtime wrote.
    pub fn look(&mut self, pid: i32) -> bool {
        let snapshot = Reader::open(pid).and_then(|reader| reader.snapshot());
        let Ok(snapshot) = snapshot.map_err(drop) else { return false };
        if snapshot.preload {
            return false;
        }
        self.add(&snapshot);
        true
    }

    fn add(&mut self, snapshot: &Snapshot) {
        let mut now: BTreeMap<&str, Role> = BTreeMap::new();
        let own = |kind| matches!(kind, Kind::Light | Kind::Full);
        let mut count = 0;
        for thread in snapshot.threads.iter().filter(|thread| own(thread.fields.kind)) {
            let role = now.entry(thread.role.as_deref().unwrap_or("(no role)")).or_default();
            role.threads += 1;
            role.stack_bytes = role.stack_bytes.max(thread.fields.stack_size);
            role.peak_bytes = role.peak_bytes.max(thread.fields.stack_peak);
            count += 1;
        }
        self.most = self.most.max(count);
        for (name, seen) in now {
            let role = self.roles.entry(name.to_owned()).or_default();
            role.threads = role.threads.max(seen.threads);
            role.stack_bytes = role.stack_bytes.max(seen.stack_bytes);
            role.peak_bytes = role.peak_bytes.max(seen.peak_bytes);
        }
    }

    /// Most user-level threads at one look.
    pub fn most(&self) -> usize {
        self.most
    }

    /// What to tell.
    pub fn notes(&self) -> Vec<String> {
        let first = "its threads are heddle's own, named, sized and scheduled by its runtime; \
                     `heddle ps` and `heddle top` show them while it runs";
        let roles = self.roles.iter().map(|(name, role)| {
            let peak = match role.peak_bytes {
                0 => "not measured".to_owned(),
                bytes => format!("{bytes} bytes used"),
            };
            let kib = role.stack_bytes >> 10;
            format!("{name}: at most {} at once, stack {kib} KiB, {peak}", role.threads)
        });
        std::iter::once(first.to_owned()).chain(roles).collect()
    }
}
