//! The table's numbers: sizes, offsets, limits, and the header as atomics.
//!
//! Invariant: equal to `record.h`, checked by `tests/layout.rs`.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

pub use crate::record::Record;

/// Bytes of one record: a cache line.
pub const RECORD_SIZE: usize = 64;
/// The bytes "HEDDLE01"; the digits are the format's version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HEDDLE01");
/// Bytes of the header, a page.
pub const HEADER_SIZE: usize = 4096;
/// Where the role index begins in tables written by this crate.
pub const ROLES_OFFSET: usize = 4096;
/// Most records that a table may have.
pub const RECORDS_MAX: u32 = 1 << 26;
/// Most roles that a table may have, the unused role 0 included.
pub const ROLES_MAX: u32 = 65536;
/// Most bytes of one text.
pub const TEXT_BYTES_MAX: u32 = 1024;
/// Most bytes of a text area.
pub const TEXT_AREA_MAX: u32 = 64 << 20;
/// A text's id is its offset in the text area divided by this.
pub const TEXT_ALIGN: u32 = 8;
/// Most uses that a table may have.
pub const USES_MAX: u32 = 65536;
/// Bytes of one place.
pub const PLACE_SIZE: usize = 32;
/// Bytes of one use.
pub const USE_SIZE: usize = 128;
/// "On no worker."
pub const WORKER_NONE: u16 = 0xffff;

/// Some texts could not be kept and read as none.
pub const FLAG_TEXTS_FULL: u32 = 1;
/// Memory ran out: the newest slots have no public record.
pub const FLAG_PARTIAL: u32 = 2;
/// The threads are kernel threads (native backend).
pub const FLAG_NATIVE: u32 = 4;
/// Written by libheddle-preload.
pub const FLAG_PRELOAD: u32 = 8;
/// The process has ended in order: all peaks were measured.
pub const FLAG_ENDED: u32 = 16;

/// Of a place: the process's first thread.
pub const PLACE_MAIN: u32 = 1;
/// Of a place: the program gave the stack's memory.
pub const PLACE_USER_STACK: u32 = 2;
/// Of a place: the Stack Tuner chose the size.
pub const PLACE_TUNED: u32 = 4;

/// Of a use: the process's first thread.
pub const USE_MAIN: u32 = 1;
/// Of a use: asked for another size than the default.
pub const USE_EXPLICIT: u32 = 2;
/// Of a use: the program gave the stacks' memory.
pub const USE_USER_STACK: u32 = 4;
/// Of a use: the Stack Tuner chose the size.
pub const USE_TUNED: u32 = 8;
/// Of a use: a thread of this kind ran into its guard.
pub const USE_OVERFLOWED: u32 = 16;
/// Of a use: a thread of this kind crossed the border of the High zone.
pub const USE_TRIPPED: u32 = 32;

/// `struct heddle_table`: the first bytes of a table.
#[repr(C)]
#[derive(Debug, Default)]
pub struct TableHeader {
    /// [`MAGIC`], written last: a table without it is not finished.
    pub magic: AtomicU64,
    /// [`HEADER_SIZE`].
    pub header_size: AtomicU32,
    /// [`RECORD_SIZE`].
    pub record_size: AtomicU32,
    /// Records that the file has room for.
    pub capacity: AtomicU32,
    /// Slots below this were used.
    pub high_water: AtomicU32,
    /// Where the records begin.
    pub records_offset: AtomicU64,
    /// Where the text area begins.
    pub text_offset: AtomicU64,
    /// Bytes of the text area.
    pub text_size: AtomicU32,
    /// Bytes of the text area in use.
    pub text_used: AtomicU32,
    /// Where the role index begins.
    pub roles_offset: AtomicU64,
    /// Entries of the role index.
    pub roles_capacity: AtomicU32,
    /// Entries of the role index in use, entry 0 included.
    pub roles_used: AtomicU32,
    /// The process.
    pub pid: AtomicI32,
    /// `FLAG_*`.
    pub flags: AtomicU32,
    /// Start time of the process as in field 22 of `/proc/PID/stat`, 0 if unknown.
    pub process_start: AtomicU64,
    /// When the table was made, on CLOCK_MONOTONIC.
    pub created_ns: AtomicU64,
    /// Where the places begin, 0 if there are none.
    pub places_offset: AtomicU64,
    /// Where the uses begin, 0 if there are none.
    pub uses_offset: AtomicU64,
    /// Uses that the file has room for.
    pub uses_capacity: AtomicU32,
    /// Uses below this exist.
    pub uses_used: AtomicU32,
    /// The `heddle run` that started the process, 0 if none did.
    pub run: AtomicU64,
    /// Most threads at one time that the uses count and no record shows.
    pub user_peak: AtomicU32,
    /// The pid namespace that the numbers are of: the inode of `/proc/PID/ns/pid`, 0 if unknown.
    pub pid_namespace: AtomicU32,
}

