//! Where a thread's stack lies in its process: what a measurer from outside starts from.
//!
//! Invariant: a [`StackPlace`] whose bounds are known has `low < entry <= high`; the addresses
//! are still the process's own word, and mean something only inside it.

use std::mem::offset_of;
use std::ops::Range;

use crate::Fault;
use crate::copy::PlaceBytes;
use crate::fields::{u32_at, u64_at};
use crate::layout::{PLACE_MAIN, PLACE_TUNED, PLACE_USER_STACK, RawPlace};

/// A thread's stack, in addresses of its process.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct StackPlace {
    /// Lowest usable byte, above the guard; 0 if the bounds are unknown.
    pub low: u64,
    /// End of the mapping; 0 if the bounds are unknown.
    pub high: u64,
    /// Stack pointer at the start function's call: peaks count from here. Equal to `high` where
    /// the process did not say.
    pub entry: u64,
    /// Which [`Use`](crate::Use) counts this thread, by its `index`.
    pub use_index: Option<u32>,
    /// `PLACE_*` of [`layout`](crate::layout).
    pub flags: u32,
}

impl StackPlace {
    /// Decodes and checks a place's bytes; `None` if they are all zero, as where nobody wrote.
    pub(crate) fn from_bytes(
        bytes: &PlaceBytes,
        uses_capacity: u32,
    ) -> Result<Option<StackPlace>, Fault> {
        if *bytes == [0; size_of::<PlaceBytes>()] {
            return Ok(None);
        }
        let address = |offset| u64_at(bytes, offset);
        let low = address(offset_of!(RawPlace, stack_low));
        let high = address(offset_of!(RawPlace, stack_high));
        let entry = address(offset_of!(RawPlace, entry));
        let number = u32_at(bytes, offset_of!(RawPlace, use_number));
        let flags = u32_at(bytes, offset_of!(RawPlace, flags));
        if number > uses_capacity {
            return Err(Fault::Id { field: "use", raw: number });
        }
        let use_index = number.checked_sub(1);
        if low == 0 {
            return Ok(Some(StackPlace { use_index, flags, ..StackPlace::default() }));
        }
        if high <= low {
            return Err(Fault::Address { field: "stack_high", raw: high });
        }
        let entry = if entry == 0 { high } else { entry };
        if entry <= low || entry > high {
            return Err(Fault::Address { field: "entry", raw: entry });
        }
        Ok(Some(StackPlace { low, high, entry, use_index, flags }))
    }

    /// The stack's addresses; `None` if they are unknown.
    pub fn range(&self) -> Option<Range<u64>> {
        (self.low != 0).then_some(self.low..self.high)
    }

    /// Bytes that the stack has from its start function's call down; 0 if unknown.
    pub fn usable_bytes(&self) -> u64 {
        self.entry - self.low
    }

    /// The process's first thread.
    pub fn is_main(&self) -> bool {
        self.flags & PLACE_MAIN != 0
    }

    /// The program gave the stack's memory.
    pub fn is_user_stack(&self) -> bool {
        self.flags & PLACE_USER_STACK != 0
    }

    /// The Stack Tuner chose the size.
    pub fn is_tuned(&self) -> bool {
        self.flags & PLACE_TUNED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(low: u64, high: u64, entry: u64, number: u32, flags: u32) -> PlaceBytes {
        let mut bytes = [0; 32];
        for (index, word) in [low, high, entry].into_iter().enumerate() {
            bytes[8 * index..][..8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..28].copy_from_slice(&number.to_le_bytes());
        bytes[28..].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    #[test]
    fn honest_places_are_believed() {
        assert_eq!(StackPlace::from_bytes(&[0; 32], 4), Ok(None));
        let read = |bytes| StackPlace::from_bytes(&bytes, 4).expect("honest").expect("there");
        let place = read(bytes(0x1000, 0x9000, 0x8f00, 4, 1));
        assert_eq!(place.range(), Some(0x1000..0x9000));
        assert_eq!((place.usable_bytes(), place.use_index), (0x7f00, Some(3)));
        assert!(place.is_main() && !place.is_tuned() && !place.is_user_stack());
        assert_eq!(read(bytes(0x1000, 0x9000, 0, 0, 0)).entry, 0x9000);
        let unknown = read(bytes(0, 0x9000, 0x8f00, 1, 2));
        assert_eq!((unknown.range(), unknown.usable_bytes()), (None, 0));
        assert_eq!((unknown.use_index, unknown.is_user_stack()), (Some(0), true));
    }

    #[test]
    fn lies_are_named() {
        let fault = |bytes| StackPlace::from_bytes(&bytes, 4).expect_err("a lie");
        let address = |field, raw| Fault::Address { field, raw };
        assert_eq!(fault(bytes(1, 2, 2, 5, 0)), Fault::Id { field: "use", raw: 5 });
        assert_eq!(fault(bytes(9, 9, 9, 0, 0)), address("stack_high", 9));
        assert_eq!(fault(bytes(9, 20, 21, 0, 0)), address("entry", 21));
        assert_eq!(fault(bytes(9, 20, 9, 0, 0)), address("entry", 9));
        assert_eq!(fault(bytes(u64::MAX, 1, 1, 0, 0)), address("stack_high", 1));
    }
}
