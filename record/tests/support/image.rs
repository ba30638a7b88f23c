//! A small honest table as bytes, and what must hold for whatever is read from a dishonest one.
//!
//! Invariant: shared by the property tests, the in-tree fuzz test and the fuzz target, so that
//! all three start from the same table and demand the same.

use heddle_record::layout::{
    FLAG_PRELOAD, HEADER_SIZE, MAGIC, PLACE_SIZE, RECORD_SIZE, TEXT_BYTES_MAX, USE_SIZE, USES_MAX,
};
use heddle_record::{Error, Snapshot};

/// Records of the image.
pub const RECORDS: usize = 24;
/// Where the role index of the image begins.
pub const ROLES: usize = HEADER_SIZE;
/// Where its texts begin.
pub const TEXTS: usize = ROLES + 64;
/// Where its records begin.
pub const RECORDS_AT: usize = TEXTS + 256;

/// Where its places begin, one per record.
pub const PLACES: usize = (RECORDS_AT + RECORDS * RECORD_SIZE).next_multiple_of(USE_SIZE);
/// Uses that the image has room for.
pub const USES: usize = 4;
/// Where its uses begin.
pub const USES_AT: usize = (PLACES + RECORDS * PLACE_SIZE).next_multiple_of(USE_SIZE);
/// The run that its process belongs to.
pub const RUN: u64 = 0x0123_4567_89ab_cdef;

