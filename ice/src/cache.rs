//! The cache of entries, by the raw path of the request: a hit decodes nothing and asks the
//! kernel nothing.
//!
//! Invariants: an entry is handed out without a look at the file only in the second in which the
//! file was last looked at; the weights and open files of a stripe stay within its share of the
//! bounds. The cache is split into stripes, one per worker, so that workers do not share a lock,
//! nor the reference counts of hot entries; a hot file is kept once per stripe.
//!
//! Eviction is second chance: a queue in order of arrival, where an entry that was used since it
//! was last looked at goes round once more.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::entry::Entry;
use crate::rt::{Mutex, lock};

/// Bytes that an entry costs beside its own weight: key twice, slot, queue.
const OVERHEAD_BYTES: usize = 128;

/// Answer of the cache.
#[derive(Debug)]
pub enum Lookup {
    /// Good for this second.
    Fresh(Arc<Entry>),
    /// Was good; the file has to be looked at.
    Stale(Arc<Entry>),
    /// Not there.
    Miss,
}

/// The cache.
#[derive(Debug)]
pub struct Cache {
    stripes: Box<[Padded]>,
    bytes_max: usize,
    files_max: usize,
}

/// Keeps the locks of two stripes out of one pair of cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Mutex<Stripe>);

#[derive(Debug, Default)]
struct Stripe {
    slots: HashMap<Arc<[u8]>, Slot>,
    queue: VecDeque<Arc<[u8]>>,
    bytes: usize,
    files: usize,
    hits: u64,
    misses: u64,
}

#[derive(Debug)]
struct Slot {
    entry: Arc<Entry>,
    used: bool,
}

/// Figures of the cache, over all stripes.
#[derive(Debug, Default, Clone, Copy)]
#[allow(missing_docs)]
pub struct Figures {
    pub entries: usize,
    pub bytes: usize,
    pub bytes_max: usize,
    pub files: usize,
    pub hits: u64,
    pub misses: u64,
}

impl Cache {
    /// A cache of `stripes` parts that together keep to the bounds.
    pub fn new(stripes: usize, bytes_max: usize, files_max: usize) -> Cache {
        let stripes = stripes.max(1);
        Cache {
            stripes: (0..stripes).map(|_| Padded::default()).collect(),
            bytes_max: bytes_max / stripes,
            files_max: files_max / stripes,
        }
    }

    fn stripe(&self, stripe: usize) -> &Mutex<Stripe> {
        &self.stripes[stripe % self.stripes.len()].0
    }

    /// Looks a path up.
    #[inline]
    pub fn get(&self, stripe: usize, path: &[u8], second: u64) -> Lookup {
        let mut stripe = lock(self.stripe(stripe));
        let stripe = &mut *stripe;
        match stripe.slots.get_mut(path) {
            Some(slot) if slot.entry.second == second => {
                slot.used = true;
                stripe.hits += 1;
                Lookup::Fresh(slot.entry.clone())
            }
            Some(slot) => Lookup::Stale(slot.entry.clone()),
            None => {
                stripe.misses += 1;
                Lookup::Miss
            }
        }
    }

    /// Makes the entry that was seen one of this second, in place unless it is being sent.
    pub fn renew(&self, stripe: usize, path: &[u8], seen: Arc<Entry>, second: u64) -> Arc<Entry> {
        let mut stripe = lock(self.stripe(stripe));
        match stripe.slots.get_mut(path) {
            Some(slot) if Arc::ptr_eq(&slot.entry, &seen) => {
                drop(seen);
                Arc::make_mut(&mut slot.entry).restamp(second);
                slot.used = true;
                slot.entry.clone()
            }
            // Another thread renewed, replaced or evicted it meanwhile.
            _ => {
                let mut entry = seen;
                Arc::make_mut(&mut entry).restamp(second);
                entry
            }
        }
    }

    /// Keeps an entry, or replaces the one at its path.
    pub fn put(&self, stripe: usize, path: &[u8], entry: Arc<Entry>) {
        let cost = cost(path, &entry);
        let files = entry.open_files();
        let fits = cost <= self.bytes_max / 4 && files <= self.files_max;
        let mut stripe = lock(self.stripe(stripe));
        stripe.remove(path);
        if !entry.cacheable() || !fits {
            return;
        }
        while stripe.bytes + cost > self.bytes_max || stripe.files + files > self.files_max {
            if !stripe.evict() {
                return;
            }
        }
        let key: Arc<[u8]> = path.into();
        stripe.bytes += cost;
        stripe.files += files;
        stripe.queue.push_back(key.clone());
        stripe.slots.insert(key, Slot { entry, used: false });
    }

