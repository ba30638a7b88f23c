//! Start functions of a process's threads as names: places from the table, resolved offline.
//!
//! Invariant: each place is resolved once per process that is looked at, however often the table
//! is read.

use std::collections::HashMap;
use std::sync::Arc;

use heddle_record::{CodePlace, Snapshot, Thread, Use};

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
        let Snapshot { threads, uses, .. } = snapshot;
        for thread in threads {
            let named = match use_of(uses, thread) {
                Some(kind) => self.name_of(kind),
                None => thread.start.as_ref().and_then(|text| self.name_of_text(text)),
            };
            thread.start = named.or(thread.start.take());
        }
    }

    /// The name of what starts threads of this kind.
    pub fn name_of(&mut self, kind: &Use) -> Option<Arc<str>> {
        if kind.is_main() {
            return Some("main".into());
        }
        self.name_of_text(kind.start.as_ref()?)
    }

    /// The name of what a table says so of; `None` where it is no place.
    fn name_of_text(&mut self, text: &Arc<str>) -> Option<Arc<str>> {
        if let Some(name) = self.names.get(text) {
            return Some(name.clone());
        }
        let mut places = text.lines().map(CodePlace::parse);
        let start = places.next().flatten()?;
        let named = self.symbols.name(&start, places.next().flatten().as_ref());
        let name: Arc<str> = named.function.unwrap_or(named.place).into();
        self.names.insert(text.clone(), name.clone());
        Some(name)
    }
}

fn use_of<'a>(uses: &'a [Use], thread: &Thread) -> Option<&'a Use> {
    let index = thread.stack?.use_index?;
    uses.iter().find(|kind| kind.index == index)
}
