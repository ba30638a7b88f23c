//! One record in shared memory, as its writer sees it.
//!
//! Invariant: any byte pattern is a valid `Record` (all fields are atomics), so that a mapping
//! may be viewed as records whatever other processes do to it.
//!
//! Protocol
//! 1. `publish` is called by one kernel thread at a time per record; it rewrites all fields under
//!    the sequence number.
//! 2. A `set_*` is one relaxed store and leaves the sequence alone. Whoever owns the thread at
//!    that moment may call it. A reader may see two such stores in either order.
//! 3. `read` gives the fields of one publish, mixed only with later single stores.

use core::sync::atomic::{
    AtomicI32, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release, fence,
};

use crate::fields::Fields;
use crate::words::{Category, Class, Group, Kind, State, Zone};

/// A writer holds a record for a few nanoseconds; a reader that met it this often has met a dead
/// or a lying one.
const READ_ATTEMPTS_MAX: u32 = 64;

/// `struct heddle_record`: what a thread is, in one cache line.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Record {
    pub(crate) sequence: AtomicU32,
    pub(crate) generation: AtomicU32,
    pub(crate) tid: AtomicI32,
    pub(crate) worker: AtomicU16,
    pub(crate) state: AtomicU8,
    pub(crate) kind: AtomicU8,
    pub(crate) class: AtomicU8,
    pub(crate) priority: AtomicU8,
    pub(crate) group: AtomicU8,
    pub(crate) category: AtomicU8,
    pub(crate) policy: AtomicU8,
    pub(crate) zone: AtomicU8,
    pub(crate) role: AtomicU16,
    pub(crate) start: AtomicU32,
    pub(crate) stack_size: AtomicU32,
    pub(crate) stack_peak: AtomicU32,
    pub(crate) stack_resident: AtomicU32,
    pub(crate) created_ns: AtomicU64,
    pub(crate) cpu_ns: AtomicU64,
    pub(crate) switches: AtomicU32,
    pub(crate) name: AtomicU32,
}

const _: () = assert!(size_of::<Record>() == crate::layout::RECORD_SIZE);

