//! Any bytes as a table: `cargo +nightly fuzz run table` in `record/`.
//!
//! Invariant: the reader refuses or gives a snapshot that holds what `check` demands. Most random
//! bytes fail at the magic number, so they are laid over an honest image: the first two bytes
//! say where.
#![no_main]

#[path = "../../tests/support/image.rs"]
mod image;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = image::check(data);
    if let [low, high, bytes @ ..] = data {
        let mut table = image::honest();
        let offset = usize::from(u16::from_le_bytes([*low, *high])) % table.len();
        let length = bytes.len().min(table.len() - offset);
        table[offset..offset + length].copy_from_slice(&bytes[..length]);
        let _ = image::check(&table);
    }
});