/// `struct heddle_place`, for its offsets: where a thread's stack lies.
#[repr(C, align(32))]
#[derive(Debug, Default)]
pub struct RawPlace {
    /// Lowest usable byte of the stack, 0 unknown.
    pub stack_low: u64,
    /// End of the stack's mapping.
    pub stack_high: u64,
    /// Stack pointer at the start function's call.
    pub entry: u64,
    /// Index into the uses + 1, 0 none.
    pub use_number: u32,
    /// `PLACE_*`.
    pub flags: u32,
}

/// `struct heddle_use`, for its offsets: what the threads of one kind did.
#[repr(C, align(128))]
#[derive(Debug)]
#[expect(missing_docs, reason = "described in record.h and at crate::Use")]
pub struct RawUse {
    pub sequence: u32,
    pub flags: u32,
    pub start: u32,
    pub site: u32,
    pub name: u32,
    pub role: u16,
    pub class: u8,
    pub priority: u8,
    pub group: u8,
    pub category: u8,
    pub unused: u16,
    pub created: u32,
    pub failed: u32,
    pub ended: u32,
    pub stack_asked: u32,
    pub stack_given: u32,
    pub peak: u32,
    pub resident: u32,
    pub cpu_ns: u64,
    pub reserved: u64,
    pub reserved_peak: u64,
    pub padding: [u8; 48],
}

const _: () = assert!(size_of::<RawPlace>() == PLACE_SIZE && size_of::<RawUse>() == USE_SIZE);

/// Where a field lies: its name, its offset and its bytes.
pub type FieldPlace = (&'static str, usize, usize);

/// Bytes of the field that `_field` picks.
const fn bytes_of<T, F>(_field: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// Lists fields under their names in `record.h`.
macro_rules! places {
    ($type:ty: $($c_name:literal $field:ident,)*) => {
        &[$(($c_name, core::mem::offset_of!($type, $field), bytes_of(|it: &$type| &it.$field)),)*]
    };
}

/// Every field of [`Record`] under its C name, for checks against the header.
pub const RECORD_FIELDS: &[FieldPlace] = places! { Record:
    "sequence" sequence, "generation" generation, "tid" tid, "worker" worker, "state" state,
    "kind" kind, "thread_class" class, "priority" priority, "group" group, "category" category,
    "policy" policy, "zone" zone, "role" role, "start" start, "stack_size" stack_size,
    "stack_peak" stack_peak, "stack_resident" stack_resident, "created_ns" created_ns,
    "cpu_ns" cpu_ns, "switches" switches, "name" name,
};

/// Every field of [`TableHeader`] under its C name.
pub const TABLE_FIELDS: &[FieldPlace] = places! { TableHeader:
    "magic" magic, "header_size" header_size, "record_size" record_size, "capacity" capacity,
    "high_water" high_water, "records_offset" records_offset, "text_offset" text_offset,
    "text_size" text_size, "text_used" text_used, "roles_offset" roles_offset,
    "roles_capacity" roles_capacity, "roles_used" roles_used, "pid" pid, "flags" flags,
    "process_start" process_start, "created_ns" created_ns, "places_offset" places_offset,
    "uses_offset" uses_offset, "uses_capacity" uses_capacity, "uses_used" uses_used, "run" run,
    "user_peak" user_peak, "pid_namespace" pid_namespace,
};

/// Every field of [`RawPlace`] under its C name.
pub const PLACE_FIELDS: &[FieldPlace] = places! { RawPlace:
    "stack_low" stack_low, "stack_high" stack_high, "entry" entry, "use" use_number,
    "flags" flags,
};

/// Every field of [`RawUse`] under its C name.
pub const USE_FIELDS: &[FieldPlace] = places! { RawUse:
    "sequence" sequence, "flags" flags, "start" start, "site" site, "name" name, "role" role,
    "thread_class" class, "priority" priority, "group" group, "category" category,
    "unused" unused, "created" created, "failed" failed, "ended" ended,
    "stack_asked" stack_asked, "stack_given" stack_given, "peak" peak, "resident" resident,
    "cpu_ns" cpu_ns, "reserved" reserved, "reserved_peak" reserved_peak, "padding" padding,
};
