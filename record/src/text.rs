//! Interned texts: each role, name and start function is kept once and known by a number.
//!
//! Invariant: texts are never moved or changed once their id is out: append only. `text_used`
//! and `roles_used` are raised after the bytes are there, so that an id in a record always
//! points below them.

use std::collections::BTreeMap;

use crate::layout::{TEXT_ALIGN, TEXT_BYTES_MAX};

/// Names are as many as a program likes ("connection 4711"); they may not crowd out roles and
/// start functions, which are few and say more. This share of the area is kept from names.
const NAMES_SHARE: (usize, usize) = (3, 4);

/// What kind of text asks for room.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Sort {
    Name,
    Start,
}

/// The writer's memory of what is where.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// Ordered: a hash would ask the kernel for random bytes, which a filter may refuse.
    ids: BTreeMap<Box<str>, u32>,
    roles: BTreeMap<u32, u16>,
    /// Bytes in use; the first unit is never used, so that id 0 means "none".
    pub used: usize,
    /// Bytes that are backed by memory.
    pub backed: usize,
    /// Entries of the role index in use.
    pub roles_used: usize,
}

impl Texts {
    /// No texts, in an area of which `backed` bytes have memory.
    pub fn new(backed: usize) -> Texts {
        Texts { used: TEXT_ALIGN as usize, roles_used: 1, backed, ..Texts::default() }
    }

    /// The id of a text that is kept already.
    pub fn find(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// The number of a role that is kept already.
    pub fn find_role(&self, text: u32) -> Option<u16> {
        self.roles.get(&text).copied()
    }

    /// Room for `text` in an area of `size` bytes: its offset and the area's use after it.
    pub fn place(&self, text: &str, sort: Sort, size: usize) -> Option<(usize, usize)> {
        let limit = match sort {
            Sort::Name => size / NAMES_SHARE.1 * NAMES_SHARE.0,
            Sort::Start => size,
        };
        let end = (self.used + 4 + text.len()).next_multiple_of(TEXT_ALIGN as usize);
        (end <= limit).then_some((self.used, end))
    }

    /// Remembers a text that was written at `offset`.
    pub fn keep(&mut self, text: &str, offset: usize, end: usize) -> u32 {
        let id = (offset / TEXT_ALIGN as usize) as u32;
        self.used = end;
        self.ids.insert(text.into(), id);
        id
    }

    /// Takes the next number of the role index for `text`, if `capacity` allows.
    pub fn keep_role(&mut self, text: u32, capacity: usize) -> Option<u16> {
        let number = u16::try_from(self.roles_used).ok()?;
        if self.roles_used >= capacity {
            return None;
        }
        self.roles_used += 1;
        self.roles.insert(text, number);
        Some(number)
    }
}

/// `text` without what is beyond the longest allowed text, cut between characters.
pub(crate) fn clip(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX as usize);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_cuts_between_characters() {
        let long = "ä".repeat(600);
        assert_eq!(clip(&long).len(), 1024);
        let odd = format!("x{long}");
        assert_eq!(clip(&odd).len(), 1023);
        assert_eq!(clip("short"), "short");
    }

    #[test]
    fn names_leave_room_for_the_others() {
        let mut texts = Texts::new(4096);
        texts.used = 3 * 1024;
        assert_eq!(texts.place("n", Sort::Name, 4096), None);
        assert_eq!(texts.place("n", Sort::Start, 4096), Some((3072, 3080)));
        assert_eq!(texts.place(&"n".repeat(2000), Sort::Start, 4096), None);
    }
}
