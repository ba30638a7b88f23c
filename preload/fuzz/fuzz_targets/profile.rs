//! Any text as a profile: `cargo +nightly fuzz run profile` in `preload/`.
//!
//! Invariant: it is refused, or it is exactly what would be written again; and no row of it asks
//! for a stack out of bounds. Most random texts fail at the first line, so they are also put
//! where the rows are.
#![no_main]

use heddle_preload::profile::text::{parse, render};
use heddle_preload::profile::{TUNED_BYTES_MAX, TUNED_BYTES_MIN};
use libfuzzer_sys::fuzz_target;

const HEAD: &str = "heddle stacks 1\nexecutable\t/x\nbuild-id\tabcd\n";
const ROW: &str = "ab+0x1\tdefault\t1\t1\t5000\t8192\t8388608\t65536\t0\t1\t2\t/x\twork";

fuzz_target!(|text: &str| {
    check(text);
    check(&format!("{HEAD}{text}\nend\t1\n"));
    // A row of which one stretch is replaced.
    let mut parts = text.splitn(2, '\n');
    let (at, new) = (parts.next().unwrap_or_default().len() % ROW.len(), parts.next());
    if let Some(new) = new {
        let end = (at + new.len()).min(ROW.len());
        check(&format!("{HEAD}{}{new}{}\nend\t1\n", &ROW[..at], &ROW[end..]));
    }
});

fn check(text: &str) {
    let Ok(content) = parse(text) else { return };
    assert_eq!(render(&content), text);
    for size in content.rows.iter().filter_map(|row| row.size_for()) {
        assert!((TUNED_BYTES_MIN..=TUNED_BYTES_MAX).contains(&size));
    }
}
