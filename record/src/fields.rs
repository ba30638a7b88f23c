//! A record's fields as plain values: what a writer publishes and what a reader gets.
//!
//! Invariant: a `Fields` that came from bytes ([`Fields::from_bytes`]) holds only known
//! enumerators; ids in it are still allegations until a reader has looked them up.

use crate::layout::{RECORD_SIZE, WORKER_NONE};
use crate::words::{Category, Class, Group, Kind, State, Zone};

/// The content of a record, without its sequence number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fields {
    /// How often the slot has been given away; slot and generation are the thread's id.
    pub generation: u32,
    /// The kernel thread it runs on, 0 if unknown.
    pub tid: i32,
    /// The worker it belongs to, [`WORKER_NONE`] if none.
    pub worker: u16,
    /// What it is doing.
    pub state: State,
    /// What kind of thread it is.
    pub kind: Kind,
    /// How urgent it is.
    pub class: Class,
    /// 1..99 in the time-critical class, else 0.
    pub priority: u8,
    /// Its scheduling group.
    pub group: Group,
    /// What it does in a GUI.
    pub category: Category,
    /// The kernel's scheduling policy (`SCHED_*`).
    pub policy: u8,
    /// Where its peak lies in its stack.
    pub zone: Zone,
    /// Its role, 0 none; from [`Table::intern_role`](crate::Table::intern_role).
    pub role: u16,
    /// Text id of its start function; in a worker's record slot + 1 of the thread it runs, 0 idle.
    pub start: u32,
    /// Bytes of its stack.
    pub stack_size: u32,
    /// Deepest use of its stack so far, in bytes.
    pub stack_peak: u32,
    /// Bytes of its stack in memory.
    pub stack_resident: u32,
    /// When it was created, on CLOCK_MONOTONIC.
    pub created_ns: u64,
    /// CPU time it has used.
    pub cpu_ns: u64,
    /// How often it was switched to.
    pub switches: u32,
    /// Text id of its name, 0 none.
    pub name: u32,
}

impl Default for Fields {
    fn default() -> Self {
        Fields {
            generation: 0,
            tid: 0,
            worker: WORKER_NONE,
            state: State::Free,
            kind: Kind::Free,
            class: Class::Lazy,
            priority: 0,
            group: Group::Normal,
            category: Category::None,
            policy: 0,
            zone: Zone::Unknown,
            role: 0,
            start: 0,
            stack_size: 0,
            stack_peak: 0,
            stack_resident: 0,
            created_ns: 0,
            cpu_ns: 0,
            switches: 0,
            name: 0,
        }
    }
}

/// Why a record cannot be believed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// It was being written each time it was looked at, or its writer died while writing.
    Torn,
    /// The named field holds a number that means nothing.
    Word {
        /// The field.
        field: &'static str,
        /// What it holds.
        raw: u8,
    },
    /// The named field points outside the table or into the middle of a text.
    Id {
        /// The field.
        field: &'static str,
        /// What it holds.
        raw: u32,
    },
    /// The named field's text is not UTF-8.
    Text {
        /// The field.
        field: &'static str,
    },
    /// The named address of its stack contradicts the others.
    Address {
        /// The field.
        field: &'static str,
        /// What it holds.
        raw: u64,
    },
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Fault::Torn => f.write_str("torn: its writer was interrupted or never rests"),
            Fault::Word { field, raw } => write!(f, "{field} {raw} means nothing"),
            Fault::Id { field, raw } => write!(f, "{field} {raw} points to nothing"),
            Fault::Text { field } => write!(f, "{field} is not UTF-8 text"),
            Fault::Address { field, raw } => write!(f, "{field} {raw:#x} is no such address"),
        }
    }
}

impl Fields {
    /// Decodes the bytes of one record, whose sequence the caller has found stable.
    ///
    /// # Errors
    /// [`Fault::Word`] for the first field that holds an unknown enumerator.
    pub fn from_bytes(bytes: &[u8; RECORD_SIZE]) -> Result<Fields, Fault> {
        let word = |field, raw| Fault::Word { field, raw };
        let (kind, state, class) = (bytes[15], bytes[14], bytes[16]);
        let (group, category, zone) = (bytes[18], bytes[19], bytes[21]);
        Ok(Fields {
            generation: u32_at(bytes, 4),
            tid: u32_at(bytes, 8).cast_signed(),
            worker: u16_at(bytes, 12),
            state: State::from_raw(state).ok_or(word("state", state))?,
            kind: Kind::from_raw(kind).ok_or(word("kind", kind))?,
            class: Class::from_raw(class).ok_or(word("class", class))?,
            priority: bytes[17],
            group: Group::from_raw(group).ok_or(word("group", group))?,
            category: Category::from_raw(category).ok_or(word("category", category))?,
            policy: bytes[20],
            zone: Zone::from_raw(zone).ok_or(word("zone", zone))?,
            role: u16_at(bytes, 22),
            start: u32_at(bytes, 24),
            stack_size: u32_at(bytes, 28),
            stack_peak: u32_at(bytes, 32),
            stack_resident: u32_at(bytes, 36),
            created_ns: u64_at(bytes, 40),
            cpu_ns: u64_at(bytes, 48),
            switches: u32_at(bytes, 56),
            name: u32_at(bytes, 60),
        })
    }

    /// Whether the record describes a thread or worker at all.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.kind != Kind::Free && self.state != State::Free
    }
}

/// The number at `offset`; panics if it does not fit, so callers pass constants.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
}

/// As [`u16_at`], four bytes.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from(u16_at(bytes, offset)) | u32::from(u16_at(bytes, offset + 2)) << 16
}

/// As [`u16_at`], eight bytes.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from(u32_at(bytes, offset)) | u64::from(u32_at(bytes, offset + 4)) << 32
}