/// Defines setters that are one relaxed store each.
macro_rules! setters {
    ($($(#[$doc:meta])* $setter:ident: $field:ident, $type:ty;)*) => {
        $($(#[$doc])* #[inline(always)]
        pub fn $setter(&self, value: $type) { self.$field.store(value as _, Relaxed) })*
    };
}

impl Record {
    /// Writes all fields as one unit.
    #[inline]
    pub fn publish(&self, fields: &Fields) {
        // `| 1` also heals a record whose last writer died half-way.
        let odd = self.sequence.load(Relaxed) | 1;
        self.sequence.store(odd, Relaxed);
        // ORDER: pairs with the Acquire fence in `read`: who sees a field below sees `odd` too.
        fence(Release);
        self.store_all(fields);
        // ORDER: pairs with the Acquire load in `read`.
        self.sequence.store(odd.wrapping_add(1), Release);
    }

    #[inline(always)]
    fn store_all(&self, fields: &Fields) {
        self.generation.store(fields.generation, Relaxed);
        self.tid.store(fields.tid, Relaxed);
        self.worker.store(fields.worker, Relaxed);
        self.state.store(fields.state as u8, Relaxed);
        self.kind.store(fields.kind as u8, Relaxed);
        self.class.store(fields.class as u8, Relaxed);
        self.priority.store(fields.priority, Relaxed);
        self.group.store(fields.group as u8, Relaxed);
        self.category.store(fields.category as u8, Relaxed);
        self.policy.store(fields.policy, Relaxed);
        self.zone.store(fields.zone as u8, Relaxed);
        self.role.store(fields.role, Relaxed);
        self.start.store(fields.start, Relaxed);
        self.stack_size.store(fields.stack_size, Relaxed);
        self.stack_peak.store(fields.stack_peak, Relaxed);
        self.stack_resident.store(fields.stack_resident, Relaxed);
        self.created_ns.store(fields.created_ns, Relaxed);
        self.cpu_ns.store(fields.cpu_ns, Relaxed);
        self.switches.store(fields.switches, Relaxed);
        self.name.store(fields.name, Relaxed);
    }

    /// All fields as one unit; `None` if the record is torn or holds an unknown enumerator.
    #[inline]
    pub fn read(&self) -> Option<Fields> {
        for _ in 0..READ_ATTEMPTS_MAX {
            // ORDER: pairs with the Release store that ends `publish`.
            let before = self.sequence.load(Acquire);
            if before & 1 == 0 {
                let fields = self.load_all();
                // ORDER: pairs with the Release fence in `publish`.
                fence(Acquire);
                if self.sequence.load(Relaxed) == before {
                    return fields;
                }
            }
            core::hint::spin_loop();
        }
        None
    }

    #[inline(always)]
    fn load_all(&self) -> Option<Fields> {
        Some(Fields {
            generation: self.generation.load(Relaxed),
            tid: self.tid.load(Relaxed),
            worker: self.worker.load(Relaxed),
            state: State::from_raw(self.state.load(Relaxed))?,
            kind: Kind::from_raw(self.kind.load(Relaxed))?,
            class: Class::from_raw(self.class.load(Relaxed))?,
            priority: self.priority.load(Relaxed),
            group: Group::from_raw(self.group.load(Relaxed))?,
            category: Category::from_raw(self.category.load(Relaxed))?,
            policy: self.policy.load(Relaxed),
            zone: Zone::from_raw(self.zone.load(Relaxed))?,
            role: self.role.load(Relaxed),
            start: self.start.load(Relaxed),
            stack_size: self.stack_size.load(Relaxed),
            stack_peak: self.stack_peak.load(Relaxed),
            stack_resident: self.stack_resident.load(Relaxed),
            created_ns: self.created_ns.load(Relaxed),
            cpu_ns: self.cpu_ns.load(Relaxed),
            switches: self.switches.load(Relaxed),
            name: self.name.load(Relaxed),
        })
    }

    setters! {
        /// Says what the thread is doing now.
        set_state: state, State;
        /// Says which kernel thread it runs on.
        set_tid: tid, i32;
        /// Says which worker it belongs to.
        set_worker: worker, u16;
        /// Says how urgent it is.
        set_class: class, Class;
        /// Says its priority in the time-critical class.
        set_priority: priority, u8;
        /// Says its scheduling group.
        set_group: group, Group;
        /// Says what it does in a GUI.
        set_category: category, Category;
        /// Says the kernel's scheduling policy for it.
        set_policy: policy, u8;
        /// Says where its peak lies in its stack.
        set_zone: zone, Zone;
        /// Says what it is for.
        set_role: role, u16;
        /// Says its start function; see [`Record::set_running`] for workers.
        set_start: start, u32;
        /// Says how large its stack is, in bytes.
        set_stack_size: stack_size, u32;
        /// Says how deep its stack was used, in bytes.
        set_stack_peak: stack_peak, u32;
        /// Says how much of its stack is in memory, in bytes.
        set_stack_resident: stack_resident, u32;
        /// Says how much CPU time it has used, in ns.
        set_cpu: cpu_ns, u64;
        /// Says how often it was switched to.
        set_switches: switches, u32;
        /// Says its name, a text id.
        set_name: name, u32;
    }

    /// In a worker's record: which thread it runs now, by slot; `None` when idle.
    #[inline(always)]
    pub fn set_running(&self, slot: Option<u32>) {
        self.set_start(slot.map_or(0, |slot| slot.wrapping_add(1)));
    }

    /// How often it was switched to, as far as it has said.
    pub fn switches(&self) -> u32 {
        self.switches.load(Relaxed)
    }

    /// Adds to the count of switches. Only the record's owner calls it: load and store instead of
    /// a locked add, which would cost more than the switch it counts.
    #[inline(always)]
    pub fn add_switches(&self, count: u32) {
        self.switches.store(self.switches.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Adds CPU time. Only the record's owner calls it.
    #[inline(always)]
    pub fn add_cpu(&self, ns: u64) {
        self.cpu_ns.store(self.cpu_ns.load(Relaxed).wrapping_add(ns), Relaxed);
    }

    /// The CPU time that was last written.
    #[inline(always)]
    pub fn cpu(&self) -> u64 {
        self.cpu_ns.load(Relaxed)
    }

    /// Adds CPU time, unless the record's owner has written another sum than `seen` meanwhile.
    /// For others than the owner, who counts from a sum of his own.
    pub fn try_add_cpu(&self, seen: u64, ns: u64) {
        let sum = seen.wrapping_add(ns);
        let _ = self.cpu_ns.compare_exchange(seen, sum, Relaxed, Relaxed);
    }

    /// Frees the slot. The generation stays, for the slot's next owner to raise.
    #[inline]
    pub fn clear(&self) {
        let generation = self.generation.load(Relaxed);
        self.publish(&Fields { generation, ..Fields::default() });
    }

    /// The state that was last written.
    #[inline(always)]
    pub fn state(&self) -> Option<State> {
        State::from_raw(self.state.load(Relaxed))
    }

    /// The generation of the slot.
    #[inline(always)]
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publish_then_read_gives_the_same_fields() {
        let record = Record::default();
        let fields = Fields {
            generation: 7,
            kind: Kind::Light,
            state: State::Parked,
            class: Class::TimeCritical,
            priority: 42,
            cpu_ns: u64::MAX,
            name: 3,
            ..Fields::default()
        };
        record.publish(&fields);
        assert_eq!(record.read(), Some(fields));
        record.clear();
        assert_eq!(record.read(), Some(Fields { generation: 7, ..Fields::default() }));
    }

    #[test]
    fn an_open_record_is_torn_until_published_again() {
        let record = Record::default();
        record.sequence.store(1, Relaxed);
        assert_eq!(record.read(), None);
        record.publish(&Fields::default());
        assert_eq!(record.read(), Some(Fields::default()));
    }

    #[test]
    fn unknown_enumerators_are_refused() {
        let record = Record::default();
        record.state.store(200, Relaxed);
        assert_eq!(record.read(), None);
    }
}
