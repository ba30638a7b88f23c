//! The writer's table: a sparse file in shared memory, filled by one process.
//!
//! Invariants
//! - A record below the high water can be stored to without a fault: its memory was reserved
//!   before (a full /dev/shm raises SIGBUS at the store otherwise).
//! - What is not in use yet is mapped without any right: mlockall() makes everything else resident.
//! - The header's immutable numbers are written before its magic number, and never again.
//!
//! Protocol
//! 1. `Options::create` makes the file: shared memory, else memfd, else private memory; half the
//!    capacity as often as the limits demand. `Report` says what came of it and why.
//! 2. `set_high_water(n)` comes before the first use of slot n - 1. Its fast path is one load.
//! 3. When memory runs out, the slots beyond get private memory and the table is marked partial:
//!    the program goes on, the tools say what they cannot see.
//!
//! Not here: who owns which slot. That is the runtime's business. Texts are in `texts.rs`.

mod texts;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU16, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::FallocateFlags;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::layout::{
    FLAG_NATIVE, FLAG_PARTIAL, HEADER_SIZE, MAGIC, RECORD_SIZE, RECORDS_MAX, ROLES_MAX,
    ROLES_OFFSET, Record, TEXT_ALIGN, TableHeader,
};
use crate::place::{Home, Place};
use crate::text::Texts;

use crate::{Error, Reader, process};

pub use texts::TextBuffer;

/// Threads that a table has room for unless told otherwise: a sparse GiB.
pub const CAPACITY_DEFAULT: u32 = 1 << 24;
/// Fewer records than this are of no use: creating fails instead.
const CAPACITY_MIN: u32 = 256;
/// Bytes for texts.
const TEXT_SIZE: usize = 16 << 20;
/// Texts get memory in steps of this many bytes.
const TEXT_STEP: usize = 64 << 10;
/// Records get memory in steps of 64 KiB. A step stalls the worker that spawns for about 30 us;
/// larger ones would save nothing: 2 ns per record are the system calls.
const RECORD_STEP: u32 = 1 << 10;

const TEXT_OFFSET: usize = ROLES_OFFSET + 4 * ROLES_MAX as usize;
const RECORDS_OFFSET: usize = TEXT_OFFSET + TEXT_SIZE;

/// How to make a table.
#[derive(Clone, Debug)]
pub struct Options {
    capacity: u32,
    place: Place,
    native: bool,
    kept: fn(OwnedFd) -> OwnedFd,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            capacity: CAPACITY_DEFAULT,
            place: Place::Shared,
            native: false,
            kept: |file| file,
        }
    }
}

impl Options {
    /// A sparse table of the default capacity in shared memory.
    pub fn new() -> Options {
        Options::default()
    }

    /// Records that the table should have room for; clamped to what the format allows.
    pub fn capacity(mut self, records: u32) -> Options {
        self.capacity = records.clamp(CAPACITY_MIN, RECORDS_MAX);
        self
    }

    /// Where to try first.
    pub fn place(mut self, place: Place) -> Options {
        self.place = place;
        self
    }

    /// Says that the threads of the table are kernel threads.
    pub fn native(mut self, native: bool) -> Options {
        self.native = native;
        self
    }

    /// What becomes of the descriptor of the table's file, which stays open with the table.
    pub fn kept(mut self, kept: fn(OwnedFd) -> OwnedFd) -> Options {
        self.kept = kept;
        self
    }

    /// Makes the table, in the best place that this process may have.
    ///
    /// # Errors
    /// What the last resort, private memory, ran into; [`Error::Exists`] if this process has a
    /// table in shared memory already.
    pub fn create(self) -> Result<Table, Error> {
        let order = [Place::Shared, Place::Memfd, Place::Private];
        let first = order.iter().position(|place| *place == self.place).unwrap_or(0);
        let mut reason = None;
        for place in &order[first..] {
            match self.create_in(*place, reason.take()) {
                Ok(table) => return Ok(table),
                Err(Error::Exists) => return Err(Error::Exists),
                Err(error) => reason = Some(error),
            }
        }
        Err(reason.expect("the loop ran at least once"))
    }

