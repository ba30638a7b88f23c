//! The texts of a table, found by their ids.
//!
//! Invariant: an id is an allegation; each step from it to bytes is checked against what is there.

use std::collections::HashMap;
use std::sync::Arc;

use crate::fields::u32_at;
use crate::header::Header;
use crate::layout::{TEXT_ALIGN, TEXT_BYTES_MAX};
use crate::source::Source;
use crate::{Error, Fault};

/// The table's texts, copied.
pub(crate) struct Texts {
    area: Vec<u8>,
    roles: Vec<u32>,
    known: HashMap<u32, Result<Arc<str>, Fault>>,
}

impl Texts {
    pub fn read<S: Source + ?Sized>(source: &S, header: &Header) -> Result<Texts, Error> {
        let mut area = vec![0; header.text_used as usize];
        source.fill(header.text_offset, &mut area)?;
        let mut index = vec![0; header.roles_used as usize * 4];
        source.fill(header.roles_offset, &mut index)?;
        let roles = index.chunks_exact(4).map(|entry| u32_at(entry, 0)).collect();
        Ok(Texts { area, roles, known: HashMap::new() })
    }

    pub fn role(&mut self, role: u16) -> Result<Option<Arc<str>>, Fault> {
        if role == 0 {
            return Ok(None);
        }
        match self.roles.get(usize::from(role)) {
            Some(id) if *id != 0 => self.text("role", *id),
            _ => Err(Fault::Id { field: "role", raw: u32::from(role) }),
        }
    }

    pub fn text(&mut self, field: &'static str, id: u32) -> Result<Option<Arc<str>>, Fault> {
        if id == 0 {
            return Ok(None);
        }
        let area = &self.area;
        let known = self.known.entry(id).or_insert_with(|| look_up(area, field, id));
        known.clone().map(Some)
    }
}

/// Finds a text in the area; each step is checked against what is there.
fn look_up(area: &[u8], field: &'static str, id: u32) -> Result<Arc<str>, Fault> {
    let lie = Fault::Id { field, raw: id };
    let offset = (id as usize).checked_mul(TEXT_ALIGN as usize).ok_or(lie)?;
    let rest = area.get(offset..).filter(|rest| rest.len() >= 4).ok_or(lie)?;
    let length = u32_at(rest, 0);
    if length > TEXT_BYTES_MAX {
        return Err(lie);
    }
    let bytes = rest[4..].get(..length as usize).ok_or(lie)?;
    std::str::from_utf8(bytes).map(Arc::from).map_err(|_| Fault::Text { field })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_only_where_they_are() {
        let mut area = vec![0; 32];
        area[8] = 3;
        area[12..15].copy_from_slice(b"abc");
        assert_eq!(look_up(&area, "name", 1).as_deref(), Ok("abc"));
        assert!(look_up(&area, "name", 4).is_err());
        assert!(look_up(&area, "name", u32::MAX).is_err());
        area[9] = 0xff;
        assert!(look_up(&area, "name", 1).is_err(), "longer than a text may be");
        area[9] = 0;
        area[12] = 0xff;
        assert_eq!(look_up(&area, "name", 1), Err(Fault::Text { field: "name" }));
    }
}
