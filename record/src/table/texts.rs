//! The texts of a table: writing them once, and finding them again without a lock.
//!
//! Invariant: bytes come before the use that covers them (`text_used`, `roles_used`), and that
//! before the id is given out.

use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use super::{TEXT_OFFSET, TEXT_SIZE, TEXT_STEP, Table, lock};
use crate::layout::{FLAG_TEXTS_FULL, ROLES_MAX, ROLES_OFFSET, TEXT_ALIGN, TEXT_BYTES_MAX};
use crate::text::{Sort, clip};

/// Room for the longest text.
pub type TextBuffer = [u8; TEXT_BYTES_MAX as usize];

/// Roles that were asked for lately, so that a thread with a known role is created without a
/// lock, for half its cost. A place may hold any role; what is found there is compared.
pub(super) type RecentRoles = [AtomicU16; RECENT_ROLES];
const RECENT_ROLES: usize = 64;

/// Where a role is looked for among the recent ones: by its length and its outer bytes.
fn recent_place(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut first, mut last) = ([0; 8], [0; 8]);
    let count = bytes.len().min(8);
    first[..count].copy_from_slice(&bytes[..count]);
    last[..count].copy_from_slice(&bytes[bytes.len() - count..]);
    let mixed = u64::from_le_bytes(first) ^ u64::from_le_bytes(last).rotate_left(29);
    let mixed = (mixed ^ bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize % RECENT_ROLES
}

impl Table {
    /// The number of a name: the same for the same text. 0 for an empty text, and when names
    /// have used their share of the table (16 MiB in all). Takes a lock; allocates for new texts.
    pub fn intern(&self, text: &str) -> u32 {
        self.intern_sorted(text, Sort::Name)
    }

    /// As [`Table::intern`], for a start function.
    pub fn intern_start(&self, text: &str) -> u32 {
        self.intern_sorted(text, Sort::Start)
    }

    /// The number of a role, 0 for an empty text or when there are 65535 roles already.
    pub fn intern_role(&self, text: &str) -> u16 {
        let place = &self.recent_roles[recent_place(text)];
        let recent = place.load(Relaxed);
        if recent != 0 && self.is_role(recent, text) {
            return recent;
        }
        let role = self.intern_role_slowly(text);
        place.store(role, Relaxed);
        role
    }

