//! Start functions of a process's threads as names: places from the table, resolved offline.
//!
//! Invariant: each place is resolved once per process that is looked at, however often the table
//! is read.

use std::collections::HashMap;
use std::sync::Arc;

use heddle_record::{Snapshot, Thread, Use};

use crate::symbols::Symbols;

/// Names that were found so far.
#[derive(Default)]
pub struct Starts {
    symbols: Symbols,
    /// By the text of the place.
    names: HashMap<Arc<str>, Arc<str>>,
}

impl Starts {
    /// Replaces the places in a snapshot by names. What has no name keeps "module+0xOFFSET".
    pub fn name(&mut self, snapshot: &mut Snapshot) {
        if !snapshot.preload {
            return;
        }
        let Snapshot { threads, uses, .. } = snapshot;
        for thread in threads {
            let kind = use_of(uses, thread);
            if let Some(name) = kind.and_then(|kind| self.name_of(kind)) {
                thread.start = Some(name);
            }
        }
    }

    /// The name of what starts threads of this kind.
    pub fn name_of(&mut self, kind: &Use) -> Option<Arc<str>> {
        if kind.is_main() {
            return Some("main".into());
        }
        let text = kind.start.clone()?;
        if let Some(name) = self.names.get(&text) {
            return Some(name.clone());
        }
        let (start, refine) = kind.places();
        let named = self.symbols.name(&start?, refine.as_ref());
        let name: Arc<str> = named.function.unwrap_or(named.place).into();
        self.names.insert(text, name.clone());
        Some(name)
    }
}

fn use_of<'a>(uses: &'a [Use], thread: &Thread) -> Option<&'a Use> {
    let index = thread.stack?.use_index?;
    uses.iter().find(|kind| kind.index == index)
}
