//! Copies of records, places and uses that nobody wrote to while they were copied.
//!
//! Invariant: at most [`CHUNK_RECORDS`] records are held at once, whatever the header says.
//!
//! Protocol
//! 1. Records are copied twice; a copy counts if its sequence number is even and equal in both.
//!    (The bytes of one copy have no order; two system calls have one.)
//! 2. A record's place is written under the record's sequence number, so it is copied between
//!    the two copies of the record.
//! 3. Uses have a sequence number of their own and are copied twice as well.

use crate::fields::u32_at;
use crate::header::Header;
use crate::layout::{PLACE_SIZE, RECORD_SIZE, USE_SIZE};
use crate::source::Source;
use crate::{Error, Fault, Fields};

/// Records per system call.
const CHUNK_RECORDS: u32 = 1024;
/// How often a record that is being written is looked at again.
const TORN_ATTEMPTS_MAX: u32 = 16;

/// The bytes of a place.
pub(crate) type PlaceBytes = [u8; PLACE_SIZE];
/// The bytes of a use.
pub(crate) type UseBytes = [u8; USE_SIZE];

/// A record and its place; zeros where the table has no places.
pub(crate) struct Copy {
    pub fields: Fields,
    pub place: PlaceBytes,
}

/// Room for one chunk of records.
struct Chunk {
    first: Vec<u8>,
    places: Vec<u8>,
    second: Vec<u8>,
}

/// Calls `each` for every record below the high water, free ones included.
pub(crate) fn visit<S: Source + ?Sized>(
    source: &S,
    header: &Header,
    mut each: impl FnMut(u32, Result<Copy, Fault>),
) -> Result<(), Error> {
    let most = CHUNK_RECORDS.min(header.high_water) as usize;
    let (first, second) = (vec![0; most * RECORD_SIZE], vec![0; most * RECORD_SIZE]);
    let mut chunk = Chunk { first, places: vec![0; most * PLACE_SIZE], second };
    let mut slot = 0;
    while slot < header.high_water {
        let count = CHUNK_RECORDS.min(header.high_water - slot) as usize;
        chunk.fill(source, header, slot, count)?;
        let (first, _) = chunk.first.as_chunks::<RECORD_SIZE>();
        let (places, _) = chunk.places.as_chunks::<PLACE_SIZE>();
        let (second, _) = chunk.second.as_chunks::<RECORD_SIZE>();
        for index in 0..count {
            let (first, place, second) = (&first[index], &places[index], &second[index]);
            let copy = if is_whole(first, second) {
                Fields::from_bytes(first).map(|fields| Copy { fields, place: *place })
            } else {
                settle(source, header, slot)?
            };
            each(slot, copy);
            slot += 1;
        }
    }
    Ok(())
}

impl Chunk {
    /// Copies `count` records from `slot` on, which fit.
    fn fill<S: Source + ?Sized>(
        &mut self,
        source: &S,
        header: &Header,
        slot: u32,
        count: usize,
    ) -> Result<(), Error> {
        source.fill(record_at(header, slot), &mut self.first[..count * RECORD_SIZE])?;
        if let Some(offset) = place_at(header, slot) {
            source.fill(offset, &mut self.places[..count * PLACE_SIZE])?;
        }
        source.fill(record_at(header, slot), &mut self.second[..count * RECORD_SIZE])
    }
}

fn record_at(header: &Header, slot: u32) -> u64 {
    header.records_offset + u64::from(slot) * RECORD_SIZE as u64
}

fn place_at(header: &Header, slot: u32) -> Option<u64> {
    Some(header.places_offset? + u64::from(slot) * PLACE_SIZE as u64)
}

/// What a record says that was being written: it is looked at until it rests.
#[cold]
fn settle<S: Source + ?Sized>(
    source: &S,
    header: &Header,
    slot: u32,
) -> Result<Result<Copy, Fault>, Error> {
    let (mut first, mut second) = ([0; RECORD_SIZE], [0; RECORD_SIZE]);
    let mut place = [0; PLACE_SIZE];
    for _ in 0..TORN_ATTEMPTS_MAX {
        source.fill(record_at(header, slot), &mut first)?;
        if let Some(offset) = place_at(header, slot) {
            source.fill(offset, &mut place)?;
        }
        source.fill(record_at(header, slot), &mut second)?;
        if is_whole(&first, &second) {
            return Ok(Fields::from_bytes(&first).map(|fields| Copy { fields, place }));
        }
    }
    Ok(Err(Fault::Torn))
}

/// Whether nobody wrote between two copies, both of which begin with the sequence number.
fn is_whole(first: &[u8], second: &[u8]) -> bool {
    let sequence = u32_at(first, 0);
    sequence & 1 == 0 && sequence == u32_at(second, 0)
}

/// The bytes of every use, [`Fault::Torn`] for those whose writer never rests.
pub(crate) fn uses<S: Source + ?Sized>(
    source: &S,
    header: &Header,
) -> Result<Vec<Result<UseBytes, Fault>>, Error> {
    let bytes = header.uses_used as usize * USE_SIZE;
    let (mut first, mut second) = (vec![0; bytes], vec![0; bytes]);
    source.fill(header.uses_offset, &mut first)?;
    source.fill(header.uses_offset, &mut second)?;
    let (first, _) = first.as_chunks::<USE_SIZE>();
    let (second, _) = second.as_chunks::<USE_SIZE>();
    let offsets = (header.uses_offset..).step_by(USE_SIZE);
    let uses = offsets.zip(first.iter().zip(second)).map(|(offset, (first, second))| {
        if is_whole(first, second) { Ok(Ok(*first)) } else { settle_use(source, offset) }
    });
    uses.collect()
}

#[cold]
fn settle_use<S: Source + ?Sized>(
    source: &S,
    offset: u64,
) -> Result<Result<UseBytes, Fault>, Error> {
    let (mut first, mut second) = ([0; USE_SIZE], [0; USE_SIZE]);
    for _ in 0..TORN_ATTEMPTS_MAX {
        source.fill(offset, &mut first)?;
        source.fill(offset, &mut second)?;
        if is_whole(&first, &second) {
            return Ok(Ok(first));
        }
    }
    Ok(Err(Fault::Torn))
}