    fn create_in(&self, place: Place, reason: Option<Error>) -> Result<Table, Error> {
        let mut home = Home::open(place)?;
        home.file = home.file.map(|file| (self.kept)(file.into()).into());
        let mut capacity = self.capacity.min(capacity_by_file_limit(place));
        loop {
            let error = match map(&home, capacity) {
                Ok((base, bytes)) => {
                    let report = Report { place, reason, capacity, wanted: self.capacity };
                    return Ok(Table::start(base, bytes, home, report, self.native));
                }
                Err(error) => error,
            };
            capacity /= 2;
            if capacity < CAPACITY_MIN {
                home.unlink();
                return Err(error);
            }
        }
    }
}

/// What came of [`Options::create`].
#[derive(Debug)]
pub struct Report {
    /// Where the table lives.
    pub place: Place,
    /// Why it is not in the place before that one; `None` if it is where it was wanted.
    pub reason: Option<Error>,
    /// Records that it has room for.
    pub capacity: u32,
    /// Records that were wanted. More than `capacity` if a limit (RLIMIT_FSIZE, RLIMIT_AS) or
    /// the memory was in the way.
    pub wanted: u32,
}

/// A process's thread table, as the process itself sees it.
#[derive(Debug)]
pub struct Table {
    base: NonNull<u8>,
    bytes: usize,
    capacity: u32,
    /// Records that have memory; all of them once the table is partial.
    backed: AtomicU32,
    texts: Mutex<Texts>,
    recent_roles: texts::RecentRoles,
    home: Mutex<Home>,
    report: Report,
}

