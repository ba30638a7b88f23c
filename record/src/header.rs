//! A table's header, read from a file that nobody vouches for.
//!
//! Invariant: after [`Header::read`] every offset, count and length in it is possible: aligned,
//! inside the file as it was at that moment, within the format's limits.

use std::mem::offset_of;

use crate::Error;
use crate::fields::{u32_at, u64_at};
use crate::layout::{
    HEADER_SIZE, MAGIC, PLACE_SIZE, RECORD_SIZE, RECORDS_MAX, ROLES_MAX, TEXT_ALIGN, TEXT_AREA_MAX,
    TableHeader, USE_SIZE, USES_MAX,
};
use crate::source::Source;

/// A table's header after all its numbers were found to be possible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub capacity: u32,
    pub high_water: u32,
    pub records_offset: u64,
    pub text_offset: u64,
    pub text_used: u32,
    pub roles_offset: u64,
    pub roles_used: u32,
    pub pid: i32,
    pub flags: u32,
    pub process_start: u64,
    pub created_ns: u64,
    /// `None`: the table has no places.
    pub places_offset: Option<u64>,
    pub uses_offset: u64,
    pub uses_capacity: u32,
    /// 0 also if the table has no uses.
    pub uses_used: u32,
    pub run: u64,
    pub user_peak: u32,
    pub pid_namespace: u32,
}

impl Header {
    /// Reads and checks.
    pub fn read<S: Source + ?Sized>(source: &S) -> Result<Header, Error> {
        let mut bytes = [0; size_of::<TableHeader>()];
        source.fill(0, &mut bytes)?;
        check_magic(u64_at(&bytes, offset_of!(TableHeader, magic)))?;
        let field = |name, offset| Number { name, value: u64::from(u32_at(&bytes, offset)) };
        let long = |name, offset| Number { name, value: u64_at(&bytes, offset) };

        let size = source.size()?;
        let header_size = field("header_size", offset_of!(TableHeader, header_size));
        let record_size = field("record_size", offset_of!(TableHeader, record_size));
        header_size.within(HEADER_SIZE as u64, HEADER_SIZE as u64)?;
        record_size.within(RECORD_SIZE as u64, RECORD_SIZE as u64)?;

        let capacity = field("capacity", offset_of!(TableHeader, capacity));
        let records = long("records_offset", offset_of!(TableHeader, records_offset));
        capacity.within(1, u64::from(RECORDS_MAX))?;
        records.area(size, RECORD_SIZE as u64, capacity.value * RECORD_SIZE as u64)?;
        let high_water = field("high_water", offset_of!(TableHeader, high_water));
        high_water.within(0, capacity.value)?;

        let text_size = field("text_size", offset_of!(TableHeader, text_size));
        let text = long("text_offset", offset_of!(TableHeader, text_offset));
        text_size.within(u64::from(TEXT_ALIGN), u64::from(TEXT_AREA_MAX))?;
        text.area(size, u64::from(TEXT_ALIGN), text_size.value)?;
        let text_used = field("text_used", offset_of!(TableHeader, text_used));
        text_used.within(0, text_size.value)?;

        let roles_capacity = field("roles_capacity", offset_of!(TableHeader, roles_capacity));
        let roles = long("roles_offset", offset_of!(TableHeader, roles_offset));
        roles_capacity.within(0, u64::from(ROLES_MAX))?;
        roles.area(size, 4, roles_capacity.value * 4)?;
        let roles_used = field("roles_used", offset_of!(TableHeader, roles_used));
        roles_used.within(0, roles_capacity.value)?;

        let places = long("places_offset", offset_of!(TableHeader, places_offset));
        places.optional_area(size, PLACE_SIZE as u64, capacity.value * PLACE_SIZE as u64)?;
        let uses = Uses::read(&bytes, size)?;

        let pid = field("pid", offset_of!(TableHeader, pid));
        pid.within(1, i32::MAX as u64)?;
        Ok(Header {
            capacity: capacity.value as u32,
            high_water: high_water.value as u32,
            records_offset: records.value,
            text_offset: text.value,
            text_used: text_used.value as u32,
            roles_offset: roles.value,
            roles_used: roles_used.value as u32,
            pid: pid.value as i32,
            flags: u32_at(&bytes, offset_of!(TableHeader, flags)),
            process_start: u64_at(&bytes, offset_of!(TableHeader, process_start)),
            created_ns: u64_at(&bytes, offset_of!(TableHeader, created_ns)),
            places_offset: (places.value != 0).then_some(places.value),
            uses_offset: uses.offset,
            uses_capacity: uses.capacity,
            uses_used: uses.used,
            run: u64_at(&bytes, offset_of!(TableHeader, run)),
            user_peak: u32_at(&bytes, offset_of!(TableHeader, user_peak)),
            pid_namespace: u32_at(&bytes, offset_of!(TableHeader, pid_namespace)),
        })
    }
}

/// The header's part about the uses.
struct Uses {
    offset: u64,
    capacity: u32,
    used: u32,
}

impl Uses {
    /// Reads and checks. A table without uses has zeros here.
    fn read(bytes: &[u8], size: u64) -> Result<Uses, Error> {
        let field = |name, offset| Number { name, value: u64::from(u32_at(bytes, offset)) };
        let value = u64_at(bytes, offset_of!(TableHeader, uses_offset));
        let offset = Number { name: "uses_offset", value };
        let capacity = field("uses_capacity", offset_of!(TableHeader, uses_capacity));
        let used = field("uses_used", offset_of!(TableHeader, uses_used));
        capacity.within(0, if value == 0 { 0 } else { u64::from(USES_MAX) })?;
        offset.optional_area(size, USE_SIZE as u64, capacity.value * USE_SIZE as u64)?;
        used.within(0, capacity.value)?;
        Ok(Uses { offset: value, capacity: capacity.value as u32, used: used.value as u32 })
    }
}

/// Right, of another version, or no table at all.
fn check_magic(magic: u64) -> Result<(), Error> {
    let (bytes, known) = (magic.to_le_bytes(), MAGIC.to_le_bytes());
    if bytes == known {
        Ok(())
    } else if bytes[..6] == known[..6] {
        Err(Error::Version { version: [bytes[6], bytes[7]] })
    } else {
        Err(Error::NotATable { magic })
    }
}

/// A number that the file claims, by its name.
#[derive(Clone, Copy)]
struct Number {
    name: &'static str,
    value: u64,
}

impl Number {
    fn lie(self) -> Error {
        Error::Header { field: self.name, value: self.value }
    }

    fn within(self, min: u64, max: u64) -> Result<(), Error> {
        if (min..=max).contains(&self.value) { Ok(()) } else { Err(self.lie()) }
    }

    /// As [`Number::area`], for an area that 0 says there is none of.
    fn optional_area(self, size: u64, align: u64, bytes: u64) -> Result<(), Error> {
        if self.value == 0 { Ok(()) } else { self.area(size, align, bytes) }
    }

    /// As the offset of an area of `bytes` bytes: behind the header, aligned, inside the file.
    fn area(self, size: u64, align: u64, bytes: u64) -> Result<(), Error> {
        if self.value < HEADER_SIZE as u64 || !self.value.is_multiple_of(align) {
            return Err(self.lie());
        }
        let need = self.value.checked_add(bytes).ok_or(self.lie())?;
        if need <= size { Ok(()) } else { Err(Error::Truncated { need, have: size }) }
    }
}
