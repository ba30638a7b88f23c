//! The process's table of records: made once, written through a cached base address.
//!
//! Invariants:
//! 1. After [`create`] the base never changes and every slot of the slab has its record.
//! 2. Whoever takes the table's locks is pinned: making a worker takes them too, so a full thread
//!    that was preempted with one could block every worker and the one that would replace them.
//! 3. A forked child writes nothing into the table, which is its parent's, and takes none of its
//!    locks: it has records that nobody else sees ([`leave`]).

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr};
use std::sync::OnceLock;

use heddle_record::{Options, Record, TABLE_AGE_MAX, TABLES_MAX, Table, TextBuffer};

use crate::control::{Control, SLOTS_MAX, SLOTS_MIN};
use crate::sys::descriptor::at_its_place;
use crate::sys::memory;

const TEXT_BYTES_MAX: usize = size_of::<TextBuffer>();

static TABLE: OnceLock<Table> = OnceLock::new();
static BASE: AtomicPtr<Record> = AtomicPtr::new(ptr::null_mut());
/// The table's header, for debuggers.
pub(crate) static HEADER: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Slots to make room for, each with a record here and a control block.
fn slots_wanted() -> u32 {
    const BYTES: usize = size_of::<Record>() + size_of::<Control>();
    let most = memory::address_space_part().map_or(SLOTS_MAX as usize, |part| part / BYTES);
    most.clamp(SLOTS_MIN as usize, SLOTS_MAX as usize) as u32
}

/// Makes the table, if there is none; returns for how many slots. Called by the runtime's start,
/// before any thread exists.
pub(crate) fn create(native: bool) -> std::io::Result<u32> {
    if let Some(table) = TABLE.get() {
        return Ok(table.capacity());
    }
    // Tables that crashed processes left are kept for a day, unless there are many.
    let _ = heddle_record::sweep_but(TABLES_MAX, TABLE_AGE_MAX);
    let options = Options::new().capacity(slots_wanted()).native(native).kept(at_its_place);
    let table = options.create().map_err(std::io::Error::other)?;
    let table = TABLE.get_or_init(|| table);
    BASE.store(table.records().cast_mut(), Relaxed);
    HEADER.store(table.start_address().cast_mut(), Relaxed);
    crate::sys::task::at_exit(remove_name);
    Ok(table.capacity())
}

/// On a normal exit the table goes; after a crash it stays for `heddle ps` and is swept later.
extern "C" fn remove_name() {
    if let Some(table) = TABLE.get() {
        table.unlink();
    }
}

/// The table is the parent's.
static IS_LEFT: AtomicBool = AtomicBool::new(false);

/// The table, unless it is the parent's.
fn own() -> Option<&'static Table> {
    TABLE.get().filter(|_| !IS_LEFT.load(Relaxed))
}

/// In a forked child; see invariant 3. Where there is no room for records of its own no slot can be
/// had, and who waits looks again and again.
pub(crate) fn leave() {
    let Some(table) = TABLE.get().filter(|_| !IS_LEFT.swap(true, Relaxed)) else { return };
    let bytes = table.capacity() as usize * size_of::<Record>();
    if let Ok(records) = memory::open(bytes) {
        BASE.store(records.cast(), Relaxed);
        HAS_RECORDS.store(true, Relaxed);
    }
}

/// Whether a child has records of its own.
static HAS_RECORDS: AtomicBool = AtomicBool::new(false);

/// The record of a slot that the pool has made.
#[inline(always)]
pub(crate) fn record(slot: u32) -> &'static Record {
    debug_assert!(slot < SLOTS_MAX);
    // SAFETY: the pool raised the high water above every slot that it hands out, so the record
    // has memory; the table lives in a static.
    unsafe { &*BASE.load(Relaxed).add(slot as usize) }
}

/// Gives the records of all slots below `count` memory and shows them to readers.
///
/// Fails when the table is full or shared memory is refused: then they must not be used.
pub(crate) fn set_high_water(count: u32) -> std::io::Result<()> {
    let _pin = crate::full::pin();
    match own() {
        Some(table) => table.set_high_water(count).map_err(std::io::Error::other),
        None if IS_LEFT.load(Relaxed) && !HAS_RECORDS.load(Relaxed) => {
            Err(std::io::ErrorKind::OutOfMemory.into())
        }
        None => Ok(()),
    }
}

/// The text's id, 0 when the table has no room for it.
pub(crate) fn intern(text: &str) -> u32 {
    let _pin = crate::full::pin();
    own().map_or(0, |table| table.intern(text))
}

/// The role's number, 0 when the table has no room for it.
pub(crate) fn intern_role(role: &str) -> u16 {
    let _pin = crate::full::pin();
    own().map_or(0, |table| table.intern_role(role))
}

/// The text with this id.
pub(crate) fn text(id: u32) -> Option<String> {
    TABLE.get()?.text(id, &mut [0; TEXT_BYTES_MAX]).map(str::to_owned)
}

/// As [`text`], for a signal handler; `None` for no text.
pub(crate) fn text_in(id: u32, buffer: &mut TextBuffer) -> Option<&str> {
    TABLE.get()?.text(id, buffer).filter(|_| id != 0)
}

/// The role with this number.
pub(crate) fn role_name(number: u16) -> Option<String> {
    role_name_in(number, &mut [0; TEXT_BYTES_MAX]).map(str::to_owned)
}

/// As [`role_name`] into a buffer, for a signal handler: takes no lock and allocates nothing.
pub(crate) fn role_name_in(number: u16, buffer: &mut TextBuffer) -> Option<&str> {
    TABLE.get()?.role(number, buffer)
}