// SAFETY: the mapping lives as long as the table and is only touched through atomics, or under
// the `texts` lock in parts that nobody else in this process reads.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// A table in shared memory with room for `capacity` records; see [`Options`].
    ///
    /// # Errors
    /// As [`Options::create`].
    pub fn create(capacity: u32) -> Result<Table, Error> {
        Options::new().capacity(capacity).create()
    }

    fn start(base: NonNull<u8>, bytes: usize, home: Home, report: Report, native: bool) -> Table {
        let table = Table {
            base,
            bytes,
            capacity: report.capacity,
            backed: AtomicU32::new(RECORD_STEP.min(report.capacity)),
            texts: Mutex::new(Texts::new(TEXT_STEP)),
            recent_roles: [const { AtomicU16::new(0) }; _],
            home: Mutex::new(home),
            report,
        };
        table.write_header(native);
        table
    }

    fn write_header(&self, native: bool) {
        let (header, pid) = (self.header(), process::own_pid());
        header.header_size.store(HEADER_SIZE as u32, Relaxed);
        header.record_size.store(RECORD_SIZE as u32, Relaxed);
        header.capacity.store(self.capacity, Relaxed);
        header.records_offset.store(RECORDS_OFFSET as u64, Relaxed);
        header.text_offset.store(TEXT_OFFSET as u64, Relaxed);
        header.text_size.store(TEXT_SIZE as u32, Relaxed);
        header.text_used.store(TEXT_ALIGN, Relaxed);
        header.roles_offset.store(ROLES_OFFSET as u64, Relaxed);
        header.roles_capacity.store(ROLES_MAX, Relaxed);
        header.roles_used.store(1, Relaxed);
        header.pid.store(pid, Relaxed);
        header.flags.store(if native { FLAG_NATIVE } else { 0 }, Relaxed);
        header.process_start.store(process::start_time(pid).unwrap_or(0), Relaxed);
        header.pid_namespace.store(process::own_namespace(), Relaxed);
        header.created_ns.store(process::now_ns(), Relaxed);
        // ORDER: a reader that sees the magic number (by a system call) sees all of the above.
        header.magic.store(MAGIC, Release);
    }

    fn header(&self) -> &TableHeader {
        // SAFETY: the mapping is at least a header long, page-aligned, lives as long as `self`,
        // and any bytes are a valid TableHeader.
        unsafe { self.base.cast::<TableHeader>().as_ref() }
    }

    /// Where the table lives and why.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Records that the table has room for.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Where the file is mapped: its header.
    pub fn start_address(&self) -> *const u8 {
        self.base.as_ptr().cast_const()
    }

    /// The first record. Slot n is n records further; see [`Table::set_high_water`] for which of
    /// them may be touched.
    #[inline]
    pub fn records(&self) -> *const Record {
        // SAFETY: the mapping is longer than RECORDS_OFFSET.
        unsafe { self.base.as_ptr().add(RECORDS_OFFSET).cast::<Record>().cast_const() }
    }

    /// The record of `slot`.
    ///
    /// # Panics
    /// If `slot` was never covered by [`Table::set_high_water`].
    #[inline]
    pub fn record(&self, slot: u32) -> &Record {
        assert!(slot < self.backed.load(Relaxed), "slot {slot} is beyond the high water");
        // SAFETY: `backed <= capacity`, and the mapping holds `capacity` records. Any bytes are
        // a valid Record, and the mapping lives as long as `self`.
        unsafe { &*self.records().add(slot as usize) }
    }

    /// Says that slots below `slots` are in use or were, and gives them memory.
    ///
    /// Called before the first use of a slot. One load when nothing is new.
    ///
    /// # Errors
    /// [`Error::Full`] beyond the capacity.
    #[inline]
    pub fn set_high_water(&self, slots: u32) -> Result<(), Error> {
        if slots <= self.header().high_water.load(Relaxed) {
            return Ok(());
        }
        self.raise_high_water(slots)
    }

    #[cold]
    fn raise_high_water(&self, slots: u32) -> Result<(), Error> {
        if slots > self.capacity {
            return Err(Error::Full { capacity: self.capacity });
        }
        if slots > self.backed.load(Acquire) {
            self.back_records(slots);
        }
        // ORDER: readers in other processes look by system calls; Release keeps the records'
        // memory there first.
        self.header().high_water.fetch_max(slots, Release);
        Ok(())
    }

    /// Gives memory to the records below `slots`, and some more.
    fn back_records(&self, slots: u32) {
        let home = lock(&self.home);
        let mut backed = self.backed.load(Relaxed);
        while backed < slots {
            // Steps are whole pages of 64 records each, but for the last one.
            let end = backed.saturating_add(RECORD_STEP).min(self.capacity);
            let offset = RECORDS_OFFSET + backed as usize * RECORD_SIZE;
            let bytes = (end - backed) as usize * RECORD_SIZE;
            if !self.give(&home, offset, bytes) {
                self.turn_private(backed);
                backed = self.capacity;
                break;
            }
            self.populate(offset, bytes);
            backed = end;
        }
        // ORDER: pairs with the Acquire load in `raise_high_water`.
        self.backed.store(backed, Release);
    }

    /// Replaces the memory of all records from `first` on by private memory, which cannot raise
    /// SIGBUS. Nobody has touched them yet.
    fn turn_private(&self, first: u32) {
        let offset = (RECORDS_OFFSET + first as usize * RECORD_SIZE).next_multiple_of(4096);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the range lies inside our own mapping, from a page boundary to its end, and
        // holds only records beyond `backed`, to which no reference was ever given.
        let mapped = unsafe {
            let start = self.base.as_ptr().add(offset).cast();
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap_anonymous(start, self.bytes - offset, protection, flags)
        };
        if mapped.is_err() {
            // Only an exhausted count of mappings fails here. The file's own memory stays then, in
            // one mapping with what is in use, and with luck the kernel finds some when it is
            // touched.
            let _ = open(self.base, offset, self.bytes - offset);
        }
        self.header().flags.fetch_or(FLAG_PARTIAL, Relaxed);
    }

    /// Maps the pages of a range now, in one go. A hint: a page fault does the same later.
    fn populate(&self, offset: usize, bytes: usize) {
        // SAFETY: the range lies inside our own mapping and populating changes no content.
        let _ = unsafe {
            let start = self.base.as_ptr().add(offset).cast();
            rustix::mm::madvise(start, bytes, Advice::LinuxPopulateWrite)
        };
    }

    /// Whether a part of the table has memory now, and may be stored to.
    fn give(&self, home: &Home, offset: usize, bytes: usize) -> bool {
        let has_memory = home.file.as_ref().is_none_or(|file| reserve(file, offset, bytes).is_ok());
        has_memory && open(self.base, offset, bytes).is_ok()
    }

    /// A reader of this very table.
    ///
    /// # Errors
    /// If the table lives in private memory, or no file descriptor is left.
    pub fn reader(&self) -> Result<Reader, Error> {
        let home = lock(&self.home);
        let file = home.file.as_ref().ok_or(Error::NoTable { pid: process::own_pid() })?;
        Reader::from_file(file.try_clone().map_err(Error::std_io("share the table's file"))?)
    }

    /// Where the table's file is; `None` for memfd and private memory, and once unlinked.
    pub fn path(&self) -> Option<std::path::PathBuf> {
        lock(&self.home).path.as_deref().map(Path::to_owned)
    }

    /// Removes the table's name, as dropping the table does: for runtimes that live until the
    /// process exits. Records stay usable. Does nothing in a forked child.
    pub fn unlink(&self) {
        if self.header().pid.load(Relaxed) == process::own_pid() {
            lock(&self.home).unlink();
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.unlink();
        // SAFETY: the mapping is ours, and no record can be borrowed any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// The lock protects no half-done state: a panic cannot happen between its writes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records that RLIMIT_FSIZE leaves room for: to pass it would raise SIGXFSZ.
fn capacity_by_file_limit(place: Place) -> u32 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    match (place, limit) {
        (Place::Private, _) | (_, None) => RECORDS_MAX,
        (_, Some(bytes)) => {
            let records = bytes.saturating_sub(RECORDS_OFFSET as u64) / RECORD_SIZE as u64;
            records.min(u64::from(RECORDS_MAX)) as u32
        }
    }
}

/// Sizes the file, gives memory to what is always used, and maps all of it.
fn map(home: &Home, capacity: u32) -> Result<(NonNull<u8>, usize), Error> {
    if capacity < CAPACITY_MIN {
        return Err(Error::Full { capacity });
    }
    // On 32-bit machines a table can be larger than the address space.
    let bytes = (capacity as usize)
        .checked_mul(RECORD_SIZE)
        .and_then(|bytes| bytes.checked_add(RECORDS_OFFSET)?.checked_next_multiple_of(4096))
        .ok_or(Error::Full { capacity })?;
    let first = RECORD_STEP.min(capacity) as usize * RECORD_SIZE;
    let used = [(0, HEADER_SIZE + 4096), (TEXT_OFFSET, TEXT_STEP), (RECORDS_OFFSET, first)];
    let protection = ProtFlags::empty();
    let base = match &home.file {
        Some(file) => {
            file.set_len(bytes as u64).map_err(Error::std_io("size the thread table"))?;
            used.iter().try_for_each(|(offset, bytes)| reserve(file, *offset, *bytes))?;
            let flags = MapFlags::SHARED | MapFlags::NORESERVE;
            // SAFETY: a fresh mapping at an address of the kernel's choice.
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0) }
        }
        None => {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            // SAFETY: as above.
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }
        }
    };
    let base = base.map_err(Error::io("map the thread table"))?;
    let base = NonNull::new(base.cast()).expect("mmap never returns null");
    if let Err(error) = used.iter().try_for_each(|(offset, bytes)| open(base, *offset, *bytes)) {
        // SAFETY: the mapping made above, to which nobody has a reference.
        let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), bytes) };
        return Err(error);
    }
    Ok((base, bytes))
}

/// Lets a part of a mapping be read and stored to. The next part joins it: no mapping more.
fn open(base: NonNull<u8>, offset: usize, bytes: usize) -> Result<(), Error> {
    let rights = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: the range lies inside a table's own mapping, and rights that it gets harm nobody.
    let opened = unsafe { rustix::mm::mprotect(base.as_ptr().add(offset).cast(), bytes, rights) };
    opened.map_err(Error::io("open the thread table"))
}

/// Takes memory for a part of the file now, so that storing to it cannot fail later.
fn reserve(file: &File, offset: usize, bytes: usize) -> Result<(), Error> {
    rustix::fs::fallocate(file, FallocateFlags::empty(), offset as u64, bytes as u64)
        .map_err(Error::io("get memory for the thread table"))
}