fn put(image: &mut [u8], offset: usize, bytes: &[u8]) {
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// A table with a worker, threads in several states, two roles, three texts and two uses.
pub fn honest() -> Vec<u8> {
    let mut image = vec![0; USES_AT + USES * USE_SIZE];
    put(&mut image, 0, &MAGIC.to_le_bytes());
    let numbers = [HEADER_SIZE as u32, RECORD_SIZE as u32, RECORDS as u32, 20];
    for (index, number) in numbers.into_iter().enumerate() {
        put(&mut image, 8 + 4 * index, &number.to_le_bytes());
    }
    put(&mut image, 24, &(RECORDS_AT as u64).to_le_bytes());
    put(&mut image, 32, &(TEXTS as u64).to_le_bytes());
    put(&mut image, 40, &256_u32.to_le_bytes());
    put(&mut image, 44, &96_u32.to_le_bytes());
    put(&mut image, 48, &(ROLES as u64).to_le_bytes());
    put(&mut image, 56, &16_u32.to_le_bytes());
    put(&mut image, 60, &3_u32.to_le_bytes());
    put(&mut image, 64, &4711_u32.to_le_bytes());
    put(&mut image, 68, &FLAG_PRELOAD.to_le_bytes());
    put(&mut image, 88, &(PLACES as u64).to_le_bytes());
    put(&mut image, 96, &(USES_AT as u64).to_le_bytes());
    put(&mut image, 104, &(USES as u32).to_le_bytes());
    put(&mut image, 108, &2_u32.to_le_bytes());
    put(&mut image, 112, &RUN.to_le_bytes());
    for (id, text) in [(1_usize, "http connection"), (4, "accept"), (6, "main::serve")] {
        put(&mut image, TEXTS + 8 * id, &(text.len() as u32).to_le_bytes());
        put(&mut image, TEXTS + 8 * id + 4, text.as_bytes());
    }
    put(&mut image, ROLES + 4, &1_u32.to_le_bytes());
    put(&mut image, ROLES + 8, &4_u32.to_le_bytes());
    for slot in 0..20 {
        put(&mut image, RECORDS_AT + slot * RECORD_SIZE, &record(slot));
    }
    for slot in 1..20 {
        put(&mut image, PLACES + slot * PLACE_SIZE, &place(slot));
    }
    for index in 0..2 {
        put(&mut image, USES_AT + index * USE_SIZE, &kind(index));
    }
    image
}

/// A stack of 64 KiB whose thread is counted by one of the uses, or by none.
fn place(slot: usize) -> [u8; PLACE_SIZE] {
    let mut bytes = [0; PLACE_SIZE];
    let low = 0x7000_0000 + 0x2_0000 * slot as u64;
    put(&mut bytes, 0, &low.to_le_bytes());
    put(&mut bytes, 8, &(low + 0x1_0000).to_le_bytes());
    put(&mut bytes, 16, &(low + 0xff00).to_le_bytes());
    put(&mut bytes, 24, &(slot as u32 % 3).to_le_bytes());
    bytes
}

/// A use: what a kind of thread did.
fn kind(index: usize) -> [u8; USE_SIZE] {
    let mut bytes = [0; USE_SIZE];
    let numbers = [4, 1 << index, 6, 4, 1];
    for (at, number) in numbers.into_iter().enumerate() {
        put(&mut bytes, 4 * at, &u32::to_le_bytes(number));
    }
    (bytes[20], bytes[24]) = (1, 1);
    for (at, number) in [10, 1, 9, 8 << 20, 64 << 10, 5000, 8192].into_iter().enumerate() {
        put(&mut bytes, 28 + 4 * at, &u32::to_le_bytes(number));
    }
    for (at, number) in [1 << 40, 64 << 10, 640 << 10].into_iter().enumerate() {
        put(&mut bytes, 56 + 8 * at, &u64::to_le_bytes(number));
    }
    bytes
}

fn record(slot: usize) -> [u8; RECORD_SIZE] {
    let mut bytes = [0; RECORD_SIZE];
    bytes[0] = 2 * slot as u8;
    bytes[4] = 1;
    let (state, kind) = if slot == 0 { (2, 4) } else { (1 + slot as u8 % 6, 1) };
    (bytes[14], bytes[15], bytes[18]) = (state, kind, 1);
    bytes[22] = slot as u8 % 3;
    bytes[24] = if slot == 0 { 4 } else { 6 };
    bytes[60] = [0, 1, 4][slot % 3];
    bytes
}

/// Reads an image and demands what must hold even if every byte of it is a lie.
pub fn check(image: &[u8]) -> Result<Snapshot, Error> {
    let snapshot = Snapshot::from_bytes(image)?;
    assert!(snapshot.high_water <= snapshot.capacity);
    assert!(snapshot.capacity as usize * RECORD_SIZE <= image.len());
    let all = snapshot.threads.iter().chain(&snapshot.workers);
    for thread in all {
        assert!(thread.id.slot < snapshot.high_water);
        assert!(thread.fields.is_used());
        assert!(thread.runs.is_none_or(|slot| slot < snapshot.high_water));
        for text in [&thread.role, &thread.start, &thread.name].into_iter().flatten() {
            assert!(text.len() <= TEXT_BYTES_MAX as usize);
        }
        let _ = (thread.id.to_string(), thread.fields.state.to_string());
        if let Some(stack) = thread.stack {
            assert!(stack.low == 0 || (stack.low < stack.entry && stack.entry <= stack.high));
            assert!(stack.use_index.is_none_or(|index| index < USES_MAX));
            assert!(snapshot.use_of(thread).is_none_or(|it| Some(it.index) == stack.use_index));
        }
    }
    check_uses(&snapshot, image.len());
    assert!(snapshot.threads.is_sorted_by_key(|thread| thread.id.slot));
    for fault in &snapshot.faults {
        assert!(fault.slot < snapshot.high_water);
        assert!(!fault.to_string().is_empty());
    }
    Ok(snapshot)
}

fn check_uses(snapshot: &Snapshot, bytes: usize) {
    assert!(snapshot.uses.len() * USE_SIZE <= bytes);
    assert!(snapshot.uses.is_sorted_by_key(|it| it.index));
    for it in &snapshot.uses {
        for text in [&it.role, &it.start, &it.site, &it.name].into_iter().flatten() {
            assert!(text.len() <= TEXT_BYTES_MAX as usize);
        }
        let (start, word) = it.places();
        for place in [start, word].into_iter().flatten() {
            assert!(place.build_id.is_none_or(|id| id.len() <= 64));
        }
    }
    for fault in &snapshot.use_faults {
        assert!(fault.index < USES_MAX && !fault.to_string().is_empty());
    }
}