    /// Figures for people.
    pub fn figures(&self) -> Figures {
        let mut sum =
            Figures { bytes_max: self.bytes_max * self.stripes.len(), ..Figures::default() };
        for stripe in &self.stripes {
            let stripe = lock(&stripe.0);
            sum.entries += stripe.slots.len();
            sum.bytes += stripe.bytes;
            sum.files += stripe.files;
            sum.hits += stripe.hits;
            sum.misses += stripe.misses;
        }
        sum
    }
}

fn cost(path: &[u8], entry: &Entry) -> usize {
    OVERHEAD_BYTES + path.len() + entry.weight()
}

impl Stripe {
    /// Takes an entry out; its key stays in the queue until its turn comes.
    fn remove(&mut self, path: &[u8]) {
        if let Some((key, slot)) = self.slots.remove_entry(path) {
            self.bytes -= cost(&key, &slot.entry);
            self.files -= slot.entry.open_files();
            self.compact();
        }
    }

    /// Drops keys without a slot once they are the larger part, so that replacing an entry over
    /// and over cannot make the queue grow.
    fn compact(&mut self) {
        if self.queue.len() < 2 * self.slots.len() + 64 {
            return;
        }
        let slots = &self.slots;
        let mut seen = std::collections::HashSet::new();
        self.queue.retain(|key| slots.contains_key(key) && seen.insert(key.clone()));
    }

    /// Evicts one entry; false when there is none.
    fn evict(&mut self) -> bool {
        while let Some(key) = self.queue.pop_front() {
            match self.slots.get_mut(&key) {
                None => {}
                Some(slot) if slot.used => {
                    slot.used = false;
                    self.queue.push_back(key);
                }
                Some(_) => {
                    self.remove(&key);
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Found;
    use crate::status::Status;

    fn page(bytes: usize, second: u64) -> Arc<Entry> {
        Arc::new(Entry { second, found: Found::Page(Arc::new(vec![0; bytes])) })
    }

    #[test]
    fn an_entry_is_fresh_for_its_second_only() {
        let cache = Cache::new(1, 1 << 20, 8);
        assert!(matches!(cache.get(0, b"/a", 7), Lookup::Miss));
        cache.put(0, b"/a", page(10, 7));
        assert!(matches!(cache.get(0, b"/a", 7), Lookup::Fresh(_)));
        let Lookup::Stale(seen) = cache.get(0, b"/a", 8) else { panic!("not stale") };
        assert_eq!(cache.renew(0, b"/a", seen, 8).second, 8);
        assert!(matches!(cache.get(0, b"/a", 8), Lookup::Fresh(_)));
    }

    #[test]
    fn an_entry_in_use_is_not_changed_under_its_user() {
        let cache = Cache::new(1, 1 << 20, 8);
        cache.put(0, b"/a", page(10, 7));
        let Lookup::Fresh(held) = cache.get(0, b"/a", 7) else { panic!("not fresh") };
        let Lookup::Stale(seen) = cache.get(0, b"/a", 8) else { panic!("not stale") };
        cache.renew(0, b"/a", seen, 8);
        assert_eq!(held.second, 7);
    }

    #[test]
    fn bounds_hold_and_used_entries_stay_longer() {
        let cache = Cache::new(1, 64 << 10, 8);
        for n in 0..1000 {
            cache.put(0, format!("/{n}").as_bytes(), page(4000, 1));
            assert!(n == 0 || matches!(cache.get(0, b"/0", 1), Lookup::Fresh(_)), "{n}");
            let figures = cache.figures();
            assert!(figures.bytes <= 64 << 10, "{figures:?}");
        }
        assert!(matches!(cache.get(0, b"/5", 1), Lookup::Miss));
    }

    #[test]
    fn replacing_does_not_leak() {
        let cache = Cache::new(1, 1 << 20, 8);
        for n in 0..10_000 {
            cache.put(0, b"/a", page(100, n));
            cache.put(0, b"/b", page(100, n));
        }
        assert_eq!(cache.figures().entries, 2);
        assert!(lock(&cache.stripes[0].0).queue.len() <= 70);
    }

    #[test]
    fn exhaustion_is_not_remembered() {
        let cache = Cache::new(1, 1 << 20, 8);
        let refused = |status| Arc::new(Entry { second: 1, found: Found::Refused(status) });
        cache.put(0, b"/a", refused(Status::UNAVAILABLE));
        assert!(matches!(cache.get(0, b"/a", 1), Lookup::Miss));
        cache.put(0, b"/a", refused(Status::NOT_FOUND));
        assert!(matches!(cache.get(0, b"/a", 1), Lookup::Fresh(_)));
    }
}