    fn intern_role_slowly(&self, text: &str) -> u16 {
        let id = self.intern_sorted(text, Sort::Start);
        if id == 0 {
            return 0;
        }
        let mut texts = lock(&self.texts);
        if let Some(role) = texts.find_role(id) {
            return role;
        }
        let offset = ROLES_OFFSET + 4 * texts.roles_used;
        let in_new_page = offset.is_multiple_of(4096);
        if in_new_page && !self.give(&lock(&self.home), offset, 4096) {
            return self.no_room() as u16;
        }
        let Some(role) = texts.keep_role(id, ROLES_MAX as usize) else {
            return self.no_room() as u16;
        };
        // SAFETY: `offset` is inside the role index, 4-aligned, and backed.
        let entry = unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU32>() };
        entry.store(id, Relaxed);
        self.header().roles_used.store(texts.roles_used as u32, Release);
        role
    }

    fn intern_sorted(&self, text: &str, sort: Sort) -> u32 {
        let text = clip(text);
        if text.is_empty() {
            return 0;
        }
        let mut texts = lock(&self.texts);
        if let Some(id) = texts.find(text) {
            return id;
        }
        let Some((offset, end)) = texts.place(text, sort, TEXT_SIZE) else {
            return self.no_room();
        };
        while texts.backed < end {
            if !self.give(&lock(&self.home), TEXT_OFFSET + texts.backed, TEXT_STEP) {
                return self.no_room();
            }
            texts.backed += TEXT_STEP;
        }
        self.write_text(text, offset);
        let id = texts.keep(text, offset, end);
        self.header().text_used.store(end as u32, Release);
        id
    }

    /// Copies the text with this id into `buffer`: a name, a start function.
    ///
    /// Takes no lock and allocates nothing, so that a handler of a fatal signal may say which
    /// thread it met. `None` for ids that name nothing.
    pub fn text<'a>(&self, id: u32, buffer: &'a mut TextBuffer) -> Option<&'a str> {
        // ORDER: pairs with the Release store in `intern_sorted`: below `used`, texts are whole.
        let used = self.header().text_used.load(Acquire) as usize;
        let offset = (id as usize).checked_mul(TEXT_ALIGN as usize)?;
        if id == 0 || offset.checked_add(4)? > used || used > TEXT_SIZE {
            return None;
        }
        let cells = self.text_cells(id)?;
        if offset + 4 + cells.len() > used {
            return None;
        }
        // What the file's owner scribbled is checked like anything else that is read.
        let bytes = buffer.get_mut(..cells.len())?;
        for (byte, cell) in bytes.iter_mut().zip(cells) {
            *byte = cell.load(Relaxed);
        }
        std::str::from_utf8(bytes).ok()
    }

    /// As [`Table::text`], for the number of a role.
    pub fn role<'a>(&self, role: u16, buffer: &'a mut TextBuffer) -> Option<&'a str> {
        // ORDER: pairs with the Release store in `intern_role`.
        let used = self.header().roles_used.load(Acquire).min(ROLES_MAX);
        if role == 0 || u32::from(role) >= used {
            return None;
        }
        let offset = ROLES_OFFSET + 4 * usize::from(role);
        // SAFETY: `offset` is inside the role index, 4-aligned, and below `used` backed.
        let entry = unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU32>() };
        self.text(entry.load(Relaxed), buffer)
    }

    /// Whether `role` is the number of `text`.
    fn is_role(&self, role: u16, text: &str) -> bool {
        // Relaxed loads may miss what another kernel thread has just written: then the texts
        // differ, and the way under the lock finds the truth.
        let offset = ROLES_OFFSET + 4 * usize::from(role);
        // SAFETY: inside the role index, 4-aligned, and backed since the number was given out.
        let id = unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU32>() }.load(Relaxed);
        self.text_cells(id).is_some_and(|cells| {
            cells.len() == text.len()
                && cells.iter().zip(text.bytes()).all(|(cell, byte)| cell.load(Relaxed) == byte)
        })
    }

    /// A part of the text area, that lies below its use; `None` beyond the area's end.
    ///
    /// Bytes are atomics: the file's owner may run a program that scribbles on it.
    fn cells(&self, offset: usize, count: usize) -> Option<&[AtomicU8]> {
        if offset.checked_add(count)? > TEXT_SIZE {
            return None;
        }
        // SAFETY: inside the text area, which is mapped as long as `self`; any bytes are valid
        // AtomicU8s, and nothing else ever refers to them.
        Some(unsafe {
            let start = self.base.as_ptr().add(TEXT_OFFSET + offset).cast::<AtomicU8>();
            std::slice::from_raw_parts(start, count)
        })
    }

    /// The bytes of the text with this id, as they are now.
    fn text_cells(&self, id: u32) -> Option<&[AtomicU8]> {
        let offset = (id as usize).checked_mul(TEXT_ALIGN as usize)?;
        let length = self.cells(offset, 4)?;
        let length = u32::from_le_bytes([0, 1, 2, 3].map(|n: usize| length[n].load(Relaxed)));
        self.cells(offset + 4, length as usize)
    }

    /// Writes a text where nobody looks yet.
    fn write_text(&self, text: &str, offset: usize) {
        let length = (text.len() as u32).to_le_bytes();
        let cells = self.cells(offset, 4 + text.len()).expect("`place` found room");
        for (cell, byte) in cells.iter().zip(length.into_iter().chain(text.bytes())) {
            cell.store(byte, Relaxed);
        }
    }

    /// Marks that a text was dropped; the id of nothing.
    fn no_room(&self) -> u32 {
        self.header().flags.fetch_or(FLAG_TEXTS_FULL, Relaxed);
        0
    }
}
